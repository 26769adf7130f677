// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Convert} from "./Convert.sol";
import {DTypes} from "./DTypes.sol";
import {Integers} from "./Integers.sol";
import {Operands} from "./Operands.sol";
import {Ops} from "./Ops.sol";
import {Records} from "./Records.sol";
import {Scalar} from "./Scalar.sol";

/// @title One step of a reduction of an element, or the element's final expression
/// @notice Mirrors Python's `eigentensor.tracing.step`. Only the step's cone is read, checked and evaluated.
library Step {
    error NoPoint();
    error NoVariable(uint256 number);
    error WrongType(uint256 number);
    error NotCanonical(uint256 pattern);
    error LeftOver(uint256 bytes_);

    /// @notice What is judged: a step of a reduction, or the final expression (`reduction` is FINAL).
    /// @dev `results` are the patterns claimed for the element's reductions, `accumulator` the one before the step.
    struct Point {
        uint256 element;
        uint256 reduction;
        uint256 step;
        uint256 accumulator;
        uint256[] results;
    }

    struct Evaluation {
        Records.Body body;
        Operands.Tensors tensors;
        Point point;
        int256[] variables;
        uint256[] counters;
        uint256[] values;
        bytes marks;
        bool counted; // the counters are known
        uint256 read; // bytes of the openings
        Records.Instruction at;
    }

    uint256 internal constant FINAL = type(uint256).max;
    uint256 private constant NEEDED = 1;
    uint256 private constant KNOWN = 2;

    /// @notice The pattern of the accumulator after the step, or of the stored element. Reverts if the record has no such
    /// point, if its cone is not as `sdk/README.md` says, or if openings are missing, wrong or left over.
    function evaluate(
        bytes memory record,
        int256[] memory variables,
        Operands.Tensors memory tensors,
        Point memory point
    ) internal pure returns (uint256 pattern) {
        Evaluation memory e;
        e.body = Records.body(record);
        (e.tensors, e.point, e.variables) = (tensors, point, variables);
        _checkCounts(e);
        e.counters = new uint256[](e.body.outputRanges + e.body.reduceRanges);
        e.values = new uint256[](e.body.instructions);
        e.marks = new bytes(e.body.instructions);
        _countOutputs(e);
        pattern = point.reduction == FINAL ? _final(e) : _step(e);
        if (e.read != tensors.openings.length) revert LeftOver(tensors.openings.length - e.read);
    }

    function _final(Evaluation memory e) private pure returns (uint256) {
        uint256 last = e.body.instructions - 1;
        e.counted = true;
        _need(e.marks, last);
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
        Records.Instruction memory i = e.at;
        Records.read(e.body, number, i);
        Records.check(e.body, number, i);
        (uint256 op, uint256 dtype, uint256 a, uint256 b) = (i.op, i.dtype, i.a, i.b);
        bool fused = op == Ops.REDUCE_MULACC;
        _need(e.marks, a);
        if (fused) _need(e.marks, b);
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
        if (e.point.results.length != e.body.reductions || e.variables.length != e.body.variables) revert NoPoint();
        if (e.tensors.roots.length + 1 != e.body.parameters) revert NoPoint();
        if (e.tensors.constants.length + 1 != e.body.parameters) revert NoPoint();
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

    /// @dev Evaluates the extents of the reduction's ranges, then its counters at the step.
    function _countSteps(Evaluation memory e, uint256 number) private pure {
        uint256 last;
        for (uint256 n; n < e.body.reduceRanges; ++n) {
            (uint256 extent, uint256 owner) = Records.reduceRange(e.body, n);
            if (owner != e.point.reduction) continue;
            if (extent >= number) revert Records.BadInstruction(number);
            _need(e.marks, extent);
            if (extent > last) last = extent;
        }
        _evaluate(e, last);
        (uint256 rest, uint256 steps) = (e.point.step, 1);
        for (uint256 n = e.body.reduceRanges; n != 0;) {
            --n;
            (uint256 at, uint256 owner) = Records.reduceRange(e.body, n);
            if (owner != e.point.reduction) continue;
            uint256 extent = e.values[at];
            if (Records.dtypeOf(e.body, at) != DTypes.INDEX) revert WrongType(at);
            if (extent == 0 || extent >> 255 != 0) revert NoPoint();
            (e.counters[e.body.outputRanges + n], rest) = (rest % extent, rest / extent);
            steps *= extent;
        }
        if (e.point.step >= steps) revert NoPoint();
    }

    /// @dev Makes the values up to `last` known that are marked as needed, and all that they depend on.
    function _evaluate(Evaluation memory e, uint256 last) private pure {
        Records.Instruction memory i = e.at;
        bytes memory marks = e.marks;
        uint256 first = last + 1;
        unchecked {
            for (uint256 n = last + 1; n-- != 0;) {
                if (_mark(marks, n) != NEEDED) continue;
                first = n;
                Records.read(e.body, n, i);
                Records.check(e.body, n, i);
                if (Records.isReduction(i.op)) continue; // its result is claimed
                if (i.values & 1 != 0) _need(marks, i.a);
                if (i.values & 2 != 0) _need(marks, i.b);
                if (i.values & 4 != 0) _need(marks, i.c);
            }
            for (uint256 n = first; n <= last; ++n) {
                if (_mark(marks, n) != NEEDED) continue;
                Records.read(e.body, n, i);
                e.values[n] = i.op < Ops.ADD ? _leaf(e, i, n) : _result(e, i, n);
                _setMark(marks, n, KNOWN);
            }
        }
    }

    function _need(bytes memory marks, uint256 n) private pure {
        if (_mark(marks, n) == 0) _setMark(marks, n, NEEDED);
    }

    /// @dev Without a check of bounds, like `_known`: operands stand before their instruction.
    function _mark(bytes memory marks, uint256 n) private pure returns (uint256 mark) {
        assembly ("memory-safe") {
            mark := byte(0, mload(add(add(marks, 32), n)))
        }
    }

    function _setMark(bytes memory marks, uint256 n, uint256 mark) private pure {
        assembly ("memory-safe") {
            mstore8(add(add(marks, 32), n), mark)
        }
    }

    function _known(uint256[] memory values, uint256 n) private pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := mload(add(add(values, 32), shl(5, n)))
        }
    }

    /// @dev The value of what takes no other values, or is claimed, or loaded.
    function _leaf(Evaluation memory e, Records.Instruction memory i, uint256 n) private pure returns (uint256) {
        if (i.op == Ops.CONST) return _constant(i, n);
        if (i.op <= Ops.VAR) {
            if (i.dtype != DTypes.INDEX) revert WrongType(n);
            return i.op == Ops.VAR ? uint256(e.variables[i.a]) : _counter(e, i.a);
        }
        if (!e.counted) revert NoPoint(); // an extent depends on variables alone
        return i.op == Ops.LOAD ? _load(e, i, n) : _claimed(i.dtype, e.point.results[i.c]);
    }

    function _result(Evaluation memory e, Records.Instruction memory i, uint256 n) private pure returns (uint256) {
        (uint256 op, uint256 dtype, uint256 values) = (i.op, i.dtype, i.values);
        uint256 source = Records.dtypeOf(e.body, i.a);
        uint256 a = _known(e.values, i.a);
        if (op == Ops.CAST) return Convert.cast(source, dtype, a);
        if (op == Ops.BITCAST) return Convert.bitcast(source, dtype, a);
        bool fits;
        if (op == Ops.WHERE) {
            fits = source == DTypes.BOOL;
        } else if (op >= Ops.CMPLT) {
            fits = dtype == DTypes.BOOL;
            dtype = source;
        } else {
            fits = source == dtype;
        }
        if (values & 2 != 0 && Records.dtypeOf(e.body, i.b) != dtype) fits = false;
        if (values & 4 != 0 && Records.dtypeOf(e.body, i.c) != dtype) fits = false;
        if (!fits) revert WrongType(n);
        return Scalar.evaluate(op, dtype, a, _known(e.values, i.b), _known(e.values, i.c));
    }

    function _load(Evaluation memory e, Records.Instruction memory i, uint256 n) private pure returns (uint256) {
        (uint256 dtype,) = Records.parameter(e.body, i.a);
        bool guarded = i.values & 4 != 0;
        if (i.dtype != dtype || Records.dtypeOf(e.body, i.b) != DTypes.INDEX) revert WrongType(n);
        if (guarded && Records.dtypeOf(e.body, i.c) != DTypes.BOOL) revert WrongType(n);
        if (guarded && e.values[i.c] == 0) return 0;
        uint256 pattern;
        (pattern, e.read) = Operands.load(e.tensors, e.body, i.a, e.values[i.b], e.read);
        return Convert.fromPattern(dtype, pattern);
    }

    /// @dev A claimed pattern has its type's width, and its type's one NaN.
    function _claimed(uint256 dtype, uint256 pattern) private pure returns (uint256 value) {
        value = Convert.fromPattern(dtype, pattern);
        if (dtype == DTypes.INDEX || Convert.toPattern(dtype, value) != pattern) revert NotCanonical(pattern);
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
    function _constant(Records.Instruction memory i, uint256 n) private pure returns (uint256 value) {
        uint256 pattern = i.b | i.c << 16;
        if (i.dtype == DTypes.INT64 || i.dtype == DTypes.INDEX) return Integers.wrap(DTypes.INT32, pattern);
        value = Convert.fromPattern(i.dtype, pattern);
        if (Convert.toPattern(i.dtype, value) != pattern) revert WrongType(n);
    }

    function _operation(uint256 op) private pure returns (uint256) {
        if (op == Ops.REDUCE_ADD) return Ops.ADD;
        if (op == Ops.REDUCE_MUL) return Ops.MUL;
        return op == Ops.REDUCE_MAX ? Ops.MAX : Ops.MIN;
    }
}
