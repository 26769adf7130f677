// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Position} from "../../src/interfaces/IDisputeGame.sol";
import {IServiceManager} from "../../src/interfaces/IServiceManager.sol";
import {IMarket} from "../../src/interfaces/IMarket.sol";
import {Cause, ITaskMarket, Opening, Order, State} from "../../src/interfaces/ITaskMarket.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {MarketFixture} from "../MarketFixture.sol";

/// @title Who gets what when an executor is convicted
contract ConvictionsTest is MarketFixture {
    Order private order;
    bytes32 private task;
    uint256 private first; // index of rival
    uint256 private second; // index of verifier
    uint256 private bond;
    uint256 private reward;

    function setUp() public override {
        super.setUp();
        bond = Terms.bond(p, 0.01 ether);
        reward = Terms.reward(p, 0.01 ether);
    }

    // ---- Silence ----

    /// @dev Invariant 23.
    function test_Silence_DrawnAndNotRevealedIsAConviction() public {
        (order, task) = _commitAndSeed(ROOT, true);
        uint256 collateral = _held(operator);
        _pass(task);
        vm.expectEmit(address(market));
        emit ITaskMarket.Convicted(task, Cause.Silence, address(0), _escrow(order));
        vm.prank(anybody);
        market.close(order);
        _assertState(task, State.Convicted);
        assertEq(market.outputsRootOf(task), 0, "no result");
        assertEq(_balance(client), 10 ether, "escrow");
        assertEq(_balance(operator), 10 ether - collateral, "collateral");

        _passReveals();
        uint256 before = _balance(anybody);
        vm.prank(anybody);
        market.slash(order);
        assertEq(_balance(anybody) - before, reward, "nobody answered: W to the caller");
        assertEq(_balance(market.BURN()), collateral - reward, "the rest");
        assertEq(_beneficiaries().length, 0, "the slash is burned");
    }

    function test_Silence_PaysThoseWhoOpenTheirAnswers() public {
        _silent();
        _reveal(order, first + 1, ROOT); // convicts by itself
        _assertState(task, State.Convicted);
        _reveal(order, second + 1, WRONG);
        assertEq(market.openGames(task), 0, "nothing to dispute");
        vm.expectPartialRevert(IMarket.TooEarly.selector);
        market.settle(order, first);
        _passReveals();
        uint256 burned = _balance(market.BURN());
        market.settle(order, first);
        market.settle(order, second);
        assertEq(_balance(rival) + _balance(verifier), 20 ether + reward + order.checkFee, "W in parts, and one fee");
        assertEq(_balance(first < second ? rival : verifier), 10 ether + reward / 2 + order.checkFee, "lowest");
        assertEq(_balance(market.BURN()), burned, "nothing is left over");

        vm.prank(anybody);
        market.slash(order);
        assertEq(_balance(anybody), 0, "W is the verifiers'");
        assertEq(_beneficiaries().length, 2, "both share the slash");
    }

    function test_Silence_AnAnswerThatIsNotOpenedLosesItsBond() public {
        _silent();
        _reveal(order, first + 1, ROOT);
        _passReveals();
        vm.expectPartialRevert(IMarket.TooLate.selector);
        market.reveal(order, Opening(task, second + 1, ROOT, SALT));
        market.settle(order, second);
        market.settle(order, first);
        assertEq(_balance(verifier), 10 ether - bond, "not opened");
        assertEq(_balance(rival), 10 ether + reward + order.checkFee, "the only one");
    }

    // ---- Verdict ----

    function test_Verdict_AVerifierThatDiffersWinsWithItsAnswer() public {
        (order, task, first, second) = _answered(WRONG, ROOT, WRONG);
        _reveal(order, first + 1, ROOT);
        Position memory position = _opened(task, rival);
        _reveal(order, second + 1, WRONG);
        _executorLoses(1, position);
        address winner = market.convictionOf(task).winner;
        assertEq(winner, rival, "winner");
        assertEq(_balance(rival), 10 ether - bond + reward, "W at once, the bond by settle");
        _passReveals();
        market.settle(order, first);
        market.settle(order, second);
        assertEq(_balance(rival), 10 ether + reward + order.checkFee, "differed: bond and fee");
        assertEq(_balance(verifier), 10 ether, "agreed with a lie: bond, no fee");
        market.slash(order);
        assertEq(_beneficiaries().length, 1, "one differed");
        assertEq(_beneficiaries()[0], rival, "it shares the slash");
    }

    /// @dev A verifier that had not opened its answer yet, and one that lost its game, are paid as well.
    function test_Verdict_WhoeverDifferedIsPaidWhoeverWonTheGame() public {
        order = _order();
        order.verifiers = 2;
        task = _post(order);
        _accept(order);
        _commit(task, WRONG);
        _seed(order, true);
        (first, second) = (_answer(order, rival, ROOT), _answer(order, verifier, ROOT));
        _passAnswers(task);
        _reveal(order, 0, WRONG);
        _prepay(anybody, 1 ether);
        (uint256 gameId,) = _challenge(order, anybody);
        _reveal(order, first + 1, ROOT);
        vm.startPrank(address(game));
        market.onGameEnded(task, gameId + 1, rival, false, false); // rival played badly
        market.onGameEnded(task, gameId, anybody, true, false);
        vm.stopPrank();
        _reveal(order, second + 1, ROOT);
        assertEq(game.games(), 2, "no third game against a convicted executor");
        _passReveals();
        market.settle(order, first);
        market.settle(order, second);
        assertEq(_balance(anybody), 1 ether + reward, "W to the winner");
        assertEq(_balance(rival), 10 ether - bond + order.checkFee, "its bond is lost, its fee is not");
        assertEq(_balance(verifier), 10 ether + order.checkFee, "bond and fee");
        market.slash(order);
        assertEq(_beneficiaries().length, 2, "both share the slash");
        assertEq(_held(rival) + _held(verifier) + _held(anybody) + _held(operator), 0, "nothing is held any more");
    }

    function test_Verdict_WithoutVerifiersTheWinnerSharesTheSlash() public {
        (order, task) = _result(WRONG);
        (uint256 gameId, Position memory position) = _challenge(order, rival);
        uint256 collateral = _held(operator);
        _executorLoses(gameId, position);
        _passReveals();
        uint256 locked = manager.lockOf(task, operator).shares;
        vm.expectEmit(true, true, true, false, address(market));
        emit ITaskMarket.Slashed(task, 1, locked, anybody);
        vm.prank(anybody);
        market.slash(order);
        assertEq(_balance(anybody), 0, "W was the winner's");
        assertEq(_balance(market.BURN()), collateral - reward, "what no verifier will get is burned");
        assertEq(_beneficiaries()[0], rival, "winner");
        assertEq(manager.lockedStake(operator), 0, "the lock is over");
        bool slashed = market.convictionOf(task).slashed;
        assertTrue(slashed, "slashed");
        vm.expectRevert(abi.encodeWithSelector(IMarket.AlreadySlashed.selector, task));
        market.slash(order);
    }

    /// @dev Half of the slash reaches the winner when the core releases it, the other half is burned.
    function test_Verdict_TheBountyArrives() public {
        (order, task) = _result(WRONG);
        (uint256 gameId, Position memory position) = _challenge(order, rival);
        _executorLoses(gameId, position);
        _passReveals();
        market.slash(order);
        uint256 s = Terms.stake(p, 0.01 ether, 0, order.checkRate, 1);
        uint256 before = _balance(rival);
        uint256 burned = _balance(market.BURN());
        vm.roll(block.number + 25);
        bounty.pay(1);
        assertApproxEqAbs(_balance(rival) - before, s / 2, 1_024, "invariant 12: half of the stake");
        assertApproxEqAbs(_balance(market.BURN()) - burned, s / 2, 1_024, "half is burned");
    }

    // ---- Slash and time ----

    function test_RevertWhen_SlashedOrSettledTooEarlyOrWithoutAConviction() public {
        (order, task) = _result(WRONG);
        bytes memory reason =
            abi.encodeWithSelector(ITaskMarket.WrongState.selector, task, State.Convicted, State.Revealed);
        vm.expectRevert(reason);
        market.slash(order);
        (uint256 gameId,) = _challenge(order, rival);
        vm.prank(address(game));
        market.onGameEnded(task, gameId, rival, true, false);
        uint256 last = market.answersBy(task);
        vm.expectRevert(abi.encodeWithSelector(IMarket.TooEarly.selector, block.number, last));
        market.slash(order);
    }

    /// @dev Invariant 15: the core's refusal undoes the slash and nothing else; it is tried again later.
    function test_Slash_AgainAfterTheCoreWasPaused() public {
        _silent();
        _reveal(order, first + 1, ROOT);
        _passReveals();
        core.allocationManager.pause(type(uint256).max);
        vm.expectRevert();
        market.slash(order);
        market.settle(order, first);
        assertEq(_balance(rival), 10 ether + reward + order.checkFee, "no payment waits for the core");
        core.allocationManager.unpause(0);
        market.slash(order);
        assertEq(_beneficiaries()[0], rival, "slashed");
    }

    /// @dev Invariants 5 and 37: what only a slash would have paid is burned when it is too late for it.
    function test_Slash_AfterTheLocksEndSlashesNobody() public {
        (order, task) = _commitAndSeed(ROOT, true);
        uint256 collateral = _held(operator);
        _end(order);
        vm.roll(manager.lockOf(task, operator).end + 1);
        vm.expectEmit(address(market));
        emit ITaskMarket.Settled(task, 0, market.BURN(), reward);
        vm.prank(anybody);
        market.slash(order);
        assertEq(_balance(market.BURN()), collateral, "all of the collateral");
        assertEq(_balance(anybody), 0, "nothing to be had");
        vm.expectRevert(abi.encodeWithSelector(IMarket.AlreadySlashed.selector, task));
        market.slash(order);
        manager.unlock(task, operator);
        assertEq(manager.lockedStake(operator), 0, "anybody frees the stake");
    }

    function test_Slash_InTheLastBlockOfTheLock() public {
        (order, task) = _commitAndSeed(ROOT, true);
        _end(order);
        vm.roll(manager.lockOf(task, operator).end);
        vm.expectEmit(true, true, false, false, address(manager));
        emit IServiceManager.StakeSlashed(task, operator, 1, 0);
        market.slash(order);
    }

    function _silent() private {
        (order, task) = _commitAndSeed(ROOT, true);
        (first, second) = (_answer(order, rival, ROOT), _answer(order, verifier, WRONG));
        _pass(task);
    }

    function _passReveals() private {
        if (block.number <= market.answersBy(task)) vm.roll(market.answersBy(task) + 1);
    }

    function _beneficiaries() private view returns (address[] memory list) {
        (,, list) = bounty.noteOf(1);
    }
}
