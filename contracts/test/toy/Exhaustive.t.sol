// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Descent, Entry, OneShot, Phase, Position} from "../../src/interfaces/IDisputeGame.sol";
import {Claim, FINAL} from "../../src/interfaces/IReferee.sol";
import {Order} from "../../src/interfaces/ITaskMarket.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {Moves} from "../../src/libraries/Moves.sol";
import {Arena} from "./Arena.sol";
import {Parts} from "./Parts.sol";
import {Toy} from "./Toy.sol";

/// @title Every lie that a small machine leaves room for
contract ExhaustiveTest is Arena {
    using Parts for Parts.Part;

    uint256 private convicted;
    uint256 private leaves;

    // INVARIANT 27: whatever tensors, outputs root, results and borders the executor claims, it is convicted.

    function test_AWrongAccountWithoutReductions() public {
        assertEq(_lie(Toy.Program(2, 2, 0, [uint16(0), 0])), 15 + 2 * 16);
    }

    function test_AWrongAccountOfNoSteps() public {
        assertEq(_lie(Toy.Program(2, 2, 1, [uint16(0), 0])), 15 * 4 + 2 * 16);
    }

    function test_AWrongAccountOfOneStep() public {
        assertEq(_lie(Toy.Program(2, 2, 1, [uint16(1), 0])), 15 * 4 + 2 * 16);
    }

    function test_AWrongAccountOfThreeSteps() public {
        assertEq(_lie(Toy.Program(2, 2, 1, [uint16(3), 0])), 15 * 4 * 4 + 2 * 16);
    }

    function test_AWrongAccountOfTwoReductions() public {
        assertEq(_lie(Toy.Program(2, 1, 2, [uint16(2), 3])), 3 * 4 * 4 + 2 * 4);
    }

    function test_AWrongAccountOfASecondReductionAfterOneOfNoSteps() public {
        assertEq(_lie(Toy.Program(1, 2, 2, [uint16(0), 3])), 3 * 16 * 4 + 2 * 4);
    }

    function test_AWrongAccountOfThreeCalls() public {
        assertEq(_lie(Toy.Program(3, 1, 1, [uint16(2), 0])), 7 * 2 * 2 + 2 * 8);
    }

    /// @dev Two moves open the trace of 40 calls: a wrong call, a root or a node that is none, a wrong outputs root.
    function test_AWrongCallOfManyIsFound() public {
        opens = 5;
        _compute(Toy.Program(40, 1, 0, [uint16(0), 0]), hex"01");
        for (uint256 i; i < 40; ++i) {
            this.judgeOne(i, 0);
            this.judgeOne(i, 1);
        }
        for (uint256 i; i < 21; ++i) {
            this.judgeOne(i, 2);
        }
        this.judgeOne(0, 3);
        assertEq(convicted, 2 * 40 + 21 + 1);
    }

    function judgeOne(uint256 place, uint256 kind) external {
        bytes[] memory tensors = truth;
        if (kind == 0) tensors[place][0] ^= 0x01;
        Story memory s = _story(tensors);
        if (kind == 1) s.roots[place] = keccak256("no tensor");
        if (kind == 2) (s.nodes,) = _opening(s);
        if (kind == 2) s.nodes[place] = keccak256("no node");
        if (kind == 3) s.outputs = keccak256("nothing");
        Order memory order = _claim(s);
        Board memory b = _open(order, challenger);
        _play(b, order, s);
        assertTrue(b.executorLost, "executor lost");
        ++convicted;
    }

    /// @dev A right trace, and an outputs root over other results: none or one is wrong, one is missing, too many, or of
    /// the other kind; or over nothing at all, which cannot be shown.
    function test_AWrongOutputsRootIsFoundResultByResult() public {
        asks = true;
        _compute(Toy.Program(2, 1, 0, [uint16(0), 0]), hex"01");
        for (uint256 outputs; outputs < 4; ++outputs) {
            for (uint256 states; states < 4; ++states) {
                for (uint256 wrong; wrong < 1 << (outputs + states); ++wrong) {
                    this.judgeResults(outputs, states, wrong);
                }
            }
        }
        assertEq(convicted, 15 * 15 - 1);
        this.judgeOne(0, 3);
    }

    function judgeResults(uint256 outputs, uint256 states, uint256 wrong) external {
        Story memory s = _story(truth);
        (bytes32[] memory trueOutputs, bytes32[] memory trueStates) = Toy.resultsOf(s.roots[1]);
        s.isShown = true;
        (s.shown[0], s.shown[1]) = (new bytes32[](outputs), new bytes32[](states));
        for (uint256 i; i < outputs + states; ++i) {
            bytes32 leaf = i < 2 ? trueOutputs[i] : trueStates[0];
            if (wrong >> i & 1 == 1) leaf = keccak256("another");
            if (i < outputs) s.shown[0][i] = leaf;
            else s.shown[1][i - outputs] = leaf;
        }
        bytes32 root = Toy.outputsOf(s.shown[0], s.shown[1]);
        if (root == s.outputs) return;
        s.outputs = root;
        Order memory order = _claim(s);
        Board memory b = _open(order, challenger);
        _play(b, order, s);
        assertTrue(b.executorLost, "executor lost");
        assertEq(uint8(b.position.phase), uint8(Phase.Result), "shown");
        ++convicted;
    }

    /// @return Games that were played.
    function _lie(Toy.Program memory p) private returns (uint256) {
        bytes memory first = new bytes(p.elements);
        first[0] = 0x01;
        _compute(p, first);
        uint256 steps = p.steps[0] > p.steps[1] ? p.steps[0] : p.steps[1];
        uint256 borders = steps == 0 ? 0 : steps - 1;
        for (uint256 values; values < 1 << (uint256(p.calls) * p.elements); ++values) {
            for (uint256 results; results < 1 << (uint256(p.elements) * p.reductions); ++results) {
                for (uint256 mask; mask < 1 << borders; ++mask) {
                    this.judge(values, 0, results, mask);
                }
            }
            this.judge(values, 1, 0, 0);
            this.judge(values, 2, 0, 0);
        }
        return convicted;
    }

    /// @dev In a call of its own, so that its memory is given back.
    function judge(uint256 values, uint256 outputs, uint256 results, uint256 borders) external {
        Story memory s = _story(_tensors(values));
        if (outputs == 1) s.outputs = _isTrue(s) ? bytes32(0) : Toy.outputsOf(Toy.tensorRoot(truth[truth.length - 1]));
        if (outputs == 2) s.outputs = keccak256("nothing");
        (s.resultsMask, s.bordersMask) = (results, borders);
        if (outputs == 0 && _isTrue(s)) return;
        Order memory order = _claim(s);
        Board memory b = _open(order, challenger);
        uint256 begun = block.number;
        _play(b, order, s);
        assertTrue(b.executorLost, "executor lost");
        assertLt(block.number - begun, 2 * (order.exec + market.CLOCK()), "INVARIANT 28: in time");
        ++convicted;
    }

    // INVARIANT 26: whatever the challenger picks and wherever it stops, the honest executor is not convicted. Games: calls,
    // picked in two ways, times elements times final expressions and steps, judged in one transaction or two; each element
    // without reductions at once; collect, and each of three results.

    function test_AnHonestExecutorWithoutReductions() public {
        assertEq(_defend(Toy.Program(2, 2, 0, [uint16(0), 0])), 2 * 2 * (2 * 2) + 2 * 2 + 4);
    }

    function test_AnHonestExecutorOfNoSteps() public {
        assertEq(_defend(Toy.Program(2, 3, 1, [uint16(0), 0])), 2 * 2 * (3 * 2) + 4);
    }

    function test_AnHonestExecutorOfOneStep() public {
        assertEq(_defend(Toy.Program(2, 2, 1, [uint16(1), 0])), 2 * 2 * (2 * 3) + 4);
    }

    function test_AnHonestExecutorOfTwoReductions() public {
        assertEq(_defend(Toy.Program(2, 2, 2, [uint16(3), 4])), 2 * 2 * (2 * (2 + 2 * 3 + 2 * 4)) + 4);
    }

    function test_AnHonestExecutorOfSpansInSpans() public {
        assertEq(_defend(Toy.Program(1, 1, 1, [uint16(66), 0])), 2 * (2 + 2 * 66) + 4);
    }

    /// @dev Two moves open the trace of 33 calls: each call is reached from its root, and from one of the 17 nodes, where
    /// the challenger may collect, too.
    function test_AnHonestExecutorOfManyCalls() public {
        opens = 5;
        assertEq(_defend(Toy.Program(33, 1, 0, [uint16(0), 0])), 2 * (33 * 2 * 2) + 33 + (1 + 17) * 4);
    }

    /// @return Games that ended.
    function _defend(Toy.Program memory p) private returns (uint256) {
        bytes memory ones = new bytes(p.elements);
        ones[p.elements - 1] = 0x01;
        _compute(p, ones);
        Story memory s = _story(truth);
        Order memory order = _claim(s);
        this.attack(_open(order, challenger), order);
        return leaves;
    }

    /// @dev Tries every move of the challenger, and to make none, and answers as the honest executor does.
    function attack(Board memory b, Order memory order) external {
        Story memory s = _story(truth);
        while (!b.over && Moves.isExecutors(b.position.phase)) {
            _tell(b, order, s);
        }
        if (b.over) {
            assertFalse(b.executorLost, "executor lost");
            ++leaves;
            return;
        }
        for (uint256 choice; choice < _choices(b); ++choice) {
            _try(b, order, s, choice);
        }
        _runOut(b);
        assertFalse(b.executorLost, "executor lost");
    }

    function _try(Board memory b, Order memory order, Story memory s, uint256 choice) private {
        uint256 before = leaves;
        uint256 snapshot = vm.snapshotState();
        vm.recordLogs();
        try this.choose(b, order, s, choice) {
            Board memory next = Board(b.id, b.position, b.data, b.trace, false, false);
            _follow(next);
            this.attack(next, order);
            before = leaves;
        } catch {
            vm.stopPrank();
        }
        vm.revertToState(snapshot);
        leaves = before;
    }

    function _choices(Board memory b) private view returns (uint256) {
        Phase phase = b.position.phase;
        if (phase == Phase.Call) {
            Parts.Part memory part = _lastPart(b);
            return (part.nodes.length << part.bottom) * _ways(part) + 2 + (2 << b.position.opened);
        }
        if (phase == Phase.Result) return 4;
        if (phase == Phase.Node) return 2 << b.position.opened;
        if (phase == Phase.Element) return uint256(program.elements) * (program.reductions + 2);
        return phase == Phase.Span ? 2 * (abi.decode(b.data, (bytes)).length + 2) : 1;
    }

    /// @dev To pick a call: alone, with the way to its leaf, or with one of its elements, once its root was published.
    function _ways(Parts.Part memory part) private view returns (uint256) {
        return part.bottom == 0 ? 2 + program.elements : 2;
    }

    function choose(Board memory b, Order memory order, Story memory s, uint256 choice) external {
        Phase phase = b.position.phase;
        Claim memory claim = _claimOf(order, s.roots, s.outputs);
        bytes memory witness = _witness(b);
        vm.startPrank(challenger);
        if (phase == Phase.Call) _chooseCall(b, claim, s, choice);
        else if (phase == Phase.Result) _judgeResult(b, claim, choice);
        else if (phase == Phase.Node) _chooseNode(b, Parts.opened(b.position, b.data), choice);
        else if (phase == Phase.Element) _chooseElement(b, claim, witness, choice);
        else if (phase == Phase.Span) _chooseSpan(b, claim, witness, choice);
        else game.verdict(b.id, b.position.pack(), claim, _trueResults(b.position), witness);
        vm.stopPrank();
    }

    function _chooseCall(Board memory b, Claim memory claim, Story memory s, uint256 choice) private {
        bytes32[] memory trace = Toy.trace(s.roots, s.outputs);
        Parts.Part memory part = _lastPart(b);
        uint256 calls = part.nodes.length << part.bottom; // those below what was opened last, and beyond
        uint256 ways = _ways(part);
        uint256 number = (part.first() << part.bottom) + choice / ways;
        if (choice == calls * ways) {
            number = trace.length - 2;
            bytes memory proof = abi.encode(trace[number], Toy.path(trace, number));
            game.collect(b.id, b.position.pack(), claim, proof);
        } else if (choice == calls * ways + 1) {
            game.askOutputs(b.id, b.position.pack());
        } else if (choice > calls * ways) {
            _chooseNode(b, part, choice - calls * ways - 2);
        } else {
            OneShot memory shot;
            (shot.number, shot.root, shot.proof) = (uint32(number), trace[number], abi.encode(Toy.path(trace, number)));
            _shoot(b, claim, s, shot, choice % ways);
        }
    }

    /// @dev The call alone, with the way to its leaf, or with one of its elements.
    function _shoot(Board memory b, Claim memory claim, Story memory s, OneShot memory shot, uint256 way) private {
        bytes32[] memory hashes = s.leaves[shot.number];
        if (way != 0) shot.descent = Descent(0, hashes[0], Toy.path(hashes, 0));
        if (way < 2) {
            game.pickCall(b.id, b.position.pack(), claim, shot.number, shot.root, shot.proof, shot.descent);
            return;
        }
        (shot.leaf, shot.element) = (Toy.leafOf(s.tensors[shot.number], 0), uint64(way - 2));
        Board memory there = Board(b.id, b.position, b.data, b.trace, false, false);
        uint32 before = b.position.number;
        there.position.number = shot.number;
        shot.witness = _witness(there);
        b.position.number = before;
        game.judgeCall(b.id, b.position.pack(), claim, shot);
    }

    /// @dev Those that were opened, and as many of the padding beyond them.
    function _chooseNode(Board memory b, Parts.Part memory part, uint256 choice) private {
        uint256 index = part.first() + choice;
        bytes32[] memory path = part.path(part.first() + choice % (1 << part.levels));
        game.pickNode(b.id, b.position.pack(), Descent(uint64(index), part.node(part.bottom, index), path));
    }

    function _chooseElement(Board memory b, Claim memory claim, bytes memory witness, uint256 choice) private {
        (bytes memory leaf, bytes memory results) = abi.decode(b.data, (bytes, bytes));
        uint256 each = program.reductions + 2;
        Entry memory entry = _entry(b.position, choice / each, leaf, results);
        uint256 k = choice % each;
        if (k == each - 1) game.judgeFinal(b.id, b.position.pack(), entry, claim, witness);
        else if (k == each - 2) game.pickReduction(b.id, b.position.pack(), entry, FINAL, "");
        else game.pickReduction(b.id, b.position.pack(), entry, uint8(k), abi.encode(claim.program));
    }

    function _chooseSpan(Board memory b, Claim memory claim, bytes memory witness, uint256 choice) private {
        bytes memory values = abi.decode(b.data, (bytes));
        if (choice % 2 == 0) game.pickSpan(b.id, b.position.pack(), choice / 2, values);
        else game.judgeSpan(b.id, b.position.pack(), choice / 2, values, claim, _trueResults(b.position), witness);
    }

    function _tensors(uint256 values) private view returns (bytes[] memory tensors) {
        tensors = new bytes[](program.calls);
        for (uint256 i; i < tensors.length; ++i) {
            tensors[i] = new bytes(program.elements);
            for (uint256 e; e < program.elements; ++e) {
                tensors[i][e] = bytes1(uint8(values >> (i * program.elements + e) & 1));
            }
        }
    }

    function _isTrue(Story memory s) private view returns (bool same) {
        same = s.outputs == Toy.outputsOf(Toy.tensorRoot(truth[truth.length - 1]));
        for (uint256 i; i < truth.length; ++i) {
            if (keccak256(s.tensors[i]) != keccak256(truth[i])) same = false;
        }
    }
}
