// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Convert} from "../../src/libraries/Convert.sol";
import {DTypes} from "../../src/libraries/DTypes.sol";
import {Float32} from "../../src/libraries/Float32.sol";
import {Half} from "../../src/libraries/Half.sol";
import {Nearest} from "./Nearest.sol";

/// @title Conversions between float types, and between them and integers, whatever is converted
contract HalfSymbolic {
    uint256 private constant ROOM = 26;

    /// @dev A float type: its fraction bits, infinity, NaN, and how many powers of two its smallest number lies above
    /// binary32's.
    struct Format {
        uint256 dtype;
        uint256 fraction;
        uint256 infinity;
        uint256 nan;
        uint256 up;
    }

    function check_Widen_Float16(uint16 a) public pure {
        _checkWiden(_float16(), a);
    }

    function check_Widen_Bfloat16(uint16 a) public pure {
        _checkWiden(_bfloat16(), a);
    }

    function check_Narrow_Float16(uint32 a) public pure {
        _checkNarrow(_float16(), a);
    }

    function check_Narrow_Bfloat16(uint32 a) public pure {
        _checkNarrow(_bfloat16(), a);
    }

    function check_FromInteger_Float32(int64 a) public pure {
        _checkFromInteger(_float32(), a);
    }

    /// @dev Though it goes through binary32, as if rounded once.
    function check_FromInteger_Float16(int64 a) public pure {
        _checkFromInteger(_float16(), a);
    }

    function check_FromInteger_Bfloat16(int64 a) public pure {
        _checkFromInteger(_bfloat16(), a);
    }

    function check_FromInteger_Uint64(uint64 a) public pure {
        uint256 result = Convert.cast(DTypes.UINT64, DTypes.FLOAT32, a);
        assert(a == 0 ? result == 0 : Nearest.isNearest(result, uint256(a) << ROOM, 149 - 26, 23, Float32.INFINITY));
    }

    function check_ToInteger_Signed(uint32 a) public pure {
        _checkToInteger(DTypes.INT8, a, type(int8).min, type(int8).max);
        _checkToInteger(DTypes.INT16, a, type(int16).min, type(int16).max);
        _checkToInteger(DTypes.INT32, a, type(int32).min, type(int32).max);
        _checkToInteger(DTypes.INT64, a, type(int64).min, type(int64).max);
    }

    function check_ToInteger_Unsigned(uint32 a) public pure {
        _checkToInteger(DTypes.UINT8, a, 0, int256(uint256(type(uint8).max)));
        _checkToInteger(DTypes.UINT16, a, 0, int256(uint256(type(uint16).max)));
        _checkToInteger(DTypes.UINT32, a, 0, int256(uint256(type(uint32).max)));
        _checkToInteger(DTypes.UINT64, a, 0, int256(uint256(type(uint64).max)));
    }

    /// @dev As many smallest numbers: of binary32 a power of two more of them.
    function _checkWiden(Format memory f, uint16 a) private pure {
        uint256 wide = Half.widen(f.dtype, a);
        assert(wide >> 31 == a >> 15);
        if (a & 0x7FFF > f.infinity) {
            assert(Float32.isNan(wide));
            return;
        }
        (uint256 m, uint256 k) = Nearest.split(a & 0x7FFF, f.fraction);
        (uint256 wideM, uint256 wideK) = Nearest.split(wide & Float32.MAGNITUDE, 23);
        unchecked {
            if (a & 0x7FFF == f.infinity) assert(wide & Float32.MAGNITUDE == Float32.INFINITY);
            else if (f.up == 16) assert(m << 16 == wideM && k == wideK);
            else assert(wideK < 200 && m << (k + f.up) == wideM << wideK);
        }
    }

    function _checkNarrow(Format memory f, uint32 a) private pure {
        uint256 narrow = Half.narrow(f.dtype, a);
        if (Float32.isNan(a)) {
            assert(narrow == f.nan);
            return;
        }
        assert(narrow >> 15 == a >> 31);
        uint256 size = a & Float32.MAGNITUDE;
        (uint256 m, uint256 k) = Nearest.split(a & Float32.MAGNITUDE, 23);
        unchecked {
            if (size == Float32.INFINITY) assert(narrow & 0x7FFF == f.infinity);
            else if (size == 0) assert(narrow & 0x7FFF == 0);
            else assert(_isNearest(f, narrow & 0x7FFF, m, k - f.up));
        }
    }

    function _checkFromInteger(Format memory f, int64 a) private pure {
        unchecked {
            uint256 result = Convert.cast(DTypes.INT64, f.dtype, uint256(int256(a)));
            uint256 sign = f.infinity + (1 << f.fraction);
            assert((result >= sign) == (a < 0));
            uint256 size = a < 0 ? uint256(-int256(a)) : uint256(int256(a));
            if (a == 0) assert(result == 0);
            else assert(_isNearest(f, a < 0 ? result - sign : result, size, 149 - f.up));
        }
    }

    function _checkToInteger(uint256 dtype, uint32 a, int256 low, int256 high) private pure {
        int256 whole = int256(Convert.cast(DTypes.FLOAT32, dtype, a));
        if (Float32.isNan(a)) {
            assert(whole == 0);
            return;
        }
        unchecked {
            (uint256 m, uint256 k) = Nearest.split(a & Float32.MAGNITUDE, 23);
            bool negative = a >> 31 != 0;
            // 2^64 or more
            if (k >= 149 + 64 - 23) {
                assert(whole == (negative ? low : high));
                return;
            }
            assert(whole >= low && whole <= high && (negative ? whole <= 0 : whole >= 0));
            uint256 size = uint256(negative ? -whole : whole) << 149;
            assert(size <= m << k);
            assert(size + (1 << 149) > m << k || whole == (negative ? low : high));
        }
    }

    function _isNearest(Format memory f, uint256 pattern, uint256 m, uint256 k) private pure returns (bool) {
        unchecked {
            return Nearest.isNearest(pattern, m << ROOM, k - ROOM, f.fraction, f.infinity);
        }
    }

    function _float16() private pure returns (Format memory) {
        return Format(DTypes.FLOAT16, 10, 0x7C00, Half.FLOAT16_NAN, 125);
    }

    function _bfloat16() private pure returns (Format memory) {
        return Format(DTypes.BFLOAT16, 7, 0x7F80, Half.BFLOAT16_NAN, 16);
    }

    function _float32() private pure returns (Format memory) {
        return Format(DTypes.FLOAT32, 23, Float32.INFINITY, Float32.NAN, 0);
    }
}
