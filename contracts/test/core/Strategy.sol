// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Clones} from "@openzeppelin/contracts/proxy/Clones.sol";
import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {IStrategy} from "../../src/interfaces/IEigenLayer.sol";

/// @title Stand-in for an EigenLayer strategy on a local chain
/// @notice Shares of one token, rounded down against virtual 10^3 shares and wei as in the core. StrategyFactory clones
/// it for each token.
contract Strategy is IStrategy {
    using SafeERC20 for IERC20;

    uint256 private constant VIRTUAL = 1e3;
    uint256 private constant MAX_TOTAL_SHARES = 1e38 - 1;

    error NewSharesZero();
    error OnlyStrategyManager();
    error OnlyUnderlyingToken();
    error TotalSharesExceedsMax();
    error WithdrawalAmountExceedsTotalDeposits();

    address public immutable strategyManager;
    uint256 public totalShares;

    constructor(address strategyManager_) {
        strategyManager = strategyManager_;
    }

    /// @notice Gives shares for `amount` tokens that have already arrived.
    function deposit(IERC20 token, uint256 amount) external returns (uint256 newShares) {
        if (msg.sender != strategyManager) revert OnlyStrategyManager();
        if (token != underlyingToken()) revert OnlyUnderlyingToken();
        newShares = amount * (totalShares + VIRTUAL) / (_balance() - amount);
        if (newShares == 0) revert NewSharesZero();
        totalShares += newShares;
        if (totalShares > MAX_TOTAL_SHARES) revert TotalSharesExceedsMax();
    }

    /// @notice Pays what `shares` are worth to `recipient`.
    function withdraw(address recipient, IERC20 token, uint256 shares) external returns (uint256 amount) {
        if (msg.sender != strategyManager) revert OnlyStrategyManager();
        if (token != underlyingToken()) revert OnlyUnderlyingToken();
        if (shares > totalShares) revert WithdrawalAmountExceedsTotalDeposits();
        amount = sharesToUnderlyingView(shares);
        totalShares -= shares;
        token.safeTransfer(recipient, amount);
    }

    function underlyingToken() public view returns (IERC20) {
        return abi.decode(Clones.fetchCloneArgs(address(this)), (IERC20));
    }

    function sharesToUnderlyingView(uint256 shares) public view returns (uint256) {
        return _balance() * shares / (totalShares + VIRTUAL);
    }

    function underlyingToSharesView(uint256 amount) external view returns (uint256) {
        return amount * (totalShares + VIRTUAL) / _balance();
    }

    function _balance() private view returns (uint256) {
        return underlyingToken().balanceOf(address(this)) + VIRTUAL;
    }
}
