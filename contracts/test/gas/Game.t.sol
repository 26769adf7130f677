// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {DisputeGame} from "../../src/DisputeGame.sol";
import {Referee} from "../../src/Referee.sol";
import {Descent, Entry, OneShot} from "../../src/interfaces/IDisputeGame.sol";
import {Claim} from "../../src/interfaces/IReferee.sol";
import {Order} from "../../src/interfaces/ITaskMarket.sol";
import {DTypes} from "../../src/libraries/DTypes.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {Arena} from "../toy/Arena.sol";
import {Parts} from "../toy/Parts.sol";
import {ToyMarket} from "../toy/ToyMarket.sol";
import {Toy} from "../toy/Toy.sol";
import {Layer} from "./Layer.sol";

/// @dev Remembers no ends: that is the market's to pay for.
contract QuietMarket is ToyMarket {
    function onGameEnded(bytes32, uint256, address, bool, bool) external override {}
}

/// @title Gas of disputes with the referee, whole transactions of both sides
/// @notice Without the market's challenge, of which `open` is the game's part.
/// forge-config: default.isolate = true
contract GameGasTest is Arena {
    using Layer for Layer.Program;
    using Parts for Parts.Part;

    Layer.Program private p;
    bytes32[] private roots;
    Order private order;
    Claim private claim;
    Board private board;
    string private group;
    uint256 private total;
    uint256 private moves;

    bytes32 private constant OUTPUTS = keccak256("outputs");
    uint256 private constant ELEMENT = 7 * 1_024 + 700; // of the activation
    uint256 private constant PLACE = 1_000 * 1_024 + 700; // of the product
    Layer.Shown private first; // what a step reads
    Layer.Shown private second;

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
        (bytes32[] memory leaves, bytes memory leaf) = _activation();
        _pickCall(1, _nowhere());
        _descend(leaves);
        _pickNode(ELEMENT / 256, leaves);
        _showLeaf(leaf, "");
        Entry memory entry = _entryOf(ELEMENT, leaf, "");
        bytes memory witness = _final();
        vm.prank(challenger);
        game.judgeFinal(board.id, board.position.pack(), entry, claim, witness);
        assertLe(_snap("judgeFinal, two loads"), 210_000, "goal");
        _ends(8, 1_200_000);
    }

    /// @dev The same where the challenger knows the executor's tensor. Goals: 8 transactions, 500,000 gas.
    function test_OfAOneShot() public {
        group = "dispute-once";
        (bytes32[] memory leaves, bytes memory leaf) = _activation();
        OneShot memory shot;
        (shot.number, shot.root, shot.proof) = (1, roots[1], p.proof(1, _tracePath(1)));
        shot.descent = Descent(uint64(ELEMENT / 256), leaves[ELEMENT / 256], Toy.path(leaves, ELEMENT / 256));
        (shot.leaf, shot.element, shot.witness) = (leaf, uint64(ELEMENT), _final());
        vm.prank(challenger);
        game.judgeCall(board.id, board.position.pack(), claim, shot);
        _snap("judgeCall, two loads");
        _ends(8, 500_000);
    }

    /// @dev The activation's leaves, the second call of 30, and the one with the element.
    function _activation() private returns (bytes32[] memory leaves, bytes memory leaf) {
        p = Layer.program(8, 1_024, 1_024);
        (leaves, leaf) = _leaves(32, ELEMENT / 256);
        (first, second) = (Layer.tensor(8_192, ELEMENT, "sum"), Layer.tensor(1_024, 700, "b"));
        bytes32 other = Merkle.bindingHash(hex"0177", keccak256("w"));
        order.weights = Merkle.bindingsRootOf(2, Merkle.node(Merkle.bindingHash(hex"0162", second.root), other));
        roots = Layer.random(30, "roots");
        roots[0] = first.root;
        roots[1] = Merkle.tensorRootOf(DTypes.FLOAT32, 8_192, Toy.level(leaves, 5)[0]);
        _publish(Toy.trace(roots, OUTPUTS));
    }

    /// @dev What the final expression of the element reads.
    function _final() private view returns (bytes memory witness) {
        bytes32 other = Merkle.bindingHash(hex"0177", keccak256("w"));
        witness = bytes.concat(p.kernel(1), hex"0201", first.root, _tracePath(0));
        witness = bytes.concat(witness, p.bound(2, 1, hex"0000000200000000", second), other);
        return bytes.concat(witness, Layer.opening(first), Layer.opening(second));
    }

    /// @dev A wrong step among 1,024 of a product of matrices of 2^20 elements: the goal of 20 transactions.
    function test_OfAStep() public {
        group = "dispute-step";
        p = Layer.program(1_024, 1_024, 1_024);
        _product(1_024, 16, false);
        _ends(20, 1_400_000);
    }

    /// @dev A wrong step among 4,096, of the first of 2^14 calls. Goals: 20 transactions, 1.2 M gas, which is missed.
    function test_OfAStepAmongManyCalls() public {
        group = "dispute-deep";
        p = Layer.program(1_024, 4_096, 1_024).deepened();
        _product(4_096, 64, true);
        _ends(20, 1_800_000);
    }

    /// @dev The game about a step of a product of so many; `stride` is the one of its first spans.
    function _product(uint256 steps, uint256 stride, bool isDeep) private {
        uint256 step = stride * 60 + 7;
        first = Layer.tensor(1_024 * steps, 1_000 * steps + step, "x");
        second = Layer.tensor(steps * 1_024, step * 1_024 + 700, "w");
        order.inputs = Merkle.bindingsRootOf(1, Merkle.bindingHash(hex"0178", first.root));
        bytes32 other = Merkle.bindingHash(hex"0162", keccak256("b"));
        order.weights = Merkle.bindingsRootOf(2, Merkle.node(other, Merkle.bindingHash(hex"0177", second.root)));
        bytes memory leaf = _toLeaf(isDeep);
        bytes memory results = Layer.floats("results");
        _showLeaf(leaf, results);
        Entry memory entry = _entryOf(PLACE, leaf, results);
        bytes memory kernel = p.kernel(0);
        vm.prank(challenger);
        game.pickReduction(board.id, board.position.pack(), entry, 0, kernel);
        _snap("pickReduction");
        bytes memory borders = _first(Layer.floats("borders"), 63 * 4);
        _claimBorders(borders);
        vm.prank(challenger);
        game.pickSpan(board.id, board.position.pack(), 60, borders);
        _snap("pickSpan");
        borders = _first(Layer.floats("borders"), (stride - 1) * 4);
        _claimBorders(borders);
        bytes memory witness = bytes.concat(kernel, hex"02", p.bound(1, 0, hex"0000000100000000", first));
        witness = bytes.concat(witness, p.bound(2, 2, hex"0000000200000001", second), other);
        witness = bytes.concat(witness, Layer.opening(first), Layer.opening(second));
        bytes memory result = _resultOf(results, PLACE);
        vm.prank(challenger);
        game.judgeSpan(board.id, board.position.pack(), 7, borders, claim, result, witness);
        _snap("judgeSpan, two loads");
    }

    /// @dev Down to the leaf of the element, in a tensor of 2^12.
    function _toLeaf(bool isDeep) private returns (bytes memory leaf) {
        bytes32[] memory below;
        (below, leaf) = _leaves(64, PLACE / 256 % 64);
        bytes32[] memory above = Layer.random(64, "above");
        above[PLACE / 256 / 64] = Toy.level(below, 6)[0];
        roots = Layer.random(isDeep ? 32 : 30, "roots");
        roots[0] = Merkle.tensorRootOf(DTypes.FLOAT32, 1 << 20, Toy.level(above, 6)[0]);
        if (isDeep) {
            _deep();
        } else {
            _publish(Toy.trace(roots, OUTPUTS));
            _pickCall(0, _nowhere());
        }
        _descend(above);
        _pickNode(PLACE / 256 / 64, above);
        _descend(below);
        _pickNode(PLACE / 256, below);
    }

    /// @dev Three openings of the trace down to the first call: five levels each.
    function _deep() private {
        (bytes32[] memory top, bytes32[] memory mid) = (Layer.random(17, "top"), Layer.random(32, "mid"));
        mid[0] = Toy.level(roots, 5)[0];
        top[0] = Toy.level(mid, 5)[0];
        top[16] = OUTPUTS;
        for (uint256 level; level < 10; ++level) {
            top[16] = Merkle.node(top[16], Merkle.padding(level));
        }
        Parts.Part memory part = Parts.Part(10, 5, 0, top);
        _publish(top);
        claim.trace = part.node(15, 0);
        _pick(Descent(0, top[0], part.path(0)), "pickNode of 32, of the trace");
        _descend(mid);
        _pick(Descent(0, mid[0], Toy.path(mid, 0)), "pickNode of 32, of the trace");
        _descend(roots);
        bytes memory low = Layer.pack(Toy.path(roots, 0));
        bytes memory path = bytes.concat(low, Layer.pack(Toy.path(mid, 0)), Layer.pack(part.path(0)));
        _pickWith(0, p.proof(0, path), _nowhere());
    }

    // ---- Moves ----

    function _publish(bytes32[] memory nodes) private {
        order.program = Merkle.programRootOf(p.header, p.tree);
        order.repeat = 1;
        order.exec = 5;
        bytes32 task = market.reveal(order, executor, OUTPUTS);
        vm.recordLogs();
        market.challenge(task, challenger);
        _snap("open");
        claim = _claimOf(order, roots, OUTPUTS);
        claim.weights = order.weights;
        vm.prank(executor);
        game.publish(board.id, board.position.pack(), order, p.header, p.tree, nodes, new bytes32[](0));
        _snap(string.concat("publish, ", vm.toString(nodes.length)));
    }

    function _pickCall(uint32 number, Descent memory way) private {
        _pickWith(number, p.proof(number, _tracePath(number)), way);
    }

    function _pickWith(uint32 number, bytes memory proof, Descent memory way) private {
        vm.prank(challenger);
        game.pickCall(board.id, board.position.pack(), claim, number, roots[number], proof, way);
        _snap("pickCall");
    }

    function _descend(bytes32[] memory children) private {
        vm.prank(executor);
        game.descend(board.id, board.position.pack(), Merkle.depth(children.length), children);
        _snap(string.concat("descend to ", vm.toString(children.length)));
    }

    function _pickNode(uint256 index, bytes32[] memory children) private {
        Descent memory way = Descent(uint64(index), 0, Toy.path(children, index % children.length));
        way.child = children[index % children.length];
        _pick(way, string.concat("pickNode of ", vm.toString(children.length)));
    }

    function _pick(Descent memory way, string memory name) private {
        vm.prank(challenger);
        game.pickNode(board.id, board.position.pack(), way);
        _snap(name);
    }

    function _showLeaf(bytes memory leaf, bytes memory results) private {
        vm.prank(executor);
        game.showLeaf(board.id, board.position.pack(), leaf, results);
        _snap(results.length == 0 ? "showLeaf" : "showLeaf, a reduction");
    }

    function _claimBorders(bytes memory borders) private {
        vm.prank(executor);
        game.claimBorders(board.id, board.position.pack(), borders);
        _snap(string.concat("claimBorders, ", vm.toString(borders.length / 4)));
    }

    function _ends(uint256 mostMoves, uint256 most) private {
        assertTrue(board.over, "over");
        vm.snapshotValue(group, "all", total);
        vm.snapshotValue(group, "transactions", moves);
        assertLe(moves, mostMoves, "transactions");
        assertLe(total, most, "gas");
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
        hashes[place] = Merkle.leafHash(leaf, 0);
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
