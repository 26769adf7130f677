// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {DisputeGame} from "../../src/DisputeGame.sol";
import {Referee} from "../../src/Referee.sol";
import {Descent, Entry, Phase} from "../../src/interfaces/IDisputeGame.sol";
import {Claim} from "../../src/interfaces/IReferee.sol";
import {Order} from "../../src/interfaces/ITaskMarket.sol";
import {DTypes} from "../../src/libraries/DTypes.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {Arena} from "../toy/Arena.sol";
import {ToyMarket} from "../toy/ToyMarket.sol";
import {Toy} from "../toy/Toy.sol";
import {Layer} from "./Layer.sol";

/// @dev Remembers no ends: that is the market's to pay for.
contract QuietMarket is ToyMarket {
    function onGameEnded(bytes32, uint256, address, bool) external override {}
}

/// @title Gas of disputes with the referee, whole transactions of both sides
/// @notice Without the market's challenge, of which `open` is the game's part.
/// forge-config: default.isolate = true
contract GameGasTest is Arena {
    using Layer for Layer.Program;

    Layer.Program private p;
    bytes32[] private roots;
    Order private order;
    Claim private claim;
    Board private board;
    string private group;
    uint256 private total;
    uint256 private moves;

    function setUp() public override {
        super.setUp();
        market = new QuietMarket();
        game = new DisputeGame(market, new Referee());
        market.connect(game);
        market.challenge("another", challenger); // the first game of all costs a word of storage more
    }

    /// @dev A wrong element of the activation, which has 32 leaves. Goals: 8 transactions with the challenge, 210,000 gas.
    function test_OfAFinalExpression() public {
        group = "dispute-final";
        p = Layer.program(8, 1_024, 1_024);
        uint256 element = 7 * 1_024 + 700;
        Layer.Shown memory sum = Layer.tensor(8_192, element, "sum");
        Layer.Shown memory b = Layer.tensor(1_024, 700, "b");
        (bytes32[] memory leaves, bytes memory leaf) = _leaves(32, element / 256 % 32);
        bytes32 other = Merkle.bindingLeaf(hex"0177", keccak256("w"));
        bytes32 bindings = Merkle.node(Merkle.bindingLeaf(hex"0162", b.root), other);
        order.weights = Merkle.bindingsRoot(2, bindings);
        roots = Layer.random(30, "roots");
        roots[0] = sum.root;
        roots[1] = Merkle.tensorRoot(DTypes.FLOAT32, 8_192, Toy.level(leaves, 5)[0]);
        _publish();
        _pickCall(1, _nowhere());
        _descend(leaves);
        _pickNode(element / 256, leaves);
        _showLeaf(leaf, "");
        bytes memory place = hex"0000000200000000";
        bytes memory witness = bytes.concat(p.kernel(1), hex"0201", sum.root, _tracePath(0));
        witness = bytes.concat(witness, p.bound(2, 1, place, b), other, Layer.opening(sum), Layer.opening(b));
        Entry memory entry = _entryOf(element, leaf, "");
        vm.prank(challenger);
        game.judgeFinal(board.id, board.position, entry, claim, witness);
        assertLe(_snap("judgeFinal, two loads"), 210_000, "goal");
        _ends(8);
    }

    /// @dev A wrong step among 1,024 of a product of matrices of 2^20 elements: the goal of 20 transactions.
    function test_OfAStep() public {
        group = "dispute-step";
        p = Layer.program(1_024, 1_024, 1_024);
        uint256 element = 1_000 * 1_024 + 700;
        uint256 step = 16 * 60 + 7;
        Layer.Shown memory x = Layer.tensor(1 << 20, 1_000 * 1_024 + step, "x");
        Layer.Shown memory w = Layer.tensor(1 << 20, step * 1_024 + 700, "w");
        order.inputs = Merkle.bindingsRoot(1, Merkle.bindingLeaf(hex"0178", x.root));
        bytes32 other = Merkle.bindingLeaf(hex"0162", keccak256("b"));
        order.weights = Merkle.bindingsRoot(2, Merkle.node(other, Merkle.bindingLeaf(hex"0177", w.root)));
        (bytes32[] memory below, bytes memory leaf) = _leaves(64, element / 256 % 64);
        bytes32[] memory above = Layer.random(64, "above");
        above[element / 256 / 64] = Toy.level(below, 6)[0];
        roots = Layer.random(30, "roots");
        roots[0] = Merkle.tensorRoot(DTypes.FLOAT32, 1 << 20, Toy.level(above, 6)[0]);
        _publish();
        _pickCall(0, _nowhere());
        _descend(above);
        _pickNode(element / 256 / 64, above);
        _descend(below);
        _pickNode(element / 256, below);
        bytes memory results = Layer.floats("results");
        _showLeaf(leaf, results);
        Entry memory entry = _entryOf(element, leaf, results);
        bytes memory kernel = p.kernel(0);
        vm.prank(challenger);
        game.pickReduction(board.id, board.position, entry, 0, kernel);
        _snap("pickReduction");
        bytes memory borders = _first(Layer.floats("borders"), 63 * 4);
        _claimBorders(borders);
        vm.prank(challenger);
        game.pickSpan(board.id, board.position, 60, borders);
        _snap("pickSpan");
        borders = _first(borders, 15 * 4);
        _claimBorders(borders);
        bytes memory witness = bytes.concat(kernel, hex"02", p.bound(1, 0, hex"0000000100000000", x));
        witness = bytes.concat(witness, p.bound(2, 2, hex"0000000200000001", w), other);
        witness = bytes.concat(witness, Layer.opening(x), Layer.opening(w));
        bytes memory result = _resultOf(results, element);
        vm.prank(challenger);
        game.judgeSpan(board.id, board.position, 7, borders, claim, result, witness);
        _snap("judgeSpan, two loads");
        _ends(20);
    }

    // ---- Moves ----

    function _publish() private {
        order.program = Merkle.programRoot(Layer.HEADER, p.tree);
        order.repeat = 1;
        order.exec = 5;
        bytes32 outputs = keccak256("outputs");
        bytes32 task = market.reveal(order, executor, outputs);
        vm.recordLogs();
        market.challenge(task, challenger);
        _snap("open");
        claim = _claimOf(order, roots, outputs);
        claim.weights = order.weights;
        bytes32[] memory trace = Toy.trace(roots, outputs);
        vm.prank(executor);
        game.publish(board.id, board.position, order, Layer.HEADER, p.tree, trace, new bytes32[](0));
        _snap("publish, 30 calls");
    }

    function _pickCall(uint32 number, Descent memory way) private {
        bytes memory proof = p.proof(number, Toy.path(Toy.trace(roots, claim.outputs), number));
        vm.prank(challenger);
        game.pickCall(board.id, board.position, claim, number, roots[number], proof, way);
        _snap("pickCall");
    }

    function _descend(bytes32[] memory children) private {
        vm.prank(executor);
        game.descend(board.id, board.position, Merkle.depth(children.length), children);
        _snap(string.concat("descend to ", vm.toString(children.length)));
    }

    function _pickNode(uint256 index, bytes32[] memory children) private {
        Descent memory way = Descent(uint64(index), 0, Toy.path(children, index % children.length));
        way.child = children[index % children.length];
        vm.prank(challenger);
        game.pickNode(board.id, board.position, way);
        _snap(string.concat("pickNode of ", vm.toString(children.length)));
    }

    function _showLeaf(bytes memory leaf, bytes memory results) private {
        vm.prank(executor);
        game.showLeaf(board.id, board.position, leaf, results);
        _snap(results.length == 0 ? "showLeaf" : "showLeaf, a reduction");
    }

    function _claimBorders(bytes memory borders) private {
        vm.prank(executor);
        game.claimBorders(board.id, board.position, borders);
        _snap(string.concat("claimBorders, ", vm.toString(borders.length / 4)));
    }

    function _ends(uint256 goal) private {
        assertTrue(board.over, "over");
        vm.snapshotValue(group, "all", total);
        vm.snapshotValue(group, "transactions", moves);
        assertLe(moves, goal, "goal");
    }

    function _snap(string memory name) private returns (uint256 spent) {
        spent = vm.snapshotGasLastCall(group, name);
        (total, moves) = (total + spent, moves + 1);
        Board memory b = board;
        _follow(b);
        board = b;
    }

    // ---- What is shown ----

    function _leaves(uint256 count, uint256 place) private pure returns (bytes32[] memory hashes, bytes memory leaf) {
        leaf = Layer.floats("leaf");
        hashes = Layer.random(count, "leaves");
        hashes[place] = Merkle.leaf(leaf, 0);
    }

    function _tracePath(uint256 number) private view returns (bytes memory) {
        return Layer.pack(Toy.path(Toy.trace(roots, claim.outputs), number));
    }

    /// @dev Words of eight floats, with the results of one reduction or none.
    function _entryOf(uint256 element, bytes memory leaf, bytes memory results) private pure returns (Entry memory e) {
        bytes32[] memory nodes = new bytes32[](32);
        uint256 place = element % 256 / 8;
        for (uint256 w; w < 32; ++w) {
            bytes memory word = _part(leaf, 32 * w, 32);
            if (results.length != 0) word = bytes.concat(word, _part(results, 32 * w, 32));
            if (w == place) e.word = word;
            nodes[w] = keccak256(word);
        }
        e.element = uint64(element);
        for (uint256 l; l < 5; ++l) {
            e.path[l] = nodes[(place >> l) ^ 1];
            for (uint256 i; i < 16 >> l; ++i) {
                nodes[i] = keccak256(abi.encode(nodes[2 * i], nodes[2 * i + 1]));
            }
        }
    }

    function _resultOf(bytes memory results, uint256 element) private pure returns (bytes memory) {
        return _part(results, element % 256 * 4, 4);
    }

    function _first(bytes memory data, uint256 size) private pure returns (bytes memory) {
        return _part(data, 0, size);
    }

    function _part(bytes memory data, uint256 from, uint256 size) private pure returns (bytes memory part) {
        part = new bytes(size);
        for (uint256 i; i < size; ++i) {
            part[i] = data[from + i];
        }
    }
}
