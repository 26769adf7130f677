// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Merkle} from "./Merkle.sol";
import {Patterns} from "./Patterns.sol";
import {Records} from "./Records.sol";

/// @title The elements that a step loads, each proven to be in its tensor
/// @notice A tensor's depth follows from its elements, so that nothing but a leaf can stand for a leaf.
library Operands {
    error OutOfBounds(uint256 parameter, uint256 element);
    error NotInTensor(uint256 parameter, uint256 element);
    error NothingLeft(uint256 at);

    /// @notice Of a step. `roots` are tensor roots by parameter less one; where `constants` has the record of a buffer
    /// instead of nothing, elements come from there.
    /// @dev The last bytes of `openings`, from `at` on, are those of the loads in their order: a leaf of 1,024 bytes, then the
    /// siblings upwards. A load of a constant, or whose guard is false, has none.
    struct Tensors {
        bytes32[] roots;
        bytes[] constants;
        bytes openings;
        uint256 at;
    }

    /// @notice The pattern of an element, whose opening begins at `at`, and where the next one does.
    function load(Tensors memory from, uint256 dtype, uint256 elements, uint256 parameter, uint256 element, uint256 at)
        internal
        pure
        returns (uint256 pattern, uint256 next)
    {
        if (element >= elements) revert OutOfBounds(parameter, element);
        uint256 size = Patterns.size(dtype);
        bytes memory constant_ = from.constants[parameter - 1];
        if (constant_.length != 0) {
            uint256 start = Records.constantAt(constant_, dtype, elements * size);
            return (Records.little(constant_, start + element * size, size), at);
        }
        bytes32 tree;
        (tree, next) = _open(from.openings, at, element * size / Merkle.LEAF, elements * size);
        if (Merkle.tensorRootOf(dtype, elements, tree) != from.roots[parameter - 1]) {
            revert NotInTensor(parameter, element);
        }
        pattern = Records.little(from.openings, at + element * size % Merkle.LEAF, size);
    }

    /// @dev The root of the tree over `size` bytes above the leaf at `at`, which has this number, and where it ends.
    function _open(bytes memory openings, uint256 at, uint256 number, uint256 size)
        private
        pure
        returns (bytes32 root, uint256 next)
    {
        uint256 levels = Merkle.depth((size + Merkle.LEAF - 1) / Merkle.LEAF);
        uint256 path = at + Merkle.LEAF;
        next = path + 32 * levels;
        if (next > openings.length) revert NothingLeft(at);
        assembly ("memory-safe") {
            path := add(add(openings, 32), path)
        }
        root = Merkle.climbIn(Merkle.leafHash(openings, at), number, path, levels);
    }
}
