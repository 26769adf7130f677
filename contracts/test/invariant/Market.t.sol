// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test} from "forge-std/Test.sol";
import {Order, State, Task} from "../../src/interfaces/ITaskMarket.sol";
import {Handler} from "./Handler.sol";

/// @title The invariants of `contracts/README.md`, by their numbers
contract MarketInvariants is Test {
    Handler private handler;

    function setUp() public {
        handler = new Handler();
        bytes4[] memory selectors = new bytes4[](13);
        selectors[0] = Handler.post.selector;
        selectors[1] = Handler.accept.selector;
        selectors[2] = Handler.commit.selector;
        selectors[3] = Handler.reveal.selector;
        selectors[4] = Handler.cancel.selector;
        selectors[5] = Handler.expire.selector;
        selectors[6] = Handler.fail.selector;
        selectors[7] = Handler.close.selector;
        selectors[8] = Handler.withdraw.selector;
        selectors[9] = Handler.burn.selector;
        selectors[10] = Handler.setCap.selector;
        selectors[11] = Handler.leaveOrJoin.selector;
        selectors[12] = Handler.pass.selector;
        targetContract(address(handler));
        targetSelector(FuzzSelector(address(handler), selectors));
    }

    /// @dev The handler can reach every end, so the invariants speak about something.
    function test_Handler_ReachesEveryEnd() public {
        Order memory order;
        order.maxPrice = 0.1 ether;
        order.acceptBy = 39;
        for (uint256 i; i < 5; ++i) {
            handler.post(i, order);
        }
        handler.cancel(0);
        for (uint256 i = 1; i < 4; ++i) {
            handler.accept(i, i);
        }
        handler.commit(1);
        handler.commit(2);
        handler.reveal(1, 0);
        handler.close(1, 0); // too early: it stays
        assertEq(uint8(handler.taskAt(handler.tasks(1)).state), uint8(State.Revealed), "revealed");
        for (uint256 i; i < 10; ++i) {
            handler.pass(30);
        }
        handler.close(1, 0);
        handler.fail(2, 1, true);
        handler.fail(3, 2, false);
        handler.expire(4, 3);
        State[5] memory ends = [State.Cancelled, State.Final, State.Failed, State.Failed, State.Expired];
        for (uint256 i; i < 5; ++i) {
            assertEq(uint8(handler.endOf(handler.tasks(i)).state), uint8(ends[i]), "end");
        }
        assertGt(handler.balanceOf(handler.accounts(5)), 0, "penalties");
    }

    function invariant_01_TheMarketHoldsExactlyWhatItOwes() public view {
        uint256 owed;
        for (uint256 i; i < handler.accountCount(); ++i) {
            address account = handler.accounts(i);
            owed += handler.balanceOf(account) + handler.heldOf(account);
        }
        for (uint256 i; i < handler.count(); ++i) {
            bytes32 task = handler.tasks(i);
            if (handler.isLive(task)) owed += handler.orderOf(task).maxPrice;
        }
        assertEq(handler.tokensOfMarket(), owed);
    }

    function invariant_02_ATaskEndsOnceAndStaysEnded() public view {
        for (uint256 i; i < handler.count(); ++i) {
            bytes32 task = handler.tasks(i);
            Handler.End memory end = handler.endOf(task);
            assertEq(end.count, handler.isLive(task) ? 0 : 1, "ends");
            if (end.count == 1) assertEq(uint8(handler.taskAt(task).state), uint8(end.state), "state");
        }
    }

    function invariant_03_ExecutorsAreCreditedByFinalTasksOnly() public view {
        int256[] memory expected = new int256[](handler.accountCount());
        for (uint256 i; i < handler.count(); ++i) {
            bytes32 task = handler.tasks(i);
            Handler.Deal memory deal = handler.dealOf(task);
            Handler.End memory end = handler.endOf(task);
            if (end.state == State.Final) assertGt(end.blockNumber, end.openUntil, "after challengeBy");
            for (uint256 j; j < expected.length; ++j) {
                if (handler.accounts(j) != deal.executor) continue;
                if (end.state == State.Final) expected[j] += int256(deal.price);
                else if (end.state == State.Failed) expected[j] -= int256(handler.penaltyOf(task));
                else expected[j] -= int256(deal.collateral);
            }
        }
        for (uint256 j = 2; j < 4; ++j) {
            address executor = handler.accounts(j);
            assertEq(int256(handler.balanceOf(executor)), handler.paidIn(executor) + expected[j]);
        }
    }

    /// @dev The form that exists before convictions: a failure refunds the client at once.
    function invariant_04_AFailureRefundsTheWholeEscrowAtOnce() public view {
        for (uint256 i; i < handler.count(); ++i) {
            bytes32 task = handler.tasks(i);
            Handler.End memory end = handler.endOf(task);
            if (end.count == 0 || end.state == State.Final) continue;
            assertEq(end.client, int256(handler.orderOf(task).maxPrice));
        }
    }

    function invariant_05_WhatWentInComesOutToTheWei() public view {
        for (uint256 i; i < handler.count(); ++i) {
            bytes32 task = handler.tasks(i);
            Handler.End memory end = handler.endOf(task);
            if (end.count == 0) continue;
            int256 held = int256(handler.dealOf(task).collateral);
            assertEq(end.released, held, "collateral");
            assertEq(end.client + end.executor + end.burned + end.others, int256(handler.orderOf(task).maxPrice) + held);
        }
    }

    /// @dev Every end of a task runs while the token refuses transfers; what a task moves is credit.
    function invariant_06_NoEndWaitsForATransfer() public view {
        for (uint256 i; i < handler.accountCount(); ++i) {
            address account = handler.accounts(i);
            int256 credit = int256(handler.balanceOf(account) + handler.heldOf(account)) - handler.paidIn(account);
            for (uint256 j; j < handler.count(); ++j) {
                bytes32 task = handler.tasks(j);
                Handler.End memory end = handler.endOf(task);
                Order memory order = handler.orderOf(task);
                Handler.Deal memory deal = handler.dealOf(task);
                if (account == order.client) credit += int256(order.maxPrice) - end.client;
                if (account == deal.executor && end.count == 1) credit += int256(deal.collateral) - end.executor;
                if (i == 5) credit -= end.burned;
            }
            assertEq(credit, 0);
        }
    }

    function invariant_07_NobodyGainsByAMissedCommit() public view {
        for (uint256 i; i < handler.count(); ++i) {
            bytes32 task = handler.tasks(i);
            Handler.End memory end = handler.endOf(task);
            assertEq(end.others, 0, "bystanders");
            if (end.state != State.Failed) {
                assertEq(end.burned, 0, "nothing is burned otherwise");
                continue;
            }
            int256 penalty = int256(handler.penaltyOf(task));
            assertEq(end.client, int256(handler.orderOf(task).maxPrice), "client");
            assertEq(end.executor, int256(handler.dealOf(task).collateral) - penalty, "executor");
            assertEq(end.burned, penalty, "burned");
        }
    }

    function invariant_10_TheClientPaysThePriceAtMost() public view {
        for (uint256 i; i < handler.count(); ++i) {
            bytes32 task = handler.tasks(i);
            Handler.End memory end = handler.endOf(task);
            if (end.count == 0) continue;
            Order memory order = handler.orderOf(task);
            uint256 price = handler.dealOf(task).price;
            assertLe(price, order.maxPrice, "never above max");
            assertEq(int256(order.maxPrice) - end.client, end.state == State.Final ? int256(price) : int256(0));
        }
    }

    function invariant_17_CollateralInUseIsUnderTheOwnersCap() public view {
        for (uint256 i = 2; i < 4; ++i) {
            address executor = handler.accounts(i);
            assertLe(handler.heldOf(executor), handler.capOf(executor));
        }
    }

    function invariant_37_TimeAndAnybodyEndEveryTask() public {
        uint256 before = vm.snapshotState();
        for (uint256 i; i < handler.count(); ++i) {
            bytes32 task = handler.tasks(i);
            if (!handler.isLive(task)) continue;
            handler.exit(task);
            assertFalse(handler.isLive(task));
        }
        vm.revertToStateAndDelete(before);
    }

    function invariant_39_ADealFollowsFromTheOrderAndItsBlock() public view {
        for (uint256 i; i < handler.count(); ++i) {
            bytes32 uuid = handler.tasks(i);
            Handler.Deal memory deal = handler.dealOf(uuid);
            Task memory task = handler.taskAt(uuid);
            assertEq(task.executor, deal.executor, "executor");
            if (deal.executor == address(0)) continue;
            assertEq(deal.price, handler.priceAt(handler.orderOf(uuid), task.acceptedAt), "price");
            assertEq(task.exec, handler.orderOf(uuid).exec, "exec");
        }
    }
}
