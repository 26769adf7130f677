// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test} from "forge-std/Test.sol";
import {FINAL, Point} from "../../src/interfaces/IReferee.sol";
import {Operands} from "../../src/libraries/Operands.sol";
import {Ops} from "../../src/libraries/Ops.sol";
import {Patterns} from "../../src/libraries/Patterns.sol";
import {Records} from "../../src/libraries/Records.sol";
import {Step} from "../../src/libraries/Step.sol";

/// @dev One evaluation in a call of its own.
contract Evaluator {
    function evaluate(
        bytes calldata record,
        int256[] calldata variables,
        Operands.Tensors calldata tensors,
        Point calldata point
    ) external pure returns (uint256 pattern) {
        return Step.evaluatePoint(Records.body(record), variables, tensors, point);
    }
}

/// @title Steps of generated programs and captured graphs against the answers of a second reading in Python
contract RefereeTest is Test {
    string private constant TYPE = "Verdict(string name,bytes record,int256[] variables,bytes32[] roots,bytes[] constants,"
        "bytes[] leaves,bytes[] paths,uint256 element,uint256 reduction,uint256 step,uint256 accumulator,"
        "uint256[] results,uint256 expected,uint256 gas)";

    struct Verdict {
        string name;
        bytes record;
        int256[] variables;
        bytes32[] roots;
        bytes[] constants;
        bytes[] leaves;
        bytes[] paths;
        uint256 element;
        uint256 reduction;
        uint256 step;
        uint256 accumulator;
        uint256[] results;
        uint256 expected;
        uint256 gas;
    }

    Evaluator private evaluator = new Evaluator();

    function test_Evaluate_GivesTheCommittedAnswersWithinTheirGas() public view {
        Verdict[] memory cells = _cells();
        for (uint256 i; i < cells.length; ++i) {
            Verdict memory cell = cells[i];
            (Operands.Tensors memory tensors, Point memory point) = _of(cell);
            uint256 pattern = evaluator.evaluate(cell.record, cell.variables, tensors, point);
            uint256 data = 16 * (cell.record.length + tensors.openings.length);
            assertLe(21_000 + data + vm.lastCallGas().gasTotalUsed, cell.gas, cell.name);
            assertEq(pattern, cell.expected, cell.name);
        }
    }

    function test_Evaluate_RefusesOpeningsOfAnythingElse() public {
        Verdict[] memory cells = _cells();
        uint256 opened;
        for (uint256 i; i < cells.length; ++i) {
            Verdict memory cell = cells[i];
            (Operands.Tensors memory tensors, Point memory point) = _of(cell);
            bytes memory openings = tensors.openings;
            tensors.openings = bytes.concat(openings, hex"00");
            _expect(Step.LeftOver.selector, cell, tensors, point);
            if (openings.length == 0) continue;
            ++opened;
            tensors.openings = _without(openings);
            _expect(Operands.NothingLeft.selector, cell, tensors, point);
            tensors.openings = openings;
            uint256 place = uint256(keccak256(abi.encode(i))) % openings.length;
            uint256[3] memory flipped = [place, 0, openings.length - 1];
            for (uint256 k; k < 3; ++k) {
                openings[flipped[k]] ^= 0x01;
                _expect(Operands.NotInTensor.selector, cell, tensors, point);
                openings[flipped[k]] ^= 0x01;
            }
            for (uint256 k; k < tensors.roots.length; ++k) {
                tensors.roots[k] ^= bytes32(uint256(1));
            }
            _expect(Operands.NotInTensor.selector, cell, tensors, point);
        }
        assertGt(opened, 20, "cells with openings");
    }

    function test_Evaluate_RefusesPointsThatThereAreNot() public {
        Verdict[] memory cells = _cells();
        for (uint256 i; i < cells.length; ++i) {
            Verdict memory cell = cells[i];
            (Operands.Tensors memory tensors, Point memory point) = _of(cell);
            point.element = Records.little(cell.record, 12, 8);
            _expect(Step.NoPoint.selector, cell, tensors, point);
            (point.element, point.reduction) = (cell.element, cell.results.length);
            _expect(Step.NoPoint.selector, cell, tensors, point);
            point.reduction = cell.reduction;
            point.results = new uint256[](cell.results.length + 1);
            _expect(Step.NoPoint.selector, cell, tensors, point);
            point.results = cell.results;
            if (cell.reduction == FINAL) continue;
            point.step = 1 << 62;
            _expect(Step.NoPoint.selector, cell, tensors, point);
            (point.step, point.accumulator) = (cell.step, 1 << 64);
            _expect(Patterns.NotCanonical.selector, cell, tensors, point);
        }
    }

    function test_Evaluate_RefusesVariablesBeyondTheirBounds() public {
        Verdict[] memory cells = _cells();
        uint256 bound;
        for (uint256 i; i < cells.length; ++i) {
            Verdict memory cell = cells[i];
            (Operands.Tensors memory tensors, Point memory point) = _of(cell);
            for (uint256 n; n < cell.variables.length; ++n) {
                (int256 minimum, int256 maximum) = Records.bounds(Records.body(cell.record), n);
                int256 value = cell.variables[n];
                cell.variables[n] = minimum - 1;
                _expect(Step.NoVariable.selector, cell, tensors, point);
                cell.variables[n] = maximum + 1;
                _expect(Step.NoVariable.selector, cell, tensors, point);
                cell.variables[n] = value;
                ++bound;
            }
        }
        assertGt(bound, 0, "variables");
    }

    function test_Evaluate_RefusesConstantsOfAnotherKindOrLength() public {
        Verdict[] memory cells = _cells();
        uint256 loaded;
        for (uint256 i; i < cells.length; ++i) {
            Verdict memory cell = cells[i];
            if (cell.reduction != FINAL || cell.results.length != 0) continue; // then all parameters are loaded
            (Operands.Tensors memory tensors, Point memory point) = _of(cell);
            if (tensors.roots.length != 1 || tensors.constants[0].length == 0) continue;
            ++loaded;
            tensors.constants[0][0] = 0x02;
            _expect(Records.NoConstant.selector, cell, tensors, point);
            tensors.constants[0][0] = 0x04;
            tensors.constants[0] = _without(tensors.constants[0]);
            _expect(Records.WrongLength.selector, cell, tensors, point);
        }
        assertGt(loaded, 0, "constants");
    }

    function test_Evaluate_RefusesRecordsThatDoNotFit() public {
        Verdict[] memory cells = _cells();
        for (uint256 i; i < cells.length; ++i) {
            Verdict memory cell = cells[i];
            (Operands.Tensors memory tensors, Point memory point) = _of(cell);
            bytes memory record = cell.record;
            cell.record = _without(record);
            _expect(Records.WrongLength.selector, cell, tensors, point);
            cell.record = bytes.concat(record, hex"00");
            _expect(Records.WrongLength.selector, cell, tensors, point);
            cell.record = record;
            if (cell.reduction != FINAL) continue;
            // The stored value is in the cone of the final expression.
            uint256 last = record.length - 8;
            bytes1 op = record[last];
            record[last] = bytes1(uint8(Ops.BITCAST) + 1);
            _expect(Records.BadInstruction.selector, cell, tensors, point);
            record[last] = op;
            record[last + 1] = 0x0D;
            _expect(Records.BadInstruction.selector, cell, tensors, point);
            (record[last], record[last + 1]) = (bytes1(uint8(Ops.TRUNC)), 0x0C);
            uint256 number = Records.body(record).instructions - 1;
            (record[last + 2], record[last + 3]) = (bytes1(uint8(number)), bytes1(uint8(number >> 8)));
            _expect(Records.BadInstruction.selector, cell, tensors, point); // operand: itself
        }
    }

    /// @dev Whatever stands in a record, a verdict ends within its bound and says why if it refuses.
    function testFuzz_Evaluate_EndsForAnyRecord(uint256 seed, bytes1 byte_) public view {
        Verdict[] memory cells = _cells();
        Verdict memory cell = cells[seed % cells.length];
        (Operands.Tensors memory tensors, Point memory point) = _of(cell);
        cell.record[(seed >> 128) % cell.record.length] = byte_;
        try evaluator.evaluate{gas: 8_000_000}(cell.record, cell.variables, tensors, point) returns (uint256 pattern) {
            assertLe(pattern, type(uint64).max, "pattern");
        } catch (bytes memory reason) {
            assertGe(reason.length, 4, "reason");
        }
    }

    function _expect(bytes4 selector, Verdict memory cell, Operands.Tensors memory tensors, Point memory point)
        private
    {
        vm.expectPartialRevert(selector);
        evaluator.evaluate(cell.record, cell.variables, tensors, point);
    }

    function _of(Verdict memory cell) private pure returns (Operands.Tensors memory tensors, Point memory point) {
        bytes memory openings;
        for (uint256 i; i < cell.leaves.length; ++i) {
            bytes memory zeros = new bytes(1024 - cell.leaves[i].length);
            openings = bytes.concat(openings, cell.leaves[i], zeros, cell.paths[i]);
        }
        tensors = Operands.Tensors(cell.roots, cell.constants, openings, 0);
        point = Point(cell.element, cell.reduction, cell.step, cell.accumulator, cell.results);
    }

    function _without(bytes memory data) private pure returns (bytes memory shorter) {
        shorter = new bytes(data.length - 1);
        for (uint256 i; i < shorter.length; ++i) {
            shorter[i] = data[i];
        }
    }

    function _cells() private view returns (Verdict[] memory cells) {
        string memory json = vm.readFile("../tests/vectors/referee.json");
        cells = abi.decode(vm.parseJsonTypeArray(json, ".cells", TYPE), (Verdict[]));
        for (uint256 i; i < cells.length; ++i) {
            if (cells[i].reduction == type(uint256).max) cells[i].reduction = FINAL;
        }
    }
}
