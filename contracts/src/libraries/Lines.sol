// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {CallProof, Line, LineProof, Place} from "../interfaces/Deals.sol";
import {IChannels} from "../interfaces/IChannels.sol";
import {IMarket} from "../interfaces/IMarket.sol";
import {ChannelLedger, BatchLife} from "./Batches.sol";
import {Merkle} from "./Merkle.sol";
import {Signed} from "./Signed.sol";

/// @title Where a call stands: in its channel's tree, in a line, in a batch
/// @notice Hashes mirror Python's `eigentensor.merkle`.
library Lines {
    /// @notice The hash of a call's leaf; `result` is sha256 of its outputs root, so that a tree says nothing of results that
    /// could be copied.
    function leafHash(bytes32 channel, uint64 index, bytes32 order, bytes32 result) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"0d", channel, index, order, result));
    }

    function resultOf(bytes32 outputsRoot) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(outputsRoot));
    }

    function lineHash(Line memory l) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"0e", l.channel, l.root, l.first, l.count, l.offset, l.amount));
    }

    function entryHash(bytes32 program, uint32 repeat) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"0f", program, repeat));
    }

    /// @notice Root of an offer's programs; `tree` is the root of the tree over their entries.
    function programsRootOf(uint32 count, bytes32 tree) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(hex"10", count, tree));
    }

    /// @notice Reverts unless the line stands in the batch.
    /// @dev Tags keep lines and nodes apart, so only a path of the tree's depth reaches the root.
    function check(ChannelLedger storage ledger, BatchLife memory l, LineProof calldata proof) internal view {
        bytes32 expected = ledger.roots[l.id].lines;
        bytes32 root = Merkle.climb(lineHash(proof.line), proof.position, proof.path);
        if (proof.position >= l.b.lines || root != expected) revert IChannels.WrongLine(l.id, expected, root);
    }

    /// @notice Reverts unless the call is among those of the line.
    function check(Line calldata line, CallProof calldata call) internal pure {
        bytes32 leaf = leafHash(line.channel, call.index, call.order, resultOf(call.outputsRoot));
        bool inside = call.index >= line.first && call.index - line.first < line.count;
        if (!inside || Merkle.climb(leaf, call.index, call.path) != line.root) {
            revert IChannels.WrongCall(line.channel, call.index);
        }
    }

    /// @notice Reverts unless the call is among those of the batch's line, and its order is `order`.
    function check(ChannelLedger storage ledger, BatchLife memory l, bytes32 domain, Place calldata place)
        internal
        view
    {
        check(ledger, l, place.line);
        check(place.line.line, place.call);
        bytes32 task = Signed.taskOf(domain, place.order);
        if (task != place.call.order) revert IMarket.WrongTask(place.call.order, task);
    }

    /// @notice Reverts unless `leaf` stands at an index of the channel's tree as of the line.
    function check(Line calldata line, uint64 index, bytes32 leaf, bytes32[] calldata path) internal pure {
        uint256 leaves = uint256(line.first) + line.count;
        // A node above the leaves would be another "leaf": here the path's length is not implied.
        bool fits = index < leaves && path.length == Merkle.depth(leaves);
        if (!fits || Merkle.climb(leaf, index, path) != line.root) revert IChannels.WrongCall(line.channel, index);
    }

    /// @notice The number x of a call in its batch.
    function numberOf(Line calldata line, uint64 index) internal pure returns (uint64) {
        return index - line.first + line.offset;
    }

    /// @notice Whether the order names its place: the channel, and its index there.
    function isNamed(Place calldata place) internal pure returns (bool) {
        // SAFETY: the low 64 bits are meant.
        // forge-lint: disable-next-line(unsafe-typecast)
        bool isIndex = uint64(place.order.nonce) == place.call.index;
        return isIndex && place.order.operators == place.line.line.channel;
    }
}
