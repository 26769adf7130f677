// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

/// @title Codes of the element types
/// @notice Written by `scripts/codes` from Python; the tables are in `sdk/README.md`.
library DTypes {
    uint256 internal constant BOOL = 1;
    uint256 internal constant INT8 = 2;
    uint256 internal constant INT16 = 3;
    uint256 internal constant INT32 = 4;
    uint256 internal constant INT64 = 5;
    uint256 internal constant UINT8 = 6;
    uint256 internal constant UINT16 = 7;
    uint256 internal constant UINT32 = 8;
    uint256 internal constant UINT64 = 9;
    uint256 internal constant FLOAT16 = 10;
    uint256 internal constant BFLOAT16 = 11;
    uint256 internal constant FLOAT32 = 12;
    uint256 internal constant INDEX = 15;

    /// @dev Bit d says whether there is a type d.
    uint256 internal constant ALL = 0x9FFE;
    /// @dev Byte d is how many bits a value of type d has.
    bytes32 internal constant WIDTHS = 0x0001081020400810204010102000004000000000000000000000000000000000;
}
