// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test} from "forge-std/Test.sol";
import {Phase, Position} from "../../src/interfaces/IDisputeGame.sol";
import {Positions} from "../../src/libraries/Positions.sol";

/// @title A position and its ten words say the same
contract PositionsTest is Test {
    uint256 private constant FIELDS = 26;

    /// @dev INVARIANT 31: words have a position, and it has no others.
    function testFuzz_WhatIsUnpackedIsPackedAgain(bytes32[10] memory words) public pure {
        words = _wellFormed(words);
        assertEq(abi.encode(Positions.unpack(words).pack()), abi.encode(words));
    }

    /// @dev INVARIANT 31: every bit is of a field, or there is no position with it.
    function testFuzz_EveryBitIsAFields(bytes32[10] memory words, uint256 place) public pure {
        words = _wellFormed(words);
        bytes memory fields = _fields(Positions.unpack(words));
        place = bound(place, 0, 2_559);
        words[place / 256] ^= bytes32(1 << place % 256);
        bool isNoFields = place / 256 == 2 && place % 256 < 16;
        assertEq(keccak256(_fields(Positions.unpack(words))) == keccak256(fields), isNoFields);
    }

    function test_EveryFieldHasItsPlace() public pure {
        Position memory p;
        (p.phase, p.rooted, p.level, p.opened, p.dtype, p.reduction) = (Phase.Verdict, true, 2, 3, 4, 5);
        (p.since, p.executorLeft, p.challengerLeft, p.number) = (6, 7, 8, 9);
        (p.index, p.elements, p.reductions, p.element) = (10, 11, 12, 13);
        (p.low, p.high, p.lowValue, p.highValue) = (14, 15, 16, 17);
        (p.executor, p.challenger) = (address(18), address(19));
        (p.task, p.claim, p.node) = (bytes32(uint256(20)), bytes32(uint256(21)), bytes32(uint256(22)));
        (p.kernel, p.results, p.borders) = (bytes32(uint256(23)), bytes32(uint256(24)), bytes32(uint256(25)));
        bytes memory expected = abi.encodePacked(p.task, p.executor, p.since, p.executorLeft, p.challengerLeft);
        expected = abi.encodePacked(expected, p.challenger, p.number, uint8(p.phase), p.rooted, p.level, p.opened);
        expected = abi.encodePacked(expected, p.dtype, p.reduction, uint16(0), p.index, p.elements, p.reductions);
        expected = abi.encodePacked(expected, p.element, p.low, p.high, p.lowValue, p.highValue);
        expected = abi.encodePacked(expected, p.claim, p.node, p.kernel, p.results, p.borders);
        assertEq(abi.encode(p.pack()), expected);
        assertEq(abi.encode(Positions.unpack(p.pack())), abi.encode(p));
    }

    /// @dev With a phase that there is, a truth value, and nothing where no field is.
    function _wellFormed(bytes32[10] memory words) private pure returns (bytes32[10] memory) {
        uint256 word = uint256(words[2]);
        uint256 phase = uint8(word >> 56) % (uint256(type(Phase).max) + 1);
        word = word >> 64 << 64 | phase << 56 | (word >> 48 & 1) << 48 | (word >> 16 & 0xFFFFFFFF) << 16;
        words[2] = bytes32(word);
        return words;
    }

    /// @dev The fields as they lie in memory: what was not packed may have a phase that there is not.
    function _fields(Position memory p) private pure returns (bytes memory fields) {
        fields = new bytes(32 * FIELDS);
        assembly ("memory-safe") {
            mcopy(add(fields, 32), p, mload(fields))
        }
    }
}
