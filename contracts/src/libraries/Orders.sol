// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {Account, ITaskMarket, Order, Parameters, State} from "../interfaces/ITaskMarket.sol";
import {Accounts} from "./Accounts.sol";
import {Limits} from "./Limits.sol";
import {Ledger, Progress} from "./Lives.sol";
import {Terms} from "./Terms.sol";

/// @title What a client sends before anybody accepts
library Orders {
    using Accounts for mapping(address => Account);

    /// @notice See `ITaskMarket.post`. `many`: what is posted already is left alone.
    function post(
        Ledger storage ledger,
        Parameters memory p,
        IERC20 token,
        bytes32 uuid,
        Order calldata order,
        bytes calldata signature,
        bool many
    ) internal {
        Progress storage progress = ledger.progress[uuid];
        if (progress.state != State.None) {
            if (many) return;
            revert ITaskMarket.AlreadyPosted(uuid);
        }
        Limits.check(p, order);
        uint256 escrow = Terms.escrow(order.maxPrice, order.verifiers, order.checkFee);
        if (msg.sender == order.client) {
            ledger.accounts.top(token, order.client, escrow);
        } else if (!SignatureChecker.isValidSignatureNowCalldata(order.client, uuid, signature)) {
            revert ITaskMarket.WrongSignature(order.client, uuid);
        }

        // INVARIANT 10: the escrow is all that the client can lose to the task.
        ledger.accounts.debit(order.client, escrow);
        progress.state = State.Open;
        emit ITaskMarket.Posted(uuid, order.client, order);
    }

    /// @notice Ends an open task as `end`: its escrow goes back.
    function takeBack(Ledger storage ledger, bytes32 uuid, Order calldata order, State end) internal {
        Progress storage progress = ledger.progress[uuid];
        if (progress.state != State.Open) revert ITaskMarket.WrongState(uuid, State.Open, progress.state);
        progress.state = end;
        ledger.accounts.credit(order.client, Terms.escrow(order.maxPrice, order.verifiers, order.checkFee));
    }
}
