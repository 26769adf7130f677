// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {DTypes} from "./DTypes.sol";

// A word is read as signed or unsigned as the operation asks: its bits stay; and powers of two are shifts.
// forge-lint: disable-start(unsafe-typecast,incorrect-shift)

/// @title Machine integers: two's complement, wrapping, total
/// @notice Mirrors Python's `eigentensor.numerics.integers`. A bool, an integer or an index is its value, in two's complement
/// of 256 bits: so comparisons, quotients and shifts need no type, and only what may leave the type is wrapped.
library Integers {
    /// @notice Bits of a value of the type, 1 for bool; 0 if there is no such type.
    function width(uint256 dtype) internal pure returns (uint256 bits) {
        bytes32 widths = DTypes.WIDTHS;
        assembly ("memory-safe") {
            bits := byte(dtype, widths)
        }
    }

    function isSigned(uint256 dtype) internal pure returns (bool) {
        unchecked {
            return dtype - DTypes.INT8 < 4;
        }
    }

    /// @notice The value of the type that `a` is modulo 2^width; the low bits alone of a float. An index is never wrapped.
    function wrap(uint256 dtype, uint256 a) internal pure returns (uint256) {
        if (dtype == DTypes.INDEX) return a;
        bytes32 widths = DTypes.WIDTHS;
        assembly ("memory-safe") {
            let unused := sub(256, byte(dtype, widths))
            a := shl(unused, a)
            // INT8 to INT64 keep the sign
            switch lt(sub(dtype, 2), 4)
            case 0 { a := shr(unused, a) }
            default { a := sar(unused, a) }
        }
        return a;
    }

    /// @notice The smallest and the largest value of the type; not for an index.
    function limits(uint256 dtype) internal pure returns (int256 low, int256 high) {
        unchecked {
            uint256 bits = width(dtype);
            if (isSigned(dtype)) low = -int256(1 << (bits - 1));
            high = low + int256(1 << bits) - 1;
        }
    }

    function add(uint256 dtype, uint256 a, uint256 b) internal pure returns (uint256) {
        unchecked {
            return wrap(dtype, a + b);
        }
    }

    function subtract(uint256 dtype, uint256 a, uint256 b) internal pure returns (uint256) {
        unchecked {
            return wrap(dtype, a - b);
        }
    }

    function multiply(uint256 dtype, uint256 a, uint256 b) internal pure returns (uint256) {
        unchecked {
            return wrap(dtype, a * b);
        }
    }

    /// @notice Quotient towards zero; x/0 = 0, minimum/-1 = minimum.
    function divide(uint256 dtype, uint256 a, uint256 b) internal pure returns (uint256 quotient) {
        assembly ("memory-safe") {
            quotient := sdiv(a, b) // of zero: 0
        }
        return wrap(dtype, quotient);
    }

    /// @notice What `divide` leaves; x%0 = x.
    function modulo(uint256 dtype, uint256 a, uint256 b) internal pure returns (uint256) {
        unchecked {
            return wrap(dtype, a - divide(dtype, a, b) * b);
        }
    }

    /// @notice Quotient towards -infinity; x/0 = 0, minimum/-1 = minimum.
    function floorDivide(uint256 dtype, uint256 a, uint256 b) internal pure returns (uint256 quotient) {
        assembly ("memory-safe") {
            quotient := sdiv(a, b)
            let below := and(slt(xor(a, b), 0), iszero(eq(mul(quotient, b), a)))
            quotient := sub(quotient, and(below, iszero(iszero(b))))
        }
        return wrap(dtype, quotient);
    }

    /// @notice What `floorDivide` leaves; x%0 = x.
    function floorModulo(uint256 dtype, uint256 a, uint256 b) internal pure returns (uint256) {
        unchecked {
            return wrap(dtype, a - floorDivide(dtype, a, b) * b);
        }
    }

    /// @notice a·2^b; the distance is read as unsigned, and one of the width or more gives 0.
    /// @dev A negative distance is at least the width, read in 256 bits as in its own.
    function shiftLeft(uint256 dtype, uint256 a, uint256 b) internal pure returns (uint256) {
        return wrap(dtype, a << b);
    }

    /// @notice a/2^b towards -infinity; the distance is read as unsigned, and one of the width or more leaves only the sign.
    function shiftRight(uint256 a, uint256 b) internal pure returns (uint256) {
        return uint256(int256(a) >> b);
    }

    function maximum(uint256 a, uint256 b) internal pure returns (uint256) {
        return less(a, b) ? b : a;
    }

    function minimum(uint256 a, uint256 b) internal pure returns (uint256) {
        return less(a, b) ? a : b;
    }

    function less(uint256 a, uint256 b) internal pure returns (bool) {
        return int256(a) < int256(b);
    }
}
// forge-lint: disable-end(unsafe-typecast,incorrect-shift)
