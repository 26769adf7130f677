// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Address} from "@openzeppelin/contracts/utils/Address.sol";
import {IServiceManager, Lock} from "../../src/interfaces/IServiceManager.sol";
import {StakeFixture} from "../StakeFixture.sol";

/// @title Stands at the market's address and sends several messages in one transaction
contract Several {
    function send(address to, bytes[] calldata messages) external {
        for (uint256 i; i < messages.length; ++i) {
            Address.functionCall(to, messages[i]);
        }
    }
}

/// @title What can be locked, for how long, by whom. Both operators have 1e18 shares, all of them allocated.
contract LocksTest is StakeFixture {
    uint256 private constant ROUNDING = 1_024;

    function test_FreeStake_IsWhatCanBeSlashedLessTheRounding() public view {
        assertEq(manager.freeStake(operator, block.number + DELAY), 1 ether - ROUNDING, "free");
        assertEq(manager.freeStake(anybody, block.number + DELAY), 0, "not a member");
        assertEq(manager.lockedStake(operator), 0, "nothing locked");
    }

    function test_Lock_TakesSharesAndTheirRounding() public {
        uint256 end = block.number + DELAY;
        vm.expectEmit(address(manager));
        emit IServiceManager.Locked(TASK, operator, 0.1 ether + 1, end);
        assertEq(_lock(TASK, operator, 0.1 ether, end), 0.1 ether + 1, "shares");
        assertEq(manager.lockedStake(operator), 0.1 ether + 1 + ROUNDING, "locked");
        assertEq(manager.freeStake(operator, end), 0.9 ether - 1 - 2 * ROUNDING, "free");
        Lock memory held = manager.lockOf(TASK, operator);
        assertEq(held.shares, 0.1 ether + 1, "of the lock");
        assertEq(held.rounding, ROUNDING, "rounding of the lock");
        assertEq(held.end, end, "end");
        assertEq(manager.freeStake(rival, end), 1 ether - ROUNDING, "others are not touched");
    }

    /// @dev A donation makes a share worth 1.5 wei. What is locked is worth the amount, and a share less is not.
    function test_Lock_CountsInShares() public {
        token.mint(address(core.strategy), core.strategy.totalShares() / 2);
        uint256 shares = _lock(TASK, operator, 0.3 ether, block.number + 1);
        assertGe(core.strategy.sharesToUnderlyingView(shares), 0.3 ether, "worth the amount");
        assertLt(core.strategy.sharesToUnderlyingView(shares - 1), 0.3 ether, "and no share more than needed");
    }

    function test_Lock_TakesTheLastShareThatIsFree() public {
        uint256 end = block.number + DELAY;
        uint256 free = manager.freeStake(operator, end);
        vm.expectRevert(abi.encodeWithSelector(IServiceManager.InsufficientStake.selector, operator, free, free + 1));
        _lock(TASK, operator, free, end);
        assertEq(_lock(TASK, operator, free - 1, end), free, "all of it");
        assertEq(manager.freeStake(operator, end), 0, "nothing left");
        vm.expectRevert(abi.encodeWithSelector(IServiceManager.InsufficientStake.selector, operator, 0, 1));
        _lock("another", operator, 0, end);
    }

    // INVARIANT 11
    function test_FreeStake_LeavesOutWhatLeavesBeforeTheEnd() public {
        _reallocate(operator, address(manager), 0.4e18);
        uint256 effect = block.number + DELAY + 1;
        assertEq(manager.freeStake(operator, effect - 1), 1 ether - ROUNDING, "before it takes effect");
        assertEq(manager.freeStake(operator, effect), 0.4 ether - ROUNDING, "when it does");
        _queue(rival, 0.7 ether);
        assertEq(manager.freeStake(rival, block.number + 1), 0.3 ether - ROUNDING, "what is queued never counts");
    }

    /// @dev INVARIANT 11. EigenLayer's view goes on answering for who has left, beyond the time when it stops being slashable.
    function test_FreeStake_IsNothingForWhoHasLeft() public {
        uint256 end = block.number + DELAY;
        _deregister(operator);
        vm.roll(end);
        assertTrue(core.allocationManager.isOperatorSlashable(operator, _set()), "slashable");
        assertEq(manager.freeStake(operator, end + 1), 0, "but not for a task that ends later");
        vm.expectRevert(abi.encodeWithSelector(IServiceManager.InsufficientStake.selector, operator, 0, 0.1 ether + 1));
        _lock(TASK, operator, 0.1 ether, end + 1);
    }

    // INVARIANT 11
    function test_FreeStake_KeepsMoreBackWhereAUnitOfMagnitudeIsCoarse() public {
        uint256 end = block.number + 1;
        _stake(operator, 509 ether);
        assertEq(manager.freeStake(operator, end), 510 ether - 1_024, "1,024 covers it");
        _stake(operator, 4_490 ether);
        assertEq(manager.freeStake(operator, end), 5_000 ether - 10_004, "two units and four wei");
    }

    /// @dev INVARIANT 11. Within a transaction the core is asked once, and again after a slash or for a later end.
    function test_Lock_KnowsInOneTransactionWhatASlashHasTaken() public {
        uint256 end = block.number + 10;
        vm.etch(address(market), type(Several).runtimeCode);
        bytes[] memory messages = new bytes[](3);
        messages[0] = abi.encodeCall(manager.lock, (TASK, operator, 0.6 ether, end));
        messages[1] = abi.encodeCall(manager.lock, ("second", operator, 0.3 ether, end));
        messages[2] = abi.encodeCall(manager.lock, ("third", operator, 0.1 ether, end));
        uint256 free = 0.1 ether - 2 - 3 * ROUNDING;
        _refuses(messages, free, 0.1 ether + 1);

        messages[1] = abi.encodeCall(manager.slash, (TASK, operator, nobody));
        messages[2] = abi.encodeCall(manager.lock, ("second", operator, 0.4 ether, end));
        _refuses(messages, 0.4 ether - 1 - ROUNDING, 0.4 ether + 1);

        _reallocate(operator, address(manager), 0.7e18);
        messages[1] = abi.encodeCall(manager.lock, ("second", operator, 0.3 ether, block.number + DELAY + 1));
        _refuses(messages, 0.1 ether - 1 - 2 * ROUNDING, 0.3 ether + 1);
        messages[1] = abi.encodeCall(manager.lock, ("second", operator, 0.1 ether, end - 1));
        messages[2] = abi.encodeCall(manager.lock, ("third", operator, 0.2 ether, end));
        Several(address(market)).send(address(manager), messages);
        assertEq(manager.lockedStake(operator), 0.9 ether + 3 + 3 * ROUNDING, "locked");
    }

    // INVARIANT 17
    function test_RevertWhen_TheOwnersCapIsReached() public {
        uint256 end = block.number + 1;
        vm.prank(operator);
        manager.setSigner(signer, CAP, 0.5 ether);
        _lock(TASK, operator, 0.4 ether, end);
        bytes memory reason = abi.encodeWithSelector(
            IServiceManager.StakeCapExceeded.selector,
            operator,
            0.4 ether + 1 + ROUNDING,
            0.1 ether + 1 + ROUNDING,
            0.5 ether
        );
        vm.expectRevert(reason);
        _lock("another", operator, 0.1 ether, end);
        _unlock(TASK, operator);
        _lock("another", operator, 0.1 ether, end);

        vm.prank(operator);
        manager.setSigner(signer, CAP, 0);
        assertEq(manager.lockedStake(operator), 0.1 ether + 1 + ROUNDING, "a lower cap changes no lock");
    }

    function test_Unlock_GivesAllBack() public {
        uint256 end = block.number + DELAY;
        _lock(TASK, operator, 0.1 ether, end);
        vm.expectEmit(address(manager));
        emit IServiceManager.Unlocked(TASK);
        _unlock(TASK, operator);
        assertEq(manager.lockedStake(operator), 0, "nothing locked");
        assertEq(manager.lockOf(TASK, operator).end, 0, "no lock");
        _unlock(TASK, operator); // the market need not know whether it is gone
        vm.expectRevert(abi.encodeWithSelector(IServiceManager.NotLocked.selector, TASK, operator));
        vm.prank(anybody);
        manager.unlock(TASK, operator);
    }

    // INVARIANT 16
    function test_Unlock_IsAnybodysAfterTheEnd() public {
        uint256 end = block.number + 10;
        _lock(TASK, operator, 0.1 ether, end);
        vm.roll(end);
        vm.expectRevert(abi.encodeWithSelector(IServiceManager.LockNotOver.selector, end, end));
        vm.prank(anybody);
        manager.unlock(TASK, operator);
        vm.roll(end + 1);
        vm.prank(anybody);
        manager.unlock(TASK, operator);
        assertEq(manager.lockedStake(operator), 0, "nothing locked");
    }

    /// @dev INVARIANT 15. Nothing of the core is asked to end a lock.
    function test_Unlock_DoesNotNeedTheCore() public {
        _lock(TASK, operator, 0.1 ether, block.number + 10);
        vm.etch(address(core.allocationManager), "");
        vm.etch(address(core.delegationManager), "");
        _unlock(TASK, operator);
        assertEq(manager.lockedStake(operator), 0, "nothing locked");
    }

    function test_RevertWhen_SomebodyElseThanTheMarketLocksOrSlashes() public {
        _lock(TASK, operator, 0.1 ether, block.number + 10);
        bytes memory reason = abi.encodeWithSelector(IServiceManager.NotTheMarket.selector, operator);
        vm.startPrank(operator);
        vm.expectRevert(reason);
        manager.lock("another", rival, 1, block.number + 1);
        vm.expectRevert(reason);
        manager.slash(TASK, operator, nobody);
    }

    function _refuses(bytes[] memory messages, uint256 free, uint256 shares) private {
        vm.expectRevert(abi.encodeWithSelector(IServiceManager.InsufficientStake.selector, operator, free, shares));
        Several(address(market)).send(address(manager), messages);
    }

    function test_RevertWhen_TheTaskIsLockedAlready() public {
        _lock(TASK, operator, 0.1 ether, block.number + 10);
        vm.expectRevert(abi.encodeWithSelector(IServiceManager.AlreadyLocked.selector, TASK, operator));
        _lock(TASK, operator, 0.1 ether, block.number + 10);
    }
}
