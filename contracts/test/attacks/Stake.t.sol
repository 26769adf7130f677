// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IServiceManager} from "../../src/interfaces/IServiceManager.sol";
import {StakeFixture} from "../StakeFixture.sol";
import {Withdrawal} from "../core/Types.sol";

/// @title Attacks on the stake behind a task, and on the seats that verifiers are drawn from
contract StakeAttacks is StakeFixture {
    uint256 private constant TOLERANCE = 1_024;
    address private staker = makeAddr("staker");

    /// @dev Attack 17. Straight after the acceptance everything is on its way out, by every door at once; it is convicted in
    /// the last block. Nobody gets a wei out before that.
    function test_Attack17_TheStakeLeavesBeforeTheSlash() public {
        _stake(staker, 1 ether);
        _delegate(staker, operator);
        uint256 end = block.number + DELAY;
        uint256 locked = _lock(TASK, operator, 1.9 ether, end);
        Withdrawal memory queued = _queue(operator, 1 ether);
        vm.prank(staker);
        core.delegationManager.undelegate(staker);
        _reallocate(operator, address(manager), 0);
        _deregister(operator);

        vm.roll(end);
        vm.prank(operator);
        vm.expectRevert();
        core.delegationManager.completeQueuedWithdrawal(queued, _tokens(), true);
        (, uint256 shares) = _slash(TASK, operator);
        assertApproxEqAbs(shares, locked, TOLERANCE, "all that was locked");

        vm.roll(end + 1);
        vm.prank(operator);
        core.delegationManager.completeQueuedWithdrawal(queued, _tokens(), true);
        assertApproxEqAbs(token.balanceOf(operator), 0.05 ether, TOLERANCE, "the rest of it");
    }

    /// @dev Attack 17 before the acceptance: stake that is leaving already stands for no task that ends later.
    function test_Attack17_TheStakeWasOnItsWayOutBefore() public {
        _queue(operator, 0.6 ether);
        _reallocate(rival, address(manager), 0.4e18);
        vm.roll(block.number + 10);
        uint256 end = block.number + DELAY;
        vm.expectRevert(
            abi.encodeWithSelector(
                IServiceManager.InsufficientStake.selector, operator, 0.4 ether - TOLERANCE, 0.5 ether + 1
            )
        );
        _lock(TASK, operator, 0.5 ether, end);
        vm.expectRevert(
            abi.encodeWithSelector(
                IServiceManager.InsufficientStake.selector, rival, 0.4 ether - TOLERANCE, 0.5 ether + 1
            )
        );
        _lock(TASK, rival, 0.5 ether, end);
    }

    /// @dev Attack 24. Sized on `getAllocatedStake` a slash would take the lock out of what is not queued, and with it the
    /// same part of the queue. Sized on both it takes the lock; the second task of the operator is covered as before.
    function test_Attack24_WithdrawalsAreQueuedWhenTheSlashIsSized() public {
        uint256 first = _lock(TASK, operator, 0.3 ether, block.number + 10);
        uint256 second = _lock("second", operator, 0.6 ether, block.number + 10);
        _queue(operator, 0.8 ether);
        (, uint256 shares) = _slash(TASK, operator);
        assertApproxEqAbs(shares, first, TOLERANCE, "first");
        (, shares) = _slash("second", operator);
        assertApproxEqAbs(shares, second, TOLERANCE, "second");
    }

    /// @dev An operator lets its own AVS slash it down to ten units of magnitude and stakes anew. Each slash would now take
    /// whole tenths of its stake, so ten convictions would leave nothing for the other lies.
    function test_Attack_CoarseMagnitudeForManySmallLocks() public {
        _reallocate(operator, address(manager), 5);
        vm.roll(block.number + DELAY + 1);
        _slashElsewhere(operator, 1e18 - 10, 1e18);
        assertEq(core.allocationManager.getMaxMagnitude(operator, address(core.strategy)), 10, "ten units");
        _stake(operator, 100 ether);
        uint256 end = block.number + 10;
        assertApproxEqAbs(_slashable(operator), 50 ether, 0.001 ether, "half of it is allocated here");
        uint256 locks;
        for (; manager.freeStake(operator, end) > 0.01 ether; ++locks) {
            _lock(bytes32(locks), operator, 0.01 ether, end);
        }
        assertEq(locks, 2, "two units are kept back for each");
        for (uint256 i; i < locks; ++i) {
            (, uint256 shares) = _slash(bytes32(i), operator);
            assertGe(shares + TOLERANCE, 0.01 ether, "each has something to take");
        }
    }

    /// @dev Attack 22. Between a commit and its seed nobody becomes a candidate: neither by new seats, nor by old ones that
    /// come back.
    function test_Attack22_SeatsAreRolledAgainAfterTheCommit() public {
        _stake(operator, 9 ether);
        _stake(rival, 9 ether);
        _enlist(operator, 5);
        _enlist(rival, 5);
        vm.prank(operator);
        manager.leave(operator);
        vm.roll(block.number + 1);
        (uint256 committedAt, uint256 count) = (block.number, manager.seatCount());

        _enlist(operator, 8);
        vm.roll(block.number + 1);
        _stake(operator, 5 ether);
        _enlist(operator, 2);
        assertEq(count, 10, "what the task remembers");
        for (uint256 i; i < count; ++i) {
            (address owner, uint256 since) = manager.seatAt(i);
            bool candidate = owner != address(0) && since < committedAt;
            assertEq(candidate, i >= 5, "the rival's seats, and no others");
        }
        for (uint256 i = count; i < manager.seatCount(); ++i) {
            (, uint256 since) = manager.seatAt(i);
            assertGe(since, committedAt, "new seats are younger than the commit");
        }
    }

    /// @dev Attack 29. One token goes round six accounts, and takes a seat with each. Only where it is does a seat answer, and
    /// whoever prunes the others is paid for it.
    function test_Attack29_OneTokenGoesRoundSixAccounts() public {
        address carrier;
        for (uint256 i; i < 6; ++i) {
            address next = vm.addr(i + 1);
            if (i == 0) _join(next, next, p.gChk);
            else _take(carrier, next);
            _enlist(next, 1);
            carrier = next;
        }
        assertEq(manager.seatsOf(carrier), 1, "the last has its stake");
        manager.checkSeats(carrier);
        uint256 living = manager.otherSeats(anybody);
        for (uint256 i = 1; i < 6; ++i) {
            address empty = vm.addr(i);
            vm.expectRevert(abi.encodeWithSelector(IServiceManager.SeatsNotCovered.selector, empty, 0, 1 ether));
            manager.checkSeats(empty);
            vm.prank(anybody);
            manager.prune(empty);
        }
        assertEq(living - manager.otherSeats(anybody), 5, "five seats without stake are gone");
        assertEq(_balance(anybody), 5 * p.gChk, "and paid for it");
    }

    /// @dev The stake of one account becomes that of another, which joins with it.
    function _take(address from, address to) private {
        Withdrawal memory queued = _queue(from, core.delegationManager.operatorShares(from, core.strategy));
        vm.roll(block.number + DELAY + 1);
        IERC20[] memory tokens = _tokens();
        vm.prank(from);
        core.delegationManager.completeQueuedWithdrawal(queued, tokens, true);
        vm.prank(from);
        assertTrue(token.transfer(to, 1 ether));
        vm.mockCall(address(token), abi.encodeWithSignature("mint(address,uint256)", to, 1 ether), "");
        _join(to, to, p.gChk);
    }

    /// @dev Seats that come and go would bury the living among tombstones, until draws hit nobody.
    function test_Attack_LeavingAndReturningMakesNoTombstones() public {
        _enlist(rival, 1);
        _stake(operator, 99 ether);
        for (uint256 i; i < 10; ++i) {
            _enlist(operator, 100);
            vm.prank(operator);
            manager.leave(operator);
        }
        assertEq(manager.seatCount(), 101, "one tombstone for each seat that was covered once");
    }

    function _enlist(address who, uint256 count) private {
        vm.prank(who);
        manager.enlist(who, count);
    }
}
