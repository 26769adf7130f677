// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test} from "forge-std/Test.sol";
import {Frontier} from "../../src/libraries/Frontier.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";

contract FrontierTest is Test {
    using Frontier for Frontier.Stack;

    uint256 private constant MOST = 70;

    /// @dev From every number of leaves, on and on.
    function test_ItsRootIsTheTrees() public view {
        for (uint256 from; from <= MOST; ++from) {
            Frontier.Stack memory s = this.start(from, _nodes(from), MOST - from + 1);
            assertEq(s.root(), Merkle.treeRoot(_leaves(from)), "as it comes");
            for (uint256 n = from; n < MOST; ++n) {
                s.append(_leaf(n));
                assertEq(s.root(), Merkle.treeRoot(_leaves(n + 1)), "with another leaf");
                assertEq(s.height, Frontier.count(n + 1));
            }
        }
    }

    function start(uint256 leaves, bytes32[] calldata nodes, uint256 more)
        external
        pure
        returns (Frontier.Stack memory)
    {
        return Frontier.from(leaves, nodes, more);
    }

    function _leaf(uint256 i) private pure returns (bytes32) {
        return keccak256(abi.encode(i));
    }

    function _leaves(uint256 count) private pure returns (bytes32[] memory leaves) {
        leaves = new bytes32[](count);
        for (uint256 i; i < count; ++i) {
            leaves[i] = _leaf(i);
        }
    }

    /// @dev The roots of the full subtrees, each by itself.
    function _nodes(uint256 count) private pure returns (bytes32[] memory nodes) {
        nodes = new bytes32[](Frontier.count(count));
        uint256 at;
        uint256 n;
        for (uint256 size = 64; size != 0; size /= 2) {
            if (count & size == 0) continue;
            bytes32[] memory part = new bytes32[](size);
            for (uint256 i; i < size; ++i) {
                part[i] = _leaf(at + i);
            }
            nodes[n++] = Merkle.treeRoot(part);
            at += size;
        }
    }
}
