// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Convert} from "./Convert.sol";
import {DTypes} from "./DTypes.sol";
import {Half} from "./Half.sol";
import {Integers} from "./Integers.sol";
import {Records} from "./Records.sol";

/// @title Stored bits of values
/// @notice Mirrors `is_canonical` of Python's `eigentensor.tracing.step` and `unpacked` of `eigentensor.dispute.encoding`.
library Patterns {
    error NotCanonical(uint256 pattern);

    /// @notice Bytes of an element as it is stored.
    function size(uint256 dtype) internal pure returns (uint256) {
        return (Integers.width(dtype) + 7) / 8;
    }

    /// @notice Whether a value of the type is stored as `pattern`: no bits beyond its width, and no NaN but the one.
    function isCanonical(uint256 dtype, uint256 pattern) internal pure returns (bool) {
        uint256 width = Integers.width(dtype);
        if (dtype == DTypes.INDEX || pattern >> width != 0) return false;
        if (!Convert.isFloat(dtype)) return true;
        return pattern == Half.canonical(dtype, pattern);
    }

    /// @notice Reverts unless each of the packed patterns is a value's.
    function check(uint256 dtype, bytes memory values) internal pure {
        if (dtype != DTypes.BOOL && !Convert.isFloat(dtype)) return;
        uint256 bytes_ = size(dtype);
        for (uint256 at; at < values.length; at += bytes_) {
            uint256 pattern = Records.little(values, at, bytes_);
            bool canonical = dtype == DTypes.BOOL ? pattern <= 1 : pattern == Half.canonical(dtype, pattern);
            if (!canonical) revert NotCanonical(pattern);
        }
    }

    /// @notice The bytes of the results of an element's reductions. Byte k of `types` is the dtype of reduction k.
    function sizeOfAll(uint256 types) internal pure returns (uint256 bytes_) {
        for (; types != 0; types >>= 8) {
            bytes_ += size(types & 0xFF);
        }
    }

    /// @notice The patterns in the bytes of the results of an element's reductions.
    function unpacked(uint256 types, bytes memory results) internal pure returns (uint256[] memory patterns) {
        uint256 count;
        while (types >> 8 * count != 0) ++count;
        patterns = new uint256[](count);
        uint256 at;
        for (uint256 k; k < count; ++k) {
            uint256 bytes_ = size(types >> 8 * k & 0xFF);
            patterns[k] = Records.little(results, at, bytes_);
            at += bytes_;
        }
    }
}
