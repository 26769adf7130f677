// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

/// @title Arithmetic of binary32, to nearest even, with gradual underflow and one NaN
/// @notice Mirrors Python's `eigentensor.numerics.floats`. Values are patterns: 32 bits, nothing above them. Every
/// result that is not a number is `NAN`; operands may be any.
/// @dev A finite pattern without its sign is k·2^23 + m, and its size m·2^(k - 149), with 0 <= k < 254 and m < 2^24; m has
/// bit 23, or k is 0. So a carry out of m leads to the next power of two, and from the largest number to infinity.
library Float32 {
    uint256 internal constant SIGN = 0x80000000;
    uint256 internal constant MAGNITUDE = 0x7FFFFFFF;
    uint256 internal constant INFINITY = 0x7F800000;
    uint256 internal constant NAN = 0x7FC00000;
    uint256 internal constant ONE = 0x3F800000;

    /// @dev x is the larger size, then x of 64 bits and y on the same scale, then their sum.
    function add(uint256 a, uint256 b) internal pure returns (uint256) {
        unchecked {
            uint256 x = a & MAGNITUDE;
            uint256 y = b & MAGNITUDE;
            if (x < y) (a, b, x, y) = (b, a, y, x);
            if (x >= INFINITY) return x > INFINITY || (y == INFINITY && a != b) ? NAN : a;
            uint256 k;
            uint256 n;
            assembly ("memory-safe") {
                k := sub(shr(23, x), gt(x, 0x7fffff))
                n := sub(shr(23, y), gt(y, 0x7fffff))
                y := sub(y, shl(23, n))
                // more than 40 bits further down it changes nothing: the shift then is huge, and its result 0
                y := shl(sub(add(n, 40), k), y)
                x := add(shl(40, sub(x, shl(23, k))), mul(sub(1, and(shr(30, xor(a, b)), 2)), y))
                y := shr(63, x)
            }
            if (y == 0) {
                if (x == 0) return a & b & SIGN;
                return _rounded(a & SIGN, x, k - 40, x >> 62 == 0 ? log2(x) : 62);
            }
            // without cancellation the highest bit is 63 or 64: 40 or 41 go, and nothing underflows
            assembly ("memory-safe") {
                y := gt(y, 1)
                n := add(40, y)
                x := shr(n, add(x, add(sub(shl(add(39, y), 1), 1), and(shr(n, x), 1))))
                x := add(x, shl(23, add(k, y)))
                if gt(x, 0x7f800000) { x := 0x7f800000 }
                x := or(and(a, 0x80000000), x)
            }
            return x;
        }
    }

    function subtract(uint256 a, uint256 b) internal pure returns (uint256) {
        return add(a, b ^ SIGN);
    }

    function multiply(uint256 a, uint256 b) internal pure returns (uint256) {
        unchecked {
            uint256 x = a & MAGNITUDE;
            uint256 y = b & MAGNITUDE;
            a = (a ^ b) & SIGN;
            // zero, infinite or no number
            if (x - 1 >= INFINITY - 1 || y - 1 >= INFINITY - 1) {
                if (x < INFINITY && y < INFINITY) return a;
                return x > INFINITY || y > INFINITY || x == 0 || y == 0 ? NAN : a | INFINITY;
            }
            uint256 k;
            assembly ("memory-safe") {
                k := sub(shr(23, x), gt(x, 0x7fffff))
                b := sub(shr(23, y), gt(y, 0x7fffff))
                x := mul(sub(x, shl(23, k)), sub(y, shl(23, b)))
                k := sub(add(k, b), 149)
                y := shr(46, x)
            }
            if (y != 0) return _rounded(a, x, k, 46 + (y >> 1));
            x <<= 24;
            return _rounded(a, x, k - 24, log2(x));
        }
    }

    /// @notice a·b + c, rounded once.
    /// @dev x is the product and z the addend, each of 48 bits; then x the one with the larger power 2^k, b how much larger
    /// it is, and z on the scale of x·2^80; then x their sum. a is the sign, c where the signs differ.
    function fusedMultiplyAdd(uint256 a, uint256 b, uint256 c) internal pure returns (uint256) {
        unchecked {
            uint256 x = a & MAGNITUDE;
            uint256 y = b & MAGNITUDE;
            uint256 z = c & MAGNITUDE;
            // an exponent of ones carries into bit 31
            if (((x + 0x800000) | (y + 0x800000) | (z + 0x800000)) > MAGNITUDE) {
                if (x >= INFINITY || y >= INFINITY) return add(multiply(a, b), c);
                return z > INFINITY ? NAN : c;
            }
            a = (a ^ b) & SIGN;
            uint256 k;
            assembly ("memory-safe") {
                k := sub(shr(23, x), gt(x, 0x7fffff))
                b := sub(shr(23, y), gt(y, 0x7fffff))
                x := mul(sub(x, shl(23, k)), sub(y, shl(23, b)))
            }
            if (x == 0) return add(a, c);
            assembly ("memory-safe") {
                // the addend gets as many bits as the product
                k := sub(add(k, b), 149)
                b := sub(shr(23, z), gt(z, 0x7fffff))
                z := shl(24, sub(z, shl(23, b)))
                b := sub(sub(k, b), not(23))
                c := and(xor(a, c), 0x80000000)
                if slt(b, 0) {
                    k := sub(k, b)
                    b := sub(0, b)
                    a := xor(a, c)
                    y := x
                    x := z
                    z := y
                }
                // more than 80 bits further down only whether there is something matters
                z := or(shl(sub(80, b), z), and(gt(b, 80), gt(z, 0)))
                x := add(shl(80, x), mul(sub(1, shr(30, c)), z))
                if slt(x, 0) {
                    x := sub(0, x)
                    a := xor(a, c)
                }
                // without much cancellation the highest bit is one of four, and 102 to 105 go
                y := shr(125, x)
                z := add(102, byte(y, 0x0000010102020202030303030303030300000000000000000000000000000000))
                b := sub(add(k, z), 80)
                if slt(b, 0) { y := 0 }
            }
            if (y == 0) return x == 0 ? 0 : _rounded(a, x, k - 80, log2(x));
            assembly ("memory-safe") {
                x := shr(z, add(x, add(sub(shl(sub(z, 1), 1), 1), and(shr(z, x), 1))))
                x := add(x, shl(23, b))
                if gt(x, 0x7f800000) { x := 0x7f800000 }
                x := or(a, x)
            }
            return x;
        }
    }

    function divide(uint256 a, uint256 b) internal pure returns (uint256) {
        unchecked {
            uint256 x = a & MAGNITUDE;
            uint256 y = b & MAGNITUDE;
            a = (a ^ b) & SIGN;
            // zero, infinite or no number
            if (x - 1 >= INFINITY - 1 || y - 1 >= INFINITY - 1) {
                if (x > INFINITY || y > INFINITY || (x == y && (x == 0 || x == INFINITY))) return NAN;
                return x == INFINITY || y == 0 ? a | INFINITY : a;
            }
            uint256 k;
            assembly ("memory-safe") {
                k := sub(shr(23, x), gt(x, 0x7fffff))
                b := sub(shr(23, y), gt(y, 0x7fffff))
                x := shl(60, sub(x, shl(23, k)))
                y := sub(y, shl(23, b))
                k := sub(add(k, 89), b)
                b := div(x, y)
                x := or(b, iszero(eq(mul(b, y), x)))
                // of normal numbers the highest bit is 59 or 60
                y := shr(59, x)
            }
            return _rounded(a, x, k, y == 0 || y > 3 ? log2(x) : 59 + (y >> 1));
        }
    }

    function reciprocal(uint256 a) internal pure returns (uint256) {
        return divide(ONE, a);
    }

    function squareRoot(uint256 a) internal pure returns (uint256) {
        unchecked {
            if (a & MAGNITUDE == 0 || a == INFINITY) return a;
            if (a > INFINITY) return NAN; // or negative
            uint256 k = (a >> 23) - (a > 0x7FFFFF ? 1 : 0);
            uint256 m = a - (k << 23);
            // a square of 63 or 64 bits times an even power of two
            uint256 up = m >> 23 == 0 ? 62 - log2(m) : 39;
            if ((k - up) & 1 == 0) ++up;
            m <<= up;
            // a line within 3.7 % of every root; each step of Newton squares the error, and stays above
            uint256 root = m / (3 << 31) + (45 << 25);
            root = (root + m / root) >> 1;
            root = (root + m / root) >> 1;
            root = (root + m / root) >> 1;
            uint256 square = root * root;
            if (square > m) --root;
            if (square != m) root |= 1;
            return _rounded(0, root, (k - up + 149) / 2, 31);
        }
    }

    /// @notice Towards zero; the sign of zero stays.
    function truncate(uint256 a) internal pure returns (uint256) {
        unchecked {
            uint256 exponent = (a >> 23) & 0xFF;
            if (exponent < 127) return a & SIGN;
            if (exponent < 150) return (a >> (150 - exponent)) << (150 - exponent);
            return a & MAGNITUDE > INFINITY ? NAN : a;
        }
    }

    function isNan(uint256 a) internal pure returns (bool) {
        return a & MAGNITUDE > INFINITY;
    }

    /// @notice The position of the highest bit of x; 0 for 0.
    /// @dev Not `clz`, which some chains do not have: that would save about 100 gas.
    function log2(uint256 x) internal pure returns (uint256 n) {
        assembly ("memory-safe") {
            n := shl(7, lt(0xffffffffffffffffffffffffffffffff, x))
            n := or(n, shl(6, lt(0xffffffffffffffff, shr(n, x))))
            n := or(n, shl(5, lt(0xffffffff, shr(n, x))))
            n := or(n, shl(4, lt(0xffff, shr(n, x))))
            n := or(n, shl(3, lt(0xff, shr(n, x))))
            n := or(n, shl(2, lt(0xf, shr(n, x))))
            n := or(n, byte(shr(n, x), 0x0000010102020202030303030303030300000000000000000000000000000000))
        }
    }

    /// @dev The pattern nearest to m·2^(k - 149), ties to even; k may be negative. n is the highest bit of m, at least 24
    /// unless all is below 2^-149. The lowest bit of m may stand for whatever is below it.
    function _rounded(uint256 sign, uint256 m, uint256 k, uint256 n) internal pure returns (uint256 pattern) {
        assembly ("memory-safe") {
            n := sub(n, 23)
            k := add(k, n)
            if slt(k, 0) {
                n := sub(n, k)
                k := 0
            }
            m := shr(n, add(m, add(sub(shl(sub(n, 1), 1), 1), and(shr(n, m), 1))))
            pattern := add(shl(23, k), m)
            if gt(pattern, 0x7f800000) { pattern := 0x7f800000 }
            pattern := or(sign, pattern)
        }
    }
}
