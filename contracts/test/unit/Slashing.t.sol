// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IServiceManager} from "../../src/interfaces/IServiceManager.sol";
import {Pausable} from "../core/Pausable.sol";
import {StakeFixture} from "../StakeFixture.sol";

/// @title What a slash takes, of whom, when
contract SlashingTest is StakeFixture {
    uint256 private constant TOLERANCE = 1_024;
    /// @dev The core's bit for slashes.
    uint256 private constant SLASHING = 2;

    // INVARIANT 12
    function test_Slash_TakesTheLockAndEndsIt() public {
        uint256 end = block.number + 10;
        uint256 locked = _lock(TASK, operator, 0.1 ether, end);
        vm.roll(end);
        vm.expectEmit(true, true, false, false, address(manager));
        emit IServiceManager.StakeSlashed(TASK, operator, 1, locked);
        (uint256 slashId, uint256 shares) = _slash(TASK, operator);
        assertEq(slashId, 1, "slash");
        assertApproxEqAbs(shares, locked, 2, "shares");
        assertEq(_shares(operator), 1 ether - shares, "left");
        assertEq(_shares(rival), 1 ether, "INVARIANT 14: nobody else's");
        assertEq(manager.lockedStake(operator), 0, "nothing locked");
    }

    // INVARIANT 13
    function test_RevertWhen_TheLockIsSlashedAgain() public {
        _lock(TASK, operator, 0.1 ether, block.number + 10);
        _slash(TASK, operator);
        vm.expectRevert(abi.encodeWithSelector(IServiceManager.NotLocked.selector, TASK, operator));
        _slash(TASK, operator);
        vm.expectRevert(abi.encodeWithSelector(IServiceManager.NotLocked.selector, TASK, rival));
        _slash(TASK, rival);
    }

    function test_RevertWhen_TheLockIsOver() public {
        uint256 end = block.number + 10;
        _lock(TASK, operator, 0.1 ether, end);
        vm.roll(end + 1);
        vm.expectRevert(abi.encodeWithSelector(IServiceManager.LockOver.selector, end + 1, end));
        _slash(TASK, operator);
    }

    /// @dev INVARIANT 12. Fractions of what is left would compound: the second half of a half is a quarter.
    function test_Slash_TakesEachLockInFullWhenThereAreSeveral() public {
        uint256 left = 1 ether;
        for (uint256 i; i < 4; ++i) {
            _lock(bytes32(i), operator, 0.24 ether, block.number + 10);
        }
        for (uint256 i; i < 4; ++i) {
            (, uint256 shares) = _slash(bytes32(i), operator);
            assertApproxEqAbs(shares, 0.24 ether, TOLERANCE, "shares");
            left -= shares;
        }
        assertEq(_shares(operator), left, "left");
    }

    // INVARIANT 12
    function test_Slash_TakesTheLockAfterOthersSlashed() public {
        _reallocate(operator, address(manager), 0.5e18);
        vm.roll(block.number + DELAY + 1);
        uint256 locked = _lock(TASK, operator, 0.3 ether, block.number + DELAY);
        _slashElsewhere(operator, 0.5e18, 1e18);
        assertEq(_shares(operator), 0.5 ether, "the other half is gone");
        (, uint256 shares) = _slash(TASK, operator);
        assertApproxEqAbs(shares, locked, TOLERANCE, "shares");
    }

    // INVARIANT 12
    function test_Slash_TakesTheLockOfWhoHasLeft() public {
        uint256 end = block.number + DELAY;
        uint256 locked = _lock(TASK, operator, 0.9 ether, end);
        _deregister(operator);
        _reallocate(operator, address(manager), 0);
        _queue(operator, 1 ether);
        vm.roll(end);
        (, uint256 shares) = _slash(TASK, operator);
        assertApproxEqAbs(shares, locked, TOLERANCE, "shares");
        assertEq(_shares(operator), 0, "it had queued everything");
    }

    /// @dev No lock was ever larger than its cover: the core is made to forget half of the stake.
    function test_Slash_TakesWhatIsLeft() public {
        _lock(TASK, operator, 0.9 ether, block.number + 10);
        _lock("another", operator, 0.05 ether, block.number + 10);
        bytes memory ask = abi.encodeCall(core.delegationManager.operatorShares, (operator, core.strategy));
        vm.mockCall(address(core.delegationManager), ask, abi.encode(0.5 ether));
        (, uint256 shares) = _slash(TASK, operator);
        assertEq(shares, 1 ether, "all");
        vm.clearMockedCalls();

        vm.expectEmit(address(manager));
        emit IServiceManager.StakeSlashed("another", operator, 0, 0);
        (uint256 slashId, uint256 nothing) = _slash("another", operator);
        assertEq(slashId + nothing, 0, "a fully slashed operator has nothing left");
        assertEq(manager.lockedStake(operator), 0, "its lock ended all the same");
        assertEq(manager.freeStake(operator, block.number + 1), 0, "nothing free");
    }

    // INVARIANT 15
    function test_Slash_WaitsForAPausedCore() public {
        uint256 locked = _lock(TASK, operator, 0.1 ether, block.number + 10);
        core.allocationManager.pause(SLASHING);
        vm.expectRevert(Pausable.CurrentlyPaused.selector);
        _slash(TASK, operator);
        assertEq(manager.lockOf(TASK, operator).shares, locked, "still locked");

        vm.roll(block.number + 10);
        core.allocationManager.unpause(0);
        (, uint256 shares) = _slash(TASK, operator);
        assertApproxEqAbs(shares, locked, 2, "shares");
    }
}
