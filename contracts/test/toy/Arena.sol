// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test, Vm} from "forge-std/Test.sol";
import {DisputeGame} from "../../src/DisputeGame.sol";
import {Descent, Entry, IDisputeGame, Phase, Position} from "../../src/interfaces/IDisputeGame.sol";
import {Claim, FINAL} from "../../src/interfaces/IReferee.sol";
import {Order} from "../../src/interfaces/ITaskMarket.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {Moves} from "../../src/libraries/Moves.sol";
import {Positions} from "../../src/libraries/Positions.sol";
import {Parts} from "./Parts.sol";
import {Toy} from "./Toy.sol";
import {ToyMachine} from "./ToyMachine.sol";
import {ToyMarket} from "./ToyMarket.sol";

/// @title Players of games over the toy machine
/// @notice The executor tells any story; the challenger knows the truth, and of the story only what `Moved` made public.
abstract contract Arena is Test {
    using Parts for Parts.Part;
    using Parts for Parts.Part[];

    /// @dev `leaves` are the leaf hashes of the disputed tensors, where these are not those of their bytes. `nodes` are
    /// published of the trace, where they are not those over `roots`; `shown` are outputs and states, where `isShown` says so.
    /// The masks change what follows from the story's own
    /// tensors: bit i is element i · reductions + k, and border i.
    struct Story {
        bytes[] tensors;
        bytes32[] roots;
        bytes32[] nodes;
        bytes32 outputs;
        bool isShown;
        bytes32[][2] shown;
        bytes32[][] leaves;
        uint256 resultsMask;
        uint256 bordersMask;
    }

    /// @dev A game as its events tell it; `data` is what the executor published last, `trace` all
    /// parts of the trace that it opened, encoded.
    struct Board {
        uint256 id;
        Position position;
        bytes data;
        bytes trace;
        bool over;
        bool executorLost;
    }

    ToyMarket internal market = new ToyMarket();
    ToyMachine internal machine = new ToyMachine();
    DisputeGame internal game = new DisputeGame(market, machine);
    address internal executor = makeAddr("executor");
    address internal challenger = makeAddr("challenger");

    Toy.Program internal program;
    bytes internal input;
    bytes[] internal truth;
    bytes32[] internal trueRoots;
    /// @dev Levels that the executor opens in one move, if there are more.
    uint256 internal opens = 11;
    /// @dev The challenger asks for the results one by one instead of collecting them.
    bool internal asks;
    uint256 private nonce;

    function setUp() public virtual {
        market.connect(game);
        vm.roll(100);
    }

    function _compute(Toy.Program memory p, bytes memory input_) internal {
        (program, input) = (p, input_);
        bytes[] memory tensors = Toy.execute(p, input_);
        delete truth;
        delete trueRoots;
        for (uint256 i; i < tensors.length; ++i) {
            truth.push(tensors[i]);
            trueRoots.push(Toy.tensorRoot(tensors[i]));
        }
    }

    /// @dev A story whose published roots are those of its tensors.
    function _story(bytes[] memory tensors) internal pure returns (Story memory s) {
        s.tensors = tensors;
        s.roots = new bytes32[](tensors.length);
        s.leaves = new bytes32[][](tensors.length);
        for (uint256 i; i < tensors.length; ++i) {
            s.leaves[i] = Toy.leafHashes(tensors[i]);
            s.roots[i] = Toy.tensorRoot(tensors[i]);
        }
        s.outputs = Toy.outputsOf(s.roots[tensors.length - 1]);
    }

    // ---- A game ----

    function _claim(Story memory s) internal returns (Order memory order) {
        order.nonce = ++nonce;
        order.program = Toy.encode(program);
        order.inputs = Toy.tensorRoot(input);
        order.repeat = 1;
        order.exec = 5;
        market.reveal(order, executor, s.outputs);
    }

    function _open(Order memory order, address by) internal returns (Board memory b) {
        vm.recordLogs();
        market.challenge(market.taskOf(order), by);
        _follow(b);
    }

    /// @dev Reads what the last call has emitted.
    function _follow(Board memory b) internal {
        Vm.Log[] memory logs = vm.getRecordedLogs();
        for (uint256 i; i < logs.length; ++i) {
            bytes32 topic = logs[i].topics[0];
            if (topic == IDisputeGame.Opened.selector) {
                (b.id, b.position) =
                (uint256(logs[i].topics[1]), Positions.unpack(abi.decode(logs[i].data, (bytes32[10]))));
            } else if (topic == IDisputeGame.Moved.selector) {
                (bytes32[10] memory words, bytes memory data) = abi.decode(logs[i].data, (bytes32[10], bytes));
                b.position = Positions.unpack(words);
                if (data.length != 0) b.data = data;
                if (data.length != 0 && b.position.phase == Phase.Call) _addPart(b);
            } else if (topic == IDisputeGame.Ended.selector) {
                (b.executorLost,) = abi.decode(logs[i].data, (bool, uint8));
                b.over = true;
            }
        }
    }

    function _addPart(Board memory b) private pure {
        Parts.Part[] memory before = _partsOf(b);
        Parts.Part[] memory parts = new Parts.Part[](before.length + 1);
        for (uint256 i; i < before.length; ++i) {
            parts[i] = before[i];
        }
        parts[before.length] = Parts.opened(b.position, b.data);
        b.trace = abi.encode(parts);
    }

    function _partsOf(Board memory b) private pure returns (Parts.Part[] memory parts) {
        if (b.trace.length != 0) parts = abi.decode(b.trace, (Parts.Part[]));
    }

    /// @dev What was opened of the trace last.
    function _lastPart(Board memory b) internal pure returns (Parts.Part memory) {
        Parts.Part[] memory parts = _partsOf(b);
        return parts[parts.length - 1];
    }

    /// @dev The clock of the side to move runs out; one block earlier nobody can end the game.
    function _runOut(Board memory b) internal {
        (uint256 passed, uint256 left) = Moves.clock(b.position, block.number);
        vm.roll(block.number + left - passed - 1);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.ClockNotOver.selector, left - 1, left));
        game.timeout(b.id, b.position.pack());
        vm.roll(block.number + 1);
        game.timeout(b.id, b.position.pack());
        _follow(b);
    }

    function _claimOf(Order memory order, bytes32[] memory roots, bytes32 outputs)
        internal
        pure
        returns (Claim memory c)
    {
        (c.program, c.inputs, c.repeat, c.outputs) = (order.program, order.inputs, order.repeat, outputs);
        c.trace = Toy.traceRoot(roots, outputs);
    }

    // ---- The executor ----

    /// @dev Moves as the story goes; a story that cannot go on stalls until the clock has run out.
    function _tell(Board memory b, Order memory order, Story memory s) internal {
        try this.tell(b, order, s) {
            _follow(b);
        } catch {
            _runOut(b);
        }
    }

    function tell(Board memory b, Order memory order, Story memory s) external {
        Position memory p = b.position;
        bytes32[] memory leaves = p.phase == Phase.Tree ? s.leaves[p.number] : Toy.trace(s.roots, s.outputs);
        vm.startPrank(executor);
        if (p.phase == Phase.Publish) {
            (bytes32[] memory nodes, bytes32[] memory lefts) = _opening(s);
            game.publish(b.id, p.pack(), order, 0, 0, nodes, lefts);
        } else if (p.phase == Phase.Trace || p.phase == Phase.Tree) {
            game.descend(b.id, p.pack(), _levels(p.level), _children(p.level, p.index, leaves));
        } else if (p.phase == Phase.Outputs) {
            (bytes32[] memory outputs, bytes32[] memory states) = _shownBy(s);
            game.showOutputs(b.id, p.pack(), _claimOf(b, order), outputs, states);
        } else if (p.phase == Phase.Leaf) {
            game.showLeaf(b.id, p.pack(), Toy.leafOf(s.tensors[p.number], p.index), _resultsOf(p, s));
        } else {
            game.claimBorders(b.id, p.pack(), _bordersOf(p, s));
        }
        vm.stopPrank();
    }

    function _shownBy(Story memory s) private pure returns (bytes32[] memory, bytes32[] memory) {
        return s.isShown ? (s.shown[0], s.shown[1]) : Toy.resultsOf(s.roots[s.roots.length - 1]);
    }

    function _levels(uint256 level) internal view returns (uint256) {
        return level < opens ? level : opens;
    }

    /// @dev The nodes below one, without those of padding alone.
    function _children(uint256 level, uint256 index, bytes32[] memory leaves)
        internal
        view
        returns (bytes32[] memory children)
    {
        uint256 levels = _levels(level);
        bytes32[] memory nodes = Toy.level(leaves, level - levels);
        uint256 there = ((leaves.length - 1) >> (level - levels)) + 1 - (index << levels);
        children = new bytes32[](there < 1 << levels ? there : 1 << levels);
        for (uint256 i; i < children.length; ++i) {
            children[i] = nodes[(index << levels) + i];
        }
    }

    /// @dev What is published of the story's trace, and the siblings left of its outputs root.
    function _opening(Story memory s) internal view returns (bytes32[] memory nodes, bytes32[] memory lefts) {
        bytes32[] memory leaves = Toy.trace(s.roots, s.outputs);
        uint256 level = Merkle.depth(leaves.length);
        nodes = s.nodes.length == 0 ? _children(level, 0, leaves) : s.nodes;
        bytes32[] memory path = Toy.path(leaves, s.roots.length);
        uint256 count;
        lefts = new bytes32[](level);
        for (uint256 i; i < level - _levels(level); ++i) {
            if (s.roots.length >> i & 1 == 1) lefts[count++] = path[i];
        }
        assembly ("memory-safe") {
            mstore(lefts, count)
        }
    }

    function _readBy(Story memory s, uint256 number) internal view returns (bytes memory) {
        return number == 0 ? input : s.tensors[number - 1];
    }

    function _resultsOf(Position memory p, Story memory s) private view returns (bytes memory packed) {
        uint256 first = p.index * Merkle.LEAF;
        uint256 count = p.elements - first < Merkle.LEAF ? p.elements - first : Merkle.LEAF;
        packed = new bytes(count * program.reductions);
        for (uint256 i; i < count && program.reductions != 0; ++i) {
            bytes memory found = Toy.results(program, _readBy(s, p.number), first + i);
            for (uint256 k; k < found.length; ++k) {
                packed[i * found.length + k] = found[k] ^ bytes1(uint8(s.resultsMask >> (i * found.length + k) & 1));
            }
        }
    }

    function _bordersOf(Position memory p, Story memory s) private view returns (bytes memory values) {
        bytes memory read = _readBy(s, p.number);
        bytes memory found = Toy.results(program, read, p.element);
        uint256[] memory totals = Toy.accumulators(program, read, p.element, p.reduction, uint8(found[0]));
        uint256 stride = (p.high - p.low + 63) / 64;
        values = new bytes((p.high - p.low + stride - 1) / stride - 1);
        for (uint256 i; i < values.length; ++i) {
            values[i] = bytes1(uint8(totals[p.low + (i + 1) * stride] ^ (s.bordersMask >> i & 1)));
        }
    }

    // ---- The challenger ----

    /// @dev What an honest challenger does: it picks the first thing that differs from the truth.
    function _dispute(Board memory b, Order memory order) internal {
        Position memory p = b.position;
        Claim memory claim = _claimOf(b, order);
        vm.startPrank(p.challenger);
        if (p.phase == Phase.Call) _disputeCall(b, claim);
        else if (p.phase == Phase.Result) _disputeResult(b, claim);
        else if (p.phase == Phase.Node) _disputeNode(b);
        else if (p.phase == Phase.Element) _disputeElement(b, claim);
        else if (p.phase == Phase.Span) _disputeSpan(b, claim, _witness(b));
        else game.verdict(b.id, p.pack(), claim, _trueResults(p), _witness(b));
        vm.stopPrank();
        _follow(b);
    }

    function _disputeCall(Board memory b, Claim memory claim) private {
        Parts.Part memory part = _lastPart(b);
        (bool found, uint256 index) = _firstOther(part, Toy.trace(trueRoots, claim.outputs));
        if (!found && asks) {
            game.askOutputs(b.id, b.position.pack());
        } else if (!found) {
            game.collect(b.id, b.position.pack(), claim, _lastOf(b));
        } else if (part.bottom != 0) {
            _pickNode(b, part, index);
        } else {
            bytes memory proof = abi.encode(_pathOf(b, index));
            bytes32 root = part.node(0, index);
            game.pickCall(b.id, b.position.pack(), claim, uint32(index), root, proof, _nowhere());
        }
    }

    /// @dev The first result whose leaf is wrong, or that is of the other kind; any, if they are not three.
    function _disputeResult(Board memory b, Claim memory claim) private {
        (bytes32[] memory outputs, bytes32[] memory states) = abi.decode(b.data, (bytes32[], bytes32[]));
        (bytes32[] memory mine,) = Toy.resultsOf(trueRoots[trueRoots.length - 1]);
        uint256 number;
        if (outputs.length + states.length == 3) {
            while (number < 2 && number < outputs.length && outputs[number] == mine[number]) ++number;
        }
        _judgeResult(b, claim, number);
    }

    function _judgeResult(Board memory b, Claim memory claim, uint256 number) internal {
        (bytes32[] memory outputs, bytes32[] memory states) = abi.decode(b.data, (bytes32[], bytes32[]));
        Descent memory shown;
        shown.index = uint64(number);
        bytes32 other = Toy.bindingsOf(number < outputs.length ? states : outputs);
        if (number < outputs.length) {
            (shown.child, shown.path) = (outputs[number], Toy.path(outputs, number));
        } else if (number - outputs.length < states.length) {
            number -= outputs.length;
            (shown.child, shown.path) = (states[number], Toy.path(states, number));
        }
        bytes memory proof = _lastOf(b);
        game.judgeResult(b.id, b.position.pack(), claim, shown, other, proof);
    }

    /// @dev The proof of the last call's tensor root.
    function _lastOf(Board memory b) private view returns (bytes memory) {
        uint256 last = trueRoots.length - 1;
        return abi.encode(trueRoots[last], _pathOf(b, last));
    }

    function _disputeNode(Board memory b) private {
        Parts.Part memory part = Parts.opened(b.position, b.data);
        (bool found, uint256 index) = _firstOther(part, Toy.leafHashes(truth[b.position.number]));
        require(found, "nothing differs");
        _pickNode(b, part, index);
    }

    function _pickNode(Board memory b, Parts.Part memory part, uint256 index) private {
        game.pickNode(b.id, b.position.pack(), Descent(uint64(index), part.node(part.bottom, index), part.path(index)));
    }

    /// @dev The number of the first of the opened nodes that differs from the one over the true leaves.
    function _firstOther(Parts.Part memory part, bytes32[] memory leaves) private pure returns (bool, uint256) {
        bytes32[] memory mine = Toy.level(leaves, part.bottom);
        for (uint256 i; i < part.nodes.length; ++i) {
            if (part.nodes[i] != mine[part.first() + i]) return (true, part.first() + i);
        }
        return (false, 0);
    }

    function _disputeElement(Board memory b, Claim memory claim) private {
        (uint256 element, uint256 k, Entry memory entry) = _wrongElement(b);
        if (k < program.reductions) {
            game.pickReduction(b.id, b.position.pack(), entry, uint8(k), abi.encode(claim.program));
        } else {
            game.judgeFinal(b.id, b.position.pack(), entry, claim, _witness(b));
        }
        assertTrue(element < b.position.elements, "element");
    }

    /// @dev The first wrong element of the shown leaf, and the first wrong result of it.
    function _wrongElement(Board memory b) private view returns (uint256 element, uint256 k, Entry memory entry) {
        (bytes memory leaf, bytes memory results) = abi.decode(b.data, (bytes, bytes));
        uint256 number = b.position.number;
        element = b.position.index * Merkle.LEAF;
        while (truth[number][element] == leaf[element % Merkle.LEAF]) ++element;
        bytes memory mine = Toy.results(program, number == 0 ? input : truth[number - 1], element);
        while (k < mine.length && mine[k] == results[element % Merkle.LEAF * mine.length + k]) ++k;
        entry = _entry(b.position, element, leaf, results);
    }

    function _disputeSpan(Board memory b, Claim memory claim, bytes memory witness) private {
        bytes memory values = abi.decode(b.data, (bytes));
        (uint256 span, uint256 steps) = _wrongSpan(b.position, values);
        if (steps > 1) game.pickSpan(b.id, b.position.pack(), span, values);
        else game.judgeSpan(b.id, b.position.pack(), span, values, claim, _trueResults(b.position), witness);
    }

    /// @dev The first span that ends with a wrong border, and its steps.
    function _wrongSpan(Position memory p, bytes memory values) private view returns (uint256 span, uint256 steps) {
        bytes memory read = p.number == 0 ? input : truth[p.number - 1];
        bytes memory mine = Toy.results(program, read, p.element);
        uint256[] memory totals = Toy.accumulators(program, read, p.element, p.reduction, uint8(mine[0]));
        uint256 stride = (p.high - p.low + 63) / 64;
        while (span < values.length && uint8(values[span]) == totals[p.low + (span + 1) * stride]) ++span;
        steps = span == values.length ? p.high - p.low - span * stride : stride;
    }

    // ---- What both bring ----

    /// @dev The results that the position has, as a hash, are those of the truth up to the disputed one, which is wrong.
    function _trueResults(Position memory p) internal view returns (bytes memory results) {
        results = Toy.results(program, p.number == 0 ? input : truth[p.number - 1], p.element);
        for (uint256 guess; guess < 1 << results.length; ++guess) {
            bytes memory tried = bytes.concat(results);
            for (uint256 k; k < results.length; ++k) {
                tried[k] ^= bytes1(uint8(guess >> k & 1));
            }
            if (keccak256(tried) == p.results) return tried;
        }
        revert("no such results");
    }

    function _witness(Board memory b) internal view returns (bytes memory) {
        uint256 number = b.position.number;
        bytes32[] memory path;
        if (number != 0) path = _pathOf(b, number - 1);
        return abi.encode(number == 0 ? input : truth[number - 1], path);
    }

    /// @dev The siblings of an executed call under the trace that the executor claims.
    function _pathOf(Board memory b, uint256 number) internal view returns (bytes32[] memory) {
        return _partsOf(b).path(Toy.trace(trueRoots, market.outputsRootOf(b.position.task)), number);
    }

    /// @dev The claim that follows from what was published.
    function _claimOf(Board memory b, Order memory order) internal view returns (Claim memory c) {
        (c.program, c.inputs, c.repeat) = (order.program, order.inputs, order.repeat);
        c.outputs = market.outputsRootOf(b.position.task);
        Parts.Part[] memory parts = _partsOf(b);
        if (parts.length != 0) c.trace = parts[0].node(parts[0].bottom + parts[0].levels, 0);
    }

    function _entry(Position memory p, uint256 element, bytes memory leaf, bytes memory results)
        internal
        view
        returns (Entry memory entry)
    {
        bytes32[] memory nodes = new bytes32[](32);
        uint256 each = 32 * program.reductions;
        for (uint256 w; w < 32; ++w) {
            bytes memory word = _word(leaf, results, each, w);
            if (w == element % Merkle.LEAF / 32) entry.word = word;
            nodes[w] = keccak256(word);
        }
        entry.element = uint64(element);
        uint256 index = element % Merkle.LEAF / 32;
        for (uint256 l; l < 5; ++l) {
            entry.path[l] = nodes[(index >> l) ^ 1];
            for (uint256 i; i < 16 >> l; ++i) {
                nodes[i] = keccak256(abi.encode(nodes[2 * i], nodes[2 * i + 1]));
            }
        }
        assertEq(nodes[0], p.node, "root of the words");
    }

    function _word(bytes memory leaf, bytes memory results, uint256 each, uint256 w)
        private
        pure
        returns (bytes memory word)
    {
        uint256 from = w * each < results.length ? w * each : results.length;
        uint256 size = results.length - from < each ? results.length - from : each;
        word = new bytes(32 + size);
        for (uint256 i; i < 32 + size; ++i) {
            word[i] = i < 32 ? leaf[32 * w + i] : results[from + i - 32];
        }
    }

    function _nowhere() internal pure returns (Descent memory) {}

    /// @dev Plays the game to its end, and says whether the executor lost.
    function _play(Board memory b, Order memory order, Story memory s) internal {
        while (!b.over) {
            if (Moves.isExecutors(b.position.phase)) _tell(b, order, s);
            else _dispute(b, order);
        }
    }
}
