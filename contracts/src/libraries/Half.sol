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
            if (dtype == DTypes.BFLOAT16) return a << 16;
            if (dtype == DTypes.FLOAT32) return a;
            uint256 size = (a & 0x7FFF) << 13;
            a = (a & 0x8000) << 16;
            if (size - 0x00800000 < 0x0F000000) return a | (size + (112 << 23));
            if (size >= 0x0F800000) return a | Float32.INFINITY | size;
            if (size == 0) return a;
            // subnormal: the highest bit becomes the hidden one
            uint256 up = 23 - Float32.log2(size);
            return a | ((size << up) + ((112 - up) << 23));
        }
    }

    /// @notice float32 to a float type: one rounding, to nearest even; too large is infinite. NaN becomes the type's one.
    function narrow(uint256 dtype, uint256 a) internal pure returns (uint256) {
        unchecked {
            if (dtype == DTypes.FLOAT32) return Float32.isNan(a) ? Float32.NAN : a;
            if (a & Float32.MAGNITUDE > Float32.INFINITY) return dtype == DTypes.FLOAT16 ? FLOAT16_NAN : BFLOAT16_NAN;
            if (dtype == DTypes.BFLOAT16) return (a + 0x7FFF + (a >> 16 & 1)) >> 16;
            assembly ("memory-safe") {
                let down := 13
                let sign := and(shr(16, a), 0x8000)
                a := and(a, 0x7fffffff)
                switch lt(a, 0x38800000)
                case 0 { a := sub(a, 0x38000000) }
                default {
                    // subnormal: bits below 2^-24 go, all of them if there are more than 24
                    down := sub(126, shr(23, a))
                    a := mul(or(and(a, 0x7fffff), 0x800000), lt(down, 26))
                }
                a := shr(down, add(a, add(sub(shl(sub(down, 1), 1), 1), and(shr(down, a), 1))))
                if gt(a, 0x7c00) { a := 0x7c00 }
                a := or(sign, a)
            }
            return a;
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
