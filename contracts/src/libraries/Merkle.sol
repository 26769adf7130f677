// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

/// @title Trees of sha256
/// @notice Mirrors Python's `eigentensor.merkle`; the format is in `sdk/README.md`. Every preimage starts with a tag,
/// integers are big-endian, trees are padded to a power of two with zero leaves.
library Merkle {
    function node(bytes32 left, bytes32 right) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"01", left, right));
    }

    /// @notice The root above `leaf` at position `index`, given the siblings from the bottom up.
    function climb(bytes32 leaf, uint256 index, bytes32[] memory path) internal pure returns (bytes32 root) {
        root = leaf;
        for (uint256 level; level < path.length; ++level) {
            root = (index >> level) & 1 == 0 ? node(root, path[level]) : node(path[level], root);
        }
    }

    function operatorLeaf(address operator) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"0b", operator));
    }

    /// @notice Root of a list of operators, sorted ascending; `tree` is the root of the tree over their leaves.
    function operatorsRoot(uint32 count, bytes32 tree) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"0c", count, tree));
    }

    /// @notice Whether `operator` stands at `index` in the list of `count` operators with this root.
    /// @dev Needs no check of the path's length: tags keep leaves and nodes apart, so no other length reaches the root.
    function admits(bytes32 root, address operator, uint32 index, uint32 count, bytes32[] memory path)
        internal
        pure
        returns (bool)
    {
        return index < count && operatorsRoot(count, climb(operatorLeaf(operator), index, path)) == root;
    }
}
