// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Checkpoints} from "@openzeppelin/contracts/utils/structs/Checkpoints.sol";
import {DoubleEndedQueue} from "@openzeppelin/contracts/utils/structs/DoubleEndedQueue.sol";
import {EnumerableSet} from "@openzeppelin/contracts/utils/structs/EnumerableSet.sol";
import {AllocateParams, Allocation, OperatorSet} from "../../src/interfaces/IEigenLayer.sol";
import {Memberships} from "./Memberships.sol";
import {WAD, keyOf} from "./Types.sol";

/// @title What part of its stake an operator allocates to which set, and from when until when
/// @notice Magnitudes are parts of 1e18 of what was delegated at first; slashes lower the maximum.
abstract contract Allocations is Memberships {
    using Checkpoints for Checkpoints.Trace224;
    using DoubleEndedQueue for DoubleEndedQueue.Bytes32Deque;
    using EnumerableSet for EnumerableSet.AddressSet;
    using EnumerableSet for EnumerableSet.Bytes32Set;
    using SafeCast for int256;
    using SafeCast for uint256;

    struct AllocationDelay {
        uint32 current;
        uint32 pending;
        uint32 effectBlock;
        bool isSet;
    }

    event AllocationDelaySet(address operator, uint32 delay, uint32 effectBlock);
    event AllocationUpdated(
        address operator, OperatorSet operatorSet, address strategy, uint64 magnitude, uint32 effectBlock
    );
    event EncumberedMagnitudeUpdated(address operator, address strategy, uint64 encumberedMagnitude);

    error InsufficientMagnitude();
    error ModificationAlreadyPending();
    error SameMagnitude();
    error UninitializedAllocationDelay();

    uint8 internal constant PAUSED_MODIFY_ALLOCATIONS = 0;

    mapping(address operator => AllocationDelay) private _delays;
    mapping(address operator => mapping(address strategy => Checkpoints.Trace224)) internal _maxMagnitudes;
    mapping(address operator => mapping(address strategy => uint64)) private _encumbered;
    mapping(address operator => mapping(bytes32 set => mapping(address strategy => Allocation))) private _allocations;
    mapping(address operator => mapping(address strategy => DoubleEndedQueue.Bytes32Deque)) private _deallocations;
    mapping(address operator => EnumerableSet.Bytes32Set) private _allocatedSets;
    mapping(address operator => mapping(bytes32 set => EnumerableSet.AddressSet)) private _allocatedStrategies;

    /// @notice The DelegationManager sets a new operator's delay at once; later changes take the configuration delay.
    function setAllocationDelay(address operator, uint32 delay) external {
        AllocationDelay storage own = _delays[operator];
        uint32 effectBlock = uint32(block.number);
        if (msg.sender == address(delegation)) {
            (own.current, own.isSet) = (delay, true);
        } else {
            if (!_canCall(operator)) revert InvalidPermissions();
            if (!delegation.isOperator(operator)) revert InvalidOperator();
            (own.isSet, own.current) = getAllocationDelay(operator);
            effectBlock += ALLOCATION_CONFIGURATION_DELAY + 1;
        }
        (own.pending, own.effectBlock) = (delay, effectBlock);
        emit AllocationDelaySet(operator, delay, effectBlock);
    }

    function modifyAllocations(address operator, AllocateParams[] calldata params)
        external
        onlyWhenNotPaused(PAUSED_MODIFY_ALLOCATIONS)
        checkCanCall(operator)
    {
        (bool isSet, uint32 delay) = getAllocationDelay(operator);
        if (!isSet) revert UninitializedAllocationDelay();
        for (uint256 i; i < params.length; ++i) {
            if (params[i].strategies.length != params[i].newMagnitudes.length) revert InputArrayLengthMismatch();
            _checkExists(params[i].operatorSet);
            for (uint256 j; j < params[i].strategies.length; ++j) {
                _modify(operator, params[i].operatorSet, params[i].strategies[j], params[i].newMagnitudes[j], delay);
            }
        }
    }

    /// @notice Books up to `numToClear[i]` deallocations that are due, oldest first.
    function clearDeallocationQueue(address operator, address[] calldata strategies, uint16[] calldata numToClear)
        external
        onlyWhenNotPaused(PAUSED_MODIFY_ALLOCATIONS)
    {
        if (strategies.length != numToClear.length) revert InputArrayLengthMismatch();
        for (uint256 i; i < strategies.length; ++i) {
            _clearDeallocations(operator, strategies[i], numToClear[i]);
        }
    }

    function getAllocationDelay(address operator) public view returns (bool isSet, uint32 delay) {
        AllocationDelay memory own = _delays[operator];
        return (own.isSet, block.number >= own.effectBlock ? own.pending : own.current);
    }

    function getAllocation(address operator, OperatorSet memory operatorSet, address strategy)
        public
        view
        returns (Allocation memory allocation)
    {
        (allocation,) = _current(operator, keyOf(operatorSet), strategy);
    }

    function getAllocations(address[] memory operators, OperatorSet memory operatorSet, address strategy)
        external
        view
        returns (Allocation[] memory allocations)
    {
        allocations = new Allocation[](operators.length);
        for (uint256 i; i < operators.length; ++i) {
            allocations[i] = getAllocation(operators[i], operatorSet, strategy);
        }
    }

    function getStrategyAllocations(address operator, address strategy)
        external
        view
        returns (OperatorSet[] memory sets, Allocation[] memory allocations)
    {
        sets = getAllocatedSets(operator);
        allocations = new Allocation[](sets.length);
        for (uint256 i; i < sets.length; ++i) {
            allocations[i] = getAllocation(operator, sets[i], strategy);
        }
    }

    function getAllocatedSets(address operator) public view returns (OperatorSet[] memory) {
        return _toSets(_allocatedSets[operator]);
    }

    function getAllocatedStrategies(address operator, OperatorSet memory operatorSet)
        external
        view
        returns (address[] memory)
    {
        return _allocatedStrategies[operator][keyOf(operatorSet)].values();
    }

    /// @notice What is allocated or about to be; deallocations that are due no longer count, cleared or not.
    function getEncumberedMagnitude(address operator, address strategy) public view returns (uint64 encumbered) {
        encumbered = _encumbered[operator][strategy];
        DoubleEndedQueue.Bytes32Deque storage queue = _deallocations[operator][strategy];
        for (uint256 i; i < queue.length(); ++i) {
            Allocation memory allocation = _allocations[operator][queue.at(i)][strategy];
            if (block.number < allocation.effectBlock) break;
            encumbered -= uint64(uint128(-allocation.pendingDiff));
        }
    }

    function getAllocatableMagnitude(address operator, address strategy) external view returns (uint64) {
        return getMaxMagnitude(operator, strategy) - getEncumberedMagnitude(operator, strategy);
    }

    function getMaxMagnitude(address operator, address strategy) public view returns (uint64) {
        return _maxMagnitudeAt(operator, strategy, uint32(block.number));
    }

    function _maxMagnitudeAt(address operator, address strategy, uint32 blockNumber) internal view returns (uint64) {
        Checkpoints.Trace224 storage history = _maxMagnitudes[operator][strategy];
        if (history.length() == 0 || blockNumber < history.at(0)._key) return WAD;
        return uint64(history.upperLookupRecent(blockNumber));
    }

    /// @dev The allocation after every change that is due, and what is encumbered once that is booked.
    function _current(address operator, bytes32 key, address strategy)
        internal
        view
        returns (Allocation memory allocation, uint64 encumbered)
    {
        allocation = _allocations[operator][key][strategy];
        encumbered = _encumbered[operator][strategy];
        if (block.number >= allocation.effectBlock) {
            if (allocation.pendingDiff < 0) encumbered = _plus(encumbered, allocation.pendingDiff);
            allocation = Allocation(_plus(allocation.currentMagnitude, allocation.pendingDiff), 0, 0);
        }
    }

    /// @dev Writes an allocation down, and in which sets and strategies the operator has any.
    function _book(address operator, bytes32 key, address strategy, Allocation memory allocation, uint64 encumbered)
        internal
    {
        if (_encumbered[operator][strategy] != encumbered) {
            _encumbered[operator][strategy] = encumbered;
            emit EncumberedMagnitudeUpdated(operator, strategy, encumbered);
        }
        _allocations[operator][key][strategy] = allocation;
        EnumerableSet.AddressSet storage strategies = _allocatedStrategies[operator][key];
        if (allocation.currentMagnitude != 0 || allocation.pendingDiff != 0) {
            strategies.add(strategy);
            _allocatedSets[operator].add(key);
        } else {
            strategies.remove(strategy);
            if (strategies.length() == 0) _allocatedSets[operator].remove(key);
        }
    }

    function _plus(uint64 magnitude, int128 difference) internal pure returns (uint64) {
        return (int256(uint256(magnitude)) + difference).toUint256().toUint64();
    }

    function _modify(
        address operator,
        OperatorSet calldata operatorSet,
        address strategy,
        uint64 newMagnitude,
        uint32 delay
    ) private {
        bytes32 key = keyOf(operatorSet);
        _clearDeallocations(operator, strategy, type(uint16).max);
        (Allocation memory allocation, uint64 encumbered) = _current(operator, key, strategy);
        if (allocation.effectBlock != 0) revert ModificationAlreadyPending();
        int128 difference = int128(uint128(newMagnitude)) - int128(uint128(allocation.currentMagnitude));
        if (difference == 0) revert SameMagnitude();

        uint32 effectBlock = uint32(block.number);
        if (difference > 0) {
            encumbered = _plus(encumbered, difference);
            if (encumbered > getMaxMagnitude(operator, strategy)) revert InsufficientMagnitude();
            effectBlock += delay;
            allocation.pendingDiff = difference;
        } else if (_isSlashable(operator, operatorSet, strategy, allocation)) {
            _deallocations[operator][strategy].pushBack(key);
            effectBlock += DEALLOCATION_DELAY + 1;
            allocation.pendingDiff = difference;
        } else {
            encumbered = _plus(encumbered, difference);
            allocation.currentMagnitude = newMagnitude;
        }
        allocation.effectBlock = effectBlock;
        _book(operator, key, strategy, allocation, encumbered);
        emit AllocationUpdated(operator, operatorSet, strategy, newMagnitude, effectBlock);
    }

    function _isSlashable(
        address operator,
        OperatorSet calldata operatorSet,
        address strategy,
        Allocation memory allocation
    ) private view returns (bool) {
        return allocation.currentMagnitude != 0 && _strategies[keyOf(operatorSet)].contains(strategy)
            && isOperatorSlashable(operator, operatorSet);
    }

    function _clearDeallocations(address operator, address strategy, uint256 most) private {
        DoubleEndedQueue.Bytes32Deque storage queue = _deallocations[operator][strategy];
        for (; most > 0 && !queue.empty(); --most) {
            bytes32 key = queue.front();
            (Allocation memory allocation, uint64 encumbered) = _current(operator, key, strategy);
            if (allocation.effectBlock != 0) break;
            queue.popFront();
            _book(operator, key, strategy, allocation, encumbered);
        }
    }
}
