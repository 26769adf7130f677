// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test} from "forge-std/Test.sol";
import {State} from "../../src/interfaces/Tasks.sol";
import {Progress, Progresses} from "../../src/libraries/Progresses.sol";

/// @title The word in which a task's progress is kept
contract ProgressesTest is Test {
    using Progresses for mapping(bytes32 => uint256);

    mapping(bytes32 => uint256) private words;

    /// @dev INVARIANT 39: what was stored comes back, however many blocks lie between.
    function testFuzz_WhatIsStoredIsLoaded(
        address executor,
        uint256 acceptedAt,
        uint256 exec,
        uint256 wait,
        uint256 elapsed,
        uint256 state
    ) public {
        (bytes32 uuid, uint256 longest) = (keccak256("task"), Progresses.LONGEST);
        Progress memory p;
        p.executor = executor;
        p.acceptedAt = uint32(bound(acceptedAt, 1, type(uint32).max - longest));
        p.exec = uint24(bound(exec, 0, longest));
        if (wait % 4 != 0) p.committedAt = p.acceptedAt + uint32(bound(wait, 0, longest));
        p.since = p.acceptedAt + uint32(bound(elapsed, 0, longest));
        words.store(uuid, p);
        assertEq(abi.encode(words.load(uuid)), abi.encode(p), "loaded");

        p.state = State(bound(state, 0, uint256(type(State).max)));
        words.setState(uuid, p.state);
        assertEq(abi.encode(words.load(uuid)), abi.encode(p), "another state");
        assertEq(uint8(words.stateOf(uuid)), uint8(p.state), "the state alone");
    }
}
