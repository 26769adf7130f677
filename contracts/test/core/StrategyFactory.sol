// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Clones} from "@openzeppelin/contracts/proxy/Clones.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IERC20Metadata} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Metadata.sol";
import {IStrategy} from "../../src/interfaces/IEigenLayer.sol";
import {Strategy} from "./Strategy.sol";
import {StrategyManager} from "./StrategyManager.sol";

/// @title Stand-in for EigenLayer's StrategyFactory on a local chain
/// @notice Anybody deploys the one strategy of a token; it takes deposits at once.
contract StrategyFactory {
    event StrategySetForToken(IERC20 token, IStrategy strategy);

    error StrategyAlreadyExists();

    StrategyManager public immutable strategyManager;
    address private immutable _IMPLEMENTATION;

    mapping(IERC20 token => IStrategy) public deployedStrategies;

    constructor(StrategyManager strategyManager_) {
        strategyManager = strategyManager_;
        _IMPLEMENTATION = address(new Strategy(address(strategyManager_)));
    }

    function deployNewStrategy(IERC20 token) external returns (IStrategy strategy) {
        if (address(deployedStrategies[token]) != address(0)) revert StrategyAlreadyExists();
        // A strategy's initialization announces its token's decimals: there is none of what has no code.
        IERC20Metadata(address(token)).decimals();
        strategy = IStrategy(Clones.cloneWithImmutableArgs(_IMPLEMENTATION, abi.encode(token)));
        deployedStrategies[token] = strategy;
        emit StrategySetForToken(token, strategy);
        IStrategy[] memory strategies = new IStrategy[](1);
        strategies[0] = strategy;
        strategyManager.addStrategiesToDepositWhitelist(strategies);
    }
}
