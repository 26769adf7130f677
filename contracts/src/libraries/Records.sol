// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {DTypes} from "./DTypes.sol";
import {Ops} from "./Ops.sol";

/// @title Records of a program, read as they are
/// @notice Mirrors Python's `eigentensor.program.codec`; the format is in `sdk/README.md`. What evaluation relies on is
/// checked when it is read; whether the whole program is valid is not asked here.
library Records {
    error WrongLength(uint256 length, uint256 expected);
    error NotZero(uint256 at);
    error BadInstruction(uint256 number);
    error NoParameter(uint256 number);
    error NoConstant();

    /// @dev Counts of a body record, and where its parts begin; parameters begin at 8.
    struct Body {
        bytes record;
        uint256 instructions;
        uint256 parameters;
        uint256 variables;
        uint256 outputRanges;
        uint256 reduceRanges;
        uint256 reductions;
        uint256 variablesAt;
        uint256 rangesAt;
        uint256 instructionsAt;
    }

    /// @dev `values` says by its bits 1, 2 and 4 which of a, b and c are instructions.
    struct Instruction {
        uint256 op;
        uint256 dtype;
        uint256 a;
        uint256 b;
        uint256 c;
        uint256 values;
    }

    uint256 internal constant NO_GUARD = 0xFFFF;
    uint256 private constant CONSTANT_ROLE = 4;

    function body(bytes memory record) internal pure returns (Body memory found) {
        if (record.length < 8) revert WrongLength(record.length, 8);
        found.record = record;
        found.instructions = little(record, 0, 2);
        found.parameters = uint8(record[2]);
        found.variables = uint8(record[3]);
        found.outputRanges = uint8(record[4]);
        found.reduceRanges = uint8(record[5]);
        found.reductions = uint8(record[6]);
        if (record[7] != 0) revert NotZero(7);
        found.variablesAt = 8 + 12 * found.parameters;
        found.rangesAt = found.variablesAt + 8 * found.variables;
        found.instructionsAt = found.rangesAt + 4 * (found.outputRanges + found.reduceRanges);
        uint256 length = found.instructionsAt + 8 * found.instructions;
        if (record.length != length || found.instructions == 0 || found.parameters == 0) {
            revert WrongLength(record.length, length);
        }
    }

    function parameter(Body memory from, uint256 number) internal pure returns (uint256 dtype, uint256 elements) {
        if (number >= from.parameters) revert NoParameter(number);
        uint256 at = 8 + 12 * number;
        dtype = uint8(from.record[at]);
        if (dtype == DTypes.INDEX || !_isType(dtype)) revert NoParameter(number);
        if (little(from.record, at + 1, 3) != 0) revert NotZero(at + 1);
        elements = little(from.record, at + 4, 8);
    }

    /// @notice The smallest and the largest value of a variable.
    function bounds(Body memory from, uint256 number) internal pure returns (int256 minimum, int256 maximum) {
        uint256 at = from.variablesAt + 8 * number;
        minimum = int32(uint32(little(from.record, at, 4)));
        maximum = int32(uint32(little(from.record, at + 4, 4)));
    }

    function outputExtent(Body memory from, uint256 number) internal pure returns (uint256) {
        return little(from.record, from.rangesAt + 4 * number, 4);
    }

    /// @notice The instruction that computes the extent of a reduce range, and the reduction that owns the range.
    function reduceRange(Body memory from, uint256 number) internal pure returns (uint256 extent, uint256 owner) {
        uint256 at = from.rangesAt + 4 * (from.outputRanges + number);
        extent = little(from.record, at, 2);
        owner = uint8(from.record[at + 2]);
        if (from.record[at + 3] != 0) revert NotZero(at + 3);
    }

    /// @notice Reads an instruction that there is into memory that is there: a body has many.
    function read(Body memory from, uint256 number, Instruction memory into) internal pure {
        uint256 word = _instruction(from, number);
        uint256 values = ~(type(uint256).max << (Ops.ARITIES >> 2 * (word >> 248) & 3));
        if (word >> 248 == Ops.LOAD) values = _third(word) == NO_GUARD ? 2 : 6;
        assembly ("memory-safe") {
            mstore(into, byte(0, word))
            mstore(add(into, 32), byte(1, word))
            mstore(add(into, 64), or(byte(2, word), shl(8, byte(3, word))))
            mstore(add(into, 96), or(byte(4, word), shl(8, byte(5, word))))
            mstore(add(into, 128), or(byte(6, word), shl(8, byte(7, word))))
            mstore(add(into, 160), values)
        }
    }

    /// @notice Reverts with `BadInstruction` if what was read names what there is not, an instruction that does not stand
    /// before it, or anything in an operand that it does not use.
    function check(Body memory from, uint256 number, Instruction memory i) internal pure {
        (uint256 op, uint256 a, uint256 b, uint256 c) = (i.op, i.a, i.b, i.c);
        uint256 values = i.values;
        bool fits = (Ops.ALL >> op) & 1 != 0 && _isType(i.dtype);
        if (values & 1 != 0 ? a >= number : !_names(from, op, a)) fits = false;
        if (values & 2 != 0 ? b >= number : b != 0 && op != Ops.CONST) fits = false;
        if (values & 4 != 0) {
            if (c >= number) fits = false;
        } else if (isReduction(op)) {
            if (c >= from.reductions) fits = false;
        } else if (c != 0 && op != Ops.CONST && op != Ops.LOAD) {
            fits = false;
        }
        if (!fits) revert BadInstruction(number);
    }

    /// @notice The instruction that is a reduction; the number of instructions if none is.
    function reduction(Body memory from, uint256 number) internal pure returns (uint256 found) {
        uint256 end = from.instructions;
        for (; found < end; ++found) {
            uint256 word = _instruction(from, found);
            if (isReduction(word >> 248) && _third(word) == number) break;
        }
    }

    /// @notice The dtype of an instruction that has been read.
    function dtypeOf(Body memory from, uint256 number) internal pure returns (uint256) {
        return _instruction(from, number) >> 240 & 0xFF;
    }

    function isReduction(uint256 op) internal pure returns (bool) {
        return op >= Ops.REDUCE_ADD && op <= Ops.REDUCE_MULACC;
    }

    /// @notice Where the elements of a constant begin in the record of its buffer, which has `size` bytes of them.
    function constantAt(bytes memory record, uint256 dtype, uint256 size) internal pure returns (uint256 at) {
        if (record.length < 4 || uint8(record[0]) != CONSTANT_ROLE || uint8(record[1]) != dtype || record[3] != 0) {
            revert NoConstant();
        }
        at = 4 + 4 * uint256(uint8(record[2]));
        if (record.length != at + size) revert WrongLength(record.length, at + size);
    }

    /// @notice A little-endian number of `size` bytes.
    function little(bytes memory data, uint256 at, uint256 size) internal pure returns (uint256 number) {
        while (size != 0) number = number << 8 | uint8(data[at + --size]);
    }

    /// @dev Whether there is what operand a of CONST (nothing), RANGE, VAR or LOAD names.
    function _names(Body memory from, uint256 op, uint256 a) private pure returns (bool) {
        if (op == Ops.RANGE) return a < from.outputRanges + from.reduceRanges;
        if (op == Ops.VAR) return a < from.variables;
        if (op == Ops.LOAD) return a != 0 && a < from.parameters;
        return a == 0;
    }

    function _isType(uint256 dtype) private pure returns (bool) {
        return (DTypes.ALL >> dtype) & 1 != 0;
    }

    /// @dev Its eight bytes; what follows is arbitrary.
    function _instruction(Body memory from, uint256 n) private pure returns (uint256 word) {
        bytes memory record = from.record;
        uint256 start = from.instructionsAt;
        assembly ("memory-safe") {
            word := mload(add(add(record, 32), add(start, shl(3, n))))
        }
    }

    /// @dev Operand c.
    function _third(uint256 word) private pure returns (uint256) {
        return word >> 200 & 0xFF | (word >> 184 & 0xFF00);
    }
}
