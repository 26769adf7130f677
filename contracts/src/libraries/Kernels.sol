// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Reader} from "./Reader.sol";
import {Records} from "./Records.sol";

/// @title An executed call: the program's header, the records of call and body, the values of the body's variables
/// @notice The layout of its bytes is in `IReferee`.
library Kernels {
    using Reader for Reader.Cursor;

    error WrongRecord(uint256 length, uint256 expected);

    /// @dev Numbers of records by kind; the call's record and body; the values of the body's variables.
    struct Kernel {
        uint256 programVariables;
        uint256 buffers;
        uint256 bodies;
        uint256 calls;
        uint256 results;
        bytes32 header;
        bytes call;
        Records.Body body;
        int256[] variables;
        bytes32 hash; // keccak256 of the bytes
    }

    function read(Reader.Cursor memory from) internal pure returns (Kernel memory kernel) {
        uint256 start = from.at;
        readHeader(kernel, from.word());
        kernel.call = from.slice(from.number(2));
        Records.Body memory body = Records.body(from.slice(from.number(2)));
        kernel.body = body;
        uint256 length = 4 + 2 * body.variables + 4 * (body.parameters - 1);
        if (kernel.call.length != length) revert WrongRecord(kernel.call.length, length);
        kernel.variables = new int256[](body.variables);
        for (uint256 n; n < body.variables; ++n) {
            // Read as the 32 bits that it has.
            // forge-lint: disable-next-line(unsafe-typecast)
            kernel.variables[n] = int32(uint32(from.number(4)));
        }
        bytes memory data = from.data;
        uint256 size = from.at - start;
        bytes32 hash;
        assembly ("memory-safe") {
            hash := keccak256(add(add(data, 32), start), size)
        }
        kernel.hash = hash;
    }

    function readHeader(Kernel memory kernel, bytes32 header) internal pure {
        bytes memory data = bytes.concat(header);
        kernel.header = header;
        kernel.programVariables = Records.little(data, 6, 2);
        kernel.buffers = Records.little(data, 8, 4);
        kernel.bodies = Records.little(data, 12, 4);
        kernel.calls = Records.little(data, 16, 4);
        kernel.results = Records.little(data, 20, 4);
    }

    function records(Kernel memory kernel) internal pure returns (uint256) {
        return kernel.programVariables + kernel.buffers + kernel.bodies + kernel.calls + kernel.results;
    }

    /// @notice The body's number, the program's variable for a variable of the body, the buffer for a parameter from 1 on.
    function bodyOf(Kernel memory kernel) internal pure returns (uint256) {
        return Records.little(kernel.call, 0, 4);
    }

    function variableOf(Kernel memory kernel, uint256 number) internal pure returns (uint256) {
        return Records.little(kernel.call, 4 + 2 * number, 2);
    }

    function bufferOf(Kernel memory kernel, uint256 parameter) internal pure returns (uint256) {
        return Records.little(kernel.call, 4 * parameter + 2 * kernel.variables.length, 4);
    }
}
