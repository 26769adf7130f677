// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Account, IMarket} from "../interfaces/IMarket.sol";

/// @title What accounts have in the market
library Accounts {
    using SafeCast for uint256;
    using SafeERC20 for IERC20;

    // ---- Tokens ----

    /// @notice Takes `amount` of the caller's tokens into the balance of `owner`.
    function deposit(mapping(address => Account) storage accounts, IERC20 token, address owner, uint256 amount)
        internal
    {
        credit(accounts, owner, amount);
        emit IMarket.Deposited(owner, msg.sender, amount);
        token.safeTransferFrom(msg.sender, address(this), amount);
    }

    /// @notice Takes what the balance lacks of `needed` from the caller's tokens.
    function top(mapping(address => Account) storage accounts, IERC20 token, address owner, uint256 needed) internal {
        uint256 balance = accounts[owner].balance;
        if (balance < needed) deposit(accounts, token, owner, needed - balance);
    }

    /// @notice Pays `amount` of the owner's balance out to `to`.
    function withdraw(
        mapping(address => Account) storage accounts,
        IERC20 token,
        address owner,
        address to,
        uint256 amount
    ) internal {
        debit(accounts, owner, amount);
        emit IMarket.Withdrawn(owner, to, amount);
        token.safeTransfer(to, amount);
    }

    // ---- Balances ----

    function credit(mapping(address => Account) storage accounts, address owner, uint256 amount) internal {
        Account storage account = accounts[owner];
        account.balance = (account.balance + amount).toUint128();
    }

    function debit(mapping(address => Account) storage accounts, address owner, uint256 amount) internal {
        Account storage account = accounts[owner];
        uint256 balance = account.balance;
        if (balance < amount) revert IMarket.InsufficientBalance(owner, balance, amount);
        account.balance = (balance - amount).toUint128();
    }

    /// @notice Moves `collateral` out of the owner's balance, up to `cap` in all.
    function hold(mapping(address => Account) storage accounts, address owner, uint256 collateral, uint256 cap)
        internal
    {
        Account storage account = accounts[owner];
        (uint256 balance, uint256 held) = (account.balance, account.collateral);
        // INVARIANT 17: the signer cannot tie up more than the owner allowed.
        if (held + collateral > cap) revert IMarket.CollateralCapExceeded(owner, held, collateral, cap);
        if (balance < collateral) revert IMarket.InsufficientBalance(owner, balance, collateral);
        (account.balance, account.collateral) = ((balance - collateral).toUint128(), (held + collateral).toUint128());
    }

    /// @notice Ends the hold on `collateral`; `payout` is what its owner gets of it, and beyond it.
    function release(mapping(address => Account) storage accounts, address owner, uint256 collateral, uint256 payout)
        internal
    {
        Account storage account = accounts[owner];
        (uint256 balance, uint256 held) = (account.balance, account.collateral);
        (account.balance, account.collateral) = ((balance + payout).toUint128(), (held - collateral).toUint128());
    }
}
