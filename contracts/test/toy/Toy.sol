// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {DTypes} from "../../src/libraries/DTypes.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";

/// @title A machine that is small enough to try every lie on it
/// @notice A program is so many calls over tensors of bools, each of which reads the tensor before it (the first one the
/// input). An element has up to two reductions, the second of which reads the result of the first.
library Toy {
    struct Program {
        uint8 calls;
        uint16 elements;
        uint8 reductions;
        uint16[2] steps;
    }

    function encode(Program memory p) internal pure returns (bytes32) {
        return bytes32(abi.encodePacked(p.calls, p.elements, p.reductions, p.steps[0], p.steps[1]));
    }

    function decode(bytes32 root) internal pure returns (Program memory p) {
        uint256 word = uint256(root);
        (p.calls, p.elements, p.reductions) = (uint8(word >> 248), uint16(word >> 232), uint8(word >> 224));
        (p.steps[0], p.steps[1]) = (uint16(word >> 208), uint16(word >> 192));
    }

    function identity(uint256 reduction) internal pure returns (uint256) {
        return reduction;
    }

    /// @notice The accumulator after a step. `first` is the result of reduction 0.
    function step(bytes memory read, uint256 element, uint256 reduction, uint256 at, uint256 total, uint256 first)
        internal
        pure
        returns (uint256)
    {
        uint256 value = uint8(read[(element + at) % read.length]);
        return reduction == 0 ? (total + value + at) & 1 : total ^ (value | first);
    }

    /// @notice The accumulators of a reduction before and after each step.
    function accumulators(Program memory p, bytes memory read, uint256 element, uint256 reduction, uint256 first)
        internal
        pure
        returns (uint256[] memory totals)
    {
        totals = new uint256[](uint256(p.steps[reduction]) + 1);
        totals[0] = identity(reduction);
        for (uint256 at; at + 1 < totals.length; ++at) {
            totals[at + 1] = step(read, element, reduction, at, totals[at], first);
        }
    }

    /// @notice The results of an element's reductions, a byte each.
    function results(Program memory p, bytes memory read, uint256 element) internal pure returns (bytes memory found) {
        found = new bytes(p.reductions);
        for (uint256 k; k < p.reductions; ++k) {
            uint256[] memory totals = accumulators(p, read, element, k, k == 0 ? 0 : uint8(found[0]));
            found[k] = bytes1(uint8(totals[totals.length - 1]));
        }
    }

    /// @notice What is stored, given the results of the reductions.
    function stored(bytes memory read, uint256 element, bytes memory found) internal pure returns (uint256 bit) {
        bit = uint8(read[element]) + element;
        for (uint256 k; k < found.length; ++k) {
            bit += uint8(found[k]);
        }
        bit &= 1;
    }

    function execute(Program memory p, bytes memory input) internal pure returns (bytes[] memory tensors) {
        tensors = new bytes[](p.calls);
        for (uint256 i; i < p.calls; ++i) {
            bytes memory read = i == 0 ? input : tensors[i - 1];
            tensors[i] = new bytes(p.elements);
            for (uint256 e; e < p.elements; ++e) {
                tensors[i][e] = bytes1(uint8(stored(read, e, results(p, read, e))));
            }
        }
    }

    // ---- Trees ----

    function leafHashes(bytes memory tensor) internal pure returns (bytes32[] memory hashes) {
        hashes = new bytes32[]((tensor.length + Merkle.LEAF - 1) / Merkle.LEAF);
        for (uint256 i; i < hashes.length; ++i) {
            hashes[i] = Merkle.leafHash(leafOf(tensor, i), 0);
        }
    }

    function leafOf(bytes memory tensor, uint256 number) internal pure returns (bytes memory leaf) {
        leaf = new bytes(Merkle.LEAF);
        for (uint256 i; i < Merkle.LEAF && number * Merkle.LEAF + i < tensor.length; ++i) {
            leaf[i] = tensor[number * Merkle.LEAF + i];
        }
    }

    function tensorRoot(bytes memory tensor) internal pure returns (bytes32) {
        return Merkle.tensorRootOf(DTypes.BOOL, tensor.length, Merkle.treeRoot(leafHashes(tensor)));
    }

    function traceRoot(bytes32[] memory roots, bytes32 outputs) internal pure returns (bytes32) {
        return Merkle.treeRoot(trace(roots, outputs));
    }

    function trace(bytes32[] memory roots, bytes32 outputs) internal pure returns (bytes32[] memory leaves) {
        leaves = new bytes32[](roots.length + 1);
        for (uint256 i; i < roots.length; ++i) {
            leaves[i] = roots[i];
        }
        leaves[roots.length] = outputs;
    }

    /// @notice The nodes of a level of the tree over leaf hashes, those of the padding included.
    function level(bytes32[] memory leaves, uint256 number) internal pure returns (bytes32[] memory nodes) {
        nodes = new bytes32[](1 << Merkle.depth(leaves.length));
        for (uint256 i; i < leaves.length; ++i) {
            nodes[i] = leaves[i];
        }
        for (; number != 0; --number) {
            bytes32[] memory parents = new bytes32[](nodes.length / 2);
            for (uint256 i; i < parents.length; ++i) {
                parents[i] = Merkle.node(nodes[2 * i], nodes[2 * i + 1]);
            }
            nodes = parents;
        }
    }

    /// @notice The siblings of a leaf, from the bottom up.
    function path(bytes32[] memory leaves, uint256 index) internal pure returns (bytes32[] memory siblings) {
        siblings = new bytes32[](Merkle.depth(leaves.length));
        for (uint256 i; i < siblings.length; ++i) {
            siblings[i] = level(leaves, i)[(index >> i) ^ 1];
        }
    }

    /// @notice The leaves of two outputs and one state, all of which are the last call's tensor.
    function resultsOf(bytes32 root) internal pure returns (bytes32[] memory outputs, bytes32[] memory states) {
        (outputs, states) = (new bytes32[](2), new bytes32[](1));
        outputs[0] = Merkle.bindingHash("\x01o", root);
        outputs[1] = Merkle.bindingHash("\x01p", root);
        states[0] = Merkle.bindingHash("\x01s", root);
    }

    /// @notice The outputs root of a last call's tensor root.
    function outputsOf(bytes32 root) internal pure returns (bytes32) {
        (bytes32[] memory outputs, bytes32[] memory states) = resultsOf(root);
        return outputsOf(outputs, states);
    }

    function outputsOf(bytes32[] memory outputs, bytes32[] memory states) internal pure returns (bytes32) {
        return Merkle.outputsRoot(bindingsOf(outputs), bindingsOf(states));
    }

    function bindingsOf(bytes32[] memory leaves) internal pure returns (bytes32) {
        return Merkle.bindingsRootOf(
            leaves.length, leaves.length == 0 ? bytes32(0) : level(leaves, Merkle.depth(leaves.length))[0]
        );
    }
}
