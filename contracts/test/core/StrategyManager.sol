// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {EnumerableSet} from "@openzeppelin/contracts/utils/structs/EnumerableSet.sol";
import {IStrategy} from "../../src/interfaces/IEigenLayer.sol";
import {DelegationManager} from "./DelegationManager.sol";
import {Pausable} from "./Pausable.sol";
import {SlashedShares} from "./SlashedShares.sol";
import {Strategy} from "./Strategy.sol";

/// @title Stand-in for EigenLayer's StrategyManager on a local chain
/// @notice Deposits of stake into whitelisted strategies. Absent: deposits by signature.
contract StrategyManager is SlashedShares {
    using EnumerableSet for EnumerableSet.AddressSet;
    using SafeERC20 for IERC20;

    event Deposit(address staker, address strategy, uint256 shares);
    event StrategyAddedToDepositWhitelist(address strategy);

    error MaxStrategiesExceeded();
    error OnlyStrategyWhitelister();
    error SharesAmountTooHigh();
    error SharesAmountZero();
    error StrategyNotWhitelisted();

    uint8 internal constant PAUSED_DEPOSITS = 0;
    uint256 private constant MAX_STRATEGIES = 32;

    address public immutable strategyWhitelister;

    mapping(IStrategy => bool) public strategyIsWhitelistedForDeposit;
    mapping(address staker => mapping(IStrategy => uint256)) public stakerDepositShares;
    mapping(address staker => EnumerableSet.AddressSet) private _lists;

    constructor(DelegationManager delegation_, address whitelister, address pauser, uint32 slashResolutionDelay)
        Pausable(pauser)
        SlashedShares(delegation_, slashResolutionDelay)
    {
        strategyWhitelister = whitelister;
    }

    function addStrategiesToDepositWhitelist(IStrategy[] calldata strategies) external {
        if (msg.sender != strategyWhitelister) revert OnlyStrategyWhitelister();
        for (uint256 i; i < strategies.length; ++i) {
            if (strategyIsWhitelistedForDeposit[strategies[i]]) continue;
            strategyIsWhitelistedForDeposit[strategies[i]] = true;
            emit StrategyAddedToDepositWhitelist(address(strategies[i]));
        }
    }

    function depositIntoStrategy(IStrategy strategy, IERC20 token, uint256 amount)
        external
        onlyWhenNotPaused(PAUSED_DEPOSITS)
        returns (uint256 shares)
    {
        if (!strategyIsWhitelistedForDeposit[strategy]) revert StrategyNotWhitelisted();
        token.safeTransferFrom(msg.sender, address(strategy), amount);
        shares = Strategy(address(strategy)).deposit(token, amount);
        (uint256 previous, uint256 added) = _add(msg.sender, strategy, shares);
        delegation.increaseDelegatedShares(msg.sender, strategy, previous, added);
    }

    function addShares(address staker, IStrategy strategy, uint256 shares)
        external
        onlyDelegationManager
        returns (uint256 previous, uint256 added)
    {
        return _add(staker, strategy, shares);
    }

    function removeDepositShares(address staker, IStrategy strategy, uint256 shares)
        external
        onlyDelegationManager
        returns (uint256 left)
    {
        if (shares == 0) revert SharesAmountZero();
        if (shares > stakerDepositShares[staker][strategy]) revert SharesAmountTooHigh();
        left = stakerDepositShares[staker][strategy] - shares;
        stakerDepositShares[staker][strategy] = left;
        if (left == 0) _lists[staker].remove(address(strategy));
    }

    function withdrawSharesAsTokens(address staker, IStrategy strategy, IERC20 token, uint256 shares)
        external
        onlyDelegationManager
    {
        Strategy(address(strategy)).withdraw(staker, token, shares);
    }

    function getDeposits(address staker)
        external
        view
        returns (IStrategy[] memory strategies, uint256[] memory shares)
    {
        strategies = new IStrategy[](_lists[staker].length());
        shares = new uint256[](strategies.length);
        for (uint256 i; i < strategies.length; ++i) {
            strategies[i] = IStrategy(_lists[staker].at(i));
            shares[i] = stakerDepositShares[staker][strategies[i]];
        }
    }

    function getStakerStrategyList(address staker) external view returns (address[] memory) {
        return _lists[staker].values();
    }

    function stakerStrategyListLength(address staker) external view returns (uint256) {
        return _lists[staker].length();
    }

    function stakerStrategyList(address staker, uint256 index) external view returns (address) {
        return _lists[staker].at(index);
    }

    function _add(address staker, IStrategy strategy, uint256 added) private returns (uint256 previous, uint256) {
        if (added == 0) revert SharesAmountZero();
        previous = stakerDepositShares[staker][strategy];
        if (previous == 0) {
            if (_lists[staker].length() == MAX_STRATEGIES) revert MaxStrategiesExceeded();
            _lists[staker].add(address(strategy));
        }
        stakerDepositShares[staker][strategy] = previous + added;
        emit Deposit(staker, address(strategy), added);
        return (previous, added);
    }
}
