// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Claim, IReferee, Point, Shape} from "./interfaces/IReferee.sol";
import {Claims} from "./libraries/Claims.sol";
import {Kernels} from "./libraries/Kernels.sol";
import {Merkle} from "./libraries/Merkle.sol";
import {Operands} from "./libraries/Operands.sol";
import {Reader} from "./libraries/Reader.sol";
import {Step} from "./libraries/Step.sol";

/// @title The referee of programs, format version 1
contract Referee is IReferee {
    /// @inheritdoc IReferee
    function calls(bytes32 program, bytes32 header, bytes32 recordsRoot) external pure returns (uint256) {
        if (Merkle.programRootOf(header, recordsRoot) != program) revert NotInProgram(0);
        Kernels.Kernel memory kernel;
        Kernels.readHeader(kernel, header);
        return kernel.calls;
    }

    /// @inheritdoc IReferee
    function call(Claim calldata claim, uint256 number, bytes32 root, bytes calldata proof)
        external
        pure
        returns (Shape memory)
    {
        return Claims.checkCall(claim, number, root, proof);
    }

    /// @inheritdoc IReferee
    function reduction(bytes calldata kernel, uint256 number) external pure returns (uint256 length, uint256 identity) {
        Reader.Cursor memory from = Reader.Cursor(kernel, 0);
        Kernels.Kernel memory read = Kernels.read(from);
        Reader.end(from);
        return Step.reductionOf(read.body, read.variables, number);
    }

    /// @inheritdoc IReferee
    function step(Claim calldata claim, uint256 number, bytes32 kernel, Point calldata point, bytes calldata witness)
        external
        pure
        returns (uint256)
    {
        (Kernels.Kernel memory read, Operands.Tensors memory tensors) =
            Claims.checkWitness(claim, number, kernel, witness);
        return Step.evaluatePoint(read.body, read.variables, tensors, point);
    }

    /// @inheritdoc IReferee
    function result(Claim calldata claim, uint256 number, bytes calldata proof)
        external
        pure
        returns (uint256 results, bool isState, bytes32 leaf)
    {
        return Claims.implied(claim, number, proof);
    }

    /// @inheritdoc IReferee
    function collect(Claim calldata claim, bytes calldata proof) external pure returns (bytes32) {
        return Claims.collected(claim, proof);
    }
}
