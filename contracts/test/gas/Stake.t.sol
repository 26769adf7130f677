// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {StakeFixture} from "../StakeFixture.sol";

/// @title What messages about stake cost, over the stand-in core
/// @dev Whole transactions. `lock`, `unlock` and `slash` are calls of the market: less 21,000 and their calldata.
contract StakeGas is StakeFixture {
    function setUp() public override {
        super.setUp();
        _stake(operator, 99 ether);
    }

    function test_Gas_Seats() public {
        vm.startPrank(signer);
        manager.enlist(operator, 1);
        vm.snapshotGasLastCall("stake", "enlist");
        manager.enlist(operator, 99);
        vm.snapshotGasLastCall("stake", "enlist 99 more");
        manager.leave(operator);
        vm.snapshotGasLastCall("stake", "leave");
        manager.enlist(operator, 100);
        vm.snapshotGasLastCall("stake", "enlist again");
        vm.stopPrank();
        _queue(operator, 1 ether);
        manager.prune(operator);
        vm.snapshotGasLastCall("stake", "prune");
    }

    function test_Gas_Locks() public {
        _lock("first", operator, 0.1 ether, block.number + 10);
        _lock(TASK, operator, 0.1 ether, block.number + 10);
        vm.snapshotGasLastCall("stake", "lock");
        _unlock(TASK, operator);
        vm.snapshotGasLastCall("stake", "unlock");
    }

    function test_Gas_Slash() public {
        address[] memory beneficiaries = new address[](1);
        beneficiaries[0] = anybody;
        _lock(TASK, operator, 0.1 ether, block.number + 10);
        vm.prank(address(market));
        manager.slash(TASK, operator, beneficiaries);
        vm.snapshotGasLastCall("stake", "slash");
        vm.roll(block.number + 21);
        manager.bounty().pay(1);
        vm.snapshotGasLastCall("stake", "pay");
    }
}
