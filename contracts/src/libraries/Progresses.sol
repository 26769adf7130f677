// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {State} from "../interfaces/Tasks.sol";

/// @dev How far a task has come: written by each message. The price follows from the order and `acceptedAt`.
struct Progress {
    address executor;
    State state;
    uint32 acceptedAt;
    uint32 committedAt; // zero before
    uint32 since; // block of the last step from Accepted to Revealed
    uint24 exec;
}

/// @title The progress of tasks, a word of storage each
/// @notice So a task whose result nobody disputes needs one word beside its claim. `Limits` holds the blocks that a task
/// can last to `LONGEST`.
/// @dev Blocks after `acceptedAt` are counted from there.
///
///      255  252 251     232 231         212 211     192 191        160 159                0
///     +--------+-----------+---------------+-----------+--------------+-------------------+
///     | state  |   since   | committed + 1 |   exec    |  acceptedAt  |     executor      |
///     +--------+-----------+---------------+-----------+--------------+-------------------+
library Progresses {
    /// @dev Of what is counted in 20 bits, one being added.
    uint256 internal constant LONGEST = 2 ** 20 - 2;
    uint256 private constant BLOCKS = 2 ** 20 - 1;

    function load(mapping(bytes32 uuid => uint256) storage words, bytes32 uuid)
        internal
        view
        returns (Progress memory p)
    {
        uint256 word = words[uuid];
        // SAFETY: each part is read as it was written, and blocks were below 2^32.
        // forge-lint: disable-start(unsafe-typecast)
        unchecked {
            (p.executor, p.state, p.acceptedAt) = (address(uint160(word)), State(word >> 252), uint32(word >> 160));
            p.exec = uint24(word >> 192 & BLOCKS);
            p.since = uint32(p.acceptedAt + (word >> 232 & BLOCKS));
            uint256 committed = word >> 212 & BLOCKS;
            if (committed != 0) p.committedAt = uint32(p.acceptedAt + committed - 1);
        }
        // forge-lint: disable-end(unsafe-typecast)
    }

    function store(mapping(bytes32 uuid => uint256) storage words, bytes32 uuid, Progress memory p) internal {
        uint256 word = uint256(p.state) << 252 | uint256(p.exec) << 192;
        word |= uint256(p.acceptedAt) << 160 | uint160(p.executor);
        // SAFETY: nothing comes before the acceptance, nor `LONGEST` blocks after it.
        unchecked {
            if (p.committedAt != 0) word |= uint256(p.committedAt - p.acceptedAt + 1) << 212;
            words[uuid] = word | uint256(p.since - p.acceptedAt) << 232;
        }
    }

    function stateOf(mapping(bytes32 uuid => uint256) storage words, bytes32 uuid) internal view returns (State) {
        return State(words[uuid] >> 252);
    }

    function setState(mapping(bytes32 uuid => uint256) storage words, bytes32 uuid, State state) internal {
        words[uuid] = words[uuid] << 4 >> 4 | uint256(state) << 252;
    }
}
