// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {ITaskMarket} from "../interfaces/ITaskMarket.sol";
import {Lives} from "./Lives.sol";

/// @title Block headers, proved by the chain's own memory of their hashes
library Headers {
    /// @dev EIP-2935: answers a block number with its hash, for the last 8,191 blocks.
    address internal constant HISTORY = 0x0000F90827F1C53a10cb7A02335B175320002935;
    /// @dev What the opcode BLOCKHASH remembers.
    uint256 internal constant RECENT = 256;

    uint256 private constant NUMBER = 8;
    uint256 private constant MIX = 13;

    /// @notice See `ITaskMarket.seed`.
    function seed(
        mapping(uint256 blockNumber => bytes32) storage mixes,
        uint256 grid,
        uint256 record,
        uint256 blockNumber,
        bytes calldata header
    ) external {
        if (mixes[blockNumber] != 0) return;
        if (blockNumber % grid != 0) revert ITaskMarket.NotASeedBlock(blockNumber);
        Lives.checkAfter(blockNumber);
        Lives.checkUntil(blockNumber + record);
        bytes32 mix = mixOf(blockNumber, header);
        mixes[blockNumber] = mix;
        emit ITaskMarket.Seeded(blockNumber, mix);
    }

    /// @notice The random value of block `blockNumber`, out of its header in RLP. Reverts for any other header, and for a
    /// block without randomness.
    function mixOf(uint256 blockNumber, bytes calldata header) internal view returns (bytes32 mix) {
        bytes32 expected = hashOf(blockNumber);
        bytes32 actual = keccak256(header);
        // INVARIANT 20: only the header that the chain itself remembers.
        if (expected == 0 || actual != expected) revert ITaskMarket.WrongHeader(blockNumber, expected, actual);
        bytes32 number;
        (number, mix) = fields(header);
        if (uint256(number) != blockNumber || mix == 0) {
            revert ITaskMarket.WrongHeader(blockNumber, expected, actual);
        }
    }

    /// @notice The hash of a past block; zero if the chain does not remember it.
    function hashOf(uint256 blockNumber) internal view returns (bytes32) {
        if (blockNumber + RECENT >= block.number) return blockhash(blockNumber);
        (bool known, bytes memory answer) = HISTORY.staticcall(abi.encode(blockNumber));
        return known && answer.length == 32 ? abi.decode(answer, (bytes32)) : bytes32(0);
    }

    /// @notice The fields of the block's number and of its random value, of at most 32 bytes each, as numbers.
    /// @dev Reads a header whose hash has been checked: it is well formed. Fields before the last one that is read are
    /// strings of less than 2^16 bytes.
    function fields(bytes calldata header) internal pure returns (bytes32 number, bytes32 mix) {
        // SAFETY: places are below 2^17.
        unchecked {
            uint256 at = 1 + (uint8(header[0]) > 0xf7 ? uint8(header[0]) - 0xf7 : 0);
            for (uint256 i;; ++i) {
                (uint256 start, uint256 length) = item(header, at);
                at = start + length;
                if (i == NUMBER) number = numberOf(header[start:at]);
                if (i == MIX) return (number, numberOf(header[start:at]));
            }
        }
    }

    /// @notice At most 32 bytes as a number; none are zero.
    function numberOf(bytes calldata part) internal pure returns (bytes32) {
        // SAFETY: no shift is by a negative number: more than 32 bytes revert.
        // forge-lint: disable-next-line(unsafe-typecast)
        return part.length == 0 ? bytes32(0) : bytes32(part) >> (8 * (32 - part.length));
    }

    /// @notice Where the bytes of the RLP string at `at` start, and how many they are.
    function item(bytes calldata header, uint256 at) internal pure returns (uint256 start, uint256 length) {
        // SAFETY: places are below 2^17.
        unchecked {
            uint256 prefix = uint8(header[at]);
            if (prefix < 0x80) return (at, 1);
            if (prefix < 0xb8) return (at + 1, prefix - 0x80);
            start = at + 1 + (prefix - 0xb7);
            for (uint256 i = at + 1; i < start; ++i) {
                length = length << 8 | uint8(header[i]);
            }
        }
    }
}
