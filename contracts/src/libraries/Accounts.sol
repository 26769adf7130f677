// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Account, ITaskMarket} from "../interfaces/ITaskMarket.sol";

/// @title What accounts have in the market
library Accounts {
    using SafeCast for uint256;

    function credit(mapping(address => Account) storage accounts, address owner, uint256 amount) internal {
        accounts[owner].balance += amount.toUint128();
    }

    function debit(mapping(address => Account) storage accounts, address owner, uint256 amount) internal {
        uint256 balance = accounts[owner].balance;
        if (balance < amount) revert ITaskMarket.InsufficientBalance(owner, balance, amount);
        accounts[owner].balance = (balance - amount).toUint128();
    }

    /// @notice Moves `collateral` out of the owner's balance, up to `cap` in all.
    function hold(mapping(address => Account) storage accounts, address owner, uint256 collateral, uint256 cap)
        internal
    {
        Account memory account = accounts[owner];
        // INVARIANT 17: the signer cannot tie up more than the owner allowed.
        uint256 held = account.collateral + collateral;
        if (held > cap) revert ITaskMarket.CollateralCapExceeded(owner, account.collateral, collateral, cap);
        if (account.balance < collateral) {
            revert ITaskMarket.InsufficientBalance(owner, account.balance, collateral);
        }
        accounts[owner] = Account((account.balance - collateral).toUint128(), held.toUint128());
    }

    /// @notice Ends the hold on `collateral`; `payout` is what its owner gets of it, and beyond it.
    function release(mapping(address => Account) storage accounts, address owner, uint256 collateral, uint256 payout)
        internal
    {
        Account memory account = accounts[owner];
        accounts[owner] = Account((account.balance + payout).toUint128(), (account.collateral - collateral).toUint128());
    }
}
