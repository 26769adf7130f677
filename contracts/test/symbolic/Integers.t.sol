// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {DTypes} from "../../src/libraries/DTypes.sol";
import {Integers} from "../../src/libraries/Integers.sol";

/// @title Integer operations wrap the exact result into their type, for every type and every two values of it
contract IntegersSymbolic {
    struct Type {
        uint256 dtype;
        uint256 bits;
        int256 low;
        int256 high;
    }

    function check_Wrap(uint8 dtype, uint256 a) public pure {
        Type memory t = _type(dtype);
        _check(t, Integers.wrap(t.dtype, a), a);
    }

    function check_Sum_Difference_Product(uint8 dtype, uint256 a, uint256 b) public pure {
        Type memory t = _type(dtype);
        unchecked {
            _check(t, Integers.add(t.dtype, a, b), a + b);
            _check(t, Integers.subtract(t.dtype, a, b), a - b);
            _check(t, Integers.multiply(t.dtype, a, b), a * b);
        }
    }

    function check_Divide(uint8 dtype, int256 a, int256 b) public pure {
        Type memory t = _type(dtype);
        if (!_isIn(t, a) || !_isIn(t, b)) return;
        unchecked {
            int256 quotient = b == 0 ? int256(0) : a / b;
            _check(t, Integers.divide(t.dtype, uint256(a), uint256(b)), uint256(quotient));
            _check(t, Integers.modulo(t.dtype, uint256(a), uint256(b)), uint256(a - quotient * b));
        }
    }

    /// @dev The quotient towards zero, one less where something is left whose sign is not the divisor's.
    function check_FloorDivide(uint8 dtype, int256 a, int256 b) public pure {
        Type memory t = _type(dtype);
        if (!_isIn(t, a) || !_isIn(t, b)) return;
        unchecked {
            int256 quotient = b == 0 ? int256(0) : a / b;
            int256 rest = a - quotient * b;
            if (b != 0 && rest != 0 && (a < 0) != (b < 0)) --quotient;
            _check(t, Integers.floorDivide(t.dtype, uint256(a), uint256(b)), uint256(quotient));
        }
    }

    /// @dev A distance is read as unsigned: of the width or more it moves everything out.
    function check_Shifts(uint8 dtype, int256 a, int256 b) public pure {
        Type memory t = _type(dtype);
        if (!_isIn(t, a) || !_isIn(t, b)) return;
        (uint256 left, uint256 right) =
            (Integers.shiftLeft(t.dtype, uint256(a), uint256(b)), Integers.shiftRight(uint256(a), uint256(b)));
        for (uint256 distance; distance < t.bits; ++distance) {
            if (b != int256(distance)) continue;
            unchecked {
                _check(t, left, uint256(a) * 2 ** distance);
                int256 low = int256(right) * int256(2 ** distance);
                assert(low <= a && a - low < int256(2 ** distance));
            }
            return;
        }
        assert(left == 0 && int256(right) == (a < 0 ? -1 : int256(0)));
    }

    function check_Order(int256 a, int256 b) public pure {
        (uint256 least, uint256 most) =
            (Integers.minimum(uint256(a), uint256(b)), Integers.maximum(uint256(a), uint256(b)));
        assert(Integers.less(uint256(a), uint256(b)) == a < b);
        assert(int256(least) == (a < b ? a : b) && int256(most) == (a < b ? b : a));
    }

    function check_Limits(uint8 dtype) public pure {
        Type memory t = _type(dtype);
        (int256 low, int256 high) = Integers.limits(t.dtype);
        assert(low == t.low && high == t.high && Integers.width(t.dtype) == t.bits);
        assert(Integers.isSigned(t.dtype) == t.low < 0);
    }

    /// @dev `result` is `exact` modulo 2^bits, and a value of the type.
    function _check(Type memory t, uint256 result, uint256 exact) private pure {
        unchecked {
            assert((result - exact) & ((1 << t.bits) - 1) == 0 && _isIn(t, int256(result)));
        }
    }

    function _isIn(Type memory t, int256 a) private pure returns (bool) {
        return t.low <= a && a <= t.high;
    }

    /// @dev One path for each type.
    function _type(uint256 dtype) private pure returns (Type memory) {
        if (dtype == DTypes.BOOL) return Type(DTypes.BOOL, 1, 0, 1);
        if (dtype == DTypes.INT8) return Type(DTypes.INT8, 8, type(int8).min, type(int8).max);
        if (dtype == DTypes.INT16) return Type(DTypes.INT16, 16, type(int16).min, type(int16).max);
        if (dtype == DTypes.INT32) return Type(DTypes.INT32, 32, type(int32).min, type(int32).max);
        if (dtype == DTypes.INT64) return Type(DTypes.INT64, 64, type(int64).min, type(int64).max);
        if (dtype == DTypes.UINT8) return Type(DTypes.UINT8, 8, 0, 0xFF);
        if (dtype == DTypes.UINT16) return Type(DTypes.UINT16, 16, 0, 0xFFFF);
        if (dtype == DTypes.UINT32) return Type(DTypes.UINT32, 32, 0, 0xFFFFFFFF);
        return Type(DTypes.UINT64, 64, 0, 0xFFFFFFFFFFFFFFFF);
    }
}
