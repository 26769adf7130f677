// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IDelegationManager, IStrategy} from "../../src/interfaces/IEigenLayer.sol";
import {AllocationManager} from "./AllocationManager.sol";
import {Pausable} from "./Pausable.sol";
import {Permissioned} from "./PermissionController.sol";
import {Slashing} from "./Slashing.sol";
import {StrategyManager} from "./StrategyManager.sol";
import {SignatureWithExpiry} from "./Types.sol";

/// @title Operators, who delegates to them, and how many shares that are
/// @notice Absent: operators that approve their stakers by signature (`ApproversAreAbsent`).
abstract contract Delegations is IDelegationManager, Pausable, Permissioned {
    event DelegationApproverUpdated(address indexed operator, address newDelegationApprover);
    event DepositScalingFactorUpdated(address staker, address strategy, uint256 newDepositScalingFactor);
    event OperatorRegistered(address indexed operator, address delegationApprover);
    event OperatorMetadataURIUpdated(address indexed operator, string metadataURI);
    event StakerDelegated(address indexed staker, address indexed operator);
    event OperatorSharesIncreased(address indexed operator, address staker, address strategy, uint256 shares);
    event OperatorSharesDecreased(address indexed operator, address staker, address strategy, uint256 shares);

    error ActivelyDelegated();
    error ApproversAreAbsent();
    error FullySlashed();
    error OnlyStrategyManagerOrEigenPodManager();
    error OperatorNotRegistered();

    uint8 internal constant PAUSED_NEW_DELEGATION = 0;

    AllocationManager public immutable allocationManager;
    StrategyManager public immutable strategyManager;

    mapping(address staker => address) public delegatedTo;
    mapping(address operator => mapping(IStrategy => uint256)) public operatorShares;
    mapping(address staker => mapping(IStrategy => uint256)) internal _scalingFactors;

    constructor(AllocationManager allocationManager_, StrategyManager strategyManager_) {
        allocationManager = allocationManager_;
        strategyManager = strategyManager_;
    }

    function registerAsOperator(address approver, uint32 allocationDelay, string calldata metadataURI) external {
        if (isDelegated(msg.sender)) revert ActivelyDelegated();
        if (approver != address(0)) revert ApproversAreAbsent();
        allocationManager.setAllocationDelay(msg.sender, allocationDelay);
        emit DelegationApproverUpdated(msg.sender, approver);
        _delegate(msg.sender, msg.sender);
        emit OperatorRegistered(msg.sender, approver);
        emit OperatorMetadataURIUpdated(msg.sender, metadataURI);
    }

    function updateOperatorMetadataURI(address operator, string calldata metadataURI) external checkCanCall(operator) {
        if (!isOperator(operator)) revert OperatorNotRegistered();
        emit OperatorMetadataURIUpdated(operator, metadataURI);
    }

    /// @notice No operator here has an approver, so signature and salt are of no account.
    function delegateTo(address operator, SignatureWithExpiry memory, bytes32) public {
        if (isDelegated(msg.sender)) revert ActivelyDelegated();
        if (!isOperator(operator)) revert OperatorNotRegistered();
        _delegate(msg.sender, operator);
    }

    function increaseDelegatedShares(address staker, IStrategy strategy, uint256 previous, uint256 added) external {
        if (msg.sender != address(strategyManager)) revert OnlyStrategyManagerOrEigenPodManager();
        _increase(staker, strategy, previous, added);
    }

    function isDelegated(address staker) public view returns (bool) {
        return delegatedTo[staker] != address(0);
    }

    function isOperator(address operator) public view returns (bool) {
        return operator != address(0) && delegatedTo[operator] == operator;
    }

    function getOperatorShares(address operator, address[] memory strategies)
        public
        view
        returns (uint256[] memory shares)
    {
        shares = new uint256[](strategies.length);
        for (uint256 i; i < strategies.length; ++i) {
            shares[i] = operatorShares[operator][IStrategy(strategies[i])];
        }
    }

    function getOperatorsShares(address[] memory operators, address[] memory strategies)
        external
        view
        returns (uint256[][] memory shares)
    {
        shares = new uint256[][](operators.length);
        for (uint256 i; i < operators.length; ++i) {
            shares[i] = getOperatorShares(operators[i], strategies);
        }
    }

    function depositScalingFactor(address staker, IStrategy strategy) public view returns (uint256) {
        uint256 factor = _scalingFactors[staker][strategy];
        return factor == 0 ? 1e18 : factor;
    }

    function getDepositedShares(address staker) public view returns (IStrategy[] memory, uint256[] memory) {
        return strategyManager.getDeposits(staker);
    }

    /// @notice What the staker can withdraw of what it deposited, after its operator's slashes.
    function getWithdrawableShares(address staker, IStrategy[] memory strategies)
        external
        view
        returns (uint256[] memory withdrawable, uint256[] memory deposited)
    {
        withdrawable = new uint256[](strategies.length);
        deposited = new uint256[](strategies.length);
        for (uint256 i; i < strategies.length; ++i) {
            deposited[i] = strategyManager.stakerDepositShares(staker, strategies[i]);
            withdrawable[i] = _withdrawable(staker, strategies[i], deposited[i]);
        }
    }

    function _delegate(address staker, address operator) internal onlyWhenNotPaused(PAUSED_NEW_DELEGATION) {
        delegatedTo[staker] = operator;
        emit StakerDelegated(staker, operator);
        (IStrategy[] memory strategies, uint256[] memory shares) = getDepositedShares(staker);
        for (uint256 i; i < strategies.length; ++i) {
            _increase(staker, strategies[i], 0, shares[i]);
        }
    }

    /// @dev Of a staker without operator, too: its scaling factor then stays what it is.
    function _increase(address staker, IStrategy strategy, uint256 previous, uint256 added) internal {
        uint256 magnitude = _magnitude(staker, strategy);
        if (magnitude == 0) revert FullySlashed();
        uint256 factor = depositScalingFactor(staker, strategy);
        factor = Slashing.scalingFactorAfter(factor, previous, added, magnitude);
        _scalingFactors[staker][strategy] = factor;
        emit DepositScalingFactorUpdated(staker, address(strategy), factor);
        address operator = delegatedTo[staker];
        if (operator == address(0)) return;
        operatorShares[operator][strategy] += added;
        emit OperatorSharesIncreased(operator, staker, address(strategy), added);
    }

    function _decrease(address operator, address staker, IStrategy strategy, uint256 shares) internal {
        operatorShares[operator][strategy] -= shares;
        emit OperatorSharesDecreased(operator, staker, address(strategy), shares);
    }

    function _withdrawable(address staker, IStrategy strategy, uint256 depositShares) internal view returns (uint256) {
        uint256 magnitude = _magnitude(staker, strategy);
        return Slashing.withdrawable(depositShares, depositScalingFactor(staker, strategy), magnitude);
    }

    /// @dev Nobody's magnitude is whole.
    function _magnitude(address staker, IStrategy strategy) private view returns (uint64) {
        return allocationManager.getMaxMagnitude(delegatedTo[staker], address(strategy));
    }
}
