// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {DTypes} from "./DTypes.sol";
import {Ops} from "./Ops.sol";

/// @title Records of a program, read as they are
/// @notice Reads what Python's `eigentensor.program.codec` writes; the format is in `sdk/README.md`. What evaluation relies on is
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

    uint256 internal constant NO_GUARD = 0xFFFF;
    uint256 private constant CONSTANT_ROLE = 4;

    function body(bytes memory record) internal pure returns (Body memory parsed) {
        if (record.length < 8) revert WrongLength(record.length, 8);
        parsed.record = record;
        parsed.instructions = little(record, 0, 2);
        parsed.parameters = uint8(record[2]);
        parsed.variables = uint8(record[3]);
        parsed.outputRanges = uint8(record[4]);
        parsed.reduceRanges = uint8(record[5]);
        parsed.reductions = uint8(record[6]);
        if (record[7] != 0) revert NotZero(7);
        parsed.variablesAt = 8 + 12 * parsed.parameters;
        parsed.rangesAt = parsed.variablesAt + 8 * parsed.variables;
        parsed.instructionsAt = parsed.rangesAt + 4 * (parsed.outputRanges + parsed.reduceRanges);
        uint256 length = parsed.instructionsAt + 8 * parsed.instructions;
        if (record.length != length || parsed.instructions == 0 || parsed.parameters == 0) {
            revert WrongLength(record.length, length);
        }
    }

    function parameter(Body memory from, uint256 number) internal pure returns (uint256 dtype, uint256 elements) {
        if (number >= from.parameters) revert NoParameter(number);
        uint256 at = 8 + 12 * number;
        dtype = little(from.record, at, 4); // and three bytes of zeros
        if (dtype >= DTypes.INDEX || !_isType(dtype)) revert NoParameter(number);
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

    /// @notice The parts of an instruction that there is.
    function instruction(Body memory from, uint256 n)
        internal
        pure
        returns (uint256 op, uint256 dtype, uint256 a, uint256 b, uint256 c)
    {
        (bytes memory record, uint256 start) = (from.record, from.instructionsAt);
        assembly ("memory-safe") {
            let word := mload(add(add(record, 32), add(start, shl(3, n))))
            op := byte(0, word)
            dtype := byte(1, word)
            a := or(byte(2, word), shl(8, byte(3, word)))
            b := or(byte(4, word), shl(8, byte(5, word)))
            c := or(byte(6, word), shl(8, byte(7, word)))
        }
    }

    /// @notice How many operands of an instruction are instructions, from the first; of LOAD none is told. Reverts with
    /// `BadInstruction` if it names what there is not, an instruction that does not stand before it, or anything in an
    /// operand that it does not use.
    function check(Body memory from, uint256 number, uint256 op, uint256 dtype, uint256 a, uint256 b, uint256 c)
        internal
        pure
        returns (uint256 arity)
    {
        unchecked {
            arity = Ops.ARITIES >> 2 * op & 3;
            bool fits = (DTypes.ALL >> dtype) & 1 != 0;
            if (op >= Ops.ADD) {
                if (arity == 0 || a >= number) fits = false;
                if (arity > 1 ? b >= number : b != 0) fits = false;
                if (arity > 2 ? c >= number : c != 0) fits = false;
            } else if (op == Ops.LOAD) {
                if (a == 0 || a >= from.parameters || b >= number || (c != NO_GUARD && c >= number)) fits = false;
            } else if (isReduction(op)) {
                if (a >= number || c >= from.reductions || (arity > 1 ? b >= number : b != 0)) fits = false;
            } else if (op == Ops.CONST) {
                if (a != 0) fits = false;
            } else if (b | c != 0 || !_names(from, op, a)) {
                fits = false;
            }
            if (!fits) revert BadInstruction(number);
        }
    }

    /// @notice The instruction that is a reduction; the number of instructions if none is.
    function reduction(Body memory from, uint256 number) internal pure returns (uint256 position) {
        (uint256 code, uint256 end) = (codeAt(from), from.instructions);
        unchecked {
            for (; position < end; ++position) {
                uint256 word = _wordAt(code, position);
                if (isReduction(word >> 248) && _third(word) == number) break;
            }
        }
    }

    /// @notice Byte k, the lowest first, is the dtype of reduction k.
    function reductionDtypes(Body memory from) internal pure returns (uint64 types) {
        (uint256 code, uint256 end) = (codeAt(from), from.instructions);
        unchecked {
            for (uint256 n; n < end; ++n) {
                uint256 word = _wordAt(code, n);
                if (!isReduction(word >> 248)) continue;
                uint256 number = _third(word);
                if (number > 7) revert BadInstruction(n);
                // A dtype has one byte.
                // forge-lint: disable-next-line(unsafe-typecast)
                types |= uint64((word >> 240 & 0xFF) << 8 * number);
            }
        }
    }

    /// @notice Where the instructions begin in memory, eight bytes each.
    function codeAt(Body memory from) internal pure returns (uint256 at) {
        (bytes memory record, uint256 start) = (from.record, from.instructionsAt);
        assembly ("memory-safe") {
            at := add(add(record, 32), start)
        }
    }

    /// @notice The dtype of an instruction that there is.
    function dtypeOf(Body memory from, uint256 n) internal pure returns (uint256 dtype) {
        (bytes memory record, uint256 start) = (from.record, from.instructionsAt);
        assembly ("memory-safe") {
            dtype := byte(1, mload(add(add(record, 32), add(start, shl(3, n)))))
        }
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

    /// @notice A little-endian number of at most 8 bytes.
    function little(bytes memory data, uint256 at, uint256 size) internal pure returns (uint256 value) {
        if (at + size > data.length) revert WrongLength(data.length, at + size);
        assembly ("memory-safe") {
            value := shr(192, mload(add(add(data, 32), at)))
            // Eight bytes are reversed; those beyond the value's become its highest.
            value := or(shr(8, and(value, 0xFF00FF00FF00FF00)), shl(8, and(value, 0x00FF00FF00FF00FF)))
            value := or(shr(16, and(value, 0xFFFF0000FFFF0000)), shl(16, and(value, 0x0000FFFF0000FFFF)))
            value := or(shr(32, value), shl(32, and(value, 0xFFFFFFFF)))
            value := and(value, sub(shl(shl(3, size), 1), 1))
        }
    }

    /// @notice The bytes from `at` on.
    function rest(bytes memory data, uint256 at) internal pure returns (bytes memory) {
        if (at > data.length) revert WrongLength(data.length, at);
        return part(data, at, data.length - at);
    }

    /// @notice A copy of `size` bytes from `at` on.
    function part(bytes memory data, uint256 at, uint256 size) internal pure returns (bytes memory copy) {
        if (at + size > data.length) revert WrongLength(data.length, at + size);
        copy = new bytes(size);
        assembly ("memory-safe") {
            mcopy(add(copy, 32), add(add(data, 32), at), size)
        }
    }

    function _wordAt(uint256 code, uint256 n) private pure returns (uint256 word) {
        assembly ("memory-safe") {
            word := mload(add(code, shl(3, n)))
        }
    }

    /// @dev Operand c of the instruction that a word begins with.
    function _third(uint256 word) private pure returns (uint256) {
        return word >> 200 & 0xFF | (word >> 184 & 0xFF00);
    }

    /// @dev Whether there is what RANGE or VAR names.
    function _names(Body memory from, uint256 op, uint256 a) private pure returns (bool) {
        if (op == Ops.RANGE) return a < from.outputRanges + from.reduceRanges;
        return op == Ops.VAR && a < from.variables;
    }

    function _isType(uint256 dtype) private pure returns (bool) {
        return (DTypes.ALL >> dtype) & 1 != 0;
    }
}
