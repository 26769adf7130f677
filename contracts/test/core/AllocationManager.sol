// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Checkpoints} from "@openzeppelin/contracts/utils/structs/Checkpoints.sol";
import {EnumerableSet} from "@openzeppelin/contracts/utils/structs/EnumerableSet.sol";
import {Allocation, IStrategy, OperatorSet, SlashingParams} from "../../src/interfaces/IEigenLayer.sol";
import {Allocations} from "./Allocations.sol";
import {DelegationManager} from "./DelegationManager.sol";
import {Memberships} from "./Memberships.sol";
import {OperatorSets} from "./OperatorSets.sol";
import {Pausable} from "./Pausable.sol";
import {PermissionController, Permissioned} from "./PermissionController.sol";
import {Slashing} from "./Slashing.sol";
import {Delays, WAD, keyOf} from "./Types.sol";

/// @title Stand-in for EigenLayer's AllocationManager on a local chain
/// @notice Operator sets, members, allocations and slashes, with the core's selectors, order of checks, errors, delays
/// and rounding.
contract AllocationManager is Allocations {
    using Checkpoints for Checkpoints.Trace224;
    using EnumerableSet for EnumerableSet.AddressSet;
    using SafeCast for uint256;

    event MaxMagnitudeUpdated(address operator, address strategy, uint64 maxMagnitude);
    event OperatorSlashed(
        address operator, OperatorSet operatorSet, address[] strategies, uint256[] wadSlashed, string description
    );

    error InvalidWadToSlash();
    error OperatorNotSlashable();
    error StrategiesMustBeInAscendingOrder();

    uint8 internal constant PAUSED_OPERATOR_SLASHING = 1;

    mapping(bytes32 operatorSet => uint256) private _slashCounts;

    constructor(
        DelegationManager delegation_,
        PermissionController permissionController_,
        address pauser,
        Delays memory delays
    ) Pausable(pauser) Permissioned(permissionController_) OperatorSets(delays) Memberships(delegation_) {}

    /// @notice Takes `wadsToSlash` of what is allocated to the set now. Where nothing is allocated nothing is taken.
    /// @return slashId the set's slashes counted from 1
    /// @return shares what each strategy lost, in shares, with what is queued for withdrawal
    function slashOperator(address avs, SlashingParams calldata params)
        external
        onlyWhenNotPaused(PAUSED_OPERATOR_SLASHING)
        returns (uint256 slashId, uint256[] memory shares)
    {
        if (params.strategies.length != params.wadsToSlash.length) revert InputArrayLengthMismatch();
        OperatorSet memory operatorSet = OperatorSet(avs, params.operatorSetId);
        _checkExists(operatorSet);
        if (!isOperatorSlashable(params.operator, operatorSet)) revert OperatorNotSlashable();
        if (msg.sender != getSlasher(operatorSet)) revert InvalidCaller();

        slashId = ++_slashCounts[keyOf(operatorSet)];
        shares = new uint256[](params.strategies.length);
        uint256[] memory wadSlashed = new uint256[](params.strategies.length);
        for (uint256 i; i < params.strategies.length; ++i) {
            if (i > 0 && params.strategies[i] <= params.strategies[i - 1]) revert StrategiesMustBeInAscendingOrder();
            if (params.wadsToSlash[i] == 0 || params.wadsToSlash[i] > WAD) revert InvalidWadToSlash();
            if (!_strategies[keyOf(operatorSet)].contains(params.strategies[i])) revert StrategyNotInOperatorSet();
            (wadSlashed[i], shares[i]) =
                _slash(params.operator, operatorSet, slashId, params.strategies[i], params.wadsToSlash[i]);
        }
        emit OperatorSlashed(params.operator, operatorSet, params.strategies, wadSlashed, params.description);
    }

    function getSlashCount(OperatorSet memory operatorSet) external view returns (uint256) {
        return _slashCounts[keyOf(operatorSet)];
    }

    /// @notice Shares allocated to the set, of members or not.
    function getAllocatedStake(OperatorSet memory operatorSet, address[] memory operators, address[] memory strategies)
        external
        view
        returns (uint256[][] memory)
    {
        return _allocatedUntil(operatorSet, operators, strategies, uint32(block.number));
    }

    /// @notice The least that can be slashed in each block from now to `futureBlock`, without new messages.
    function getMinimumSlashableStake(
        OperatorSet memory operatorSet,
        address[] memory operators,
        address[] memory strategies,
        uint32 futureBlock
    ) external view returns (uint256[][] memory stake) {
        stake = _allocatedUntil(operatorSet, operators, strategies, futureBlock);
        for (uint256 i; i < operators.length; ++i) {
            if (!isOperatorSlashable(operators[i], operatorSet)) stake[i] = new uint256[](strategies.length);
        }
    }

    function getMaxMagnitudes(address operator, address[] memory strategies) external view returns (uint64[] memory) {
        return getMaxMagnitudesAtBlock(operator, strategies, uint32(block.number));
    }

    function getMaxMagnitudes(address[] memory operators, address strategy)
        external
        view
        returns (uint64[] memory magnitudes)
    {
        magnitudes = new uint64[](operators.length);
        for (uint256 i; i < operators.length; ++i) {
            magnitudes[i] = getMaxMagnitude(operators[i], strategy);
        }
    }

    function getMaxMagnitudesAtBlock(address operator, address[] memory strategies, uint32 blockNumber)
        public
        view
        returns (uint64[] memory magnitudes)
    {
        magnitudes = new uint64[](strategies.length);
        for (uint256 i; i < strategies.length; ++i) {
            magnitudes[i] = _maxMagnitudeAt(operator, strategies[i], blockNumber);
        }
    }

    function _slash(
        address operator,
        OperatorSet memory operatorSet,
        uint256 slashId,
        address strategy,
        uint256 wadToSlash
    ) private returns (uint256 wadSlashed, uint256 shares) {
        uint64 magnitude = _takeAllocated(operator, operatorSet, strategy, wadToSlash);
        if (magnitude == 0) return (0, 0);
        uint64 previous = getMaxMagnitude(operator, strategy);
        uint64 left = previous - magnitude;
        _maxMagnitudes[operator][strategy].push(uint32(block.number), left);
        emit MaxMagnitudeUpdated(operator, strategy, left);
        wadSlashed = Slashing.divWad(magnitude, previous);
        shares = DelegationManager(address(delegation))
            .slashOperatorShares(operator, operatorSet, slashId, IStrategy(strategy), previous, left);
    }

    /// @dev Rounds up, as everything that is taken from an allocation: of anything at least 1 is taken.
    function _takeAllocated(address operator, OperatorSet memory operatorSet, address strategy, uint256 wadToSlash)
        private
        returns (uint64 magnitude)
    {
        bytes32 key = keyOf(operatorSet);
        (Allocation memory allocation, uint64 encumbered) = _current(operator, key, strategy);
        if (allocation.currentMagnitude == 0) return 0;
        magnitude = Slashing.mulWadUp(allocation.currentMagnitude, wadToSlash).toUint64();
        allocation.currentMagnitude -= magnitude;
        if (allocation.pendingDiff < 0) {
            uint256 pending = Slashing.mulWadUp(uint128(-allocation.pendingDiff), wadToSlash);
            allocation.pendingDiff += int128(uint128(pending));
            uint64 later = _plus(allocation.currentMagnitude, allocation.pendingDiff);
            emit AllocationUpdated(operator, operatorSet, strategy, later, allocation.effectBlock);
        }
        _book(operator, key, strategy, allocation, encumbered - magnitude);
        emit AllocationUpdated(operator, operatorSet, strategy, allocation.currentMagnitude, uint32(block.number));
    }

    function _allocatedUntil(
        OperatorSet memory operatorSet,
        address[] memory operators,
        address[] memory strategies,
        uint32 futureBlock
    ) private view returns (uint256[][] memory stake) {
        stake = DelegationManager(address(delegation)).getOperatorsShares(operators, strategies);
        for (uint256 i; i < operators.length; ++i) {
            for (uint256 j; j < strategies.length; ++j) {
                Allocation memory allocation = getAllocation(operators[i], operatorSet, strategies[j]);
                uint64 magnitude = allocation.currentMagnitude;
                if (allocation.pendingDiff < 0 && allocation.effectBlock <= futureBlock) {
                    magnitude = _plus(magnitude, allocation.pendingDiff);
                }
                uint64 most = getMaxMagnitude(operators[i], strategies[j]);
                stake[i][j] = most == 0 ? 0 : Slashing.mulWad(stake[i][j], Slashing.divWad(magnitude, most));
            }
        }
    }
}
