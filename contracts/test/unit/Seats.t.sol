// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IServiceManager} from "../../src/interfaces/IServiceManager.sol";
import {IMarket} from "../../src/interfaces/IMarket.sol";
import {ITaskMarket} from "../../src/interfaces/ITaskMarket.sol";
import {StakeFixture} from "../StakeFixture.sol";

/// @title Who has which seat, and since when. A seat takes one token of stake.
contract SeatsTest is StakeFixture {
    function setUp() public override {
        super.setUp();
        _stake(operator, 4 ether);
        _stake(rival, 2 ether);
    }

    function test_Enlist_AppendsSeats() public {
        vm.expectEmit(address(manager));
        emit IServiceManager.SeatsSet(operator, 2);
        _enlist(operator, 2);
        vm.roll(block.number + 5);
        vm.prank(rivalSigner);
        manager.enlist(rival, 3);
        _enlist(operator, 1);

        assertEq(manager.seatCount(), 6, "array");
        assertEq(manager.seatsOf(operator), 3, "operator's");
        assertEq(manager.otherSeats(operator), 3, "rival's");
        assertEq(manager.otherSeats(anybody), 6, "all are others");
        address[6] memory owners = [operator, operator, rival, rival, rival, operator];
        for (uint256 i; i < 6; ++i) {
            (address owner, uint256 since) = manager.seatAt(i);
            assertEq(owner, owners[i], "owner");
            assertEq(since, i < 2 ? block.number - 5 : block.number, "since");
        }
        vm.expectRevert(abi.encodeWithSelector(IServiceManager.NoSeat.selector, 6, 6));
        manager.seatAt(6);
    }

    function test_RevertWhen_TheStakeDoesNotCoverTheSeats() public {
        _enlist(operator, 5);
        vm.expectRevert(abi.encodeWithSelector(IServiceManager.SeatsNotCovered.selector, operator, 5 ether, 6 ether));
        _enlist(operator, 1);
        _reallocate(rival, address(manager), 0.5e18);
        vm.expectRevert(abi.encodeWithSelector(IServiceManager.SeatsNotCovered.selector, rival, 1.5 ether, 2 ether));
        _enlist(rival, 2);
        vm.expectRevert(abi.encodeWithSelector(IServiceManager.SeatsNotCovered.selector, anybody, 0, 1 ether));
        _enlist(anybody, 1);
    }

    function test_RevertWhen_SomebodyElseEnlistsOrLeaves() public {
        bytes memory reason = abi.encodeWithSelector(IServiceManager.NotTheOperator.selector, rivalSigner, operator);
        vm.startPrank(rivalSigner);
        vm.expectRevert(reason);
        manager.enlist(operator, 1);
        vm.expectRevert(reason);
        manager.leave(operator);
    }

    function test_Leave_LeavesTombstones() public {
        _enlist(operator, 2);
        _enlist(rival, 1);
        vm.expectEmit(address(manager));
        emit IServiceManager.SeatsSet(operator, 0);
        vm.prank(signer);
        manager.leave(operator);
        assertEq(manager.seatCount(), 3, "array");
        assertEq(manager.seatsOf(operator), 0, "none");
        assertEq(manager.otherSeats(rival), 0, "none for others");
        (address owner, uint256 since) = manager.seatAt(1);
        assertEq(owner, address(0), "tombstone");
        assertEq(since, 0, "since never");
        (owner,) = manager.seatAt(2);
        assertEq(owner, rival, "others stay");
    }

    function test_Enlist_TakesTheOwnTombstonesFirst() public {
        _enlist(operator, 4);
        _enlist(rival, 1);
        vm.prank(operator);
        manager.leave(operator);
        vm.roll(block.number + 5);
        _enlist(operator, 3);
        assertEq(manager.seatCount(), 5, "the array has not grown");
        (address owner,) = manager.seatAt(0);
        assertEq(owner, address(0), "the oldest stays a tombstone");
        uint256 since;
        (owner, since) = manager.seatAt(1);
        assertEq(owner, operator, "back");
        assertEq(since, block.number, "and new");
        _enlist(operator, 2);
        assertEq(manager.seatCount(), 6, "the tombstone, then a new one");
        assertEq(manager.seatsOf(operator), 5, "seats");
    }

    function test_Prune_EndsWhatIsNotCovered() public {
        _enlist(operator, 5);
        vm.expectRevert(abi.encodeWithSelector(IServiceManager.SeatsCovered.selector, operator, 5 ether, 5 ether));
        manager.prune(operator);
        _queue(operator, 2.5 ether);
        vm.expectEmit(address(manager));
        emit IServiceManager.SeatsSet(operator, 2);
        vm.prank(anybody);
        manager.prune(operator);
        (address owner,) = manager.seatAt(2);
        assertEq(owner, address(0), "the oldest went");
        (owner,) = manager.seatAt(3);
        assertEq(owner, operator, "the newest stays");
        assertEq(manager.otherSeats(rival), 2, "counted");
    }

    function test_Prune_EndsSeatsWhoseStakeIsBeingDeallocated() public {
        _enlist(operator, 5);
        _reallocate(operator, address(manager), 0.5e18);
        manager.prune(operator);
        assertEq(manager.seatsOf(operator), 2, "seats");
    }

    function test_Deregistration_EndsTheSeats() public {
        _enlist(operator, 5);
        vm.expectEmit(address(manager));
        emit IServiceManager.SeatsSet(operator, 0);
        _deregister(operator);
        assertEq(manager.seatsOf(operator), 0, "none");
        vm.expectRevert(abi.encodeWithSelector(IServiceManager.SeatsNotCovered.selector, operator, 0, 1 ether));
        _enlist(operator, 1);
    }

    /// @dev Invariant 41: a deposit for each living seat, back with it.
    function testFuzz_DepositsFollowTheSeats(uint8 more, uint8 left) public {
        uint256 seats = 1 + more % 5;
        _enlist(operator, seats);
        assertEq(_tied(operator), seats * p.gChk, "held");
        assertEq(_balance(operator), 10 ether - seats * p.gChk, "out of its balance");
        uint256 kept = left % seats;
        _queue(operator, 5 ether - kept * 1 ether);
        vm.prank(anybody);
        manager.prune(operator);
        assertEq(_tied(operator), kept * p.gChk, "of what is left");
        assertEq(_balance(anybody), (seats - kept) * p.gChk, "whoever prunes is paid");
        vm.prank(operator);
        manager.leave(operator);
        assertEq(_tied(operator), 0, "nothing is held");
        assertEq(_balance(operator) + _balance(anybody), 10 ether, "and nothing is lost");
    }

    function test_Deregistration_ReturnsTheDeposits() public {
        _enlist(operator, 5);
        _deregister(operator);
        assertEq(_balance(operator), 10 ether, "back");
    }

    /// @dev Invariant 17.
    function test_RevertWhen_DepositsExceedTheBalanceOrTheOwnersCap() public {
        vm.startPrank(operator);
        manager.setSigner(signer, uint96(2 * p.gChk - 1), CAP);
        vm.stopPrank();
        vm.expectRevert(
            abi.encodeWithSelector(IMarket.CollateralCapExceeded.selector, operator, 0, 2 * p.gChk, 2 * p.gChk - 1)
        );
        vm.prank(signer);
        manager.enlist(operator, 2);
        _enlist(operator, 2);
        vm.startPrank(rival);
        market.withdraw(rival, 10 ether);
        vm.expectRevert(abi.encodeWithSelector(IMarket.InsufficientBalance.selector, rival, 0, p.gChk));
        manager.enlist(rival, 1);
        vm.stopPrank();
    }

    function test_RevertWhen_SomebodyElseMovesDeposits() public {
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.NotTheServiceManager.selector, anybody));
        vm.prank(anybody);
        market.holdSeats(operator, 1, 1 ether);
        vm.expectRevert(abi.encodeWithSelector(ITaskMarket.NotTheServiceManager.selector, anybody));
        vm.prank(anybody);
        market.releaseSeats(operator, 0, anybody);
    }

    /// @dev The book of runs against a plain array, under any order of messages.
    function testFuzz_SeatsAreWhatAPlainArrayHolds(uint256[24] memory messages) public {
        address[] memory owners = new address[](200);
        uint256[] memory since = new uint256[](200);
        uint256[] memory counts = new uint256[](messages.length);
        uint256 count;
        uint256 first = block.number + 1;
        for (uint256 i; i < messages.length; ++i) {
            address who = messages[i] % 2 == 0 ? operator : rival;
            uint256 most = who == operator ? 5 : 3;
            uint256 own = _living(owners, count, who);
            vm.roll(block.number + 1);
            if (messages[i] >> 1 & 3 == 0) {
                vm.prank(who);
                manager.leave(who);
                for (uint256 k; k < count; ++k) {
                    if (owners[k] == who) (owners[k], since[k]) = (_tombstoneOf(who), 0);
                }
            } else if (own < most) {
                uint256 more = bound(messages[i] >> 3, 1, most - own);
                _enlist(who, more);
                count = _add(owners, since, count, who, more);
            }
            counts[i] = count;
        }
        assertEq(manager.seatCount(), count, "count");
        for (uint256 i; i < messages.length; ++i) {
            assertEq(manager.seatCountAt(first + i), counts[i], "count at the end of a block");
        }
        assertEq(manager.seatsOf(operator), _living(owners, count, operator), "operator's");
        assertEq(manager.otherSeats(operator), _living(owners, count, rival), "rival's");
        for (uint256 i; i < count; ++i) {
            (address owner, uint256 at) = manager.seatAt(i);
            bool living = owners[i] == operator || owners[i] == rival;
            assertEq(owner, living ? owners[i] : address(0), "owner");
            assertEq(at, since[i], "since");
        }
    }

    /// @dev Newest tombstones come back first; if one does, all seats of its owner are new.
    function _add(address[] memory owners, uint256[] memory since, uint256 count, address who, uint256 more)
        private
        view
        returns (uint256)
    {
        address gone = _tombstoneOf(who);
        bool revived;
        for (uint256 k = count; k > 0 && more > 0; --k) {
            if (owners[k - 1] != gone) continue;
            (owners[k - 1], revived) = (who, true);
            --more;
        }
        for (; more > 0; --more) {
            (owners[count], since[count]) = (who, block.number);
            ++count;
        }
        for (uint256 k; revived && k < count; ++k) {
            if (owners[k] == who) since[k] = block.number;
        }
        return count;
    }

    function _tombstoneOf(address who) private pure returns (address) {
        return address(~uint160(who));
    }

    function _living(address[] memory owners, uint256 count, address who) private pure returns (uint256 living) {
        for (uint256 k; k < count; ++k) {
            if (owners[k] == who) ++living;
        }
    }

    function _enlist(address who, uint256 count) private {
        vm.prank(who);
        manager.enlist(who, count);
    }
}
