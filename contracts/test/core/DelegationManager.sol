// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IDelegationManager, IStrategy} from "../../src/interfaces/IEigenLayer.sol";
import {AllocationManager} from "./AllocationManager.sol";
import {StrategyManager} from "./StrategyManager.sol";

/// @title Stand-in for EigenLayer's DelegationManager on a local chain
/// @notice Operators and their own shares. Delegation by others and withdrawals are absent.
contract DelegationManager is IDelegationManager {
    event DelegationApproverUpdated(address indexed operator, address newDelegationApprover);
    event OperatorRegistered(address indexed operator, address delegationApprover);
    event OperatorMetadataURIUpdated(address indexed operator, string metadataURI);
    event StakerDelegated(address indexed staker, address indexed operator);
    event OperatorSharesIncreased(address indexed operator, address staker, address strategy, uint256 shares);

    error ActivelyDelegated();
    error OnlyStrategyManagerOrEigenPodManager();

    AllocationManager public immutable allocationManager;
    StrategyManager public immutable strategyManager;
    uint32 public immutable minWithdrawalDelayBlocks;

    mapping(address operator => address) public delegationApprover;
    mapping(address staker => address) public delegatedTo;
    mapping(address operator => mapping(IStrategy => uint256)) public operatorShares;

    constructor(AllocationManager allocationManager_, StrategyManager strategyManager_, uint32 withdrawalDelay) {
        allocationManager = allocationManager_;
        strategyManager = strategyManager_;
        minWithdrawalDelayBlocks = withdrawalDelay;
    }

    function registerAsOperator(address approver, uint32 allocationDelay, string calldata metadataURI) external {
        if (delegatedTo[msg.sender] != address(0)) revert ActivelyDelegated();
        delegationApprover[msg.sender] = approver;
        emit DelegationApproverUpdated(msg.sender, approver);
        allocationManager.setAllocationDelay(msg.sender, allocationDelay);
        delegatedTo[msg.sender] = msg.sender;
        emit StakerDelegated(msg.sender, msg.sender);
        (IStrategy[] memory strategies, uint256[] memory shares) = strategyManager.getDeposits(msg.sender);
        for (uint256 i; i < strategies.length; ++i) {
            _increase(msg.sender, msg.sender, strategies[i], shares[i]);
        }
        emit OperatorRegistered(msg.sender, approver);
        emit OperatorMetadataURIUpdated(msg.sender, metadataURI);
    }

    function increaseDelegatedShares(address staker, IStrategy strategy, uint256, uint256 addedShares) external {
        if (msg.sender != address(strategyManager)) revert OnlyStrategyManagerOrEigenPodManager();
        address operator = delegatedTo[staker];
        if (operator != address(0)) _increase(operator, staker, strategy, addedShares);
    }

    function isOperator(address operator) external view returns (bool) {
        return operator != address(0) && delegatedTo[operator] == operator;
    }

    function _increase(address operator, address staker, IStrategy strategy, uint256 shares) private {
        operatorShares[operator][strategy] += shares;
        emit OperatorSharesIncreased(operator, staker, address(strategy), shares);
    }
}
