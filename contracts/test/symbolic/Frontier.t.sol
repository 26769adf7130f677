// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Frontier} from "../../src/libraries/Frontier.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";

/// @title A tree that grows by leaves, whatever the leaves are
/// @notice Of the hash nothing is assumed.
contract FrontierSymbolic {
    uint256 private constant LEAVES = 9;

    /// @dev Whatever was there before, and whatever comes on top: the root is that of the tree over all leaves.
    function check_AppendingGivesTheTree(uint8 count, bytes32[LEAVES] memory leaves) public pure {
        for (uint256 n; n <= LEAVES; ++n) {
            if (count != n) continue;
            assert(Frontier.root(_grown(leaves, n)) == Merkle.treeRoot(_part(leaves, 0, n)));
            return;
        }
    }

    /// @dev What is kept are the roots of the full subtrees, the largest first: as many as a voucher's frontier may have.
    function check_WhatIsKeptAreTheFullSubtrees(uint8 count, bytes32[LEAVES] memory leaves) public pure {
        for (uint256 n; n <= LEAVES; ++n) {
            if (count != n) continue;
            Frontier.Stack memory s = _grown(leaves, n);
            assert(s.leaves == n && s.height == Frontier.count(n));
            uint256 first;
            uint256 at;
            for (uint256 level = 4; level != 0; --level) {
                uint256 size = 2 ** (level - 1);
                if (n & size == 0) continue;
                assert(s.nodes[at++] == Merkle.treeRoot(_part(leaves, first, size)));
                first += size;
            }
            return;
        }
    }

    /// @dev Of the nodes all are read: another frontier of as many leaves gives another root, or a collision of the hash.
    function check_AnotherFrontierGivesAnotherTree(uint8 count, bytes32[4] memory nodes, bytes32[4] memory others)
        public
        pure
    {
        for (uint256 n = 1; n < 8; ++n) {
            if (count != n) continue;
            (Frontier.Stack memory s, Frontier.Stack memory t) = (_of(nodes, n), _of(others, n));
            if (Frontier.root(s) != Frontier.root(t)) return;
            bool same = true;
            for (uint256 i; i < s.height; ++i) {
                same = same && nodes[i] == others[i];
            }
            assert(same || _collided(nodes, others, n));
            return;
        }
    }

    /// @dev Whether somewhere on the two ways up two different pairs have one hash.
    function _collided(bytes32[4] memory nodes, bytes32[4] memory others, uint256 n) private pure returns (bool) {
        uint256 at = Frontier.count(n) - 1;
        (bytes32 a, bytes32 b) = (nodes[at], others[at]);
        uint256 level;
        bytes32 zero;
        for (; n >> level & 1 == 0; ++level) {
            zero = Merkle.node(zero, zero);
        }
        bool isLast = true;
        for (; 2 ** level < n; ++level) {
            bool left = !isLast && n >> level & 1 == 1;
            if (left) --at;
            (bytes32 c, bytes32 d) = left ? (nodes[at], a) : (a, zero);
            (bytes32 e, bytes32 f) = left ? (others[at], b) : (b, zero);
            if ((c != e || d != f) && Merkle.node(c, d) == Merkle.node(e, f)) return true;
            (a, b) = (Merkle.node(c, d), Merkle.node(e, f));
            zero = Merkle.node(zero, zero);
            isLast = false;
        }
        return false;
    }

    function _of(bytes32[4] memory nodes, uint256 n) private pure returns (Frontier.Stack memory s) {
        (s.leaves, s.height, s.nodes) = (n, Frontier.count(n), new bytes32[](4));
        for (uint256 i; i < 4; ++i) {
            s.nodes[i] = nodes[i];
        }
    }

    function _grown(bytes32[LEAVES] memory leaves, uint256 n) private pure returns (Frontier.Stack memory s) {
        s.nodes = new bytes32[](LEAVES);
        for (uint256 i; i < n; ++i) {
            Frontier.append(s, leaves[i]);
        }
    }

    function _part(bytes32[LEAVES] memory leaves, uint256 first, uint256 n)
        private
        pure
        returns (bytes32[] memory part)
    {
        part = new bytes32[](n);
        for (uint256 i; i < n; ++i) {
            part[i] = leaves[first + i];
        }
    }
}
