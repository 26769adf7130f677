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
    function leafHash(bytes memory data, uint256 at) internal pure returns (bytes32) {
        assert(at + LEAF <= data.length);
        uint256 free;
        assembly ("memory-safe") {
            free := mload(0x40)
            mstore8(free, 0)
            mcopy(add(free, 1), add(add(data, 32), at), 1024)
        }
        return _sha256(free, 1 + LEAF);
    }

    /// @notice Root of a tensor; `tree` is the root of the tree over its bytes.
    function tensorRootOf(uint256 dtype, uint256 elements, bytes32 tree) internal pure returns (bytes32) {
        // A record has them in one byte and in eight.
        // forge-lint: disable-next-line(unsafe-typecast)
        return sha256(abi.encodePacked(hex"02", uint8(dtype), uint64(elements), tree));
    }

    function node(bytes32 left, bytes32 right) internal pure returns (bytes32) {
        uint256 free;
        assembly ("memory-safe") {
            free := mload(0x40)
            mstore8(free, 1)
            mstore(add(free, 1), left)
            mstore(add(free, 33), right)
        }
        return _sha256(free, 65);
    }

    /// @notice Levels between the root and the leaves of a tree.
    function depth(uint256 leaves) internal pure returns (uint256 levels) {
        for (; leaves > 1; leaves = (leaves + 1) / 2) {
            ++levels;
        }
    }

    /// @notice The root above the leaf hash `from` at position `index`, given the siblings from the bottom up.
    function climb(bytes32 from, uint256 index, bytes32[] memory path) internal pure returns (bytes32 root) {
        uint256 at;
        assembly ("memory-safe") {
            at := add(path, 32)
        }
        return climbIn(from, index, at, path.length);
    }

    /// @notice `climb` with siblings that lie in memory at `at`, which the caller has made sure of.
    function climbIn(bytes32 from, uint256 index, uint256 at, uint256 levels) internal pure returns (bytes32) {
        function(bytes32, uint256, uint256, uint256) view returns (bytes32) viewing = _climb;
        function(bytes32, uint256, uint256, uint256) pure returns (bytes32) climbs;
        assembly ("memory-safe") {
            climbs := viewing
        }
        return climbs(from, index, at, levels);
    }

    /// @notice The root of the tree over leaf hashes. Overwrites them.
    function treeRoot(bytes32[] memory leaves) internal pure returns (bytes32) {
        return leaves.length == 0 ? NOTHING : fold(leaves, depth(leaves.length), 0);
    }

    /// @notice The node `levels` above some nodes, which stand `bottom` levels above the leaves and right of which there is
    /// padding alone. Overwrites them.
    function fold(bytes32[] memory nodes, uint256 levels, uint256 bottom) internal pure returns (bytes32) {
        uint256 count = nodes.length;
        bool padded = count < 2 ** levels;
        bytes32 zero = padded ? padding(bottom) : NOTHING;
        for (; levels != 0; --levels) {
            bytes32 last = nodes[count - 1];
            _foldPairs(nodes, count / 2);
            if (count % 2 == 1) nodes[count / 2] = node(last, zero);
            count = (count + 1) / 2;
            if (padded) zero = node(zero, zero);
        }
        return nodes[0];
    }

    /// @notice The node so many levels above leaves of padding alone.
    function padding(uint256 levels) internal pure returns (bytes32 zero) {
        for (; levels != 0; --levels) {
            zero = node(zero, zero);
        }
    }

    function recordHash(bytes memory record) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"07", record));
    }

    /// @notice Root of a program; `tree` is the root of the tree over its records.
    function programRootOf(bytes32 header, bytes32 tree) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"08", header, tree));
    }

    /// @notice `name` has its length before it.
    function bindingHash(bytes memory name, bytes32 tensor) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"04", name, tensor));
    }

    function bindingsRootOf(uint256 count, bytes32 tree) internal pure returns (bytes32) {
        // A program has fewer.
        // forge-lint: disable-next-line(unsafe-typecast)
        return sha256(abi.encodePacked(hex"05", uint32(count), tree));
    }

    function outputsRoot(bytes32 outputs, bytes32 states) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"06", outputs, states));
    }

    /// @notice `name` has its length before it.
    function variableHash(bytes memory name, int32 value) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"09", name, value));
    }

    function variablesRootOf(uint256 count, bytes32 tree) internal pure returns (bytes32) {
        // A header has it in two bytes.
        // forge-lint: disable-next-line(unsafe-typecast)
        return sha256(abi.encodePacked(hex"0a", uint32(count), tree));
    }

    function operatorHash(address operator) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"0b", operator));
    }

    /// @notice Root of a list of operators, sorted ascending; `tree` is the root of the tree over their leaves.
    function operatorsRootOf(uint32 count, bytes32 tree) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"0c", count, tree));
    }

    /// @notice Whether `operator` stands at `index` in the list of `count` operators with this root.
    /// @dev Needs no check of the path's length: tags keep leaves and nodes apart, so no other length reaches the root.
    function admits(bytes32 root, address operator, uint32 index, uint32 count, bytes32[] memory path)
        internal
        pure
        returns (bool)
    {
        return index < count && operatorsRootOf(count, climb(operatorHash(operator), index, path)) == root;
    }

    /// @dev Writes the parents of `pairs` pairs of nodes over the first nodes.
    function _foldPairs(bytes32[] memory nodes, uint256 pairs) private pure {
        function(bytes32[] memory, uint256) view viewing = _hashPairs;
        function(bytes32[] memory, uint256) pure hash;
        assembly ("memory-safe") {
            hash := viewing
        }
        hash(nodes, pairs);
    }

    /// @dev As the language's own sha256, which is pure too, without copying what lies in memory.
    function _sha256(uint256 at, uint256 size) private pure returns (bytes32) {
        function(uint256, uint256) view returns (bytes32) viewing = _precompiled;
        function(uint256, uint256) pure returns (bytes32) hash;
        assembly ("memory-safe") {
            hash := viewing
        }
        return hash(at, size);
    }

    function _climb(bytes32 from, uint256 index, uint256 at, uint256 levels) private view returns (bytes32 root) {
        assembly ("memory-safe") {
            let free := mload(0x40)
            mstore8(free, 1)
            root := from
            for { let end := add(at, shl(5, levels)) } lt(at, end) { at := add(at, 32) } {
                let right := and(index, 1)
                mstore(add(free, add(1, shl(5, right))), root)
                mstore(add(free, sub(33, shl(5, right))), mload(at))
                if iszero(staticcall(gas(), 2, free, 65, 0, 32)) { revert(0, 0) }
                root := mload(0)
                index := shr(1, index)
            }
        }
    }

    function _hashPairs(bytes32[] memory nodes, uint256 pairs) private view {
        assembly ("memory-safe") {
            let free := mload(0x40)
            mstore8(free, 1)
            let to := add(nodes, 32)
            let end := add(to, shl(5, pairs))
            for { let from := to } lt(to, end) { to := add(to, 32) } {
                mcopy(add(free, 1), from, 64)
                if iszero(staticcall(gas(), 2, free, 65, to, 32)) { revert(0, 0) }
                from := add(from, 64)
            }
        }
    }

    function _precompiled(uint256 at, uint256 size) private view returns (bytes32 hash) {
        assembly ("memory-safe") {
            if iszero(staticcall(gas(), 2, at, size, 0, 32)) { revert(0, 0) }
            hash := mload(0)
        }
    }
}
