// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

/// @title Codes of the operations
/// @notice Written by `scripts/codes` from Python; the tables are in `sdk/README.md`.
library Ops {
    uint256 internal constant CONST = 1;
    uint256 internal constant RANGE = 2;
    uint256 internal constant VAR = 3;
    uint256 internal constant LOAD = 4;
    uint256 internal constant REDUCE_ADD = 8;
    uint256 internal constant REDUCE_MUL = 9;
    uint256 internal constant REDUCE_MAX = 10;
    uint256 internal constant REDUCE_MIN = 11;
    uint256 internal constant REDUCE_MULACC = 12;
    uint256 internal constant ADD = 16;
    uint256 internal constant SUB = 17;
    uint256 internal constant MUL = 18;
    uint256 internal constant DIV = 19;
    uint256 internal constant MULACC = 20;
    uint256 internal constant MAX = 21;
    uint256 internal constant MIN = 22;
    uint256 internal constant SQRT = 24;
    uint256 internal constant RECIPROCAL = 25;
    uint256 internal constant TRUNC = 26;
    uint256 internal constant CDIV = 28;
    uint256 internal constant CMOD = 29;
    uint256 internal constant FLOORDIV = 30;
    uint256 internal constant FLOORMOD = 31;
    uint256 internal constant AND = 32;
    uint256 internal constant OR = 33;
    uint256 internal constant XOR = 34;
    uint256 internal constant SHL = 35;
    uint256 internal constant SHR = 36;
    uint256 internal constant CMPLT = 40;
    uint256 internal constant CMPNE = 41;
    uint256 internal constant CMPEQ = 42;
    uint256 internal constant WHERE = 43;
    uint256 internal constant CAST = 44;
    uint256 internal constant BITCAST = 45;

    /// @dev Bit o says whether there is an operation o.
    uint256 internal constant ALL = 0x3F1FF77F1F1E;
    /// @dev Bits 2o and 2o + 1: how many operands of operation o are instructions, from the first; of LOAD none is told.
    uint256 internal constant ARITIES = 0x5EA02AAAA152BAA02550000;
}
