// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";

/// @title Sets of answer indices below 64
library Bits {
    function has(uint64 set, uint256 index) internal pure returns (bool) {
        return set >> index & 1 != 0;
    }

    function with(uint64 set, uint256 index) internal pure returns (uint64) {
        return set | _one(index);
    }

    function count(uint64 set) internal pure returns (uint256 n) {
        for (; set != 0; set &= set - 1) {
            ++n;
        }
    }

    /// @notice The lowest member of a set that has one.
    function lowest(uint64 set) internal pure returns (uint256) {
        // SAFETY: two's complement is meant.
        unchecked {
            return Math.log2(set & (~set + 1));
        }
    }

    /// @notice How many members are below `index`.
    function rank(uint64 set, uint256 index) internal pure returns (uint256) {
        return count(set & _one(index) - 1);
    }

    function _one(uint256 index) private pure returns (uint64) {
        assert(index < 64);
        // forge-lint: disable-next-line(unsafe-typecast)
        return uint64(2 ** index);
    }
}
