// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Convert} from "./Convert.sol";
import {DTypes} from "./DTypes.sol";
import {Float32} from "./Float32.sol";
import {Float32Order} from "./Float32Order.sol";
import {Half} from "./Half.sol";
import {Integers} from "./Integers.sol";
import {Ops} from "./Ops.sol";

/// @title The scalar operations of a program, exactly as `sdk/README.md` specifies them
/// @notice Mirrors Python's `eigentensor.numerics.operations`. A float is held as its pattern, a bool, an integer or an
/// index as its value in two's complement of 256 bits. CAST and BITCAST have two types and stand apart in `Convert`.
library Scalar {
    error NoOperation(uint256 op, uint256 dtype);

    /// @notice The result of `op` on operands of type `dtype` (for WHERE: of its second and third operand). What the
    /// operation does not take is ignored. Reverts with `NoOperation` where the table has no cell.
    function evaluate(uint256 op, uint256 dtype, uint256 a, uint256 b, uint256 c)
        internal
        pure
        returns (uint256 result)
    {
        if (!Convert.isFloat(dtype)) return _ofIntegers(op, dtype, a, b, c);
        if (op == Ops.WHERE) return a == 0 ? c : b;
        bool half = dtype != DTypes.FLOAT32;
        if (half) {
            a = Half.widen(dtype, a);
            b = Half.widen(dtype, b);
        }
        if (op < Ops.MAX) {
            if (op == Ops.MULACC && !half) result = Float32.fusedMultiplyAdd(a, b, c);
            else if (op == Ops.ADD) result = Float32.add(a, b);
            else if (op == Ops.MUL) result = Float32.multiply(a, b);
            else if (op == Ops.SUB) result = Float32.subtract(a, b);
            else if (op == Ops.DIV) result = Float32.divide(a, b);
            else revert NoOperation(op, dtype);
        } else if (op < Ops.CDIV) {
            if (op == Ops.MAX) result = Float32Order.maximum(a, b);
            else if (op == Ops.MIN) result = Float32Order.minimum(a, b);
            else if (op == Ops.SQRT) result = Float32.squareRoot(a);
            else if (op == Ops.RECIPROCAL) result = Float32.reciprocal(a);
            else if (op == Ops.TRUNC) result = Float32.truncate(a);
            else revert NoOperation(op, dtype);
        } else {
            if (op == Ops.CMPLT) return _bit(Float32Order.less(a, b));
            if (op == Ops.CMPEQ) return _bit(Float32Order.equal(a, b));
            if (op == Ops.CMPNE) return _bit(!Float32Order.equal(a, b));
            revert NoOperation(op, dtype);
        }
        if (half) result = Half.narrow(dtype, result);
    }

    /// @notice Where a reduction by ADD, MUL, MAX, MIN or MULACC starts.
    function identity(uint256 op, uint256 dtype) internal pure returns (uint256) {
        bool known =
            op == Ops.MULACC ? dtype == DTypes.FLOAT32 : (DTypes.ALL >> dtype) & 1 != 0 && dtype != DTypes.INDEX;
        if (known) {
            if (op == Ops.ADD || op == Ops.MULACC) return 0;
            if (op == Ops.MUL) return Convert.cast(DTypes.BOOL, dtype, 1);
            if (op == Ops.MAX || op == Ops.MIN) {
                uint256 sign = op == Ops.MAX ? Float32.SIGN : 0;
                if (Convert.isFloat(dtype)) return Half.narrow(dtype, sign | Float32.INFINITY);
                (int256 low, int256 high) = Integers.limits(dtype);
                return uint256(op == Ops.MAX ? low : high);
            }
        }
        revert NoOperation(op, dtype);
    }

    /// @dev Of bools, integers and indices.
    function _ofIntegers(uint256 op, uint256 dtype, uint256 a, uint256 b, uint256 c) private pure returns (uint256) {
        if ((DTypes.ALL >> dtype) & 1 == 0) revert NoOperation(op, dtype);
        if (op < Ops.SQRT) {
            if (op == Ops.ADD) return dtype == DTypes.BOOL ? a | b : Integers.add(dtype, a, b);
            if (op == Ops.MUL) return Integers.multiply(dtype, a, b);
            if (op == Ops.MAX) return Integers.maximum(a, b);
            if (op == Ops.MIN) return Integers.minimum(a, b);
            if (op == Ops.SUB && dtype != DTypes.BOOL) return Integers.subtract(dtype, a, b);
        } else if (op < Ops.AND) {
            if (dtype == DTypes.BOOL) revert NoOperation(op, dtype);
            if (op == Ops.FLOORDIV) return Integers.floorDivide(dtype, a, b);
            if (op == Ops.FLOORMOD) return Integers.floorModulo(dtype, a, b);
            if (op == Ops.CDIV) return Integers.divide(dtype, a, b);
            if (op == Ops.CMOD) return Integers.modulo(dtype, a, b);
        } else if (op < Ops.CMPLT) {
            if (op == Ops.AND) return a & b;
            if (op == Ops.OR) return a | b;
            if (dtype == DTypes.INDEX) revert NoOperation(op, dtype);
            if (op == Ops.XOR) return a ^ b;
            if (dtype == DTypes.BOOL) revert NoOperation(op, dtype);
            if (op == Ops.SHL) return Integers.shiftLeft(dtype, a, b);
            if (op == Ops.SHR) return Integers.shiftRight(a, b);
        } else {
            if (op == Ops.CMPLT) return _bit(Integers.less(a, b));
            if (op == Ops.CMPEQ) return _bit(a == b);
            if (op == Ops.CMPNE) return _bit(a != b);
            if (op == Ops.WHERE) return a == 0 ? c : b;
        }
        revert NoOperation(op, dtype);
    }

    function _bit(bool condition) private pure returns (uint256 bit) {
        assembly ("memory-safe") {
            bit := condition
        }
    }
}
