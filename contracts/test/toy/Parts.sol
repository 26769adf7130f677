// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Position} from "../../src/interfaces/IDisputeGame.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {Toy} from "./Toy.sol";

/// @title Trees as far as an executor has opened them
library Parts {
    /// @dev The nodes `levels` below node `index` of level `bottom + levels`, without those of padding alone.
    struct Part {
        uint256 bottom;
        uint256 levels;
        uint256 index;
        bytes32[] nodes;
    }

    /// @notice What was published with the move that led to a position.
    function opened(Position memory p, bytes memory data) internal pure returns (Part memory) {
        return Part(p.level - p.opened, p.opened, p.index, abi.decode(data, (bytes32[])));
    }

    function first(Part memory part) internal pure returns (uint256) {
        return part.index << part.levels;
    }

    function node(Part memory part, uint256 level, uint256 index) internal pure returns (bytes32) {
        if (level == part.bottom) {
            uint256 place = index - first(part);
            return place < part.nodes.length ? part.nodes[place] : Merkle.padding(level);
        }
        return Merkle.node(node(part, level - 1, 2 * index), node(part, level - 1, 2 * index + 1));
    }

    /// @notice The siblings of one of the nodes, by its number within its level.
    function path(Part memory part, uint256 index) internal pure returns (bytes32[] memory siblings) {
        siblings = new bytes32[](part.levels);
        for (uint256 i; i < siblings.length; ++i) {
            siblings[i] = node(part, part.bottom + i, (index >> i) ^ 1);
        }
    }

    /// @notice The siblings of a leaf: opened nodes where there are any, else those over one's own leaves.
    function path(Part[] memory parts, bytes32[] memory own, uint256 leaf)
        internal
        pure
        returns (bytes32[] memory siblings)
    {
        siblings = new bytes32[](Merkle.depth(own.length));
        for (uint256 i; i < siblings.length; ++i) {
            siblings[i] = node(parts, own, i, (leaf >> i) ^ 1);
        }
    }

    function node(Part[] memory parts, bytes32[] memory own, uint256 level, uint256 index)
        internal
        pure
        returns (bytes32)
    {
        for (uint256 i = parts.length; i != 0; --i) {
            Part memory part = parts[i - 1];
            if (level < part.bottom || level > part.bottom + part.levels) continue;
            if (index >> (part.bottom + part.levels - level) == part.index) return node(part, level, index);
        }
        return Toy.level(own, level)[index];
    }
}
