// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {DTypes} from "./DTypes.sol";
import {Float32} from "./Float32.sol";

/// @title float16 and bfloat16, which are computed in float32
/// @notice Mirrors `widen`, `narrow` and `canonical` of Python's `eigentensor.numerics.floats`. `dtype` must be a float's.
library Half {
    uint256 internal constant FLOAT16_NAN = 0x7E00;
    uint256 internal constant BFLOAT16_NAN = 0x7FC0;

    /// @notice The float32 with the same value: exact. A NaN stays one.
    function widen(uint256 dtype, uint256 a) internal pure returns (uint256) {
        unchecked {
            if (dtype == DTypes.FLOAT32) return a;
            if (dtype == DTypes.BFLOAT16) return a << 16;
            uint256 sign = (a & 0x8000) << 16;
            uint256 size = (a & 0x7FFF) << 13;
            if (size >= 0x0F800000) return sign | Float32.INFINITY | size;
            if (size >= 0x00800000) return sign | (size + (112 << 23));
            if (size == 0) return sign;
            // subnormal: the highest bit becomes the hidden one
            uint256 up = 23 - Float32.log2(size);
            return sign | ((size << up) + ((112 - up) << 23));
        }
    }

    /// @notice float32 to a float type: one rounding, to nearest even; too large is infinite. NaN becomes the type's one.
    function narrow(uint256 dtype, uint256 a) internal pure returns (uint256) {
        unchecked {
            if (dtype == DTypes.FLOAT32) return Float32.isNan(a) ? Float32.NAN : a;
            if (dtype == DTypes.BFLOAT16) {
                return Float32.isNan(a) ? BFLOAT16_NAN : (a + 0x7FFF + (a >> 16 & 1)) >> 16;
            }
            uint256 sign = a >> 16 & 0x8000;
            a &= Float32.MAGNITUDE;
            if (a > Float32.INFINITY) return FLOAT16_NAN;
            uint256 down = 13;
            if (a >= 113 << 23) {
                a -= 112 << 23;
            } else {
                // subnormal: bits below 2^-24 go
                down = 126 - (a >> 23);
                a = (a & 0x7FFFFF) | 0x800000;
                if (down > 25) return sign;
            }
            a = (a + (1 << down - 1) - 1 + (a >> down & 1)) >> down;
            return sign | (a < 0x7C00 ? a : 0x7C00);
        }
    }

    /// @notice `a` of any type, with the type's one NaN in place of any other.
    function canonical(uint256 dtype, uint256 a) internal pure returns (uint256) {
        if (dtype == DTypes.FLOAT32) return Float32.isNan(a) ? Float32.NAN : a;
        if (dtype == DTypes.FLOAT16) return a & 0x7FFF > 0x7C00 ? FLOAT16_NAN : a;
        if (dtype == DTypes.BFLOAT16) return a & 0x7FFF > 0x7F80 ? BFLOAT16_NAN : a;
        return a;
    }
}
