// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Descent, IDisputeGame, Phase, Position} from "../../src/interfaces/IDisputeGame.sol";
import {Claim} from "../../src/interfaces/IReferee.sol";
import {Order} from "../../src/interfaces/ITaskMarket.sol";
import {DTypes} from "../../src/libraries/DTypes.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {Arena} from "./Arena.sol";
import {Toy} from "./Toy.sol";

/// @title Lies in tensors of several leaves, and in what lies beyond their elements
contract TreesTest is Arena {
    function setUp() public override {
        super.setUp();
        _small();
    }

    /// @dev Three leaves, of which the last has two elements, and one of padding.
    function _small() private {
        _compute(Toy.Program(2, 2_050, 0, [uint16(0), 0]), new bytes(2_050));
    }

    /// @dev 36 leaves: two moves down if 32 nodes are opened in one.
    function _large() private {
        _compute(Toy.Program(1, 36_000, 0, [uint16(0), 0]), new bytes(36_000));
        opens = 5;
    }

    function test_AWrongElementIsConvicted_Invariant27() public {
        uint16[6] memory places = [0, 31, 1_023, 1_024, 2_048, 2_049];
        for (uint256 i; i < places.length; ++i) {
            Story memory s = _story(truth);
            s.tensors[i % 2][places[i]] ^= 0x01;
            _convicts(_story(s.tensors));
        }
    }

    function test_AWrongElementIsConvictedWhenOpenedInTwoMoves_Invariant27() public {
        _large();
        uint16[3] memory places = [0, 32_767, 35_999];
        for (uint256 i; i < places.length; ++i) {
            Story memory s = _story(truth);
            s.tensors[0][places[i]] ^= 0x01;
            _convicts(_story(s.tensors));
        }
    }

    /// @dev Bools that are 2: they are no value of the type, whatever is computed.
    function test_AStoredPatternOfNoValueIsConvicted_Invariant27() public {
        Story memory s = _story(truth);
        s.tensors[1][2_049] |= 0x02;
        _convicts(_story(s.tensors));
    }

    function test_ATailThatIsNotZeroIsConvicted_Invariant27() public {
        Story memory s = _story(truth);
        bytes memory leaf = Toy.leafOf(s.tensors[1], 2);
        leaf[2] = 0x01; // the first byte beyond the elements
        s.leaves[1][2] = Merkle.leafHash(leaf, 0);
        _convicts(_rooted(s, 1));
        leaf[2] = 0;
        leaf[1_023] = 0x80;
        s.leaves[1][2] = Merkle.leafHash(leaf, 0);
        _convicts(_rooted(s, 1));
    }

    /// @dev INVARIANT 30: though the root has it.
    function test_ATailThatIsNotZeroCannotBeShown_Invariant30() public {
        Story memory s = _story(truth);
        bytes memory leaf = Toy.leafOf(s.tensors[1], 2);
        leaf[2] = 0x01;
        s.leaves[1][2] = Merkle.leafHash(leaf, 0);
        s = _rooted(s, 1);
        Order memory order = _claim(s);
        Board memory b = _open(order, challenger);
        while (b.position.phase != Phase.Leaf) {
            if (b.position.phase == Phase.Publish || b.position.phase == Phase.Tree) _tell(b, order, s);
            else _dispute(b, order);
        }
        vm.prank(executor);
        vm.expectRevert(IDisputeGame.TailNotZero.selector);
        game.showLeaf(b.id, b.position.pack(), leaf, "");
    }

    function test_PaddingThatIsNotZeroIsConvicted_Invariant27() public {
        Story memory s = _story(truth);
        s.leaves[0] = Toy.level(s.leaves[0], 0);
        s.leaves[0][3] = keccak256("padding");
        _convicts(_rooted(s, 0));
        _large();
        s = _story(truth);
        s.leaves[0] = Toy.level(s.leaves[0], 0);
        s.leaves[0][63] = keccak256("padding");
        _convicts(_rooted(s, 0));
    }

    function test_LeavesInAnotherOrderAreConvicted_Invariant27() public {
        Story memory s = _story(truth);
        (s.leaves[0][0], s.leaves[0][2]) = (s.leaves[0][2], s.leaves[0][0]);
        _convicts(_rooted(s, 0));
    }

    function test_ARootOfAnotherLengthTypeOrOfNothingIsConvicted_Invariant27() public {
        Story memory s = _story(truth);
        bytes32 tree = Merkle.treeRoot(Toy.leafHashes(truth[0]));
        bytes32[4] memory roots = [
            Merkle.tensorRootOf(DTypes.BOOL, 2_051, tree),
            Merkle.tensorRootOf(DTypes.UINT8, 2_050, tree),
            tree,
            keccak256("nothing")
        ];
        for (uint256 i; i < roots.length; ++i) {
            s.roots[0] = roots[i];
            _convicts(s);
        }
    }

    /// @dev A challenger that knows the tensor goes straight to the leaf, from the call or from a node.
    function test_AKnownWayIsTakenInOneMove() public {
        Story memory s = _story(truth);
        s.tensors[0][2_049] ^= 0x01;
        s = _story(s.tensors);
        Order memory order = _claim(s);
        Board memory b = _open(order, challenger);
        _tell(b, order, s);
        _pickCall(b, order, s, Descent(2, s.leaves[0][2], Toy.path(s.leaves[0], 2)));
        assertEq(uint8(b.position.phase), uint8(Phase.Leaf), "phase");
        _play(b, order, s);
        assertTrue(b.executorLost, "executor lost");
    }

    function test_AKnownWayBelowTheOpenedNodesIsTaken() public {
        _large();
        Story memory s = _story(truth);
        Order memory order = _claim(s);
        Board memory b = _open(order, challenger);
        _tell(b, order, s);
        _pickCall(b, order, s, _nowhere());
        _tell(b, order, s);
        bytes32[] memory path = Toy.path(s.leaves[0], 35);
        vm.prank(challenger);
        game.pickNode(b.id, b.position.pack(), Descent(35, s.leaves[0][35], path));
        _follow(b);
        assertEq(uint8(b.position.phase), uint8(Phase.Leaf), "phase");
        assertEq(b.position.index, 35, "leaf");
    }

    /// @dev INVARIANT 26: nor can a node above leaves beyond the elements.
    function test_PaddingCannotBePicked() public {
        Story memory s = _story(truth);
        Order memory order = _claim(s);
        Board memory b = _open(order, challenger);
        _tell(b, order, s);
        _pickCall(b, order, s, _nowhere());
        _tell(b, order, s);
        bytes32[] memory nodes = Toy.level(s.leaves[0], 0);
        bytes32[] memory path = Toy.path(nodes, 3);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.Padding.selector, 3));
        vm.prank(challenger);
        game.pickNode(b.id, b.position.pack(), Descent(3, 0, path));

        _large();
        s = _story(truth);
        order = _claim(s);
        b = _open(order, challenger);
        _tell(b, order, s);
        _pickCall(b, order, s, _nowhere());
        _tell(b, order, s);
        nodes = Toy.level(s.leaves[0], 1);
        path = Toy.path(nodes, 18);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.Padding.selector, 18));
        vm.prank(challenger);
        game.pickNode(b.id, b.position.pack(), Descent(18, nodes[18], path));
    }

    /// @dev INVARIANT 26: of the trace, too; and its leaves are picked as calls.
    function test_NoPaddingOfTheTraceAndNoLeafCanBePicked() public {
        opens = 5;
        _compute(Toy.Program(40, 1, 0, [uint16(0), 0]), hex"01");
        Story memory s = _story(truth);
        Order memory order = _claim(s);
        Board memory b = _open(order, challenger);
        _tell(b, order, s);
        bytes32[] memory leaves = Toy.trace(s.roots, s.outputs);
        bytes32[] memory nodes = Toy.level(leaves, 1);
        bytes32[] memory path = Toy.path(nodes, 21);
        vm.startPrank(challenger);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.Padding.selector, 21));
        game.pickNode(b.id, b.position.pack(), Descent(21, nodes[21], path));
        path = Toy.path(leaves, 3);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongPath.selector, 6, 5, 5));
        game.pickNode(b.id, b.position.pack(), Descent(3, leaves[3], path));
    }

    /// @dev The trace of 40 calls with a leaf beyond the outputs root: it cannot be published.
    function test_PaddingOfTheTraceThatIsNotZeroIsConvicted_Invariant27() public {
        opens = 5;
        _compute(Toy.Program(40, 1, 0, [uint16(0), 0]), hex"01");
        Story memory s = _story(truth);
        (s.nodes,) = _opening(s);
        s.nodes[20] = Merkle.node(s.outputs, keccak256("padding"));
        _convicts(s);
    }

    function _pickCall(Board memory b, Order memory order, Story memory s, Descent memory way) private {
        Claim memory claim = _claimOf(order, s.roots, s.outputs);
        bytes memory proof = abi.encode(Toy.path(Toy.trace(s.roots, s.outputs), 0));
        vm.prank(challenger);
        game.pickCall(b.id, b.position.pack(), claim, 0, s.roots[0], proof, way);
        _follow(b);
    }

    /// @dev The story with the root that follows from leaf hashes which are not those of its bytes.
    function _rooted(Story memory s, uint256 number) private pure returns (Story memory) {
        bytes32 tree = Toy.level(s.leaves[number], Merkle.depth(s.leaves[number].length))[0];
        s.roots[number] = Merkle.tensorRootOf(DTypes.BOOL, s.tensors[number].length, tree);
        return s;
    }

    function _convicts(Story memory s) private {
        this.convict(s);
    }

    function convict(Story memory s) external {
        Order memory order = _claim(s);
        Board memory b = _open(order, challenger);
        _play(b, order, s);
        assertTrue(b.executorLost, "executor lost");
    }
}
