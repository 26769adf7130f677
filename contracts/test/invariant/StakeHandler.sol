// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {ServiceManager} from "../../src/ServiceManager.sol";
import {Allocation, OperatorSet} from "../../src/interfaces/IEigenLayer.sol";
import {Lock} from "../../src/interfaces/IServiceManager.sol";
import {StakeFixture} from "../StakeFixture.sol";
import {Pausable} from "../core/Pausable.sol";
import {Withdrawal} from "../core/Types.sol";

/// @title Two operators, a staker of each, another AVS, the market's address and time, in any order
/// @dev What would revert for lack of something is not sent. Asserts what each message must do by itself.
contract StakeHandler is StakeFixture {
    struct Open {
        bytes32 task;
        address operator;
    }

    uint256 private constant TOLERANCE = 1_024;
    uint256 private constant SLASHING = 2;

    address[2] public operators;
    address[2] private stakers = [makeAddr("a staker"), makeAddr("another staker")];
    Open[] private _open;
    Withdrawal[] private _withdrawals;
    uint256 private _tasks;
    mapping(address operator => uint256) private _deregisteredAt;

    function setUp() public override {
        super.setUp();
        operators = [operator, rival];
        for (uint256 i; i < 2; ++i) {
            _stake(stakers[i], 5 ether);
            _delegate(stakers[i], operators[i]);
            _stake(operators[i], 4 ether);
            vm.prank(operators[i]);
            manager.setSigner(signer, 0, type(uint96).max);
        }
    }

    function serviceManager() external view returns (ServiceManager) {
        return manager;
    }

    function openLocks() external view returns (Open[] memory) {
        return _open;
    }

    /// @dev Σ shares of the operator's open locks that end in `blockNumber` or later.
    function lockedUntil(address who, uint256 blockNumber) external view returns (uint256 shares) {
        for (uint256 i; i < _open.length; ++i) {
            Lock memory held = manager.lockOf(_open[i].task, _open[i].operator);
            if (_open[i].operator == who && held.end >= blockNumber) shares += held.shares;
        }
    }

    function slashable(address who) external view returns (uint256) {
        return _slashable(who);
    }

    /// @notice Convicts everybody in the last block of each lock, in order of their ends.
    function convictAll() external {
        if (core.allocationManager.paused(1)) core.allocationManager.unpause(0);
        while (_open.length != 0) {
            uint256 first;
            for (uint256 i = 1; i < _open.length; ++i) {
                if (_endOf(i) < _endOf(first)) first = i;
            }
            Open memory o = _take(first);
            Lock memory held = manager.lockOf(o.task, o.operator);
            if (held.end < block.number) continue;
            vm.roll(held.end);
            (, uint256 shares) = _slash(o.task, o.operator);
            assertGe(shares + 2, held.shares, "not enough was left");
        }
    }

    function pass(uint256 blocks) external {
        vm.roll(block.number + bound(blocks, 1, 300));
    }

    function lock(uint256 seed, uint256 amount, uint256 blocks) external {
        address who = operators[seed % 2];
        uint256 end = block.number + bound(blocks, 1, DELAY);
        uint256 free = manager.freeStake(who, end);
        if (free < 2) return;
        amount = bound(amount, 0, seed % 8 == 0 ? free - 1 : free / 4);
        bytes32 task = bytes32(++_tasks);
        uint256 shares = _lock(task, who, amount, end);
        assertGe(core.strategy.sharesToUnderlyingView(shares), amount, "worth less than asked");
        assertLe(shares, free, "more than free");
        _open.push(Open(task, who));
    }

    function unlock(uint256 index) external {
        if (_open.length == 0) return;
        Open memory o = _take(index);
        Lock memory held = manager.lockOf(o.task, o.operator);
        // INVARIANT 16
        vm.prank(block.number > held.end ? anybody : address(market));
        manager.unlock(o.task, o.operator);
    }

    /// @dev INVARIANTS 12, 13, 14, and 15 while the core is paused.
    function slash(uint256 index) external {
        if (_open.length == 0) return;
        Open memory o = _open[index % _open.length];
        Lock memory held = manager.lockOf(o.task, o.operator);
        if (block.number > held.end) return;
        if (core.allocationManager.paused(1)) {
            vm.expectRevert(Pausable.CurrentlyPaused.selector);
            _slash(o.task, o.operator);
            return;
        }
        _take(index);
        address victim = o.operator == operators[0] ? operators[1] : operators[0];
        uint256 others = _shares(victim);
        uint256 unit = _unit(o.operator);
        (, uint256 shares) = _slash(o.task, o.operator);
        assertGe(shares + 2, held.shares, "less than the lock");
        assertLe(shares, held.shares + (unit > 510 ? 2 * unit + 2 : TOLERANCE), "more than the lock");
        assertEq(_shares(victim), others, "somebody else's");
    }

    function pauseSlashing(bool stop) external {
        if (stop) core.allocationManager.pause(SLASHING);
        else core.allocationManager.unpause(0);
    }

    function deposit(uint256 seed, uint256 amount) external {
        uint256 i = seed % 2;
        if (core.allocationManager.getMaxMagnitude(operators[i], address(core.strategy)) == 0) return;
        _stake(seed % 4 < 2 ? operators[i] : stakers[i], bound(amount, 1e9, 3 ether));
    }

    function queue(uint256 seed, uint256 amount) external {
        address who = seed % 4 < 2 ? operators[seed % 2] : stakers[seed % 2];
        uint256 most = core.strategyManager.stakerDepositShares(who, core.strategy);
        if (most == 0) return;
        _withdrawals.push(_queue(who, bound(amount, 1, most)));
    }

    function complete(uint256 index, bool asTokens) external {
        if (_withdrawals.length == 0) return;
        index %= _withdrawals.length;
        Withdrawal memory w = _withdrawals[index];
        if (block.number <= w.startBlock + DELAY) return;
        if (!asTokens && core.allocationManager.getMaxMagnitude(w.delegatedTo, address(core.strategy)) == 0) return;
        _withdrawals[index] = _withdrawals[_withdrawals.length - 1];
        _withdrawals.pop();
        vm.prank(w.staker);
        core.delegationManager.completeQueuedWithdrawal(w, _tokens(), asTokens);
    }

    function allocate(uint256 seed, uint64 magnitude) external {
        address who = operators[seed % 2];
        if (core.allocationManager.getAllocation(who, _set(), address(core.strategy)).effectBlock != 0) return;
        uint64 own = _magnitude(who);
        uint64 most = own + core.allocationManager.getAllocatableMagnitude(who, address(core.strategy));
        magnitude = uint64(bound(magnitude, 0, most));
        if (magnitude == own) return;
        _reallocate(who, address(manager), magnitude);
    }

    function leaveOrJoin(uint256 seed) external {
        address who = operators[seed % 2];
        if (manager.isMember(who)) {
            _deregister(who);
            _deregisteredAt[who] = block.number;
        } else if (block.number > _deregisteredAt[who] + DELAY) {
            _register(who);
        }
    }

    function slashElsewhere(uint256 seed, uint64 magnitude, uint256 wad) external {
        address who = operators[seed % 2];
        if (core.allocationManager.paused(1)) return;
        wad = bound(wad, 1, 1e18);
        Allocation memory there = _elsewhere(who);
        if (there.currentMagnitude != 0) {
            other.slash(who, wad);
        } else {
            uint64 most = core.allocationManager.getAllocatableMagnitude(who, address(core.strategy));
            if (most == 0 || there.effectBlock != 0) return;
            _slashElsewhere(who, uint64(bound(magnitude, 1, most)), wad);
        }
        there = _elsewhere(who);
        bool idle = there.currentMagnitude != 0 && there.effectBlock == 0;
        if (idle && wad % 2 == 0) _reallocate(who, address(other), 0);
    }

    function _elsewhere(address who) private view returns (Allocation memory) {
        return core.allocationManager.getAllocation(who, OperatorSet(address(other), 0), address(core.strategy));
    }

    function _endOf(uint256 index) private view returns (uint256) {
        return manager.lockOf(_open[index].task, _open[index].operator).end;
    }

    function _take(uint256 index) private returns (Open memory o) {
        index %= _open.length;
        o = _open[index];
        _open[index] = _open[_open.length - 1];
        _open.pop();
    }
}
