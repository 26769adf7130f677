// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

/// @title Trees of sha256
/// @notice Mirrors Python's `eigentensor.merkle`; the format is in `sdk/README.md`. Every preimage starts with a tag,
/// integers are big-endian, trees are padded to a power of two with zero leaves.
library Merkle {
    uint256 internal constant LEAF = 1024;

    /// @notice The hash of the leaf that lies at `at` in some bytes.
    function leaf(bytes memory data, uint256 at) internal pure returns (bytes32) {
        assert(at + LEAF <= data.length);
        bytes memory preimage = new bytes(1 + LEAF); // begins with the tag 0
        assembly ("memory-safe") {
            mcopy(add(preimage, 33), add(add(data, 32), at), 1024)
        }
        return sha256(preimage);
    }

    /// @notice Root of a tensor; `tree` is the root of the tree over its bytes.
    function tensorRoot(uint256 dtype, uint256 elements, bytes32 tree) internal pure returns (bytes32) {
        // A record has them in one byte and in eight.
        // forge-lint: disable-next-line(unsafe-typecast)
        return sha256(abi.encodePacked(hex"02", uint8(dtype), uint64(elements), tree));
    }

    function node(bytes32 left, bytes32 right) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"01", left, right));
    }

    /// @notice The root above the leaf hash `from` at position `index`, given the siblings from the bottom up.
    function climb(bytes32 from, uint256 index, bytes32[] memory path) internal pure returns (bytes32 root) {
        root = from;
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
