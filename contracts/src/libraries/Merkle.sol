// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

/// @title Trees of sha256
/// @notice Mirrors Python's `eigentensor.merkle`; the format is in `sdk/README.md`. Every preimage starts with a tag,
/// integers are big-endian, trees are padded to a power of two with zero leaves.
library Merkle {
    uint256 internal constant LEAF = 1024;
    /// @notice The root of a tree without leaves, and the hash of a padding leaf.
    bytes32 internal constant NOTHING = 0;

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

    /// @notice Levels between the root and the leaves of a tree.
    function depth(uint256 leaves) internal pure returns (uint256 levels) {
        for (; leaves > 1; leaves = (leaves + 1) / 2) {
            ++levels;
        }
    }

    /// @notice The root above the leaf hash `from` at position `index`, given the siblings from the bottom up.
    function climb(bytes32 from, uint256 index, bytes32[] memory path) internal pure returns (bytes32 root) {
        root = from;
        for (uint256 level; level < path.length; ++level) {
            root = (index >> level) & 1 == 0 ? node(root, path[level]) : node(path[level], root);
        }
    }

    /// @notice The root of the tree over leaf hashes. Overwrites them.
    function treeRoot(bytes32[] memory leaves) internal pure returns (bytes32) {
        uint256 count = leaves.length;
        if (count == 0) return NOTHING;
        for (bytes32 zero = NOTHING; count > 1; zero = node(zero, zero)) {
            uint256 pairs = count / 2;
            for (uint256 i; i < pairs; ++i) {
                leaves[i] = node(leaves[2 * i], leaves[2 * i + 1]);
            }
            if (count % 2 == 1) leaves[pairs] = node(leaves[count - 1], zero);
            count -= pairs;
        }
        return leaves[0];
    }

    function recordLeaf(bytes memory record) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"07", record));
    }

    /// @notice Root of a program; `tree` is the root of the tree over its records.
    function programRoot(bytes32 header, bytes32 tree) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"08", header, tree));
    }

    /// @notice `name` has its length before it.
    function bindingLeaf(bytes memory name, bytes32 tensor) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"04", name, tensor));
    }

    function bindingsRoot(uint256 count, bytes32 tree) internal pure returns (bytes32) {
        // A program has fewer.
        // forge-lint: disable-next-line(unsafe-typecast)
        return sha256(abi.encodePacked(hex"05", uint32(count), tree));
    }

    function outputsRoot(bytes32 outputs, bytes32 states) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"06", outputs, states));
    }

    /// @notice `name` has its length before it.
    function variableLeaf(bytes memory name, int32 value) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"09", name, value));
    }

    function variablesRoot(uint256 count, bytes32 tree) internal pure returns (bytes32) {
        // A header has it in two bytes.
        // forge-lint: disable-next-line(unsafe-typecast)
        return sha256(abi.encodePacked(hex"0a", uint32(count), tree));
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
