// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Descent, Entry, IDisputeGame, Phase, Position, Reason} from "../../src/interfaces/IDisputeGame.sol";
import {Claim, FINAL, IReferee} from "../../src/interfaces/IReferee.sol";
import {Order} from "../../src/interfaces/ITaskMarket.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {Moves} from "../../src/libraries/Moves.sol";
import {Patterns} from "../../src/libraries/Patterns.sol";
import {Arena} from "../toy/Arena.sol";
import {Toy} from "../toy/Toy.sol";
import {ToyMachine} from "../toy/ToyMachine.sol";
import {ToyMarket} from "../toy/ToyMarket.sol";

/// @title Moves that are made, and moves that are refused
contract GameTest is Arena {
    uint256 private constant CLOCKS = 12; // exec 5 and CLOCK 7
    Story private story;
    bytes32[] private opening;
    Order private order;
    Board private board;

    /// @dev Two calls over two leaves with two reductions of three and seventy steps; the executor lies in the second call's
    /// last element, of which its second reduction is wrong.
    function setUp() public override {
        super.setUp();
        _compute(Toy.Program(2, 1_026, 2, [uint16(3), 70]), new bytes(1_026));
        bytes[] memory tensors = truth;
        tensors[1][1_025] ^= 0x01;
        _tellThat(_story(tensors));
    }

    function _tellThat(Story memory s) private {
        s.resultsMask = 1 << 3; // element 1 of its leaf, reduction 1
        story = s;
        (opening,) = _opening(s);
        order = _claim(s);
        board = _open(order, challenger);
    }

    /// @dev Plays on until the phase.
    function _until(Phase phase) private returns (Board memory b) {
        Story memory s = story;
        b = board;
        while (b.position.phase != phase) {
            assertFalse(b.over, "over");
            if (Moves.isExecutors(b.position.phase)) _tell(b, order, s);
            else _dispute(b, order);
        }
    }

    function _publish(Board memory b) private {
        bytes32[] memory nodes = opening; // no call but this one, not even to hash: it may be pranked
        game.publish(b.id, b.position.pack(), order, 0, 0, nodes, new bytes32[](0));
    }

    // ---- Opening and ending ----

    function test_OnlyTheMarketOpens() public {
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.NotTheMarket.selector, address(this)));
        game.open(bytes32(0), executor, challenger, 1);
    }

    function test_AGameIsToldFromItsOpeningToItsEnd() public {
        Board memory b = board;
        bytes32 task = market.taskOf(order);
        assertEq(b.position.task, task, "task");
        assertEq(b.position.executor, executor, "executor");
        assertEq(b.position.challenger, challenger, "challenger");
        assertEq(b.position.executorLeft, CLOCKS, "executor's clock");
        assertEq(b.position.challengerLeft, CLOCKS, "challenger's clock");
        assertEq(game.positionOf(b.id), keccak256(abi.encode(b.id, b.position.pack())), "position");
        _tell(b, order, story);
        assertEq(game.positionOf(b.id), keccak256(abi.encode(b.id, b.position.pack())), "next position");
        _play(b, order, story);
        assertTrue(b.executorLost, "executor lost");
        assertEq(game.positionOf(b.id), 0, "no position");
        (bytes32 ended, uint256 id, address by, bool lost) = market.ends(0);
        assertEq(ended, task, "task");
        assertEq(id, b.id, "game");
        assertEq(by, challenger, "challenger");
        assertTrue(lost, "told");
        assertEq(market.endsCount(), 1, "once");
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongPosition.selector, b.id));
        game.timeout(b.id, b.position.pack());
    }

    /// @dev Every phase has an exit by time that anybody can take: INVARIANT 29.
    function test_WhoeverStallsLoses_Invariant29() public {
        Phase[8] memory phases =
            [Phase.Publish, Phase.Call, Phase.Tree, Phase.Node, Phase.Leaf, Phase.Element, Phase.Borders, Phase.Span];
        for (uint256 i; i < phases.length; ++i) {
            _stalls(phases[i], i % 2 == 0);
        }
        _many();
        _stalls(Phase.Publish, true);
        _stalls(Phase.Trace, true);
        Board memory b = _until(Phase.Trace);
        _tell(b, order, story);
        assertEq(uint8(b.position.phase), uint8(Phase.Call), "below the root of the trace");
        board = b;
        _stalls(Phase.Call, false);
    }

    /// @dev The side whose move it is in that phase does not make it.
    function _stalls(Phase phase, bool executorLost) private {
        uint256 snapshot = vm.snapshotState();
        Board memory b = _until(phase);
        vm.roll(block.number + CLOCKS);
        vm.expectEmit(address(game));
        emit IDisputeGame.Ended(b.id, b.position.task, executorLost, Reason.Clock);
        game.timeout(b.id, b.position.pack());
        _follow(b);
        vm.revertToState(snapshot);
    }

    /// @dev 40 calls, of whose trace 32 nodes are opened in one move; the executor lies in call 37.
    function _many() private {
        opens = 5;
        _compute(Toy.Program(40, 1, 0, [uint16(0), 0]), hex"01");
        bytes[] memory tensors = truth;
        tensors[37][0] ^= 0x01;
        _tellThat(_story(tensors));
    }

    function test_WhoeverStallsInTheVerdictLoses_Invariant29() public {
        Board memory b = _until(Phase.Element);
        _pickFinal(b);
        vm.roll(block.number + CLOCKS);
        game.timeout(b.id, b.position.pack());
        _follow(b);
        assertFalse(b.executorLost, "executor lost");
    }

    function test_ClocksRunOnlyWhileItIsTheSidesMove_Invariant28() public {
        Board memory b = board;
        vm.roll(block.number + CLOCKS - 1);
        _tell(b, order, story);
        assertEq(b.position.executorLeft, 1, "executor");
        assertEq(b.position.challengerLeft, CLOCKS, "challenger");
        vm.roll(block.number + 5);
        _dispute(b, order);
        assertEq(b.position.executorLeft, 1, "executor");
        assertEq(b.position.challengerLeft, CLOCKS - 5, "challenger");
        vm.roll(block.number + 1);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.ClockOver.selector, 1, 1));
        vm.prank(executor);
        game.descend(b.id, b.position.pack(), 1, new bytes32[](2));
        game.timeout(b.id, b.position.pack());
        _follow(b);
        assertTrue(b.executorLost, "executor lost");
    }

    // ---- Positions and players ----

    /// @dev INVARIANT 31: whatever the bit, it is in the hash, those that are no field's included.
    function test_AnyOtherBitIsAnotherPosition_Invariant31() public {
        Board memory b = _until(Phase.Span);
        bytes32[10] memory words = b.position.pack();
        for (uint256 bit; bit < 2_560; ++bit) {
            words[bit / 256] ^= bytes32(1 << bit % 256);
            vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongPosition.selector, b.id));
            game.timeout(b.id, words);
            words[bit / 256] ^= bytes32(1 << bit % 256);
        }
        assertEq(game.positionOf(b.id), keccak256(abi.encode(b.id, words)), "the game is where it was");
    }

    function test_AMoveOfAnotherGameIsRefused_Invariant31() public {
        Board memory other = _open(order, makeAddr("other"));
        (bytes32[] memory nodes,) = _opening(story);
        bytes32[] memory none;
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongPosition.selector, other.id));
        vm.prank(executor);
        game.publish(other.id, board.position.pack(), order, 0, 0, nodes, none);
        Order memory foreign = _claim(story);
        Board memory b = _open(foreign, challenger);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongOrder.selector, b.position.task));
        vm.prank(executor);
        game.publish(b.id, b.position.pack(), order, 0, 0, nodes, none);
    }

    function test_AMoveCannotBeMadeTwice_Invariant31() public {
        Board memory b = board;
        Board memory after_ = _until(Phase.Call);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongPosition.selector, b.id));
        vm.prank(executor);
        _publish(b);
        assertEq(uint8(after_.position.phase), uint8(Phase.Call), "phase");
    }

    function test_OnlyTheSideToMoveMoves_Invariant26() public {
        Board memory b = board;
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.NotThePlayer.selector, challenger, executor));
        vm.prank(challenger);
        _publish(b);
        b = _until(Phase.Call);
        Claim memory claim = _claimOf(order, story.roots, story.outputs);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.NotThePlayer.selector, executor, challenger));
        vm.prank(executor);
        game.collect(b.id, b.position.pack(), claim, "");
    }

    function test_ASignerMovesForItsOperator() public {
        address signer = makeAddr("signer");
        market.setSigner(executor, signer);
        vm.prank(signer);
        _publish(board);
    }

    function test_AMoveOfAnotherPhaseIsRefused() public {
        Board memory b = board;
        Claim memory claim = _claimOf(order, story.roots, story.outputs);
        Entry memory entry;
        bytes memory wrong = abi.encodeWithSelector(IDisputeGame.WrongPhase.selector, Phase.Call, Phase.Publish);
        vm.expectRevert(wrong);
        game.pickCall(b.id, b.position.pack(), claim, 0, 0, "", _nowhere());
        vm.expectRevert(wrong);
        game.collect(b.id, b.position.pack(), claim, "");
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongPhase.selector, Phase.Tree, Phase.Publish));
        game.descend(b.id, b.position.pack(), 1, new bytes32[](2));
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongPhase.selector, Phase.Node, Phase.Publish));
        game.pickNode(b.id, b.position.pack(), _nowhere());
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongPhase.selector, Phase.Leaf, Phase.Publish));
        game.showLeaf(b.id, b.position.pack(), "", "");
        wrong = abi.encodeWithSelector(IDisputeGame.WrongPhase.selector, Phase.Element, Phase.Publish);
        vm.expectRevert(wrong);
        game.pickReduction(b.id, b.position.pack(), entry, 0, "");
        vm.expectRevert(wrong);
        game.judgeFinal(b.id, b.position.pack(), entry, claim, "");
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongPhase.selector, Phase.Borders, Phase.Publish));
        game.claimBorders(b.id, b.position.pack(), "");
        wrong = abi.encodeWithSelector(IDisputeGame.WrongPhase.selector, Phase.Span, Phase.Publish);
        vm.expectRevert(wrong);
        game.pickSpan(b.id, b.position.pack(), 0, "");
        vm.expectRevert(wrong);
        game.judgeSpan(b.id, b.position.pack(), 0, "", claim, "", "");
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongPhase.selector, Phase.Verdict, Phase.Publish));
        game.verdict(b.id, b.position.pack(), claim, "", "");
        b = _until(Phase.Call);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongPhase.selector, Phase.Publish, Phase.Call));
        _publish(b);
    }

    // ---- What the executor publishes ----

    /// @dev As many nodes as there are, no fewer levels than 5 and no more than 11, and the outputs root as the last leaf.
    function test_PublishRefusesAnythingButAnOpeningOfTheTrace_Invariant30() public {
        _many();
        (bytes32[] memory nodes, bytes32[] memory lefts) = _opening(story);
        assertEq(nodes.length, 21, "of 41 leaves");
        assertEq(lefts.length, 0, "the outputs root has padding beside it");
        _refusesToPublish(abi.encodeWithSelector(IDisputeGame.WrongLevels.selector, 0, 5, 6), new bytes32[](0), lefts);
        _refusesToPublish(abi.encodeWithSelector(IDisputeGame.WrongLevels.selector, 4, 5, 6), new bytes32[](11), lefts);
        _refusesToPublish(abi.encodeWithSelector(IDisputeGame.WrongLevels.selector, 7, 5, 6), new bytes32[](65), lefts);
        _refusesToPublish(abi.encodeWithSelector(IDisputeGame.WrongChildren.selector, 20, 21), new bytes32[](20), lefts);
        _refusesToPublish(abi.encodeWithSelector(IDisputeGame.WrongChildren.selector, 40, 41), new bytes32[](40), lefts);
        bytes32 last = nodes[20];
        _refusesToPublish(abi.encodeWithSelector(IDisputeGame.WrongNode.selector, last, last), nodes, new bytes32[](1));
        nodes[20] = story.outputs;
        _refusesToPublish(abi.encodeWithSelector(IDisputeGame.WrongNode.selector, last, story.outputs), nodes, lefts);
    }

    function _refusesToPublish(bytes memory error, bytes32[] memory nodes, bytes32[] memory lefts) private {
        vm.expectRevert(error);
        vm.prank(executor);
        game.publish(board.id, board.position.pack(), order, 0, 0, nodes, lefts);
    }

    /// @dev 48 leaves: the outputs root has a sibling on its left on each of the four levels below the nodes.
    function test_PublishBindsTheSiblingsOfTheOutputsRoot_Invariant30() public {
        _compute(Toy.Program(191, 1, 0, [uint16(0), 0]), hex"01");
        _tellThat(_story(truth));
        opens = 5;
        (bytes32[] memory nodes, bytes32[] memory lefts) = _opening(story);
        assertEq(lefts.length, 3, "of eight levels five are opened");
        for (uint256 i; i < 3; ++i) {
            lefts[i] ^= bytes32(uint256(1));
            vm.expectPartialRevert(IDisputeGame.WrongNode.selector);
            vm.prank(executor);
            game.publish(board.id, board.position.pack(), order, 0, 0, nodes, lefts);
            lefts[i] ^= bytes32(uint256(1));
        }
        _publishAs(nodes, new bytes32[](2), IDisputeGame.WrongNode.selector);
        _publishAs(nodes, new bytes32[](4), IDisputeGame.WrongNode.selector);
        vm.prank(executor);
        game.publish(board.id, board.position.pack(), order, 0, 0, nodes, lefts);
    }

    function _publishAs(bytes32[] memory nodes, bytes32[] memory lefts, bytes4 error) private {
        vm.expectPartialRevert(error);
        vm.prank(executor);
        game.publish(board.id, board.position.pack(), order, 0, 0, nodes, lefts);
    }

    function test_DescendRefusesWhatDoesNotFoldToTheNode() public {
        Board memory b = _until(Phase.Tree);
        bytes32[] memory children = _children(1, 0, story.leaves[1]);
        vm.startPrank(executor);
        for (uint256 count; count < 6; ++count) {
            if (count == 2) continue;
            vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongChildren.selector, count, 2));
            game.descend(b.id, b.position.pack(), 1, new bytes32[](count));
        }
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongLevels.selector, 0, 1, 1));
        game.descend(b.id, b.position.pack(), 0, children);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongLevels.selector, 2, 1, 1));
        game.descend(b.id, b.position.pack(), 2, children);
        children[0] ^= bytes32(uint256(1));
        vm.expectPartialRevert(IDisputeGame.WrongNode.selector);
        game.descend(b.id, b.position.pack(), 1, children);
    }

    function test_ShowLeafRefusesOtherBytesAndLengths() public {
        Board memory b = _until(Phase.Leaf);
        bytes memory leaf = Toy.leafOf(story.tensors[1], 1);
        vm.startPrank(executor);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongLeaf.selector, 1_023));
        game.showLeaf(b.id, b.position.pack(), new bytes(1_023), "");
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongResults.selector, 3, 4));
        game.showLeaf(b.id, b.position.pack(), leaf, new bytes(3));
        leaf[0] ^= 0x01;
        vm.expectPartialRevert(IDisputeGame.WrongNode.selector);
        game.showLeaf(b.id, b.position.pack(), leaf, new bytes(4));
    }

    function test_BordersAreAsManyAsTheSpansAndCanonical() public {
        Board memory b = _until(Phase.Borders);
        vm.startPrank(executor);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongBorders.selector, 33, 34)); // 35 spans of two
        game.claimBorders(b.id, b.position.pack(), new bytes(33));
        bytes memory values = new bytes(34);
        values[33] = 0x02;
        vm.expectRevert(abi.encodeWithSelector(Patterns.NotCanonical.selector, 2));
        game.claimBorders(b.id, b.position.pack(), values);
    }

    // ---- What the challenger picks ----

    function test_AnotherClaimIsRefused() public {
        Board memory b = _until(Phase.Call);
        Claim memory claim = _claimOf(order, story.roots, story.outputs);
        claim.repeat = 2;
        vm.startPrank(challenger);
        vm.expectRevert(IDisputeGame.WrongClaim.selector);
        game.pickCall(b.id, b.position.pack(), claim, 0, 0, "", _nowhere());
        vm.expectRevert(IDisputeGame.WrongClaim.selector);
        game.collect(b.id, b.position.pack(), claim, "");
    }

    function test_ARootThatTheTraceHasNotCannotBePicked_Invariant30() public {
        Board memory b = _until(Phase.Call);
        Claim memory claim = _claimOf(order, story.roots, story.outputs);
        bytes32[] memory trace = Toy.trace(story.roots, story.outputs);
        bytes memory proof = abi.encode(Toy.path(trace, 1));
        bytes memory shorter = abi.encode(new bytes32[](1));
        bytes32 inner = Toy.level(trace, 1)[0];
        vm.startPrank(challenger);
        vm.expectRevert(abi.encodeWithSelector(IReferee.NotInTrace.selector, 0));
        game.pickCall(b.id, b.position.pack(), claim, 0, trace[1], proof, _nowhere());
        vm.expectRevert(abi.encodeWithSelector(IReferee.NotInTrace.selector, 0));
        game.pickCall(b.id, b.position.pack(), claim, 0, inner, shorter, _nowhere());
        vm.expectRevert(abi.encodeWithSelector(IReferee.NotInTrace.selector, 2));
        game.pickCall(b.id, b.position.pack(), claim, 2, story.outputs, proof, _nowhere());
    }

    function test_PickNodeRefusesOtherWays() public {
        Board memory b = _until(Phase.Node);
        bytes32[] memory children = abi.decode(b.data, (bytes32[]));
        bytes32[] memory path = Toy.path(children, 1);
        vm.startPrank(challenger);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongPath.selector, 0, 1, 1));
        game.pickNode(b.id, b.position.pack(), Descent(0, b.position.node, new bytes32[](0)));
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongPath.selector, 2, 1, 1));
        game.pickNode(b.id, b.position.pack(), Descent(0, children[0], new bytes32[](2)));
        vm.expectPartialRevert(IDisputeGame.WrongNode.selector);
        game.pickNode(b.id, b.position.pack(), Descent(0, children[1], path));
        vm.expectPartialRevert(IDisputeGame.WrongNode.selector);
        game.pickNode(b.id, b.position.pack(), Descent(3, children[1], path));
    }

    function test_EntriesAreThoseOfTheShownLeaf_Invariant30() public {
        Board memory b = _until(Phase.Element);
        (bytes memory leaf, bytes memory results) = abi.decode(b.data, (bytes, bytes));
        Entry memory entry = _entry(b.position, 1_025, leaf, results);
        bytes memory kernel = abi.encode(order.program);
        vm.startPrank(challenger);
        uint16[3] memory elsewhere = [1_023, 1_026, 2_047];
        for (uint256 i; i < elsewhere.length; ++i) {
            entry.element = elsewhere[i];
            vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongEntry.selector, elsewhere[i]));
            game.pickReduction(b.id, b.position.pack(), entry, 0, kernel);
        }
        entry.element = 1_025;
        entry.word[35] ^= 0x01; // the claimed result
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongEntry.selector, 1_025));
        game.pickReduction(b.id, b.position.pack(), entry, 1, kernel);
        entry.word[35] ^= 0x01;
        vm.expectPartialRevert(IReferee.WrongKernel.selector);
        game.pickReduction(b.id, b.position.pack(), entry, 1, abi.encode(uint256(1)));
        vm.expectRevert(ToyMachine.Incomplete.selector);
        game.pickReduction(b.id, b.position.pack(), entry, 2, kernel);
    }

    function test_AResultOfNoValueIsConvictedAtOnce() public {
        Board memory b = _until(Phase.Leaf);
        bytes memory results =
            bytes.concat(Toy.results(program, truth[0], 1_024), Toy.results(program, truth[0], 1_025)[0], hex"02");
        bytes memory leaf = Toy.leafOf(story.tensors[1], 1);
        vm.prank(executor);
        game.showLeaf(b.id, b.position.pack(), leaf, results);
        _follow(b);
        vm.expectEmit(address(game));
        emit IDisputeGame.Ended(b.id, b.position.task, true, Reason.Determined);
        _dispute(b, order);
    }

    function test_SpansAreThoseOfTheClaimedBorders() public {
        Board memory b = _until(Phase.Span);
        bytes memory values = abi.decode(b.data, (bytes));
        Claim memory claim = _claimOf(order, story.roots, story.outputs);
        vm.startPrank(challenger);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongSpan.selector, 35, 35));
        game.pickSpan(b.id, b.position.pack(), 35, values);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongPhase.selector, Phase.Verdict, Phase.Borders));
        game.judgeSpan(b.id, b.position.pack(), 34, values, claim, "", "");
        values[0] ^= 0x01;
        vm.expectPartialRevert(IDisputeGame.WrongBorders.selector);
        game.pickSpan(b.id, b.position.pack(), 34, values);
    }

    // ---- Verdicts ----

    function test_AVerdictIsAnybodysAndTheSame_Invariant32() public {
        Board memory b = _until(Phase.Element);
        _pickFinal(b);
        bytes memory witness = _witness(b);
        Claim memory claim = _claimOf(order, story.roots, story.outputs);
        bytes memory results = _trueResults(b.position);
        address[3] memory senders = [executor, challenger, makeAddr("anybody")];
        for (uint256 i; i < senders.length; ++i) {
            uint256 snapshot = vm.snapshotState();
            vm.expectEmit(address(game));
            emit IDisputeGame.Ended(b.id, b.position.task, false, Reason.Verdict);
            vm.prank(senders[i]);
            game.verdict(b.id, b.position.pack(), claim, results, witness);
            vm.revertToState(snapshot);
        }
        vm.roll(block.number + CLOCKS);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.ClockOver.selector, CLOCKS, CLOCKS));
        game.verdict(b.id, b.position.pack(), claim, "", witness);
    }

    function test_AnIncompleteVerdictReverts_Invariant32() public {
        Board memory b = _until(Phase.Element);
        _pickFinal(b);
        Claim memory claim = _claimOf(order, story.roots, story.outputs);
        bytes memory results = _trueResults(b.position);
        bytes32[] memory path = Toy.path(Toy.trace(story.roots, story.outputs), 0);
        vm.expectRevert(ToyMachine.Incomplete.selector);
        game.verdict(b.id, b.position.pack(), claim, results, abi.encode(bytes(""), path));
        vm.expectRevert(abi.encodeWithSelector(IReferee.NotInTrace.selector, 0));
        game.verdict(b.id, b.position.pack(), claim, results, abi.encode(truth[1], path));
        results[0] ^= 0x01;
        vm.expectPartialRevert(IDisputeGame.WrongResults.selector);
        game.verdict(b.id, b.position.pack(), claim, results, abi.encode(truth[0], path));
    }

    /// @dev A claim that is wrong only in a reduction: the final expression is right, and whoever picks it has lost.
    function _pickFinal(Board memory b) private {
        (bytes memory leaf, bytes memory results) = abi.decode(b.data, (bytes, bytes));
        Entry memory entry = _entry(b.position, 1_025, leaf, results);
        vm.prank(challenger);
        game.pickReduction(b.id, b.position.pack(), entry, FINAL, "");
        _follow(b);
    }

    // ---- Several games ----

    /// @dev INVARIANT 28: bought challengers that lose by a bad pick, by collecting or by silence, before, while and after
    /// the honest one plays.
    function test_BoughtChallengersChangeNothing_Invariant28() public {
        Board memory badPick = _open(order, makeAddr("bad pick"));
        Board memory bought = _open(order, makeAddr("collector"));
        Board memory silent = _open(order, makeAddr("silent"));
        Board memory honest = board;
        _tell(bought, order, story);
        _collect(bought);
        assertFalse(bought.executorLost, "before");
        _tell(honest, order, story);
        _tell(badPick, order, story);
        _tell(silent, order, story);
        vm.roll(block.number + 1);
        _dispute(honest, order);
        _collect(badPick);
        assertFalse(badPick.executorLost, "between");
        _play(honest, order, story);
        assertTrue(honest.executorLost, "the honest one wins");
        _runOut(silent);
        assertFalse(silent.executorLost, "after");
        assertEq(market.endsCount(), 4, "ends");
    }

    /// @dev Another story in each game: each is judged by what was published in it.
    function test_AnExecutorThatChangesItsStoryIsConvictedInEachGame_Invariant27() public {
        Board memory second = _open(order, makeAddr("second"));
        bytes[] memory tensors = truth;
        tensors[0][7] ^= 0x01;
        Story memory other = _story(tensors);
        other.outputs = story.outputs;
        _play(second, order, other);
        assertTrue(second.executorLost, "one story");
        _play(board, order, story);
        (,,, bool lost) = market.ends(1);
        assertTrue(lost, "another story");
    }

    function _collect(Board memory b) private {
        bytes memory path = abi.encode(story.roots[1], Toy.path(Toy.trace(story.roots, story.outputs), 1));
        Claim memory claim = _claimOf(order, story.roots, story.outputs);
        vm.prank(b.position.challenger);
        game.collect(b.id, b.position.pack(), claim, path);
        _follow(b);
    }

    // ---- Tensors without elements ----

    /// @dev INVARIANT 35: the root of nothing is determined.
    function test_AWrongRootOfNothingIsConvictedAtOnce_Invariant35() public {
        _compute(Toy.Program(1, 0, 0, [uint16(0), 0]), "");
        Story memory s = _story(truth);
        order = _claim(s);
        Board memory b = _open(order, challenger);
        _tell(b, order, s);
        Claim memory claim = _claimOf(order, s.roots, s.outputs);
        bytes memory proof = abi.encode(Toy.path(Toy.trace(s.roots, s.outputs), 0));
        vm.prank(challenger);
        vm.expectRevert(IDisputeGame.NothingToDispute.selector);
        game.pickCall(b.id, b.position.pack(), claim, 0, s.roots[0], proof, _nowhere());
        s.roots[0] = keccak256("something");
        order = _claim(s);
        b = _open(order, challenger);
        _play(b, order, s);
        assertTrue(b.executorLost, "executor lost");
    }
}
