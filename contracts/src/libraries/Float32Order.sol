// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Float32} from "./Float32.sol";

/// @title The order of binary32
/// @notice Mirrors what Python's `eigentensor.numerics` compares. Values are patterns, as in `Float32`.
library Float32Order {
    /// @notice IEEE 754-2019 maximum: NaN wins, -0 < +0.
    function maximum(uint256 a, uint256 b) internal pure returns (uint256) {
        if (Float32.isNan(a) || Float32.isNan(b)) return Float32.NAN;
        return _place(a) < _place(b) ? b : a;
    }

    /// @notice IEEE 754-2019 minimum: NaN wins, -0 < +0.
    function minimum(uint256 a, uint256 b) internal pure returns (uint256) {
        if (Float32.isNan(a) || Float32.isNan(b)) return Float32.NAN;
        return _place(a) < _place(b) ? a : b;
    }

    /// @notice a < b; -0 = +0, false if one is NaN.
    function less(uint256 a, uint256 b) internal pure returns (bool) {
        if (Float32.isNan(a) || Float32.isNan(b) || (a | b) & Float32.MAGNITUDE == 0) return false;
        return _place(a) < _place(b);
    }

    /// @notice a = b; -0 = +0, false if one is NaN. Its opposite is "not equal", true if one is NaN.
    function equal(uint256 a, uint256 b) internal pure returns (bool) {
        if (Float32.isNan(a) || Float32.isNan(b)) return false;
        return a == b || (a | b) & Float32.MAGNITUDE == 0;
    }

    /// @dev A number's place in the order that has -0 below +0.
    function _place(uint256 a) private pure returns (int256 place) {
        assembly ("memory-safe") {
            place := xor(and(a, 0x7fffffff), sub(0, shr(31, a)))
        }
    }
}
