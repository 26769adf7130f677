// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Claim, FINAL, IReferee, Point, Shape} from "../../src/interfaces/IReferee.sol";
import {DTypes} from "../../src/libraries/DTypes.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {Toy} from "./Toy.sol";

/// @title The toy as a referee
/// @notice The kernel's bytes are the program; a proof is a path under the trace, a witness the tensor that is read, and
/// where a call wrote it, its path.
contract ToyMachine is IReferee {
    error Incomplete();

    function calls(bytes32 program, bytes32, bytes32) external pure returns (uint256) {
        return Toy.decode(program).calls;
    }

    function call(Claim calldata claim, uint256 number, bytes32 root, bytes calldata proof)
        external
        pure
        returns (Shape memory)
    {
        Toy.Program memory p = Toy.decode(claim.program);
        if (number >= p.calls) revert NotInTrace(number);
        _traced(claim, p, number, root, abi.decode(proof, (bytes32[])));
        uint64 types = p.reductions == 0 ? 0 : p.reductions == 1 ? 0x01 : 0x0101;
        return Shape(uint8(DTypes.BOOL), p.elements, types, keccak256(abi.encode(claim.program)));
    }

    function reduction(bytes calldata kernel, uint256 number) external pure returns (uint256 length, uint256 identity) {
        Toy.Program memory p = Toy.decode(abi.decode(kernel, (bytes32)));
        if (number >= p.reductions) revert Incomplete();
        return (p.steps[number], Toy.identity(number));
    }

    function step(Claim calldata claim, uint256 number, bytes32 kernel, Point calldata point, bytes calldata witness)
        external
        pure
        returns (uint256)
    {
        Toy.Program memory p = Toy.decode(claim.program);
        if (kernel != keccak256(abi.encode(claim.program))) revert Incomplete();
        if (point.element >= p.elements || point.results.length != p.reductions) revert Incomplete();
        (bytes memory read, bytes32[] memory path) = abi.decode(witness, (bytes, bytes32[]));
        if (read.length != p.elements) revert Incomplete();
        bytes32 root = Toy.tensorRoot(read);
        if (number != 0) _traced(claim, p, number - 1, root, path);
        else if (root != claim.inputs) revert Incomplete();
        if (point.reduction == FINAL) return Toy.stored(read, point.element, _pack(point.results));
        if (point.step >= p.steps[point.reduction]) revert Incomplete();
        return Toy.step(
            read, point.element, point.reduction, point.step, point.accumulator, p.reductions > 1 ? point.results[0] : 0
        );
    }

    function result(Claim calldata claim, uint256 number, bytes calldata proof)
        external
        pure
        returns (uint256 results, bool isState, bytes32 leaf)
    {
        Toy.Program memory p = Toy.decode(claim.program);
        if (number > 2) revert NotInProgram(number);
        (bytes32 root, bytes32[] memory path) = abi.decode(proof, (bytes32, bytes32[]));
        _traced(claim, p, p.calls - 1, root, path);
        (bytes32[] memory outputs, bytes32[] memory states) = Toy.resultsOf(root);
        return (3, number == 2, number == 2 ? states[0] : outputs[number]);
    }

    function collect(Claim calldata claim, bytes calldata proof) external pure returns (bytes32) {
        Toy.Program memory p = Toy.decode(claim.program);
        (bytes32 root, bytes32[] memory path) = abi.decode(proof, (bytes32, bytes32[]));
        _traced(claim, p, p.calls - 1, root, path);
        return Toy.outputsOf(root);
    }

    function _traced(Claim calldata claim, Toy.Program memory p, uint256 number, bytes32 root, bytes32[] memory path)
        private
        pure
    {
        bool fits = path.length == Merkle.depth(uint256(p.calls) + 1);
        if (!fits || Merkle.climb(root, number, path) != claim.trace) revert NotInTrace(number);
    }

    function _pack(uint256[] calldata results) private pure returns (bytes memory packed) {
        packed = new bytes(results.length);
        for (uint256 k; k < results.length; ++k) {
            if (results[k] > 1) revert Incomplete();
            packed[k] = bytes1(uint8(results[k]));
        }
    }
}
