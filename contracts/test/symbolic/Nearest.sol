// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

/// @title What rounding means, by the order of numbers alone
/// @notice A binary format is the number of its fraction bits and the pattern of its infinity. A finite pattern without its
/// sign is m·2^k of the format's smallest numbers; patterns are in the order of what they stand for, and infinity's stands
/// for the power of two that comes next. k may be negative, in two's complement.
/// @dev Without jumps: each would double what there is to solve.
library Nearest {
    /// @notice Whether `pattern` is what m·2^k smallest numbers round to: between the midpoints to its two neighbours, or on
    /// one of them and even. m has at most 200 bits, at least three more than the fraction; k is at least -200.
    function isNearest(uint256 pattern, uint256 m, uint256 k, uint256 fraction, uint256 infinity)
        internal
        pure
        returns (bool)
    {
        unchecked {
            (, uint256 exponent) = split(pattern, fraction);
            uint256 here = _size(pattern, k, fraction);
            uint256 even = pattern & 1 ^ 1;
            uint256 above = bit(2 * m + even > _size(pattern - 1, k, fraction) + here);
            uint256 below = bit(2 * m < _size(pattern + 1, k, fraction) + here + even);
            // not even the smallest number is moved further, nor is any moved down
            uint256 fits = bit(exponent - k <= 228) & bit(pattern <= infinity);
            uint256 isBeyond = bit(int256(k) >= int256(exponent)) & bit(pattern == infinity);
            return fits & (above | bit(pattern == 0)) & (below | bit(pattern == infinity)) | isBeyond == 1;
        }
    }

    /// @notice A finite pattern, or infinity's, without sign as m·2^k smallest numbers.
    function split(uint256 pattern, uint256 fraction) internal pure returns (uint256 m, uint256 k) {
        unchecked {
            uint256 exponent = pattern >> fraction;
            uint256 hidden = bit(exponent != 0);
            return (pattern & ((1 << fraction) - 1) | hidden << fraction, exponent - hidden);
        }
    }

    /// @notice 1 for true.
    function bit(bool value) internal pure returns (uint256 one) {
        assembly ("memory-safe") {
            one := value
        }
    }

    /// @dev The pattern's number, in units of 2^k smallest ones.
    function _size(uint256 pattern, uint256 k, uint256 fraction) private pure returns (uint256) {
        unchecked {
            (uint256 m, uint256 exponent) = split(pattern, fraction);
            return m << (exponent - k);
        }
    }
}
