// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test} from "forge-std/Test.sol";
import {FINAL, Point} from "../../src/interfaces/IReferee.sol";
import {DTypes} from "../../src/libraries/DTypes.sol";
import {Operands} from "../../src/libraries/Operands.sol";
import {Ops} from "../../src/libraries/Ops.sol";
import {Records} from "../../src/libraries/Records.sol";
import {Step} from "../../src/libraries/Step.sol";

/// @title What a body of nothing but arithmetic costs to judge, for each instruction
contract StepGasTest is Test {
    uint256 private constant MANY = 1_000;
    uint256 private most;

    function test_OfChains() public {
        _snap("ADD index", Ops.ADD, DTypes.INDEX, 7, 3);
        _snap("ADD int32", Ops.ADD, DTypes.INT32, 0x7FFFFFFF, 0x12345678);
        _snap("FLOORMOD int32", Ops.FLOORMOD, DTypes.INT32, 0x7FFFFFFF, 0x12345679);
        _snap("ADD float32", Ops.ADD, DTypes.FLOAT32, 0x40490FDB, 0x00000001);
        _snap("MULACC float32", Ops.MULACC, DTypes.FLOAT32, 0x3F800001, 0x3F7FFFFF);
        _snap("SQRT float32", Ops.SQRT, DTypes.FLOAT32, 0x40490FDB, 0);
        _snap("DIV bfloat16", Ops.DIV, DTypes.BFLOAT16, 0x4049, 0x3F9A);
        _snap("DIV float16", Ops.DIV, DTypes.FLOAT16, 0x4248, 0x3CCD);
        _snap("MUL float16, subnormal", Ops.MUL, DTypes.FLOAT16, 0x0003, 0x3C00);
        // The largest witness as calldata, 60 loads, the largest body: within the 8 M of a verdict, by a million.
        assertLe(21_000 + 16 * 65_536 + 60 * 12_000 + 1_536 * most, 7_000_000, "INVARIANT 34");
    }

    /// @dev What each further instruction costs: each takes the one before it and the second constant.
    function _snap(string memory name, uint256 op, uint256 dtype, uint32 a, uint32 b) private {
        uint256 each = (_spent(op, dtype, a, b, MANY) - _spent(op, dtype, a, b, 8)) / (MANY - 8);
        vm.snapshotValue("instruction", name, each);
        if (each > most) most = each;
    }

    function _spent(uint256 op, uint256 dtype, uint32 a, uint32 b, uint256 count) private view returns (uint256 spent) {
        bytes memory record = _chain(op, dtype, a, b, count);
        (bool done,) = address(this).staticcall(abi.encodeCall(this.evaluate, (record)));
        assertTrue(done, "evaluated");
        return vm.lastCallGas().gasTotalUsed;
    }

    function evaluate(bytes calldata record) external pure returns (uint256) {
        Operands.Tensors memory tensors;
        Point memory point;
        point.reduction = FINAL;
        return Step.evaluatePoint(Records.body(record), new int256[](0), tensors, point);
    }

    /// @dev Two constants, so many instructions, and a cast to the int32 that is stored.
    function _chain(uint256 op, uint256 dtype, uint32 a, uint32 b, uint256 count) private pure returns (bytes memory) {
        bytes memory code = new bytes(8 * count);
        bool unary = Ops.ARITIES >> 2 * op & 3 == 1;
        for (uint256 i; i < count; ++i) {
            bytes2 before = _two(i == 0 ? 0 : i + 1);
            (code[8 * i], code[8 * i + 1]) = (bytes1(uint8(op)), bytes1(uint8(dtype)));
            (code[8 * i + 2], code[8 * i + 3]) = (before[0], before[1]);
            if (!unary) code[8 * i + 4] = 0x01;
        }
        bytes memory head = bytes.concat(_two(count + 3), hex"010000000000", hex"040000000100000000000000");
        bytes memory constants = bytes.concat(_constant(dtype, a), _constant(dtype, b));
        return bytes.concat(head, constants, code, hex"2c04", _two(count + 1), hex"00000000");
    }

    function _two(uint256 number) private pure returns (bytes2) {
        return bytes2(uint16(number % 256 << 8 | number / 256));
    }

    function _constant(uint256 dtype, uint32 pattern) private pure returns (bytes memory) {
        uint32 low = pattern >> 24 | (pattern >> 8 & 0xFF00) | (pattern << 8 & 0xFF0000) | pattern << 24;
        return bytes.concat(hex"01", bytes1(uint8(dtype)), hex"0000", bytes4(low));
    }
}
