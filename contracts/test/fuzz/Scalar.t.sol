// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test} from "forge-std/Test.sol";
import {Convert} from "../../src/libraries/Convert.sol";
import {DTypes} from "../../src/libraries/DTypes.sol";
import {Float32} from "../../src/libraries/Float32.sol";
import {Float32Order} from "../../src/libraries/Float32Order.sol";
import {Half} from "../../src/libraries/Half.sol";
import {Integers} from "../../src/libraries/Integers.sol";

/// @title What holds between the operations, whatever their operands
contract ScalarFuzzTest is Test {
    uint256 private constant SIGN = Float32.SIGN;

    function testFuzz_Sums_AndProducts_Commute(uint32 a, uint32 b) public pure {
        assertEq(Float32.add(a, b), Float32.add(b, a), "sum");
        assertEq(Float32.multiply(a, b), Float32.multiply(b, a), "product");
        assertEq(Float32.subtract(a, b), Float32.add(a, b ^ SIGN), "difference");
    }

    /// @dev Two ways to one result: nothing but the rounding is common to them.
    function testFuzz_FusedMultiplyAdd_OfOneIsASum_AndWithMinusZeroAProduct(uint32 a, uint32 b) public pure {
        assertEq(Float32.fusedMultiplyAdd(a, Float32.ONE, b), Float32.add(a, b), "sum");
        assertEq(Float32.fusedMultiplyAdd(a, b, SIGN), Float32.multiply(a, b), "product");
    }

    /// @dev What rounding took from a product is a number itself, and makes it whole again.
    function testFuzz_FusedMultiplyAdd_FindsTheErrorOfAProduct(uint32 a, uint32 b) public pure {
        (uint256 x, uint256 y) = (_moderate(a), _moderate(b));
        uint256 product = Float32.multiply(x, y);
        uint256 rest = Float32.fusedMultiplyAdd(x, y, product ^ SIGN);
        assertEq(Float32.fusedMultiplyAdd(x, y, rest ^ SIGN), product, "without its error");
        assertEq(Float32.add(product, rest), product, "less than half a unit");
    }

    function testFuzz_Divide_ByAPowerOfTwoIsToMultiplyByItsReciprocal(uint32 a, uint8 exponent) public pure {
        uint256 biased = bound(exponent, 1, 253);
        uint256 power = biased << 23;
        assertEq(Float32.reciprocal(power), (254 - biased) << 23, "reciprocal");
        assertEq(Float32.divide(a, power), Float32.multiply(a, (254 - biased) << 23), "quotient");
    }

    function testFuzz_Divide_UndoesAnExactProduct(uint16 a, uint16 b) public pure {
        vm.assume(b != 0);
        uint256 x = Convert.cast(DTypes.UINT16, DTypes.FLOAT32, a & 0xFFF);
        uint256 y = Convert.cast(DTypes.UINT16, DTypes.FLOAT32, b & 0xFFF | 1);
        assertEq(Float32.divide(Float32.multiply(x, y), y), x);
    }

    function testFuzz_SquareRoot_OfASquareIsTheSize(uint32 a) public pure {
        uint256 x = _moderate(a);
        assertEq(Float32.squareRoot(Float32.multiply(x, x)), x & Float32.MAGNITUDE);
    }

    function testFuzz_Order_IsTotalButForNaN(uint32 a, uint32 b) public pure {
        uint256 holds =
            (Float32Order.less(a, b) ? 1 : 0) + (Float32Order.less(b, a) ? 1 : 0) + (Float32Order.equal(a, b) ? 1 : 0);
        bool ordered = !Float32.isNan(a) && !Float32.isNan(b);
        assertEq(holds, ordered ? 1 : 0, "one of three");
        uint256 larger = Float32Order.maximum(a, b);
        if (ordered) {
            assertTrue(larger == a || larger == b, "one of both");
            assertFalse(Float32Order.less(larger, a) || Float32Order.less(larger, b), "not below either");
            assertEq(Float32Order.minimum(a ^ SIGN, b ^ SIGN), larger ^ SIGN, "mirrored");
        } else {
            assertEq(larger, Float32.NAN, "NaN wins");
        }
    }

    function testFuzz_Truncate_AgreesWithTheCast(uint32 a) public pure {
        uint256 x = _moderate(a);
        uint256 whole = Convert.cast(DTypes.FLOAT32, DTypes.INT64, x);
        assertTrue(Float32Order.equal(Float32.truncate(x), Convert.cast(DTypes.INT64, DTypes.FLOAT32, whole)));
    }

    function testFuzz_Cast_NarrowingAWidenedHalfIsExact(uint16 a) public pure {
        for (uint256 dtype = DTypes.FLOAT16; dtype <= DTypes.BFLOAT16; ++dtype) {
            assertEq(Half.narrow(dtype, Half.widen(dtype, a)), Half.canonical(dtype, a));
        }
    }

    function testFuzz_Integers_QuotientAndRestMakeTheNumber(int64 a, int64 b) public pure {
        (uint256 x, uint256 y) = (uint256(int256(a)), uint256(int256(b)));
        uint256 t = DTypes.INT64;
        uint256 rest = Integers.modulo(t, x, y);
        uint256 floorRest = Integers.floorModulo(t, x, y);
        assertEq(Integers.add(t, Integers.multiply(t, Integers.divide(t, x, y), y), rest), x, "towards zero");
        assertEq(Integers.add(t, Integers.multiply(t, Integers.floorDivide(t, x, y), y), floorRest), x, "floor");
        assertTrue(rest == 0 || (int256(rest) < 0) == (a < 0), "the sign of the number");
        assertTrue(b == 0 || floorRest == 0 || (int256(floorRest) < 0) == (b < 0), "the sign of the divisor");
    }

    function testFuzz_Log2_IsThePositionOfTheHighestBit(uint256 a, uint8 shift) public pure {
        a >>= shift;
        vm.assume(a != 0);
        uint256 n = Float32.log2(a);
        assertEq(a >> n, 1);
    }

    /// @dev Numbers whose squares neither overflow nor lose bits: the size is between 2^-40 and 2^40.
    function _moderate(uint32 a) private pure returns (uint256) {
        return (a & 0x807FFFFF) | ((87 + (uint256(a >> 23) & 0xFF) % 80) << 23);
    }
}
