// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Merkle} from "./Merkle.sol";

/// @title A tree that grows by leaves, known by the roots of its full subtrees
/// @notice Mirrors Python's `eigentensor.merkle.Frontier`. A tree of some leaves has one full subtree for each bit of
/// their number, the largest first. Its root is that of `Merkle.treeRoot`.
library Frontier {
    /// @dev `nodes` has room for all that are pushed.
    struct Stack {
        uint256 leaves;
        uint256 height; // nodes that count
        bytes32[] nodes;
    }

    /// @notice The frontier of a tree with so many leaves, with room for `more`. The number of nodes is to fit.
    function from(uint256 leaves, bytes32[] calldata nodes, uint256 more) internal pure returns (Stack memory s) {
        s.leaves = leaves;
        s.height = nodes.length;
        s.nodes = new bytes32[](nodes.length + more);
        for (uint256 i; i < nodes.length; ++i) {
            s.nodes[i] = nodes[i];
        }
    }

    /// @notice How many full subtrees a tree has.
    function count(uint256 leaves) internal pure returns (uint256 bits) {
        for (; leaves != 0; leaves &= leaves - 1) {
            ++bits;
        }
    }

    function append(Stack memory s, bytes32 leaf) internal pure {
        bytes32 node = leaf;
        for (uint256 rest = s.leaves; rest & 1 == 1; rest >>= 1) {
            node = Merkle.node(s.nodes[--s.height], node);
        }
        s.nodes[s.height++] = node;
        ++s.leaves;
    }

    function root(Stack memory s) internal pure returns (bytes32 node) {
        if (s.leaves == 0) return Merkle.NOTHING;
        uint256 at = s.height;
        node = s.nodes[--at];
        uint256 level;
        bytes32 zero = Merkle.NOTHING;
        for (; s.leaves >> level & 1 == 0; ++level) {
            zero = Merkle.node(zero, zero);
        }
        // Right of the last full subtree there is padding; from there on full subtrees stand left, padding right.
        bool isLast = true;
        for (uint256 top = Merkle.depth(s.leaves); level < top; ++level) {
            bool left = !isLast && s.leaves >> level & 1 == 1;
            node = left ? Merkle.node(s.nodes[--at], node) : Merkle.node(node, zero);
            zero = Merkle.node(zero, zero);
            isLast = false;
        }
    }
}
