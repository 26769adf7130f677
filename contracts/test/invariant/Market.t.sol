// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test} from "forge-std/Test.sol";
import {Answer, Order, Stage, State, Task} from "../../src/interfaces/ITaskMarket.sol";
import {Handler} from "./Handler.sol";

/// @title The invariants of `contracts/README.md` that speak of the market, by their numbers
/// forge-config: default.invariant.runs = 16
/// @notice What holds of single messages (4, 7, 15, 20 to 24, 38) the handler asserts at each of them.
contract MarketInvariants is Test {
    Handler private handler;

    function setUp() public {
        handler = new Handler();
        bytes4[24] memory messages = [
            Handler.post.selector,
            Handler.accept.selector,
            Handler.commit.selector,
            Handler.recordSeed.selector,
            Handler.answer.selector,
            Handler.expose.selector,
            Handler.reveal.selector,
            Handler.revealAnswer.selector,
            Handler.result.selector,
            Handler.challenge.selector,
            Handler.endGame.selector,
            Handler.demand.selector,
            Handler.show.selector,
            Handler.cancel.selector,
            Handler.expire.selector,
            Handler.close.selector,
            Handler.settle.selector,
            Handler.refund.selector,
            Handler.slash.selector,
            Handler.deposit.selector,
            Handler.withdraw.selector,
            Handler.setCap.selector,
            Handler.pauseOrUnpause.selector,
            Handler.pass.selector
        ];
        bytes4[] memory selectors = new bytes4[](messages.length);
        for (uint256 i; i < messages.length; ++i) {
            selectors[i] = messages[i];
        }
        targetContract(address(handler));
        targetSelector(FuzzSelector(address(handler), selectors));
    }

    /// @dev The handler can reach every end, so the invariants speak about something.
    function test_Handler_ReachesEveryEnd() public {
        Order memory order;
        (order.minPrice, order.maxPrice, order.acceptBy, order.checkRate) = (0.01 ether, 0.1 ether, 39, 1e18);
        for (uint256 i; i < 6; ++i) {
            handler.post(i, order);
        }
        handler.cancel(0);
        for (uint256 i = 1; i < 5; ++i) {
            handler.accept(i, i);
        }
        for (uint256 i = 1; i < 4; ++i) {
            handler.commit(i, i != 2);
        }
        handler.recordSeed(1, keccak256("mix"));
        for (uint256 i = 1; i < 4; ++i) {
            handler.answer(i, 0, true);
            handler.answer(i, 1, false);
        }
        for (uint256 i; i < 2; ++i) {
            handler.pass(20);
        }
        handler.reveal(1, 0);
        handler.reveal(2, 0);
        _assertStates([State.Cancelled, State.Revealed, State.Revealed, State.Committed, State.Accepted, State.Open]);
        for (uint256 i; i < 64; ++i) {
            handler.revealAnswer(1, i, 0);
            handler.revealAnswer(2, i, 0);
        }
        handler.endGame(0, false); // against the honest executor
        handler.endGame(0, true);
        handler.close(1, 0, 2);
        handler.close(3, 0, 1);
        handler.close(4, 0, 0);
        handler.expire(5, 0);
        _assertStates([State.Cancelled, State.Final, State.Convicted, State.Convicted, State.Failed, State.Expired]);
        assertEq(handler.wonOf(handler.tasks(1)), 1, "a bond was won");
        afterInvariant();
    }

    function invariant_01_TheMarketHoldsExactlyWhatItOwes() public view {
        assertEq(handler.tokensOfMarket(), _credits() + _owed());
    }

    function invariant_02_ATaskEndsOnceAndStaysEnded() public view {
        for (uint256 i; i < handler.count(); ++i) {
            bytes32 task = handler.tasks(i);
            Handler.Ghost memory g = handler.ghostOf(task);
            assertEq(g.ends, handler.isLive(task) ? 0 : 1, "ends");
            if (g.ends == 1) assertEq(uint8(handler.taskAt(task).state), uint8(g.end), "state");
        }
    }

    /// @dev To the wei, out of states and prices alone.
    function invariant_03_ExecutorsGainByFinalTasksOnly() public view {
        for (uint256 j = 2; j < 4; ++j) {
            address executor = handler.accounts(j);
            int256 expected = handler.paidIn(executor);
            for (uint256 i; i < handler.count(); ++i) {
                bytes32 task = handler.tasks(i);
                if (handler.taskAt(task).executor == executor) expected += _gain(task);
            }
            assertEq(int256(handler.balanceOf(executor) + handler.heldOf(executor)), expected);
        }
    }

    /// @dev Invariants 5, 10 and 37, at the end of each run: anybody brings everything to its end and hands it out; then
    /// nothing is held, and nobody is owed anything else.
    function afterInvariant() public {
        for (uint256 i; i < handler.count(); ++i) {
            handler.windUp(handler.tasks(i));
        }
        uint256 balances;
        for (uint256 i; i < 9; ++i) {
            balances += handler.balanceOf(handler.accounts(i)) + handler.depositsOf(handler.accounts(i));
            assertEq(handler.heldOf(handler.accounts(i)), 0, "nothing is held");
        }
        assertEq(handler.tokensOfMarket(), balances, "all of it is somebody's");
        for (uint256 j; j < 2; ++j) {
            int256 spent = handler.paidIn(handler.accounts(j)) - int256(handler.balanceOf(handler.accounts(j)));
            assertEq(spent, _priceOfAll(handler.accounts(j)), "invariant 10: price, fees of who agreed, and demands");
        }
    }

    /// @dev Invariants 13 and 14: each conviction slashes its executor at most once; nobody else loses stake.
    function invariant_13_OnlyConvictedExecutorsAreSlashedOnce() public view {
        for (uint256 j = 2; j < 6; ++j) {
            address account = handler.accounts(j);
            bool convicted;
            for (uint256 i; i < handler.count(); ++i) {
                bytes32 task = handler.tasks(i);
                Handler.Ghost memory g = handler.ghostOf(task);
                assertLe(g.slashes, 1, "once");
                if (g.slashes == 0) continue;
                assertEq(uint8(handler.taskAt(task).state), uint8(State.Convicted), "only convicted");
                if (handler.taskAt(task).executor == account) convicted = true;
            }
            if (!convicted) assertEq(handler.stakeOf(account), handler.sharesOf(account), "invariant 14: nobody else");
        }
    }

    function invariant_17_WhatIsHeldIsUnderTheOwnersCap() public view {
        for (uint256 i = 2; i < 6; ++i) {
            address account = handler.accounts(i);
            assertLe(handler.heldOf(account), handler.capOf(account));
        }
    }

    function invariant_21_NobodyAnswersTwiceNorItsOwnTask() public view {
        for (uint256 i; i < handler.count(); ++i) {
            bytes32 uuid = handler.tasks(i);
            Task memory task = handler.taskAt(uuid);
            for (uint256 j; j < 16; ++j) {
                if (task.answered >> j & 1 == 0) continue;
                Answer memory a = handler.answerOf(uuid, j);
                assertTrue(a.operator != task.executor && a.stage != Stage.None, "its own");
                for (uint256 k; k < j; ++k) {
                    if (task.answered >> k & 1 != 0) assertTrue(handler.answerOf(uuid, k).operator != a.operator);
                }
            }
            assertEq(task.agreed & task.differed, 0, "agreed or differed");
            assertEq((task.agreed | task.differed) & ~task.answered, 0, "answered");
        }
    }

    function invariant_39_ADealFollowsFromTheOrderAndItsBlock() public view {
        for (uint256 i; i < handler.count(); ++i) {
            bytes32 uuid = handler.tasks(i);
            Task memory task = handler.taskAt(uuid);
            if (task.executor == address(0)) continue;
            Handler.Ghost memory g = handler.ghostOf(uuid);
            assertEq(g.price, handler.priceAt(g.order, task.acceptedAt), "price");
            assertEq(task.exec, g.order.exec, "exec");
        }
    }

    function _credits() private view returns (uint256 sum) {
        for (uint256 i; i < 9; ++i) {
            address account = handler.accounts(i);
            sum += handler.balanceOf(account) + handler.heldOf(account) + handler.depositsOf(account);
        }
    }

    function _owed() private view returns (uint256 sum) {
        for (uint256 i; i < handler.count(); ++i) {
            sum += handler.owedOf(handler.tasks(i));
        }
    }

    function _gain(bytes32 task) private view returns (int256 gain) {
        Handler.Ghost memory g = handler.ghostOf(task);
        State state = handler.taskAt(task).state;
        int256 reward = int256(handler.rewardOf(task));
        if (state == State.Convicted) return -int256(handler.collateralOf(task));
        if (g.exposed) gain -= reward;
        if (state == State.Failed) gain -= int256(handler.penaltyOf(task));
        if (state != State.Final) return gain;
        return gain + int256(g.price + g.demanded * handler.gChunk() + handler.wonOf(task) * uint256(reward));
    }

    function _priceOfAll(address client) private view returns (int256 sum) {
        for (uint256 i; i < handler.count(); ++i) {
            bytes32 task = handler.tasks(i);
            Handler.Ghost memory g = handler.ghostOf(task);
            if (g.order.client != client || handler.taskAt(task).state != State.Final) continue;
            uint256 agreed;
            for (uint64 set = handler.taskAt(task).agreed; set != 0; set &= set - 1) {
                if (agreed < g.order.verifiers) ++agreed;
            }
            sum += int256(g.price + agreed * g.order.checkFee + g.demanded * handler.gChunk());
        }
    }

    function _assertStates(State[6] memory states) private view {
        for (uint256 i; i < 6; ++i) {
            assertEq(uint8(handler.taskAt(handler.tasks(i)).state), uint8(states[i]), "state");
        }
    }
}
