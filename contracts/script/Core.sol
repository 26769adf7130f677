// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IStrategy, OperatorSet} from "../src/interfaces/IEigenLayer.sol";

// What a deployment asks EigenLayer's core beyond what the deployed contracts ask, with the core's own selectors.

interface IAllocationManagerViews {
    function delegation() external view returns (address);
    function getAVSRegistrar(address avs) external view returns (address);
    function getSlasher(OperatorSet memory operatorSet) external view returns (address);
    function getPendingSlasher(OperatorSet memory operatorSet) external view returns (address, uint32);
    function getRedistributionRecipient(OperatorSet memory operatorSet) external view returns (address);
    function getStrategiesInOperatorSet(OperatorSet memory operatorSet) external view returns (address[] memory);
}

interface IDelegationManagerViews {
    function allocationManager() external view returns (address);
    function strategyManager() external view returns (address);
}

interface IStrategyManagerViews {
    function strategyIsWhitelistedForDeposit(IStrategy strategy) external view returns (bool);
    /// @dev Since version 1.13 of the core; before, slashes are paid out at once.
    function SLASH_RESOLUTION_DELAY_BLOCKS() external view returns (uint32);
}

interface IStrategyFactory {
    function deployedStrategies(IERC20 token) external view returns (IStrategy);
    function deployNewStrategy(IERC20 token) external returns (IStrategy);
}
