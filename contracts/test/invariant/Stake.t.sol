// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test} from "forge-std/Test.sol";
import {ServiceManager} from "../../src/ServiceManager.sol";
import {OperatorSet} from "../../src/interfaces/IEigenLayer.sol";
import {Lock} from "../../src/interfaces/IServiceManager.sol";
import {AllocationManager} from "../core/AllocationManager.sol";
import {StakeHandler} from "./StakeHandler.sol";

/// @title What holds of locks in every order of messages to the core and to the service manager
contract StakeInvariants is Test {
    StakeHandler private handler;
    ServiceManager private manager;

    function setUp() public {
        handler = new StakeHandler();
        handler.setUp();
        manager = handler.serviceManager();
        bytes4[] memory selectors = new bytes4[](11);
        selectors[0] = StakeHandler.pass.selector;
        selectors[1] = StakeHandler.lock.selector;
        selectors[2] = StakeHandler.unlock.selector;
        selectors[3] = StakeHandler.slash.selector;
        selectors[4] = StakeHandler.pauseSlashing.selector;
        selectors[5] = StakeHandler.deposit.selector;
        selectors[6] = StakeHandler.queue.selector;
        selectors[7] = StakeHandler.complete.selector;
        selectors[8] = StakeHandler.allocate.selector;
        selectors[9] = StakeHandler.leaveOrJoin.selector;
        selectors[10] = StakeHandler.slashElsewhere.selector;
        targetSelector(FuzzSelector(address(handler), selectors));
        targetContract(address(handler));
    }

    /// @dev The handler can do everything, so the invariants speak about something.
    function test_Handler_DoesEverything() public {
        for (uint256 i; i < 4; ++i) {
            handler.lock(i, 1 ether, 900);
        }
        assertEq(handler.openLocks().length, 4, "locks");
        handler.unlock(0);
        handler.queue(0, 1 ether);
        handler.allocate(1, 0.7e18);
        handler.pauseSlashing(true);
        handler.slash(0);
        assertEq(handler.openLocks().length, 3, "paused");
        handler.pauseSlashing(false);
        handler.slash(0);
        assertEq(handler.openLocks().length, 2, "slashed");
        handler.leaveOrJoin(1);
        handler.lock(1, 1 ether, 1);
        assertEq(handler.openLocks().length, 2, "left");
        for (uint256 i; i < 4; ++i) {
            handler.pass(300);
        }
        handler.leaveOrJoin(1);
        handler.complete(0, true);
        handler.allocate(0, 0.5e18);
        assertEq(handler.slashable(handler.operators(1)) * 10 / 7, 9 ether, "deallocated");
        handler.slashElsewhere(1, 0.3e18, 1e18);
        assertApproxEqAbs(handler.slashable(handler.operators(1)), 6.3 ether, 10, "slashed elsewhere");
        handler.deposit(1, 1 ether);
        handler.convictAll();
        assertEq(handler.openLocks().length, 0, "convicted or over");
    }

    /// @dev In the last block of each lock, if nobody sends another message. No tolerance: rounding is kept back.
    function invariant_11_OpenLocksAreCovered() public {
        StakeHandler.Open[] memory open = handler.openLocks();
        uint256 now_ = block.number;
        for (uint256 i; i < open.length; ++i) {
            uint256 end = manager.lockOf(open[i].task, open[i].operator).end;
            if (end < now_) continue;
            vm.roll(end);
            uint256 locked = handler.lockedUntil(open[i].operator, end);
            assertLe(locked, handler.slashable(open[i].operator), "not covered");
        }
        vm.roll(now_);
    }

    function invariant_17_LockedIsTheSumOfTheLocks() public view {
        StakeHandler.Open[] memory open = handler.openLocks();
        for (uint256 who; who < 2; ++who) {
            uint256 sum;
            for (uint256 i; i < open.length; ++i) {
                if (open[i].operator != handler.operators(who)) continue;
                Lock memory held = manager.lockOf(open[i].task, open[i].operator);
                sum += held.shares + held.rounding;
            }
            assertEq(manager.lockedStake(handler.operators(who)), sum, "locked");
        }
    }

    function invariant_18_TheOperatorSetIsWhatItWas() public view {
        AllocationManager core = AllocationManager(address(manager.allocationManager()));
        OperatorSet memory set = OperatorSet(address(manager), manager.OPERATOR_SET());
        assertEq(core.getSlasher(set), address(manager), "slasher");
        (address pending,) = core.getPendingSlasher(set);
        assertEq(pending, address(0), "pending slasher");
        assertEq(address(core.getAVSRegistrar(address(manager))), address(manager), "registrar");
        assertEq(core.getRedistributionRecipient(set), address(manager.bounty()), "recipient");
        assertEq(core.getStrategiesInOperatorSet(set).length, 1, "strategies");
        assertEq(core.getOperatorSetCount(address(manager)), 1, "sets");
    }

    /// @dev INVARIANT 11 for all that are open, once a run.
    function afterInvariant() public {
        handler.convictAll();
    }
}
