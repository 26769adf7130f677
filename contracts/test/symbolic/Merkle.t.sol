// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Merkle} from "../../src/libraries/Merkle.sol";

/// @title Openings of sha256 trees, whatever the leaves, siblings and claimed leaves are
/// @notice Of the hash nothing is assumed, not even that it is injective: who opens a wrong leaf has two preimages of one
/// hash in hand, and each check finds them among what it was given. So what is proven holds for sha256 as it is.
contract MerkleSymbolic {
    uint256 private constant DEPTH = 3;
    uint256 private constant LEAVES = 2 ** DEPTH;

    /// @dev A tree is folded as if it were padded with zeros to a power of two.
    function check_TreeRoot(uint8 count, bytes32[LEAVES] memory leaves) public pure {
        for (uint256 n; n <= LEAVES; ++n) {
            if (count != n) continue;
            bytes32[] memory folded = new bytes32[](n);
            for (uint256 i; i < n; ++i) {
                folded[i] = leaves[i];
            }
            bytes32[][] memory levels = _levels(folded);
            assert(Merkle.depth(n) == levels.length - 1);
            assert(Merkle.treeRoot(folded) == levels[levels.length - 1][0]);
            return;
        }
    }

    /// @dev What is opened at `index` of `count` leaves, padding included, is what stands there, or a collision.
    function check_AnOpeningIsTheLeaf(
        uint8 count,
        uint8 index,
        bytes32[LEAVES] memory leaves,
        bytes32 claimed,
        bytes32[DEPTH] memory siblings
    ) public pure {
        for (uint256 n = 1; n <= LEAVES; ++n) {
            if (count != n) continue;
            bytes32[][] memory levels = _levels(_first(leaves, n));
            uint256 depth = levels.length - 1;
            for (uint256 i; i < 2 ** depth; ++i) {
                if (index != i) continue;
                bytes32[] memory path = _path(siblings, depth);
                if (Merkle.climb(claimed, i, path) != levels[depth][0]) return;
                (bool collided, bool same) = _compare(levels, i, claimed, path);
                assert(collided || same);
                return;
            }
        }
    }

    /// @dev Of the index as many bits are read as there are siblings: who calls compares the others.
    function check_HigherBitsOfAnIndexAreNotRead(bytes32 leaf, bytes32[DEPTH] memory siblings) public pure {
        bytes32[] memory path = _path(siblings, DEPTH);
        for (uint256 i; i < LEAVES; ++i) {
            bytes32 root = Merkle.climb(leaf, i, path);
            assert(Merkle.climb(leaf, i + LEAVES, path) == root);
            assert(Merkle.climb(leaf, i + 2 ** 255, path) == root);
        }
    }

    /// @dev Types, lengths and numbers are hashed as they are: nothing is cut off.
    function check_RootsAreOfWholeNumbers(uint8 dtype, uint64 elements, uint32 count, bytes32 tree, bytes32 other)
        public
        pure
    {
        assert(Merkle.tensorRootOf(dtype, elements, tree) == sha256(abi.encodePacked(uint8(2), dtype, elements, tree)));
        assert(Merkle.bindingsRootOf(count, tree) == sha256(abi.encodePacked(uint8(5), count, tree)));
        assert(Merkle.outputsRoot(tree, other) == sha256(abi.encodePacked(uint8(6), tree, other)));
        assert(Merkle.variablesRootOf(count, tree) == sha256(abi.encodePacked(uint8(10), count, tree)));
        assert(Merkle.operatorsRootOf(count, tree) == sha256(abi.encodePacked(uint8(12), count, tree)));
    }

    function check_ALeafIsTheHashOfItsBytes(bytes32[34] memory words) public pure {
        bytes memory data = abi.encodePacked(words);
        for (uint256 at; at <= 64; at += 32) {
            bytes memory leaf = abi.encodePacked(uint8(0));
            for (uint256 w; w < 32; ++w) {
                leaf = abi.encodePacked(leaf, words[at / 32 + w]);
            }
            assert(Merkle.leafHash(data, at) == sha256(leaf));
        }
    }

    /// @dev A path may have any length: with one that is not the tree's, the hash of an operator would be that of a node.
    function check_OnlyWhoIsInTheListIsAdmitted(
        uint8 length,
        uint32 index,
        uint32 count,
        address claimed,
        address[3] memory operators,
        bytes32[DEPTH] memory siblings
    ) public pure {
        bytes32[] memory leaves = new bytes32[](3);
        for (uint256 i; i < 3; ++i) {
            leaves[i] = sha256(abi.encodePacked(uint8(11), operators[i]));
        }
        bytes32[][] memory levels = _levels(leaves);
        bytes32 root = sha256(abi.encodePacked(uint8(12), uint32(3), levels[2][0]));
        for (uint256 n; n <= DEPTH; ++n) {
            if (length != n) continue;
            for (uint256 i; i < LEAVES; ++i) {
                if (index != i) continue;
                bytes32[] memory path = _path(siblings, n);
                if (!Merkle.admits(root, claimed, uint32(i), count, path)) return;
                bytes32 leaf = sha256(abi.encodePacked(uint8(11), claimed));
                // another number or another tree with this root is a collision
                if (count != 3 || Merkle.climb(leaf, i, path) != levels[2][0]) return;
                assert(i < 3);
                (bool collided, bool same) = _compare(levels, i, leaf, path);
                if (n == 2) assert(collided || (same && (claimed == operators[i] || leaf == leaves[i])));
                else assert(collided || same);
                return;
            }
        }
    }

    /// @dev The two ways from a root down, as far as both go: whether somewhere two different pairs have one hash, and whether
    /// both arrive at the same. What a path of the tree's length leads to is then the leaf, with its siblings.
    function _compare(bytes32[][] memory levels, uint256 index, bytes32 from, bytes32[] memory path)
        private
        pure
        returns (bool collided, bool same)
    {
        uint256 n = path.length;
        index &= 2 ** n - 1;
        bytes32[] memory chain = new bytes32[](n + 1);
        chain[0] = from;
        for (uint256 i; i < n; ++i) {
            (bytes32 left, bytes32 right) = _ordered(chain[i], path[i], index >> i);
            chain[i + 1] = _parent(left, right);
        }
        uint256 depth = levels.length - 1;
        same = true;
        while (n != 0 && depth != 0) {
            (--n, --depth);
            (bytes32 left, bytes32 right) = _ordered(chain[n], path[n], index >> n);
            uint256 at = index >> n & ~uint256(1);
            if (at + 1 >= levels[depth].length) return (collided, false);
            bool equal = left == levels[depth][at] && right == levels[depth][at + 1];
            if (!equal && _parent(left, right) == _parent(levels[depth][at], levels[depth][at + 1])) collided = true;
            same = same && equal;
        }
        if (n != 0 || depth != 0) same = chain[n] == levels[depth][index >> n];
    }

    function _ordered(bytes32 node, bytes32 sibling, uint256 index) private pure returns (bytes32 left, bytes32 right) {
        return index & 1 == 0 ? (node, sibling) : (sibling, node);
    }

    function _parent(bytes32 left, bytes32 right) private pure returns (bytes32) {
        return sha256(abi.encodePacked(uint8(1), left, right));
    }

    /// @dev All levels of a tree from its leaves up to its root, with the padding.
    function _levels(bytes32[] memory leaves) private pure returns (bytes32[][] memory levels) {
        uint256 depth;
        while (2 ** depth < leaves.length) ++depth;
        levels = new bytes32[][](depth + 1);
        levels[0] = new bytes32[](2 ** depth);
        for (uint256 i; i < leaves.length; ++i) {
            levels[0][i] = leaves[i];
        }
        for (uint256 k = 1; k <= depth; ++k) {
            levels[k] = new bytes32[](2 ** (depth - k));
            for (uint256 i; i < levels[k].length; ++i) {
                levels[k][i] = _parent(levels[k - 1][2 * i], levels[k - 1][2 * i + 1]);
            }
        }
    }

    function _first(bytes32[LEAVES] memory leaves, uint256 n) private pure returns (bytes32[] memory first) {
        first = new bytes32[](n);
        for (uint256 i; i < n; ++i) {
            first[i] = leaves[i];
        }
    }

    function _path(bytes32[DEPTH] memory siblings, uint256 n) private pure returns (bytes32[] memory path) {
        path = new bytes32[](n);
        for (uint256 i; i < n; ++i) {
            path[i] = siblings[i];
        }
    }
}
