// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {MessageHashUtils} from "@openzeppelin/contracts/utils/cryptography/MessageHashUtils.sol";
import {CallReceipt, Deal, Offer, Voucher} from "../interfaces/Deals.sol";
import {IChannels} from "../interfaces/IChannels.sol";
import {Order} from "../interfaces/Tasks.sol";
import {Orders} from "./Orders.sol";

/// @title What is signed about channels, by EIP-712 in the domain of `IChannels`
library Signed {
    bytes32 private constant OFFER = keccak256(
        "Offer(address operator,address signer,uint256 nonce,uint256 maxPrice,uint256 checkPrice,uint256 most,"
        "uint256 riskEach,uint256 riskAll,uint64 checkRate,uint8 verifiers,uint32 exec,uint32 epoch,uint8 tail,"
        "bytes32 programs)"
    );
    bytes32 private constant DEAL = keccak256(
        "Deal(bytes32 pool,address client,address payer,uint256 nonce,uint256 most,uint256 valueAtRisk,uint64 openBy)"
    );
    bytes32 private constant VOUCHER =
        keccak256("Voucher(bytes32 channel,uint64 count,uint256 amount,uint64 acked,bytes32 root)");
    bytes32 private constant RECEIPT =
        keccak256("CallReceipt(bytes32 channel,uint64 index,bytes32 order,bytes32 outputsRoot,uint32 number)");

    uint256 private constant OFFER_SIZE = 14 * 32;

    function poolOf(bytes32 domain, Offer calldata offer) internal pure returns (bytes32) {
        bytes32 typehash = OFFER;
        bytes32 structHash;
        // SAFETY: scratches beyond the free memory pointer only. Words that are no valid fields hash to a pool that nobody
        // can offer: `offer` decodes the whole of it.
        assembly ("memory-safe") {
            let preimage := mload(0x40)
            mstore(preimage, typehash)
            calldatacopy(add(preimage, 0x20), offer, OFFER_SIZE)
            structHash := keccak256(preimage, add(OFFER_SIZE, 0x20))
        }
        return _hash(domain, structHash);
    }

    function channelOf(bytes32 domain, Deal calldata deal) internal pure returns (bytes32) {
        return _hash(domain, keccak256(abi.encode(DEAL, deal)));
    }

    function hashOf(bytes32 domain, Voucher memory voucher) internal pure returns (bytes32) {
        return _hash(domain, keccak256(abi.encode(VOUCHER, voucher)));
    }

    function hashOf(bytes32 domain, CallReceipt calldata receipt) internal pure returns (bytes32) {
        return _hash(domain, keccak256(abi.encode(RECEIPT, receipt)));
    }

    /// @notice The name of an order as a task.
    function taskOf(bytes32 domain, Order calldata order) internal pure returns (bytes32) {
        return _hash(domain, Orders.hash(order));
    }

    /// @notice Reverts unless the signature of the digest (65 bytes, ECDSA) is the signer's.
    function check(bytes32 digest, bytes calldata signature, address signer) internal pure {
        (address actual, ECDSA.RecoverError error,) = ECDSA.tryRecover(digest, signature);
        bool signed = error == ECDSA.RecoverError.NoError && actual == signer;
        if (!signed) revert IChannels.WrongSigner(digest, signer);
    }

    function _hash(bytes32 domain, bytes32 structHash) private pure returns (bytes32) {
        return MessageHashUtils.toTypedDataHash(domain, structHash);
    }
}
