// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test} from "forge-std/Test.sol";
import {Convert} from "../../src/libraries/Convert.sol";
import {DTypes} from "../../src/libraries/DTypes.sol";
import {Half} from "../../src/libraries/Half.sol";
import {Ops} from "../../src/libraries/Ops.sol";
import {Scalar} from "../../src/libraries/Scalar.sol";
import {ScalarBatch} from "../ScalarBatch.sol";

/// @title The scalar operations against the committed answers of Python's exact model
contract ScalarTest is Test, ScalarBatch {
    string private constant TYPE =
        "Cell(string name,uint256 op,uint256 source,uint256 dtype,uint256[][] operands,uint256[] results)";

    struct Cell {
        string name;
        uint256 op;
        uint256 source;
        uint256 dtype;
        uint256[][] operands;
        uint256[] results;
    }

    function test_Evaluate_GivesTheCommittedAnswers() public view {
        Cell[] memory cells = _cells();
        for (uint256 i; i < cells.length; ++i) {
            assertEq(_wrong(cells[i]), 0, cells[i].name);
        }
    }

    function test_Evaluate_AFlippedBitInAnAnswerIsSeen() public view {
        Cell[] memory cells = _cells();
        for (uint256 i; i < cells.length; ++i) {
            uint256[] memory results = cells[i].results;
            results[i % results.length] ^= 1;
            assertEq(_wrong(cells[i]), 1, cells[i].name);
        }
    }

    /// @dev Which operations take which types is read off the vectors, which have a cell for each.
    function test_Evaluate_RefusesWhatHasNoCell() public {
        uint256[64] memory takes;
        Cell[] memory cells = _cells();
        for (uint256 i; i < cells.length; ++i) {
            if (cells[i].op < Ops.CAST) takes[cells[i].op] |= 1 << cells[i].dtype;
        }
        takes[Ops.WHERE] = (1 << DTypes.INDEX) | (1 << (DTypes.FLOAT32 + 1)) - (1 << DTypes.BOOL);
        for (uint256 op; op < 64; ++op) {
            for (uint256 dtype; dtype < 34; ++dtype) {
                if (takes[op] >> dtype & 1 == 0) {
                    vm.expectRevert(abi.encodeWithSelector(Scalar.NoOperation.selector, op, dtype));
                }
                this.evaluated(op, dtype);
            }
        }
    }

    function test_Convert_RefusesWhatHasNoCell() public {
        uint256[34][2] memory takes;
        Cell[] memory cells = _cells();
        for (uint256 i; i < cells.length; ++i) {
            if (cells[i].op >= Ops.CAST) takes[cells[i].op - Ops.CAST][cells[i].source] |= 1 << cells[i].dtype;
        }
        for (uint256 source; source < 34; ++source) {
            for (uint256 target; target < 34; ++target) {
                bytes memory refusal = abi.encodeWithSelector(Convert.NoConversion.selector, source, target);
                if (takes[0][source] >> target & 1 == 0) vm.expectRevert(refusal);
                this.cast(source, target);
                if (takes[1][source] >> target & 1 == 0) vm.expectRevert(refusal);
                this.bitcast(source, target);
            }
        }
    }

    function test_Where_ChoosesWithoutTouchingBits() public pure {
        assertEq(Scalar.evaluate(Ops.WHERE, DTypes.FLOAT32, 1, 0xFFC12345, 2), 0xFFC12345, "second");
        assertEq(Scalar.evaluate(Ops.WHERE, DTypes.BFLOAT16, 0, 1, 0xFFFF), 0xFFFF, "third");
        assertEq(Scalar.evaluate(Ops.WHERE, DTypes.INDEX, 0, 1, type(uint256).max), type(uint256).max, "index");
    }

    function test_Index_IsTheMathematicalInteger() public pure {
        uint256 large = Scalar.evaluate(Ops.MUL, DTypes.INDEX, 1 << 62, 1 << 62, 0);
        assertEq(large, 1 << 124, "product");
        assertEq(Scalar.evaluate(Ops.FLOORDIV, DTypes.INDEX, large, 1 << 62, 0), 1 << 62, "quotient");
        assertEq(Convert.cast(DTypes.INDEX, DTypes.INT32, large - 5), type(uint256).max - 4, "modulo 2^32");
    }

    function test_Half_EveryPatternSurvivesTheWayThroughFloat32() public pure {
        for (uint256 dtype = DTypes.FLOAT16; dtype <= DTypes.BFLOAT16; ++dtype) {
            uint256 nan = dtype == DTypes.FLOAT16 ? Half.FLOAT16_NAN : Half.BFLOAT16_NAN;
            uint256 infinity = dtype == DTypes.FLOAT16 ? 0x7C00 : 0x7F80;
            uint256 wrong;
            for (uint256 pattern; pattern < 1 << 16; ++pattern) {
                uint256 expected = pattern & 0x7FFF > infinity ? nan : pattern;
                if (Half.narrow(dtype, Half.widen(dtype, pattern)) != expected) ++wrong;
                if (Half.canonical(dtype, pattern) != expected) ++wrong;
            }
            assertEq(wrong, 0, "patterns");
        }
    }

    function test_Identity_IsWhereEachReductionStarts() public pure {
        assertEq(Scalar.identity(Ops.ADD, DTypes.BFLOAT16), 0, "float sum");
        assertEq(Scalar.identity(Ops.MULACC, DTypes.FLOAT32), 0, "sum of products");
        assertEq(Scalar.identity(Ops.MUL, DTypes.FLOAT32), 0x3F800000, "product");
        assertEq(Scalar.identity(Ops.MUL, DTypes.FLOAT16), 0x3C00, "product");
        assertEq(Scalar.identity(Ops.MUL, DTypes.UINT64), 1, "product");
        assertEq(Scalar.identity(Ops.MAX, DTypes.BFLOAT16), 0xFF80, "-infinity");
        assertEq(Scalar.identity(Ops.MIN, DTypes.FLOAT16), 0x7C00, "infinity");
        assertEq(int256(Scalar.identity(Ops.MAX, DTypes.INT8)), -128, "minimum");
        assertEq(Scalar.identity(Ops.MIN, DTypes.INT64), (1 << 63) - 1, "maximum");
        assertEq(Scalar.identity(Ops.MAX, DTypes.UINT32), 0, "minimum");
        assertEq(Scalar.identity(Ops.MIN, DTypes.UINT64), type(uint64).max, "maximum");
        uint256 bools = DTypes.BOOL;
        assertEq(Scalar.identity(Ops.ADD, bools) + Scalar.identity(Ops.MAX, bools), 0, "false");
        assertEq(Scalar.identity(Ops.MUL, bools) + Scalar.identity(Ops.MIN, bools), 2, "true");
    }

    function test_Identity_RefusesWhatIsNoReduction() public {
        uint256[2][6] memory refused = [
            [Ops.MULACC, DTypes.BFLOAT16],
            [Ops.MULACC, DTypes.INT32],
            [Ops.ADD, DTypes.INDEX],
            [Ops.MAX, DTypes.INDEX],
            [Ops.SUB, DTypes.FLOAT32],
            [Ops.MUL, DTypes.FLOAT32 + 1]
        ];
        for (uint256 i; i < refused.length; ++i) {
            vm.expectRevert(abi.encodeWithSelector(Scalar.NoOperation.selector, refused[i][0], refused[i][1]));
            this.identity(refused[i][0], refused[i][1]);
        }
    }

    function identity(uint256 op, uint256 dtype) external pure returns (uint256) {
        return Scalar.identity(op, dtype);
    }

    function evaluated(uint256 op, uint256 dtype) external pure returns (uint256) {
        return Scalar.evaluate(op, dtype, 1, 1, 1);
    }

    function cast(uint256 source, uint256 target) external pure returns (uint256) {
        return Convert.cast(source, target, 1);
    }

    function bitcast(uint256 source, uint256 target) external pure returns (uint256) {
        return Convert.bitcast(source, target, 1);
    }

    /// @dev How many of the cell's answers are not ours.
    function _wrong(Cell memory cell) private pure returns (uint256 count) {
        uint256[3] memory operand;
        for (uint256 i; i < cell.results.length; ++i) {
            for (uint256 k; k < cell.operands.length; ++k) {
                operand[k] = cell.operands[k][i];
            }
            if (answer(cell.op, cell.source, cell.dtype, operand[0], operand[1], operand[2]) != cell.results[i]) {
                ++count;
            }
        }
    }

    function _cells() private view returns (Cell[] memory) {
        string memory json = vm.readFile("../tests/vectors/numerics.json");
        return abi.decode(vm.parseJsonTypeArray(json, ".cells", TYPE), (Cell[]));
    }
}
