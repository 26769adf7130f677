// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Float32} from "../../src/libraries/Float32.sol";
import {Nearest} from "./Nearest.sol";

/// @title Rounding to binary32, and what the operations give where nothing is rounded, whatever the operands
contract Float32Symbolic {
    uint256 private constant INFINITY = Float32.INFINITY;
    uint256 private constant MAGNITUDE = Float32.MAGNITUDE;
    uint256 private constant SIGN = Float32.SIGN;

    /// @dev Places to the left that give every number the bits that `Nearest` asks for.
    uint256 private constant ROOM = 26;

    /// @dev The tail that most operations share, for every number of at most 128 bits and every power of two.
    function check_Rounded(bool negative, uint128 m, int16 k) public pure {
        if (k < -170 || k > 500) return;
        uint256 n = Float32.log2(m);
        // what it asks for: something to round off
        if (m == 0 || (n < 24 && k >= 0)) return;
        uint256 sign = negative ? SIGN : 0;
        unchecked {
            uint256 size = Float32._rounded(sign, m, uint256(int256(k)), n) ^ sign;
            assert(Nearest.isNearest(size, uint256(m) << ROOM, uint256(int256(k)) - ROOM, 23, INFINITY));
        }
    }

    function check_Add_OfWhatIsNotFinite(uint32 a, uint32 b) public pure {
        if (_isFinite(a) && _isFinite(b)) return;
        (uint256 x, uint256 y) = (a & MAGNITUDE, b & MAGNITUDE);
        bool undefined = x > INFINITY || y > INFINITY || (x == y && a != b);
        assert(Float32.add(a, b) == (undefined ? Float32.NAN : x == INFINITY ? a : b));
    }

    function check_Multiply_OfWhatIsNotFinite(uint32 a, uint32 b) public pure {
        if (_isFinite(a) && _isFinite(b)) return;
        (uint256 x, uint256 y) = (a & MAGNITUDE, b & MAGNITUDE);
        bool undefined = x > INFINITY || y > INFINITY || x == 0 || y == 0;
        assert(Float32.multiply(a, b) == (undefined ? Float32.NAN : INFINITY | (a ^ b) & SIGN));
    }

    function check_FusedMultiplyAdd_OfWhatIsNotFinite(uint32 a, uint32 b, uint32 c) public pure {
        if (_isFinite(a) && _isFinite(b) && _isFinite(c)) return;
        uint256 product = _isFinite(a) && _isFinite(b) ? 0 : Float32.multiply(a, b);
        assert(Float32.fusedMultiplyAdd(a, b, c) == Float32.add(product, c));
    }

    function check_Divide_OfZeroAndInfinity(uint32 a, uint32 b) public pure {
        (uint256 x, uint256 y) = (a & MAGNITUDE, b & MAGNITUDE);
        if (x != 0 && x < INFINITY && y != 0 && y < INFINITY) return;
        bool undefined = x > INFINITY || y > INFINITY || (x == y && (x == 0 || x == INFINITY));
        uint256 size = x == INFINITY || y == 0 ? INFINITY : 0;
        assert(Float32.divide(a, b) == (undefined ? Float32.NAN : size | (a ^ b) & SIGN));
    }

    function check_Truncate(uint32 a) public pure {
        uint256 whole = Float32.truncate(a);
        if (a & MAGNITUDE > INFINITY) {
            assert(whole == Float32.NAN);
            return;
        }
        assert(whole & SIGN == a & SIGN);
        (uint256 m, uint256 k) = Nearest.split(a & MAGNITUDE, 23);
        (uint256 n, uint256 l) = Nearest.split(whole & MAGNITUDE, 23);
        // from 2^23 on every number is whole
        if (k >= 149) {
            assert(whole == a);
            return;
        }
        unchecked {
            uint256 size = n << l;
            assert(size & ((1 << 149) - 1) == 0);
            assert(size <= m << k && size + (1 << 149) > m << k);
        }
    }

    function check_Log2(uint256 x) public pure {
        uint256 n = Float32.log2(x);
        assert(x == 0 ? n == 0 : x >> n == 1);
    }

    function _isFinite(uint256 a) private pure returns (bool) {
        return a & MAGNITUDE < INFINITY;
    }
}
