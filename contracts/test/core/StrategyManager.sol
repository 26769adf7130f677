// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {IStrategy, IStrategyManager} from "../../src/interfaces/IEigenLayer.sol";
import {DelegationManager} from "./DelegationManager.sol";
import {Strategy} from "./Strategy.sol";

/// @title Stand-in for EigenLayer's StrategyManager on a local chain
/// @notice Deposits of stake into whitelisted strategies. Withdrawals and slashed shares are absent.
contract StrategyManager is IStrategyManager {
    using SafeERC20 for IERC20;

    event Deposit(address staker, address strategy, uint256 shares);
    event StrategyAddedToDepositWhitelist(address strategy);

    error OnlyStrategyWhitelister();
    error StrategyNotWhitelisted();

    DelegationManager public immutable delegation;
    address public immutable strategyWhitelister;

    mapping(IStrategy => bool) public strategyIsWhitelistedForDeposit;
    mapping(address staker => mapping(IStrategy => uint256)) public stakerDepositShares;
    mapping(address staker => IStrategy[]) public stakerStrategyList;

    constructor(DelegationManager delegation_, address whitelister) {
        delegation = delegation_;
        strategyWhitelister = whitelister;
    }

    function addStrategiesToDepositWhitelist(IStrategy[] calldata strategies) external {
        if (msg.sender != strategyWhitelister) revert OnlyStrategyWhitelister();
        for (uint256 i; i < strategies.length; ++i) {
            strategyIsWhitelistedForDeposit[strategies[i]] = true;
            emit StrategyAddedToDepositWhitelist(address(strategies[i]));
        }
    }

    function depositIntoStrategy(IStrategy strategy, IERC20 token, uint256 amount) external returns (uint256 shares) {
        if (!strategyIsWhitelistedForDeposit[strategy]) revert StrategyNotWhitelisted();
        token.safeTransferFrom(msg.sender, address(strategy), amount);
        shares = Strategy(address(strategy)).deposit(token, amount);

        uint256 before = stakerDepositShares[msg.sender][strategy];
        if (before == 0) stakerStrategyList[msg.sender].push(strategy);
        stakerDepositShares[msg.sender][strategy] = before + shares;
        emit Deposit(msg.sender, address(strategy), shares);
        delegation.increaseDelegatedShares(msg.sender, strategy, before, shares);
    }

    function getDeposits(address staker)
        external
        view
        returns (IStrategy[] memory strategies, uint256[] memory shares)
    {
        strategies = stakerStrategyList[staker];
        shares = new uint256[](strategies.length);
        for (uint256 i; i < strategies.length; ++i) {
            shares[i] = stakerDepositShares[staker][strategies[i]];
        }
    }
}
