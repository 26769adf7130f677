// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Descent, IDisputeGame, OneShot, Phase, Reason} from "../../src/interfaces/IDisputeGame.sol";
import {Claim, IReferee} from "../../src/interfaces/IReferee.sol";
import {Order} from "../../src/interfaces/ITaskMarket.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {Arena} from "../toy/Arena.sol";
import {Toy} from "../toy/Toy.sol";

/// @title Results that are asked for one by one, and calls that are judged in one transaction
contract ResultsTest is Arena {
    Story private story;
    Order private order;
    Board private board;

    /// @dev Two calls over two leaves; the trace is right, the second of two outputs is not what it says.
    function setUp() public override {
        super.setUp();
        asks = true;
        _compute(Toy.Program(2, 1_026, 0, [uint16(0), 0]), new bytes(1_026));
        Story memory s = _story(truth);
        (s.shown[0], s.shown[1]) = Toy.resultsOf(s.roots[1]);
        s.shown[0][1] = keccak256("another output");
        (s.isShown, s.outputs) = (true, Toy.outputsOf(s.shown[0], s.shown[1]));
        _tells(s);
    }

    function _tells(Story memory s) private {
        story = s;
        order = _claim(s);
        Board memory b = _open(order, challenger);
        _tell(b, order, s);
        board = b;
    }

    function _asked() private returns (Board memory b) {
        b = board;
        vm.prank(challenger);
        game.askOutputs(b.id, b.position.pack());
        _follow(b);
        assertEq(uint8(b.position.phase), uint8(Phase.Outputs), "asked");
    }

    function _shown() private returns (Board memory b) {
        b = _asked();
        _tell(b, order, story);
        assertEq(uint8(b.position.phase), uint8(Phase.Result), "shown");
        assertEq(b.position.low, 2, "outputs");
        assertEq(b.position.high, 1, "states");
    }

    function test_WhoeverStallsLoses_Invariant29() public {
        uint256 snapshot = vm.snapshotState();
        Board memory b = _asked();
        _runOut(b);
        assertTrue(b.executorLost, "the executor shows nothing");
        vm.revertToState(snapshot);
        b = _shown();
        _runOut(b);
        assertFalse(b.executorLost, "the challenger judges nothing");
    }

    function test_OnlyWhatGivesTheOutputsRootCanBeShown_Invariant27() public {
        Board memory b = _asked();
        Claim memory claim = _claimOf(b, order);
        (bytes32[] memory outputs, bytes32[] memory states) = Toy.resultsOf(story.roots[1]);
        vm.startPrank(executor);
        vm.expectPartialRevert(IDisputeGame.WrongNode.selector);
        game.showOutputs(b.id, b.position.pack(), claim, outputs, states);
        vm.expectPartialRevert(IDisputeGame.WrongNode.selector);
        game.showOutputs(b.id, b.position.pack(), claim, story.shown[1], story.shown[0]);
        claim.outputs = Toy.outputsOf(outputs, states);
        vm.expectRevert(IDisputeGame.WrongClaim.selector);
        game.showOutputs(b.id, b.position.pack(), claim, outputs, states);
    }

    function test_AResultIsOpenedAsItWasShown_Invariant32() public {
        Board memory b = _shown();
        Claim memory claim = _claimOf(b, order);
        bytes32 other = Toy.bindingsOf(story.shown[1]);
        Descent memory shown = Descent(1, story.shown[0][1], Toy.path(story.shown[0], 1));
        bytes memory proof = abi.encode(story.roots[1], _pathOf(b, 1));
        bytes memory false_ = abi.encode(story.roots[0], _pathOf(b, 1));
        vm.startPrank(challenger);
        vm.expectPartialRevert(IDisputeGame.WrongNode.selector);
        game.judgeResult(b.id, b.position.pack(), claim, shown, keccak256("other"), proof);
        vm.expectPartialRevert(IReferee.NotInTrace.selector);
        game.judgeResult(b.id, b.position.pack(), claim, shown, other, false_);
        shown.index = 0;
        vm.expectPartialRevert(IDisputeGame.WrongNode.selector);
        game.judgeResult(b.id, b.position.pack(), claim, shown, other, proof);
        (shown.index, shown.path) = (1, new bytes32[](2));
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongPath.selector, 2, 1, 1));
        game.judgeResult(b.id, b.position.pack(), claim, shown, other, proof);
        shown.index = 3;
        vm.expectRevert(abi.encodeWithSelector(IReferee.NotInProgram.selector, 3));
        game.judgeResult(b.id, b.position.pack(), claim, shown, other, proof);
        (shown.index, shown.path) = (1, Toy.path(story.shown[0], 1));
        vm.expectEmit(address(game));
        emit IDisputeGame.Ended(b.id, b.position.task, true, Reason.Collect);
        game.judgeResult(b.id, b.position.pack(), claim, shown, other, proof);
    }

    function test_ARightResultIsAcquitted_Invariant26() public {
        Board memory b = _shown();
        Claim memory claim = _claimOf(b, order);
        vm.startPrank(challenger);
        _judgeResult(b, claim, 2);
        _follow(b);
        assertTrue(b.over && !b.executorLost, "the state is right");
    }

    function test_MovesOfOtherPhasesAreRefused() public {
        Board memory b = _open(order, challenger);
        Claim memory claim = _claimOf(b, order);
        OneShot memory shot;
        bytes memory wrong = abi.encodeWithSelector(IDisputeGame.WrongPhase.selector, Phase.Call, Phase.Publish);
        vm.expectRevert(wrong);
        game.askOutputs(b.id, b.position.pack());
        vm.expectRevert(wrong);
        game.judgeCall(b.id, b.position.pack(), claim, shot);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongPhase.selector, Phase.Outputs, Phase.Publish));
        game.showOutputs(b.id, b.position.pack(), claim, new bytes32[](0), new bytes32[](0));
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongPhase.selector, Phase.Result, Phase.Publish));
        game.judgeResult(b.id, b.position.pack(), claim, shot.descent, 0, "");
    }

    // ---- One transaction ----

    /// @dev The executor lies in an element of the second call's second leaf.
    function _lies() private returns (OneShot memory shot) {
        bytes[] memory tensors = truth;
        tensors[1][1_025] ^= 0x01;
        _tells(_story(tensors));
        (shot.number, shot.root) = (1, story.roots[1]);
        shot.proof = abi.encode(_pathOf(board, 1));
        shot.descent = Descent(1, story.leaves[1][1], Toy.path(story.leaves[1], 1));
        (shot.leaf, shot.element) = (Toy.leafOf(story.tensors[1], 1), 1_025);
        Board memory there = board;
        there.position.number = 1;
        shot.witness = _witness(there);
    }

    function test_AWrongElementIsConvictedAtOnce_Invariant27() public {
        OneShot memory shot = _lies();
        Board memory b = board;
        Claim memory claim = _claimOf(b, order);
        vm.expectEmit(address(game));
        emit IDisputeGame.Ended(b.id, b.position.task, true, Reason.Verdict);
        vm.prank(challenger);
        game.judgeCall(b.id, b.position.pack(), claim, shot);
    }

    function test_ARightElementIsAcquittedAtOnce_Invariant26() public {
        OneShot memory shot = _lies();
        Board memory b = board;
        Claim memory claim = _claimOf(b, order);
        shot.element = 1_024;
        vm.expectEmit(address(game));
        emit IDisputeGame.Ended(b.id, b.position.task, false, Reason.Verdict);
        vm.prank(challenger);
        game.judgeCall(b.id, b.position.pack(), claim, shot);
    }

    function test_AnIncompleteOneShotReverts_Invariant32() public {
        OneShot memory shot = _lies();
        Board memory b = board;
        Claim memory claim = _claimOf(b, order);
        vm.startPrank(challenger);
        uint16[3] memory elsewhere = [1_023, 1_026, 2_047];
        for (uint256 i; i < 3; ++i) {
            shot.element = elsewhere[i];
            vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongEntry.selector, elsewhere[i]));
            game.judgeCall(b.id, b.position.pack(), claim, shot);
        }
        shot.element = 1_025;
        shot.leaf[0] ^= 0x01;
        vm.expectPartialRevert(IDisputeGame.WrongNode.selector);
        game.judgeCall(b.id, b.position.pack(), claim, shot);
        shot.leaf = new bytes(1_023);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongLeaf.selector, 1_023));
        game.judgeCall(b.id, b.position.pack(), claim, shot);
        shot.descent = _nowhere();
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongPhase.selector, Phase.Leaf, Phase.Tree));
        game.judgeCall(b.id, b.position.pack(), claim, shot);
        claim.repeat = 2;
        vm.expectRevert();
        game.judgeCall(b.id, b.position.pack(), claim, shot);
    }

    /// @dev What has reductions needs their results, which only the executor has.
    function test_ReductionsAreNotJudgedAtOnce() public {
        _compute(Toy.Program(1, 2, 1, [uint16(1), 0]), hex"0001");
        _tells(_story(truth));
        Board memory b = board;
        Claim memory claim = _claimOf(b, order);
        OneShot memory shot;
        (shot.root, shot.proof) = (story.roots[0], abi.encode(_pathOf(b, 0)));
        (shot.leaf, shot.witness) = (Toy.leafOf(truth[0], 0), _witness(b));
        vm.prank(challenger);
        vm.expectRevert(abi.encodeWithSelector(IDisputeGame.WrongResults.selector, 0, 1));
        game.judgeCall(b.id, b.position.pack(), claim, shot);
    }
}
