// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {DTypes} from "./DTypes.sol";
import {Float32} from "./Float32.sol";
import {Half} from "./Half.sol";
import {Integers} from "./Integers.sol";

// A word is read as signed or unsigned as the type asks: its bits stay; and powers of two are shifts.
// forge-lint: disable-start(unsafe-typecast,incorrect-shift)

/// @title CAST and BITCAST between all element types, and values as they are stored
/// @notice Mirrors Python's `eigentensor.numerics.conversion`. Values are held as in `Scalar`.
library Convert {
    error NoConversion(uint256 source, uint256 target);

    /// @notice The value as another type. To a float: rounded once, to nearest even. Float to integer: towards zero,
    /// saturating, NaN to 0. Integer to integer: wrapping. To bool: whether it is not zero (NaN is not).
    function cast(uint256 source, uint256 target, uint256 a) internal pure returns (uint256) {
        if ((DTypes.ALL >> source) & (DTypes.ALL >> target) & 1 == 0) revert NoConversion(source, target);
        bool toFloat = isFloat(target);
        if (!isFloat(source)) {
            if (toFloat) return _fromInteger(target, a);
            if (target == DTypes.BOOL) return a == 0 ? 0 : 1;
            return Integers.wrap(target, a);
        }
        a = Half.widen(source, a);
        if (toFloat) return Half.narrow(target, a);
        if (target == DTypes.BOOL) return a & Float32.MAGNITUDE == 0 ? 0 : 1;
        if (target == DTypes.INDEX) revert NoConversion(source, target);
        return _toInteger(target, a);
    }

    /// @notice The same bits as another type of the same width. A NaN is the type's one, before and after.
    function bitcast(uint256 source, uint256 target, uint256 a) internal pure returns (uint256) {
        uint256 width = Integers.width(source);
        if (width < 8 || width != Integers.width(target) || source == DTypes.INDEX || target == DTypes.INDEX) {
            revert NoConversion(source, target);
        }
        return Half.canonical(target, Integers.wrap(target, Half.canonical(source, a)));
    }

    /// @notice The value whose stored bits are the low ones of `pattern`.
    function fromPattern(uint256 dtype, uint256 pattern) internal pure returns (uint256) {
        return Integers.wrap(dtype, pattern);
    }

    /// @notice The bits that a store writes, zeros above them.
    function toPattern(uint256 dtype, uint256 a) internal pure returns (uint256) {
        return Half.canonical(dtype, a) & ((1 << Integers.width(dtype)) - 1);
    }

    function isFloat(uint256 dtype) internal pure returns (bool) {
        unchecked {
            return dtype - DTypes.FLOAT16 < 3;
        }
    }

    /// @dev An integer that is not exact in float32 is infinite in float16: there two roundings are one.
    function _fromInteger(uint256 target, uint256 a) private pure returns (uint256) {
        unchecked {
            if (a == 0) return 0;
            uint256 sign = a >> 255;
            if (sign != 0) a = 0 - a;
            uint256 fraction = target == DTypes.BFLOAT16 ? 7 : 23;
            a <<= 32; // so that there is always something to round off
            uint256 n = Float32.log2(a);
            uint256 down = n - fraction;
            a = (a + (1 << (down - 1)) - 1 + (a >> down & 1)) >> down;
            a += (n - 32 + 126) << fraction;
            if (target == DTypes.BFLOAT16) return sign << 15 | a;
            return Half.narrow(target, sign << 31 | a);
        }
    }

    function _toInteger(uint256 target, uint256 a) private pure returns (uint256) {
        unchecked {
            if (Float32.isNan(a)) return 0;
            uint256 exponent = a >> 23 & 0xFF;
            if (exponent < 127) return 0;
            // infinity counts as 2^128
            uint256 size = ((a & 0x7FFFFF) | 0x800000) << 128 >> (278 - exponent);
            int256 value = a & Float32.SIGN == 0 ? int256(size) : -int256(size);
            (int256 low, int256 high) = Integers.limits(target);
            return uint256(value < low ? low : value > high ? high : value);
        }
    }
}
// forge-lint: disable-end(unsafe-typecast,incorrect-shift)
