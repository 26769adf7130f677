// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {FINAL, Point} from "../interfaces/IReferee.sol";
import {Convert} from "./Convert.sol";
import {DTypes} from "./DTypes.sol";
import {Integers} from "./Integers.sol";
import {Operands} from "./Operands.sol";
import {Ops} from "./Ops.sol";
import {Patterns} from "./Patterns.sol";
import {Records} from "./Records.sol";
import {Scalar} from "./Scalar.sol";

/// @title One step of a reduction of an element, or the element's final expression
/// @notice Mirrors Python's `eigentensor.tracing.step`. Only the step's cone is read, checked and evaluated.
/// @dev An instruction has eight bytes; a word loaded at it begins with them, and goes on with the next ones. Operands are
/// little-endian. Bits count from the lowest.
///
///      255    248 247    240 239    224 223    208 207    192 191                      0
///     +----------+----------+----------+----------+----------+-------------------------+
///     |    op    |  dtype   |    a     |    b     |    c     |  the next instructions  |
///     +----------+----------+----------+----------+----------+-------------------------+
///
///     a, b, c: numbers of instructions before it, from the first as many as ARITIES has. What else they are:
///       CONST    b + 2^16 c: the low 32 bits of the value    RANGE   a: a range     VAR   a: a variable
///       LOAD     a: a parameter, b: the element, c: its guard or NO_GUARD           reduction   c: its number
///
/// `TABLE` says which types there are, and how many operands of an operation are instructions.
///
///      255            144 143                128 127                                   0
///     +------------------+----------------------+--------------------------------------+
///     |        0         |  bit 128 + d: type d |  bits 2o, 2o + 1: arity of op o      |
///     +------------------+----------------------+--------------------------------------+
library Step {
    error NoPoint();
    error NoVariable(uint256 number);
    error WrongType(uint256 number);
    error LeftOver(uint256 bytes_);

    struct Evaluation {
        Records.Body body;
        Operands.Tensors tensors;
        Point point;
        int256[] variables;
        uint256[] counters;
        uint256[] values;
        bytes needed; // a byte for each instruction
        bool counted; // the counters are known
        uint256 read; // bytes of the openings
    }

    /// @dev The types and the arities that there are, for use in assembly.
    uint256 private constant TABLE = DTypes.ALL << 128 | Ops.ARITIES;

    /// @notice The pattern of the accumulator after the step, or of the stored element. Reverts if the record has no such
    /// point, if its cone is not as `sdk/README.md` says, or if openings are missing, wrong or left over.
    function evaluatePoint(
        Records.Body memory body,
        int256[] memory variables,
        Operands.Tensors memory tensors,
        Point memory point
    ) internal pure returns (uint256 pattern) {
        Evaluation memory e;
        (e.body, e.tensors, e.point, e.variables) = (body, tensors, point, variables);
        _checkCounts(e);
        e.counters = new uint256[](e.body.outputRanges + e.body.reduceRanges);
        e.values = new uint256[](e.body.instructions);
        e.needed = new bytes(e.body.instructions);
        e.read = tensors.at;
        _countOutputs(e);
        pattern = point.reduction == FINAL ? _final(e) : _step(e);
        if (e.read != tensors.openings.length) revert LeftOver(tensors.openings.length - e.read);
    }

    /// @notice How many steps a reduction takes, and the pattern that it starts from.
    function reductionOf(Records.Body memory body, int256[] memory variables, uint256 reduction)
        internal
        pure
        returns (uint256 length, uint256 identity)
    {
        Evaluation memory e;
        (e.body, e.variables, e.point.reduction) = (body, variables, reduction);
        _checkVariables(e);
        e.values = new uint256[](e.body.instructions);
        e.needed = new bytes(e.body.instructions);
        uint256 number = Records.reduction(e.body, reduction);
        if (number == e.body.instructions) revert NoPoint();
        _evaluateExtents(e, number);
        length = 1;
        for (uint256 n; n < e.body.reduceRanges; ++n) {
            (uint256 at, uint256 owner) = Records.reduceRange(e.body, n);
            if (owner == reduction) length *= _extent(e, at);
        }
        (uint256 op, uint256 dtype,,,) = Records.instruction(e.body, number);
        identity = Convert.toPattern(dtype, Scalar.identity(_operation(op), dtype));
    }

    function _final(Evaluation memory e) private pure returns (uint256) {
        uint256 last = e.body.instructions - 1;
        e.counted = true;
        _need(e.needed, last);
        _evaluate(e, last);
        (uint256 dtype,) = Records.parameter(e.body, 0);
        if (Records.dtypeOf(e.body, last) != dtype) revert WrongType(last);
        return Convert.toPattern(dtype, e.values[last]);
    }

    function _step(Evaluation memory e) private pure returns (uint256) {
        uint256 number = Records.reduction(e.body, e.point.reduction);
        if (number == e.body.instructions) revert NoPoint();
        _countSteps(e, number);
        e.counted = true;
        (uint256 op, uint256 dtype, uint256 a, uint256 b, uint256 c) = Records.instruction(e.body, number);
        bool fused = Records.check(e.body, number, op, dtype, a, b, c) > 1;
        _need(e.needed, a);
        if (fused) _need(e.needed, b);
        _evaluate(e, number - 1);
        if (dtype == DTypes.INDEX || Records.dtypeOf(e.body, a) != dtype) revert WrongType(number);
        if (fused && Records.dtypeOf(e.body, b) != dtype) revert WrongType(number);
        uint256 total = _claimed(dtype, e.point.accumulator);
        uint256 result = fused
            ? Scalar.evaluate(Ops.MULACC, dtype, e.values[a], e.values[b], total)
            : Scalar.evaluate(_operation(op), dtype, total, e.values[a], 0);
        return Convert.toPattern(dtype, result);
    }

    function _checkCounts(Evaluation memory e) private pure {
        if (e.point.results.length != e.body.reductions) revert NoPoint();
        if (e.tensors.roots.length + 1 != e.body.parameters) revert NoPoint();
        if (e.tensors.constants.length + 1 != e.body.parameters) revert NoPoint();
        _checkVariables(e);
    }

    function _checkVariables(Evaluation memory e) private pure {
        if (e.variables.length != e.body.variables) revert NoPoint();
        for (uint256 n; n < e.variables.length; ++n) {
            (int256 minimum, int256 maximum) = Records.bounds(e.body, n);
            if (e.variables[n] < minimum || e.variables[n] > maximum) revert NoVariable(n);
        }
    }

    /// @dev The last range moves fastest; together they cover the result.
    function _countOutputs(Evaluation memory e) private pure {
        (, uint256 elements) = Records.parameter(e.body, 0);
        (uint256 rest, uint256 covered) = (e.point.element, 1);
        if (rest >= elements) revert NoPoint();
        for (uint256 n = e.body.outputRanges; n != 0;) {
            --n;
            uint256 extent = Records.outputExtent(e.body, n);
            if (extent == 0) revert NoPoint();
            (e.counters[n], rest) = (rest % extent, rest / extent);
            covered *= extent;
        }
        if (covered != elements) revert NoPoint();
    }

    /// @dev The reduction's counters at the step.
    function _countSteps(Evaluation memory e, uint256 number) private pure {
        _evaluateExtents(e, number);
        uint256 rest = e.point.step;
        for (uint256 n = e.body.reduceRanges; n != 0;) {
            --n;
            (uint256 at, uint256 owner) = Records.reduceRange(e.body, n);
            if (owner != e.point.reduction) continue;
            uint256 extent = _extent(e, at);
            if (extent == 0) revert NoPoint();
            (e.counters[e.body.outputRanges + n], rest) = (rest % extent, rest / extent);
        }
        if (rest != 0) revert NoPoint();
    }

    function _evaluateExtents(Evaluation memory e, uint256 number) private pure {
        uint256 last;
        for (uint256 n; n < e.body.reduceRanges; ++n) {
            (uint256 extent, uint256 owner) = Records.reduceRange(e.body, n);
            if (owner != e.point.reduction) continue;
            if (extent >= number) revert Records.BadInstruction(number);
            _need(e.needed, extent);
            if (extent > last) last = extent;
        }
        _evaluate(e, last);
    }

    function _extent(Evaluation memory e, uint256 at) private pure returns (uint256 extent) {
        extent = e.values[at];
        if (Records.dtypeOf(e.body, at) != DTypes.INDEX) revert WrongType(at);
        if (extent >> 255 != 0) revert NoPoint();
    }

    /// @dev Makes the values up to `last` known that are needed, and all that they depend on.
    function _evaluate(Evaluation memory e, uint256 last) private pure {
        uint256 first = _markCone(e.body, e.needed, last + 1);
        uint256 code = Records.codeAt(e.body);
        (bytes memory needed, uint256[] memory values) = (e.needed, e.values);
        for (uint256 n = first; n <= last;) {
            uint256 word;
            assembly ("memory-safe") {
                if byte(0, mload(add(add(needed, 32), n))) { word := mload(add(code, shl(3, n))) }
            }
            if (word != 0) {
                uint256 value = word >> 248 < Ops.ADD ? _leaf(e, n) : _result(code, values, n, word);
                assembly ("memory-safe") {
                    mstore(add(add(values, 32), shl(5, n)), value)
                }
            }
            unchecked {
                ++n;
            }
        }
    }

    /// @dev Marks what the needed values before `n` depend on, and finds the first of it. Checks every instruction that it
    /// comes by: a body can have many, so what is not rare is written without functions.
    function _markCone(Records.Body memory body, bytes memory needed, uint256 n) private pure returns (uint256 first) {
        uint256 code = Records.codeAt(body);
        uint256 table = TABLE;
        first = n;
        unchecked {
            while (n-- != 0) {
                uint256 word;
                bool fits;
                assembly ("memory-safe") {
                    let marks := add(needed, 32)
                    if byte(0, mload(add(marks, n))) {
                        word := mload(add(code, shl(3, n)))
                        let arity := and(shr(shl(1, byte(0, word)), table), 3)
                        let a := or(byte(2, word), shl(8, byte(3, word)))
                        let b := or(byte(4, word), shl(8, byte(5, word)))
                        let c := or(byte(6, word), shl(8, byte(7, word)))
                        // An operand that is used stands before, one that is not is zero.
                        fits := and(lt(sub(byte(0, word), 16), 32), and(gt(arity, 0), lt(a, n)))
                        fits := and(fits, lt(b, add(1, mul(gt(arity, 1), sub(n, 1)))))
                        fits := and(fits, lt(c, add(1, mul(gt(arity, 2), sub(n, 1)))))
                        fits := and(fits, shr(add(128, byte(1, word)), table))
                        if fits {
                            mstore8(add(marks, a), 1)
                            if gt(arity, 1) { mstore8(add(marks, b), 1) }
                            if gt(arity, 2) { mstore8(add(marks, c), 1) }
                        }
                    }
                }
                if (word == 0) continue;
                first = n;
                if (!fits) _markLeaf(body, needed, n);
            }
        }
    }

    /// @dev Of what is no operation on values; a reduction's result is claimed.
    function _markLeaf(Records.Body memory body, bytes memory needed, uint256 n) private pure {
        (uint256 op, uint256 dtype, uint256 a, uint256 b, uint256 c) = Records.instruction(body, n);
        Records.check(body, n, op, dtype, a, b, c);
        if (op != Ops.LOAD) return;
        _need(needed, b);
        if (c != Records.NO_GUARD) _need(needed, c);
    }

    /// @dev Without a check of bounds: operands stand before their instruction.
    function _need(bytes memory needed, uint256 n) private pure {
        assembly ("memory-safe") {
            mstore8(add(add(needed, 32), n), 1)
        }
    }

    /// @dev The value of what takes no other values, or is claimed, or loaded.
    function _leaf(Evaluation memory e, uint256 n) private pure returns (uint256) {
        (uint256 op, uint256 dtype, uint256 a, uint256 b, uint256 c) = Records.instruction(e.body, n);
        if (op == Ops.CONST) return _constant(dtype, b | c << 16, n);
        if (op <= Ops.VAR) {
            if (dtype != DTypes.INDEX) revert WrongType(n);
            return op == Ops.VAR ? uint256(e.variables[a]) : _counter(e, a);
        }
        if (!e.counted) revert NoPoint(); // an extent depends on variables alone
        return op == Ops.LOAD ? _load(e, n, dtype, a, b, c) : _claimed(dtype, e.point.results[c]);
    }

    /// @param code Where the instructions lie in memory; `word` begins with the one that is evaluated.
    function _result(uint256 code, uint256[] memory values, uint256 n, uint256 word) private pure returns (uint256) {
        uint256 dtype; // of the operation
        uint256 a;
        uint256 b;
        uint256 c;
        uint256 source;
        uint256 wrong;
        assembly ("memory-safe") {
            a := or(byte(2, word), shl(8, byte(3, word)))
            b := or(byte(4, word), shl(8, byte(5, word)))
            c := or(byte(6, word), shl(8, byte(7, word)))
            dtype := byte(1, word)
            source := byte(1, mload(add(code, shl(3, a))))
            let second := byte(1, mload(add(code, shl(3, b))))
            let third := byte(1, mload(add(code, shl(3, c))))
            // Operand 0 may be none: its type is not asked. From 40 on: comparisons, WHERE, casts.
            switch div(byte(0, word), 40)
            case 0 {
                wrong := or(xor(source, dtype), mul(iszero(iszero(b)), xor(second, dtype)))
                wrong := or(wrong, mul(iszero(iszero(c)), xor(third, dtype)))
            }
            default {
                switch byte(0, word)
                case 43 { wrong := or(xor(source, 1), or(xor(second, dtype), xor(third, dtype))) }
                case 44 {}
                case 45 {}
                default {
                    wrong := or(xor(dtype, 1), xor(second, source))
                    dtype := source
                }
            }
            let first := add(values, 32)
            a := mload(add(first, shl(5, a)))
            b := mload(add(first, shl(5, b)))
            c := mload(add(first, shl(5, c)))
        }
        if (wrong != 0) revert WrongType(n);
        word >>= 248;
        if (word > Ops.WHERE) {
            return word == Ops.CAST ? Convert.cast(source, dtype, a) : Convert.bitcast(source, dtype, a);
        }
        return Scalar.evaluate(word, dtype, a, b, c);
    }

    function _load(Evaluation memory e, uint256 n, uint256 dtype, uint256 a, uint256 b, uint256 c)
        private
        pure
        returns (uint256)
    {
        (uint256 stored, uint256 elements) = Records.parameter(e.body, a);
        if (dtype != stored || Records.dtypeOf(e.body, b) != DTypes.INDEX) revert WrongType(n);
        if (c != Records.NO_GUARD) {
            if (Records.dtypeOf(e.body, c) != DTypes.BOOL) revert WrongType(n);
            if (e.values[c] == 0) return 0;
        }
        uint256 pattern;
        (pattern, e.read) = Operands.load(e.tensors, stored, elements, a, e.values[b], e.read);
        return Convert.fromPattern(dtype, pattern);
    }

    /// @dev A claimed pattern has its type's width, and its type's one NaN.
    function _claimed(uint256 dtype, uint256 pattern) private pure returns (uint256 value) {
        if (!Patterns.isCanonical(dtype, pattern)) revert Patterns.NotCanonical(pattern);
        value = Convert.fromPattern(dtype, pattern);
    }

    /// @dev Of an output range, or of a range of the reduction whose step this is.
    function _counter(Evaluation memory e, uint256 range) private pure returns (uint256) {
        if (!e.counted) revert NoPoint();
        if (range >= e.body.outputRanges) {
            (, uint256 owner) = Records.reduceRange(e.body, range - e.body.outputRanges);
            if (owner != e.point.reduction) revert NoPoint();
        }
        return e.counters[range];
    }

    /// @dev 32 bits; int64 and index are sign-extended.
    function _constant(uint256 dtype, uint256 pattern, uint256 n) private pure returns (uint256) {
        if (dtype == DTypes.INT64 || dtype == DTypes.INDEX) return Integers.wrap(DTypes.INT32, pattern);
        if (!Patterns.isCanonical(dtype, pattern)) revert WrongType(n);
        return Convert.fromPattern(dtype, pattern);
    }

    function _operation(uint256 op) private pure returns (uint256) {
        if (op == Ops.REDUCE_ADD) return Ops.ADD;
        if (op == Ops.REDUCE_MUL) return Ops.MUL;
        if (op == Ops.REDUCE_MULACC) return Ops.MULACC;
        return op == Ops.REDUCE_MAX ? Ops.MAX : Ops.MIN;
    }
}
