// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Position} from "../interfaces/IDisputeGame.sol";

/// @title A position as it travels: ten words
/// @notice Mirrored by name in Python's `eigentensor.dispute`. From the highest bits of each word:
///
///     0  task (256)
///     1  executor (160), since, executorLeft, challengerLeft (32 each)
///     2  challenger (160), number (32), phase, rooted, level, opened, dtype, reduction (8 each), zero (16)
///     3  index, elements, reductions, element (64 each)
///     4  low, high, lowValue, highValue (64 each)
///     5  claim, 6  node, 7  kernel, 8  results, 9  borders (256 each)
///
/// @dev Offsets are those of `Position` in memory, whose fields have a word each, and have nothing above them there.
library Positions {
    function pack(Position memory p) internal pure returns (bytes32[10] memory words) {
        assembly ("memory-safe") {
            mstore(words, mload(p))
            let word := or(shl(96, mload(add(p, 0x20))), shl(64, mload(add(p, 0x80))))
            word := or(word, or(shl(32, mload(add(p, 0xa0))), mload(add(p, 0xc0))))
            mstore(add(words, 0x20), word)
            word := or(shl(96, mload(add(p, 0x40))), shl(64, mload(add(p, 0x100))))
            word := or(word, or(shl(56, mload(add(p, 0x60))), shl(48, mload(add(p, 0x140)))))
            word := or(word, or(shl(40, mload(add(p, 0x160))), shl(32, mload(add(p, 0x180)))))
            word := or(word, or(shl(24, mload(add(p, 0x1c0))), shl(16, mload(add(p, 0x280)))))
            mstore(add(words, 0x40), word)
            word := or(shl(192, mload(add(p, 0x1a0))), shl(128, mload(add(p, 0x1e0))))
            word := or(word, or(shl(64, mload(add(p, 0x200))), mload(add(p, 0x240))))
            mstore(add(words, 0x60), word)
            word := or(shl(192, mload(add(p, 0x2a0))), shl(128, mload(add(p, 0x2c0))))
            word := or(word, or(shl(64, mload(add(p, 0x2e0))), mload(add(p, 0x300))))
            mstore(add(words, 0x80), word)
            mstore(add(words, 0xa0), mload(add(p, 0xe0)))
            mstore(add(words, 0xc0), mload(add(p, 0x120)))
            mstore(add(words, 0xe0), mload(add(p, 0x220)))
            mstore(add(words, 0x100), mload(add(p, 0x260)))
            mstore(add(words, 0x120), mload(add(p, 0x320)))
        }
    }

    /// @notice The inverse. The 16 bits that are no field's are not read: only words that were packed are some game's.
    function unpack(bytes32[10] memory words) internal pure returns (Position memory p) {
        read(p, words);
    }

    /// @notice Unpacks into a position that is there: each one that a function returns is written twice.
    function read(Position memory p, bytes32[10] memory words) internal pure {
        assembly ("memory-safe") {
            mstore(p, mload(words))
            let word := mload(add(words, 0x20))
            mstore(add(p, 0x20), shr(96, word)) // executor
            mstore(add(p, 0x80), and(shr(64, word), 0xffffffff)) // since
            mstore(add(p, 0xa0), and(shr(32, word), 0xffffffff)) // executorLeft
            mstore(add(p, 0xc0), and(word, 0xffffffff)) // challengerLeft
            word := mload(add(words, 0x40))
            mstore(add(p, 0x40), shr(96, word)) // challenger
            mstore(add(p, 0x100), and(shr(64, word), 0xffffffff)) // number
            mstore(add(p, 0x60), byte(24, word)) // phase
            mstore(add(p, 0x140), byte(25, word)) // rooted
            mstore(add(p, 0x160), byte(26, word)) // level
            mstore(add(p, 0x180), byte(27, word)) // opened
            mstore(add(p, 0x1c0), byte(28, word)) // dtype
            mstore(add(p, 0x280), byte(29, word)) // reduction
            word := mload(add(words, 0x60))
            mstore(add(p, 0x1a0), shr(192, word)) // index
            mstore(add(p, 0x1e0), and(shr(128, word), 0xffffffffffffffff)) // elements
            mstore(add(p, 0x200), and(shr(64, word), 0xffffffffffffffff)) // reductions
            mstore(add(p, 0x240), and(word, 0xffffffffffffffff)) // element
            word := mload(add(words, 0x80))
            mstore(add(p, 0x2a0), shr(192, word)) // low
            mstore(add(p, 0x2c0), and(shr(128, word), 0xffffffffffffffff)) // high
            mstore(add(p, 0x2e0), and(shr(64, word), 0xffffffffffffffff)) // lowValue
            mstore(add(p, 0x300), and(word, 0xffffffffffffffff)) // highValue
            mstore(add(p, 0xe0), mload(add(words, 0xa0))) // claim
            mstore(add(p, 0x120), mload(add(words, 0xc0))) // node
            mstore(add(p, 0x220), mload(add(words, 0xe0))) // kernel
            mstore(add(p, 0x260), mload(add(words, 0x100))) // results
            mstore(add(p, 0x320), mload(add(words, 0x120))) // borders
        }
    }
}
