// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

// What this project uses of EigenLayer's core, with the core's own selectors. Magnitudes are parts of 1e18 of what was
// delegated to an operator at first; stake is in shares of a strategy.

struct OperatorSet {
    address avs;
    uint32 id;
}

struct CreateSetParamsV2 {
    uint32 operatorSetId;
    address[] strategies;
    address slasher;
}

struct RegisterParams {
    address avs;
    uint32[] operatorSetIds;
    bytes data;
}

struct DeregisterParams {
    address operator;
    address avs;
    uint32[] operatorSetIds;
}

struct AllocateParams {
    OperatorSet operatorSet;
    address[] strategies;
    uint64[] newMagnitudes;
}

struct Allocation {
    uint64 currentMagnitude;
    int128 pendingDiff;
    uint32 effectBlock;
}

struct SlashingParams {
    address operator;
    uint32 operatorSetId;
    address[] strategies;
    uint256[] wadsToSlash;
    string description;
}

/// @title Operator sets, their members, what is allocated to them, and slashes
interface IAllocationManager {
    function updateAVSMetadataURI(address avs, string calldata metadataURI) external;
    function createRedistributingOperatorSets(
        address avs,
        CreateSetParamsV2[] calldata params,
        address[] calldata recipients
    ) external;
    function registerForOperatorSets(address operator, RegisterParams calldata params) external;
    function deregisterFromOperatorSets(DeregisterParams calldata params) external;
    function modifyAllocations(address operator, AllocateParams[] calldata params) external;
    function slashOperator(address avs, SlashingParams calldata params)
        external
        returns (uint256 slashId, uint256[] memory shares);
    function isMemberOfOperatorSet(address operator, OperatorSet memory operatorSet) external view returns (bool);
    function getMinimumSlashableStake(
        OperatorSet memory operatorSet,
        address[] memory operators,
        address[] memory strategies,
        uint32 futureBlock
    ) external view returns (uint256[][] memory);
    function getAllocation(address operator, OperatorSet memory operatorSet, address strategy)
        external
        view
        returns (Allocation memory);
    function getMaxMagnitude(address operator, address strategy) external view returns (uint64);
    function DEALLOCATION_DELAY() external view returns (uint32);
}

/// @title Parts of the core that its pausers have stopped, by number
interface IPausable {
    function paused(uint8 index) external view returns (bool);
}

/// @title Operators and the stake delegated to them
interface IDelegationManager {
    function registerAsOperator(address delegationApprover, uint32 allocationDelay, string calldata metadataURI)
        external;
    function isOperator(address operator) external view returns (bool);
    function operatorShares(address operator, IStrategy strategy) external view returns (uint256);
    function getSlashableSharesInQueue(address operator, IStrategy strategy) external view returns (uint256);
    function minWithdrawalDelayBlocks() external view returns (uint32);
}

/// @title Deposits of stake, and what slashes took of it
interface IStrategyManager {
    function depositIntoStrategy(IStrategy strategy, IERC20 token, uint256 amount) external returns (uint256 shares);
    function stakerDepositShares(address staker, IStrategy strategy) external view returns (uint256);
    function clearBurnOrRedistributableShares(OperatorSet calldata operatorSet, uint256 slashId)
        external
        returns (uint256[] memory amounts);
    function getBurnOrRedistributableCount(OperatorSet calldata operatorSet, uint256 slashId)
        external
        view
        returns (uint256);
    /// @dev Only where the core waits before it releases: from 1.13 on.
    function getSlashResolutionBlock(OperatorSet calldata operatorSet, uint256 slashId) external view returns (uint32);
}

/// @title One asset of stake
interface IStrategy {
    function underlyingToken() external view returns (IERC20);
    function sharesToUnderlyingView(uint256 shares) external view returns (uint256);
    function underlyingToSharesView(uint256 amount) external view returns (uint256);
}

/// @title What EigenLayer calls when an operator joins or leaves
interface IAVSRegistrar {
    function registerOperator(address operator, address avs, uint32[] calldata operatorSetIds, bytes calldata data)
        external;
    function deregisterOperator(address operator, address avs, uint32[] calldata operatorSetIds) external;
    function supportsAVS(address avs) external view returns (bool);
}
