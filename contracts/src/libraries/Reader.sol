// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Merkle} from "./Merkle.sol";
import {Records} from "./Records.sol";

/// @title Packed bytes, read from front to back
library Reader {
    error NothingLeft(uint256 at);
    error LeftOver(uint256 bytes_);

    struct Cursor {
        bytes data;
        uint256 at;
    }

    /// @notice A big-endian number of at most 32 bytes.
    function number(Cursor memory from, uint256 size) internal pure returns (uint256 value) {
        uint256 start = _skip(from, size);
        bytes memory data = from.data;
        assembly ("memory-safe") {
            value := shr(sub(256, shl(3, size)), mload(add(add(data, 32), start)))
        }
    }

    function word(Cursor memory from) internal pure returns (bytes32) {
        return bytes32(number(from, 32));
    }

    /// @notice A copy of the next bytes.
    function slice(Cursor memory from, uint256 size) internal pure returns (bytes memory part) {
        part = Records.part(from.data, _skip(from, size), size);
    }

    /// @notice The root `levels` above the leaf hash `leaf` at position `index`, by the siblings that come next.
    function climb(Cursor memory from, bytes32 leaf, uint256 index, uint256 levels)
        internal
        pure
        returns (bytes32 root)
    {
        uint256 start = _skip(from, 32 * levels);
        bytes memory data = from.data;
        uint256 at;
        assembly ("memory-safe") {
            at := add(add(data, 32), start)
        }
        return Merkle.climbIn(leaf, index, at, levels);
    }

    function end(Cursor memory from) internal pure {
        if (from.at != from.data.length) revert LeftOver(from.data.length - from.at);
    }

    function _skip(Cursor memory from, uint256 size) private pure returns (uint256 start) {
        start = from.at;
        from.at = start + size;
        if (from.at > from.data.length) revert NothingLeft(start);
    }
}
