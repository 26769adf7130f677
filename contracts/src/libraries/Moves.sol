// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Descent, Entry, IDisputeGame, Phase, Position} from "../interfaces/IDisputeGame.sol";
import {FINAL, Shape} from "../interfaces/IReferee.sol";
import {Merkle} from "./Merkle.sol";
import {Patterns} from "./Patterns.sol";
import {Records} from "./Records.sol";

/// @title What a move makes of a position
/// @notice Mirrored by name in Python's `eigentensor.dispute`. Phase, mover and clock are the caller's business; what is
/// returned says whether the move has decided the game against the executor.
/// @dev Every number that is narrowed has been compared with what bounds it.
// forge-lint: disable-start(unsafe-typecast)
library Moves {
    uint256 internal constant SPANS = 64;
    uint256 private constant WORDS = 32;
    uint256 private constant LEAST_LEVELS = 5;
    uint256 private constant MOST_LEVELS = 11;

    function isExecutors(Phase phase) internal pure returns (bool) {
        if (phase == Phase.Publish || phase == Phase.Trace || phase == Phase.Outputs) return true;
        return phase == Phase.Tree || phase == Phase.Leaf || phase == Phase.Borders;
    }

    /// @notice INVARIANT 29: takes what has passed since the last move off the mover's clock.
    function spend(Position memory p, uint256 blockNumber) internal pure {
        (uint256 passed, uint256 left) = clock(p, blockNumber);
        if (passed >= left) revert IDisputeGame.ClockOver(passed, left);
        p.since = uint32(blockNumber);
        if (isExecutors(p.phase)) p.executorLeft = uint32(left - passed);
        else p.challengerLeft = uint32(left - passed);
    }

    /// @notice Blocks since the last move, and those that the side to move had left then.
    function clock(Position memory p, uint256 blockNumber) internal pure returns (uint256 passed, uint256 left) {
        return (blockNumber - p.since, isExecutors(p.phase) ? p.executorLeft : p.challengerLeft);
    }

    /// @param calls How many calls are executed, and so the number of the trace's last leaf, which is `outputs`.
    function publish(
        Position memory p,
        uint256 calls,
        bytes32 outputs,
        bytes32[] memory children,
        bytes32[] memory path
    ) internal pure {
        (p.elements, p.level) = (uint64(calls + 1), uint8(Merkle.depth(calls + 1)));
        uint256 levels = Merkle.depth(children.length);
        _checkChildren(p, levels, children.length);
        _checkLast(outputs, calls, p.level - levels, path, children[children.length - 1]);
        p.node = Merkle.fold(children, levels, p.level - levels);
        (p.opened, p.phase) = (uint8(levels), Phase.Call);
    }

    function pickCall(Position memory p, uint32 number, bytes32 root, Shape memory shape, Descent memory descent)
        internal
        pure
        returns (bool decided)
    {
        (p.number, p.dtype, p.elements) = (number, shape.dtype, shape.elements);
        (p.reductions, p.kernel) = (shape.reductions, shape.kernel);
        if (shape.elements == 0) {
            // INVARIANT 30: the task determines this root.
            if (root == Merkle.tensorRootOf(shape.dtype, 0, Merkle.NOTHING)) revert IDisputeGame.NothingToDispute();
            return true;
        }
        (p.node, p.rooted, p.level) = (root, true, uint8(Merkle.depth(_leaves(p))));
        (p.index, p.opened) = (0, 0);
        p.phase = p.level == 0 ? Phase.Leaf : Phase.Tree;
        if (descent.path.length != 0) pickNode(p, descent);
    }

    function descend(Position memory p, uint256 levels, bytes32[] memory children) internal pure {
        _checkChildren(p, levels, children.length);
        _checkNode(p, Merkle.fold(children, levels, p.level - levels));
        (p.opened, p.phase) = (uint8(levels), p.phase == Phase.Trace ? Phase.Call : Phase.Node);
    }

    function pickNode(Position memory p, Descent memory descent) internal pure {
        bool inTrace = p.phase == Phase.Call;
        uint256 levels = descent.path.length;
        uint256 most = inTrace ? p.level - 1 : p.level; // the trace's leaves are picked as calls
        if (levels < p.opened || levels > most) revert IDisputeGame.WrongPath(levels, p.opened, most);
        if (descent.index >> levels != p.index) revert IDisputeGame.WrongNode(descent.child, p.node);
        _checkNode(p, Merkle.climb(descent.child, descent.index, descent.path));
        (p.node, p.index, p.rooted, p.opened) = (descent.child, descent.index, false, 0);
        p.level -= uint8(levels);
        // INVARIANT 30: padding has one hash.
        if (uint256(p.index) << p.level >= _leaves(p)) revert IDisputeGame.Padding(p.index);
        p.phase = inTrace ? Phase.Trace : p.level == 0 ? Phase.Leaf : Phase.Tree;
    }

    /// @notice `outputs` and `states` are the leaves of their trees by name.
    function showOutputs(Position memory p, bytes32 root, bytes32[] memory outputs, bytes32[] memory states)
        internal
        pure
    {
        (p.low, p.high, p.phase) = (uint64(outputs.length), uint64(states.length), Phase.Result);
        bytes32 shown = Merkle.outputsRoot(
            Merkle.bindingsRootOf(p.low, Merkle.treeRoot(outputs)),
            Merkle.bindingsRootOf(p.high, Merkle.treeRoot(states))
        );
        if (shown != root) revert IDisputeGame.WrongNode(shown, root);
    }

    /// @notice Whether what was shown under the outputs root `root` contradicts what the machine makes of a result: that the
    /// program has so many `results`, that this one is a state, and its `leaf`.
    /// @param shown The leaf that was shown for it; its number is that of the result, the outputs before the states.
    /// @param other The bindings root of the states, or of the outputs if it is a state.
    function judgeResult(
        Position memory p,
        bytes32 root,
        Descent memory shown,
        bytes32 other,
        uint256 results,
        bool isState,
        bytes32 leaf
    ) internal pure returns (bool wrong) {
        if (results != uint256(p.low) + p.high || isState != (shown.index >= p.low)) return true;
        uint256 first = isState ? p.low : 0;
        uint256 count = isState ? p.high : p.low;
        uint256 levels = Merkle.depth(count);
        if (shown.path.length != levels) revert IDisputeGame.WrongPath(shown.path.length, levels, levels);
        bytes32 own = Merkle.bindingsRootOf(count, Merkle.climb(shown.child, shown.index - first, shown.path));
        own = isState ? Merkle.outputsRoot(other, own) : Merkle.outputsRoot(own, other);
        if (own != root) revert IDisputeGame.WrongNode(own, root);
        return shown.child != leaf;
    }

    function showLeaf(Position memory p, bytes memory leaf, bytes memory results) internal pure {
        uint256 shown = _checkLeaf(p, leaf);
        uint256 size = Patterns.size(p.dtype);
        uint256 sizeOfAll = Patterns.sizeOfAll(p.reductions);
        if (results.length != shown * sizeOfAll) {
            revert IDisputeGame.WrongResults(results.length, shown * sizeOfAll);
        }
        p.node = _wordsRoot(leaf, results, 32 / size * sizeOfAll);
        (p.rooted, p.phase) = (false, Phase.Element);
    }

    /// @notice The final expression of an element without reductions, in a leaf that the challenger shows.
    function pickFinal(Position memory p, uint64 element, bytes memory leaf) internal pure {
        if (p.phase != Phase.Leaf) revert IDisputeGame.WrongPhase(Phase.Leaf, p.phase);
        if (p.reductions != 0) revert IDisputeGame.WrongResults(0, Patterns.sizeOfAll(p.reductions));
        _checkLeaf(p, leaf);
        uint256 size = Patterns.size(p.dtype);
        uint256 place = uint256(element) * size;
        if (element >= p.elements || place / Merkle.LEAF != p.index) revert IDisputeGame.WrongEntry(element);
        _pick(p, element, keccak256(""), FINAL, Records.little(leaf, place % Merkle.LEAF, size));
    }

    /// @param length Steps that the reduction takes, and `identity` where it starts; not for FINAL.
    /// @return decided Whether what was claimed for the reduction is wrong whatever it reads.
    /// @return results The element's results, packed.
    function pickReduction(Position memory p, Entry memory entry, uint8 reduction, uint256 length, uint256 identity)
        internal
        pure
        returns (bool decided, bytes memory results)
    {
        uint256 stored;
        (stored, results) = _readEntry(p, entry);
        _pick(p, entry.element, keccak256(results), reduction, stored);
        if (reduction == FINAL) return (false, results);
        uint256[] memory patterns = Patterns.unpacked(p.reductions, results);
        if (reduction >= patterns.length) revert IDisputeGame.WrongReduction(reduction);
        uint256 value = patterns[reduction];
        if (!Patterns.isCanonical(_dtypeOf(p), value)) return (true, results);
        if (length == 0) {
            // INVARIANT 30: the record determines the result of no steps.
            if (value == identity) revert IDisputeGame.NothingToDispute();
            return (true, results);
        }
        if (length > type(uint64).max) revert IDisputeGame.WrongReduction(reduction);
        (p.high, p.lowValue, p.highValue) = (uint64(length), uint64(identity), uint64(value));
        if (length > 1) p.phase = Phase.Borders;
    }

    function claimBorders(Position memory p, bytes memory values) internal pure {
        (, uint256 spans) = _spans(p);
        uint256 dtype = _dtypeOf(p);
        uint256 size = Patterns.size(dtype);
        if (values.length != (spans - 1) * size) revert IDisputeGame.WrongBorders(values.length, (spans - 1) * size);
        Patterns.check(dtype, values);
        (p.borders, p.phase) = (keccak256(values), Phase.Span);
    }

    function pickSpan(Position memory p, uint256 span, bytes memory values) internal pure {
        (uint256 stride, uint256 spans) = _spans(p);
        uint256 size = Patterns.size(_dtypeOf(p));
        if (keccak256(values) != p.borders) revert IDisputeGame.WrongBorders(values.length, (spans - 1) * size);
        if (span >= spans) revert IDisputeGame.WrongSpan(span, spans);
        uint256 low = p.low + span * stride;
        if (span != 0) p.lowValue = uint64(Records.little(values, (span - 1) * size, size));
        if (span != spans - 1) {
            p.highValue = uint64(Records.little(values, span * size, size));
            p.high = uint64(low + stride);
        }
        p.low = uint64(low);
        p.phase = p.high - p.low == 1 ? Phase.Verdict : Phase.Borders;
    }

    /// @dev INVARIANT 30: so many nodes of the level below are there as do not stand for padding alone.
    function _checkChildren(Position memory p, uint256 levels, uint256 count) private pure {
        uint256 least = _lesser(p.level, LEAST_LEVELS);
        uint256 most = _lesser(p.level, MOST_LEVELS);
        if (levels < least || levels > most) revert IDisputeGame.WrongLevels(levels, least, most);
        uint256 nodes = ((_leaves(p) - 1) >> (p.level - levels)) + 1 - (uint256(p.index) << levels);
        nodes = _lesser(nodes, 2 ** levels);
        if (count != nodes) revert IDisputeGame.WrongChildren(count, nodes);
    }

    /// @dev That leaf `index` is the last one under `node`, `levels` above it; `path` are its siblings on the left.
    function _checkLast(bytes32 leaf, uint256 index, uint256 levels, bytes32[] memory path, bytes32 node) private pure {
        uint256 used;
        bytes32 zero = Merkle.NOTHING;
        for (; levels != 0; --levels) {
            if (index & 1 == 0) {
                leaf = Merkle.node(leaf, zero);
            } else {
                if (used == path.length) revert IDisputeGame.WrongNode(leaf, node);
                leaf = Merkle.node(path[used++], leaf);
            }
            (index, zero) = (index >> 1, Merkle.node(zero, zero));
        }
        if (leaf != node || used != path.length) revert IDisputeGame.WrongNode(leaf, node);
    }

    /// @dev INVARIANT 27: whatever is picked or shown stands under what the executor published before.
    function _checkNode(Position memory p, bytes32 tree) private pure {
        bytes32 hash = p.rooted ? Merkle.tensorRootOf(p.dtype, p.elements, tree) : tree;
        if (hash != p.node) revert IDisputeGame.WrongNode(hash, p.node);
    }

    function _pick(Position memory p, uint64 element, bytes32 results, uint8 reduction, uint256 stored) private pure {
        (p.element, p.results, p.reduction) = (element, results, reduction);
        (p.low, p.high, p.lowValue, p.highValue) = (0, 0, 0, uint64(stored));
        p.phase = Phase.Verdict;
    }

    /// @dev How many elements the leaf at the position has.
    function _checkLeaf(Position memory p, bytes memory leaf) private pure returns (uint256 shown) {
        if (leaf.length != Merkle.LEAF) revert IDisputeGame.WrongLeaf(leaf.length);
        _checkNode(p, Merkle.leafHash(leaf, 0));
        uint256 size = Patterns.size(p.dtype);
        uint256 each = Merkle.LEAF / size;
        shown = _lesser(each, p.elements - p.index * each);
        // INVARIANT 30: bytes beyond the last element have one value.
        if (!_isZeroFrom(leaf, shown * size)) revert IDisputeGame.TailNotZero();
    }

    /// @dev The stored pattern of an element, and the results of its reductions.
    function _readEntry(Position memory p, Entry memory entry)
        private
        pure
        returns (uint256 stored, bytes memory results)
    {
        uint256 size = Patterns.size(p.dtype);
        uint256 sizeOfAll = Patterns.sizeOfAll(p.reductions);
        uint256 place = uint256(entry.element) * size;
        if (entry.element >= p.elements || place / Merkle.LEAF != p.index) {
            revert IDisputeGame.WrongEntry(entry.element);
        }
        uint256 within = entry.element % (32 / size);
        bytes32 hash = keccak256(entry.word);
        uint256 word = place % Merkle.LEAF / 32;
        for (uint256 level; level < 5; ++level) {
            bytes32 sibling = entry.path[level];
            hash = (word >> level) & 1 == 0 ? _pair(hash, sibling) : _pair(sibling, hash);
        }
        if (hash != p.node) revert IDisputeGame.WrongEntry(entry.element);
        stored = Records.little(entry.word, within * size, size);
        results = Records.part(entry.word, 32 + within * sizeOfAll, sizeOfAll);
    }

    /// @dev Root of the tree over the words of a leaf, each with the next `each` bytes of the results, as far as there are.
    function _wordsRoot(bytes memory leaf, bytes memory results, uint256 each) private pure returns (bytes32 root) {
        uint256 words = WORDS;
        assembly ("memory-safe") {
            // Beyond the free memory pointer: the nodes, then one word with its results.
            let nodes := mload(0x40)
            let preimage := add(nodes, shl(5, words))
            let from := add(results, 32)
            let left := mload(results)
            for { let w := 0 } lt(w, words) { w := add(w, 1) } {
                let size := each
                if lt(left, size) { size := left }
                mstore(preimage, mload(add(add(leaf, 32), shl(5, w))))
                mcopy(add(preimage, 32), from, size)
                mstore(add(nodes, shl(5, w)), keccak256(preimage, add(32, size)))
                from := add(from, size)
                left := sub(left, size)
            }
            for { let count := shr(1, words) } count { count := shr(1, count) } {
                for { let i := 0 } lt(i, count) { i := add(i, 1) } {
                    mstore(add(nodes, shl(5, i)), keccak256(add(nodes, shl(6, i)), 64))
                }
            }
            root := mload(nodes)
        }
    }

    function _pair(bytes32 left, bytes32 right) private pure returns (bytes32 hash) {
        assembly ("memory-safe") {
            mstore(0, left)
            mstore(32, right)
            hash := keccak256(0, 64)
        }
    }

    function _isZeroFrom(bytes memory leaf, uint256 at) private pure returns (bool zero) {
        uint256 bits;
        assembly ("memory-safe") {
            let end := add(leaf, 1056)
            let from := add(add(leaf, 32), at)
            // The first word may begin in the middle of elements.
            let rest := and(sub(end, from), 31)
            if rest { bits := shr(sub(256, shl(3, rest)), mload(from)) }
            for { from := add(from, rest) } lt(from, end) { from := add(from, 32) } { bits := or(bits, mload(from)) }
        }
        return bits == 0;
    }

    /// @dev Of the trace, until a call is picked; then of its tensor.
    function _leaves(Position memory p) private pure returns (uint256) {
        if (p.dtype == 0) return p.elements;
        return (p.elements * Patterns.size(p.dtype) + Merkle.LEAF - 1) / Merkle.LEAF;
    }

    function _dtypeOf(Position memory p) private pure returns (uint256) {
        return p.reductions >> 8 * p.reduction & 0xFF;
    }

    /// @dev Steps of each span but the last, and how many spans there are.
    function _spans(Position memory p) private pure returns (uint256 stride, uint256 spans) {
        uint256 steps = p.high - p.low;
        stride = (steps + SPANS - 1) / SPANS;
        spans = (steps + stride - 1) / stride;
    }

    function _lesser(uint256 a, uint256 b) private pure returns (uint256) {
        return a < b ? a : b;
    }
}
// forge-lint: disable-end(unsafe-typecast)
