// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Convert} from "../src/libraries/Convert.sol";
import {DTypes} from "../src/libraries/DTypes.sol";
import {Ops} from "../src/libraries/Ops.sol";
import {Scalar} from "../src/libraries/Scalar.sol";

/// @title The scalar operations from outside, many at once, from patterns to patterns
contract ScalarBatch {
    uint256 private constant WORD = type(uint64).max;

    /// @param source The type of the operand of CAST and BITCAST, which lead to `dtype`; else nothing.
    /// @param dtype The type of the operands of all others.
    /// @param operands For each evaluation a, b, c in 8 bytes each.
    /// @return results For each evaluation 8 bytes.
    function evaluate(uint256 op, uint256 source, uint256 dtype, bytes calldata operands)
        external
        pure
        returns (bytes memory results)
    {
        results = new bytes(operands.length / 3);
        for (uint256 i; i < operands.length; i += 24) {
            uint256 packed = uint192(bytes24(operands[i:i + 24]));
            uint256 result = answer(op, source, dtype, packed >> 128, (packed >> 64) & WORD, packed & WORD);
            assembly ("memory-safe") {
                mstore(add(add(results, 32), div(i, 3)), shl(192, result)) // what follows is written later
            }
        }
    }

    function answer(uint256 op, uint256 source, uint256 dtype, uint256 a, uint256 b, uint256 c)
        public
        pure
        returns (uint256)
    {
        if (op == Ops.CAST) return Convert.toPattern(dtype, Convert.cast(source, dtype, _value(source, a)));
        if (op == Ops.BITCAST) return Convert.toPattern(dtype, Convert.bitcast(source, dtype, _value(source, a)));
        uint256 first = _value(op == Ops.WHERE ? DTypes.BOOL : dtype, a);
        bool compares = op == Ops.CMPLT || op == Ops.CMPNE || op == Ops.CMPEQ;
        uint256 result = Scalar.evaluate(op, dtype, first, _value(dtype, b), _value(dtype, c));
        return Convert.toPattern(compares ? DTypes.BOOL : dtype, result);
    }

    /// @dev An index is never stored: only tests give it a pattern.
    function _value(uint256 dtype, uint256 pattern) private pure returns (uint256) {
        return Convert.fromPattern(dtype == DTypes.INDEX ? DTypes.INT64 : dtype, pattern);
    }
}
