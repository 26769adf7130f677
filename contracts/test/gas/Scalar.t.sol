// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test} from "forge-std/Test.sol";
import {Convert} from "../../src/libraries/Convert.sol";
import {DTypes} from "../../src/libraries/DTypes.sol";
import {Float32} from "../../src/libraries/Float32.sol";
import {Float32Order} from "../../src/libraries/Float32Order.sol";
import {Half} from "../../src/libraries/Half.sol";
import {Ops} from "../../src/libraries/Ops.sol";
import {Scalar} from "../../src/libraries/Scalar.sol";

/// @title Gas of the scalar operations, each as one internal call
/// @notice The mean over numbers of ordinary size, and the most that any combination of edges costs.
contract ScalarGasTest is Test {
    uint256[] private ordinary;
    uint256[] private edges;

    function setUp() public {
        uint32[8] memory sizes = [0, 1, 0x7FFFFF, 0x800000, 0x3F7FFFFF, 0x4B800001, 0x7F7FFFFF, 0x7F800000];
        for (uint256 i; i < sizes.length; ++i) {
            edges.push(sizes[i]);
            edges.push(sizes[i] | Float32.SIGN);
        }
        edges.push(Float32.NAN);
        for (uint256 i; i < 12; ++i) {
            // between 2^-8 and 2^8, with either sign
            uint256 random = uint256(keccak256(abi.encode(i)));
            ordinary.push(((random & 1) << 31) | (0x3B800000 + (random >> 128) % 0x08000000));
        }
    }

    function test_OfFloat32() public {
        assertLe(_snap("add", _add), 600, "goal");
        assertLe(_snap("multiply", _multiply), 600, "goal");
        assertLe(_snap("fused multiply-add", _fusedMultiplyAdd), 800, "goal");
        _snap("subtract", _subtract);
        _snap("divide", _divide);
        _snap("reciprocal", _reciprocal);
        _snap("square root", _squareRoot);
        _snap("truncate", _truncate);
        _snap("maximum", _maximum);
        _snap("less", _less);
        _snap("equal", _equal);
    }

    function test_OfConversions() public {
        _snap("float32 to float16", _toFloat16);
        _snap("float16 to float32", _fromFloat16);
        _snap("float32 to int32", _toInt32);
        _snap("int32 to float32", _fromInt32);
    }

    function test_OfEvaluate() public {
        _snap("evaluate ADD float32", _evaluateAdd);
        _snap("evaluate MULACC float32", _evaluateFused);
        _snap("evaluate SQRT float32", _evaluateSquareRoot);
        _snap("evaluate DIV bfloat16", _evaluateBfloat16);
        _snap("evaluate DIV float16", _evaluateFloat16);
        _snap("evaluate FLOORMOD index", _evaluateIndex);
    }

    /// @return mean What a call costs and what is done in it, over the ordinary values.
    function _snap(string memory name, function(uint256, uint256, uint256) internal pure returns (uint256) operation)
        private
        returns (uint256 mean)
    {
        uint256 most;
        (uint256 nothing,) = _measure(ordinary, _nothing);
        (mean,) = _measure(ordinary, operation);
        (, most) = _measure(edges, operation);
        (mean, most) = (mean - nothing, most - nothing);
        vm.snapshotValue("scalar", name, mean);
        vm.snapshotValue("scalar", string.concat(name, ", most"), most);
    }

    function _measure(
        uint256[] memory values,
        function(uint256, uint256, uint256) internal pure returns (uint256) operation
    ) private view returns (uint256 mean, uint256 most) {
        for (uint256 i; i < values.length ** 3; ++i) {
            uint256 a = values[i % values.length];
            uint256 b = values[i / values.length % values.length];
            uint256 c = values[i / values.length ** 2];
            uint256 spent = gasleft();
            operation(a, b, c);
            spent -= gasleft();
            mean += spent;
            if (spent > most) most = spent;
        }
        mean /= values.length ** 3;
    }

    function _nothing(uint256 a, uint256, uint256) private pure returns (uint256) {
        return a;
    }

    function _add(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float32.add(a, b);
    }

    function _subtract(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float32.subtract(a, b);
    }

    function _multiply(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float32.multiply(a, b);
    }

    function _fusedMultiplyAdd(uint256 a, uint256 b, uint256 c) private pure returns (uint256) {
        return Float32.fusedMultiplyAdd(a, b, c);
    }

    function _divide(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float32.divide(a, b);
    }

    function _reciprocal(uint256 a, uint256, uint256) private pure returns (uint256) {
        return Float32.reciprocal(a);
    }

    function _squareRoot(uint256 a, uint256, uint256) private pure returns (uint256) {
        return Float32.squareRoot(a & Float32.MAGNITUDE);
    }

    function _truncate(uint256 a, uint256, uint256) private pure returns (uint256) {
        return Float32.truncate(a);
    }

    function _maximum(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float32Order.maximum(a, b);
    }

    function _less(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float32Order.less(a, b) ? 1 : 0;
    }

    function _equal(uint256 a, uint256 b, uint256) private pure returns (uint256) {
        return Float32Order.equal(a, b) ? 1 : 0;
    }

    function _toFloat16(uint256 a, uint256, uint256) private pure returns (uint256) {
        return Half.narrow(DTypes.FLOAT16, a);
    }

    function _fromFloat16(uint256 a, uint256, uint256) private pure returns (uint256) {
        return Half.widen(DTypes.FLOAT16, a >> 16);
    }

    function _toInt32(uint256 a, uint256, uint256) private pure returns (uint256) {
        return Convert.cast(DTypes.FLOAT32, DTypes.INT32, a);
    }

    function _fromInt32(uint256 a, uint256, uint256) private pure returns (uint256) {
        return Convert.cast(DTypes.INT32, DTypes.FLOAT32, a);
    }

    function _evaluateAdd(uint256 a, uint256 b, uint256 c) private pure returns (uint256) {
        return Scalar.evaluate(Ops.ADD, DTypes.FLOAT32, a, b, c);
    }

    function _evaluateFused(uint256 a, uint256 b, uint256 c) private pure returns (uint256) {
        return Scalar.evaluate(Ops.MULACC, DTypes.FLOAT32, a, b, c);
    }

    function _evaluateSquareRoot(uint256 a, uint256 b, uint256 c) private pure returns (uint256) {
        return Scalar.evaluate(Ops.SQRT, DTypes.FLOAT32, a & Float32.MAGNITUDE, b, c);
    }

    function _evaluateBfloat16(uint256 a, uint256 b, uint256 c) private pure returns (uint256) {
        return Scalar.evaluate(Ops.DIV, DTypes.BFLOAT16, a >> 16, b >> 16, c);
    }

    function _evaluateFloat16(uint256 a, uint256 b, uint256 c) private pure returns (uint256) {
        return Scalar.evaluate(Ops.DIV, DTypes.FLOAT16, a >> 16, b >> 16, c);
    }

    function _evaluateIndex(uint256 a, uint256 b, uint256 c) private pure returns (uint256) {
        return Scalar.evaluate(Ops.FLOORMOD, DTypes.INDEX, a, b, c);
    }
}
