// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {Account} from "../interfaces/IMarket.sol";
import {ITaskMarket, Order, Parameters, State} from "../interfaces/ITaskMarket.sol";
import {Accounts} from "./Accounts.sol";
import {Limits} from "./Limits.sol";
import {Ledger} from "./Lives.sol";
import {Progresses} from "./Progresses.sol";
import {Terms} from "./Terms.sol";

/// @title What a client sends before anybody accepts
library Orders {
    using Accounts for mapping(address => Account);
    using Progresses for mapping(bytes32 => uint256);

    bytes32 private constant TYPEHASH = keccak256(
        "Order(address client,uint256 nonce,uint16 semantics,bytes32 program,bytes32 inputs,bytes32 weights,"
        "bytes32 states,bytes32 variables,uint32 repeat,uint256 minPrice,uint256 maxPrice,uint64 rampStart,"
        "uint64 rampLength,uint256 checkFee,uint64 checkRate,uint8 verifiers,uint256 valueAtRisk,uint32 exec,"
        "uint64 acceptBy,bytes32 operators)"
    );
    uint256 private constant SIZE = 20 * 32;

    /// @notice The order's struct hash in the sense of EIP-712.
    function hash(Order calldata order) internal pure returns (bytes32 structHash) {
        bytes32 typehash = TYPEHASH;
        // SAFETY: scratches beyond the free memory pointer only. Words that are no valid fields hash to a name that
        // nobody can post: `post` decodes the whole order.
        assembly ("memory-safe") {
            let preimage := mload(0x40)
            mstore(preimage, typehash)
            calldatacopy(add(preimage, 0x20), order, SIZE)
            structHash := keccak256(preimage, add(SIZE, 0x20))
        }
    }

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
        if (ledger.progress[uuid] != 0) {
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
        ledger.progress.setState(uuid, State.Open);
        emit ITaskMarket.Posted(uuid, order.client, order);
    }

    /// @notice Ends an open task as `end`: its escrow goes back.
    function takeBack(Ledger storage ledger, bytes32 uuid, Order calldata order, State end) internal {
        State state = ledger.progress.stateOf(uuid);
        if (state != State.Open) revert ITaskMarket.WrongState(uuid, State.Open, state);
        ledger.progress.setState(uuid, end);
        ledger.accounts.credit(order.client, Terms.escrow(order.maxPrice, order.verifiers, order.checkFee));
    }
}
