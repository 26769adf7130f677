// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Position} from "../../src/interfaces/IDisputeGame.sol";
import {IServiceManager} from "../../src/interfaces/IServiceManager.sol";
import {IMarket} from "../../src/interfaces/IMarket.sol";
import {ITaskMarket, Order, State} from "../../src/interfaces/ITaskMarket.sol";
import {Terms} from "../../src/libraries/Terms.sol";
import {MarketFixture} from "../MarketFixture.sol";

contract EndsTest is MarketFixture {
    Order private order;
    bytes32 private task;
    uint256 private price;
    uint256 private collateral;

    function setUp() public override {
        super.setUp();
        order = _order();
        task = _post(order);
        vm.roll(block.number + 5);
        (price, collateral) = _accept(order);
    }

    function test_Close_PaysTheExecutorAndReturnsTheRest() public {
        _finish();
        _pass(task);
        vm.expectEmit(address(market));
        emit ITaskMarket.Closed(task, price, _escrow(order) - price);
        vm.expectEmit(address(manager));
        emit IServiceManager.Unlocked(task);
        vm.prank(anybody);
        market.close(order);

        _assertState(task, State.Final);
        assertEq(market.outputsRootOf(task), ROOT, "the result stays");
        assertEq(_balance(operator), 10 ether + price, "executor");
        assertEq(_held(operator), 0, "collateral");
        assertEq(_balance(client), 10 ether - price, "client");
        assertEq(manager.lockedStake(operator), 0, "stake is free");
    }

    /// @dev Invariant 3 at its edge.
    function test_RevertWhen_ClosedInTheLastBlockOfTheWindow() public {
        _finish();
        uint256 challengeBy = market.deadlineOf(task);
        vm.roll(challengeBy);
        vm.expectRevert(abi.encodeWithSelector(IMarket.TooEarly.selector, challengeBy, challengeBy));
        market.close(order);
    }

    function test_RevertWhen_ClosedTwice() public {
        _finish();
        _end(order);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.WrongState.selector, task, State.Revealed, State.Final));
        market.close(order);
    }

    function test_RevertWhen_AGameIsOpen() public {
        _finish();
        (uint256 first, Position memory one) = _challenge(order, rival);
        (uint256 second, Position memory two) = _challenge(order, verifier);
        _pass(task);
        vm.expectRevert(abi.encodeWithSelector(IMarket.GamesOpen.selector, task, 2));
        market.close(order);

        one = _publish(first, one, order);
        two = _publish(second, two, order);
        vm.roll(one.since + one.challengerLeft);
        game.timeout(first, one.pack());
        vm.expectRevert(abi.encodeWithSelector(IMarket.GamesOpen.selector, task, 1));
        market.close(order);
        game.timeout(second, two.pack());
        market.close(order);
        _assertState(task, State.Final);
        uint256 won = 2 * Terms.bondShare(p, price);
        assertEq(_balance(operator), 10 ether + price + won, "price and shares of the bonds");
    }

    function test_Close_WithoutACommitRefundsTheClientAndBurnsThePenalty() public {
        _pass(task);
        _assertFails();
    }

    /// @dev Invariant 20: no seed, no final.
    function test_Close_WithoutASeedRefundsTheClientAndBurnsThePenalty() public {
        _commit(task);
        _pass(task);
        assertEq(block.number, market.seedBlockOf(task) + p.record + 1, "as soon as it is too late");
        _assertFails();
        assertEq(market.outputsRootOf(task), 0, "a commitment is no result");
    }

    /// @dev Invariant 23.
    function test_Close_UndrawnAndNotRevealedRefundsTheClientAndBurnsThePenalty() public {
        _commit(task);
        _seed(order, false);
        _pass(task);
        _assertFails();
    }

    function test_RevertWhen_ClosedBeforeTheDeadline() public {
        _assertTooEarly();
        _commit(task);
        _assertTooEarly();
        _seed(order, false);
        _assertTooEarly();
    }

    function test_RevertWhen_AnOpenTaskIsClosed() public {
        order.nonce = 2;
        task = _post(order);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.WrongState.selector, task, State.Revealed, State.Open));
        market.close(order);
    }

    /// @dev Invariants 15 and 37: what others did to the lock after its end holds back no money.
    function test_Close_AfterAnybodyEndedTheLock() public {
        _finish();
        vm.roll(manager.lockOf(task, operator).end + 1);
        vm.prank(anybody);
        manager.unlock(task, operator);
        market.close(order);
        _assertState(task, State.Final);
    }

    /// @dev Invariant 15: the core is asked nothing when a task ends.
    function test_Close_WhileTheCoreIsPaused() public {
        _finish();
        core.allocationManager.pause(type(uint256).max);
        core.delegationManager.pause(type(uint256).max);
        _end(order);
        _assertState(task, State.Final);
    }

    function test_Burn_SendsThePenaltiesAway() public {
        _end(order);
        uint256 penalty = Terms.penalty(p, price);
        vm.expectEmit(address(market));
        emit IMarket.Withdrawn(market.BURN(), market.BURN(), penalty);
        vm.prank(anybody);
        market.burn();
        assertEq(token.balanceOf(market.BURN()), penalty, "burned");
        assertEq(_balance(market.BURN()), 0, "balance");
    }

    function _finish() private {
        _commit(task);
        _seed(order, false);
        _reveal(order);
    }

    function _assertTooEarly() private {
        uint256 last = market.deadlineOf(task);
        uint256 here = block.number;
        vm.roll(last);
        vm.expectRevert(abi.encodeWithSelector(IMarket.TooEarly.selector, last, last));
        market.close(order);
        vm.roll(here);
    }

    function _assertFails() private {
        uint256 penalty = price / 4 + p.gMiss;
        vm.expectEmit(address(market));
        emit ITaskMarket.Failed(task, _escrow(order), penalty);
        vm.prank(anybody);
        market.close(order);

        _assertState(task, State.Failed);
        assertEq(_balance(client), 10 ether, "client");
        assertEq(_balance(operator), 10 ether - penalty, "executor");
        assertEq(_held(operator), 0, "collateral");
        assertEq(manager.lockedStake(operator), 0, "stake is free");
        assertEq(_balance(market.BURN()), penalty, "burned");
        assertEq(_balance(anybody), 0, "invariant 7: nobody gains");
    }
}
