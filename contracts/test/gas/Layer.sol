// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Claim} from "../../src/interfaces/IReferee.sol";
import {DTypes} from "../../src/libraries/DTypes.sol";
import {Merkle} from "../../src/libraries/Merkle.sol";
import {Toy} from "../toy/Toy.sol";

/// @title A layer max(x·w + b, 0) as the first two of 30 calls of a program, and what a game shows of it
/// @notice Of tensors there is one leaf, and random siblings up to the root: their size costs nothing.
library Layer {
    bytes32 private constant HEADER = 0x454947540100000003000000140000001e000000010000000100000000000000;
    bytes32 private constant DEEP = 0x4549475401000000030000001400000000400000010000000100000000000000;

    struct Shown {
        bytes leaf;
        bytes32[] path;
        bytes32 root;
    }

    struct Program {
        uint256 m;
        uint256 k;
        uint256 n;
        bytes[54] records;
        bytes32 header;
        bytes32[] leaves;
        bytes32[] above; // siblings of the root over `leaves`, the first of their level
        bytes32 tree;
    }

    function program(uint256 m, uint256 k, uint256 n) internal pure returns (Program memory p) {
        (p.m, p.k, p.n) = (m, k, n);
        p.records[0] = bytes.concat(hex"010c0201", _four(m), _four(k), "x");
        p.records[1] = bytes.concat(hex"020c0101", _four(n), "b");
        p.records[2] = bytes.concat(hex"020c0201", _four(k), _four(n), "w");
        bytes memory ranges = bytes.concat(_four(m), _four(n));
        p.records[3] = bytes.concat(
            bytes.concat(hex"0c00030002010100", _float(m * n), _float(m * k), _float(k * n), ranges, hex"00000000"),
            bytes.concat(hex"010f0000", _four(k), hex"020f000000000000120f010000000000020f020000000000"),
            bytes.concat(hex"100f020003000000040c01000400ffff010f0000", _four(n)),
            hex"120f030006000000020f010000000000100f070008000000040c02000900ffff0c0c05000a000000"
        );
        p.records[4] = bytes.concat(
            bytes.concat(hex"0a00030002000000", _float(m * n), _float(m * n), _float(n), ranges),
            bytes.concat(hex"020f000000000000010f0000", _four(n), hex"120f000001000000020f010000000000"),
            hex"100f020003000000040c01000400ffff040c02000300ffff100c050006000000010c000000000000150c070008000000"
        );
        p.records[23] = hex"000000000000000002000000";
        p.records[24] = hex"010000000300000001000000";
        p.leaves = random(54, "records");
        for (uint256 i; i < 54; ++i) {
            if (p.records[i].length != 0) p.leaves[i] = Merkle.recordHash(p.records[i]);
        }
        (p.header, p.tree) = (HEADER, Toy.level(p.leaves, 6)[0]);
    }

    /// @notice The same as the first two of 2^14 calls: 16,408 records, of which the first 32 are there.
    function deepened(Program memory p) internal pure returns (Program memory) {
        bytes32[] memory leaves = new bytes32[](32);
        for (uint256 i; i < 32; ++i) {
            leaves[i] = p.leaves[i];
        }
        (p.header, p.leaves, p.above) = (DEEP, leaves, random(10, "above"));
        p.tree = Merkle.climb(Toy.level(leaves, 5)[0], 0, p.above);
        return p;
    }

    function kernel(Program memory p, uint256 call) internal pure returns (bytes memory) {
        bytes memory body = p.records[3 + call];
        return bytes.concat(p.header, hex"000c", p.records[23 + call], bytes2(uint16(body.length)), body);
    }

    /// @notice The proof of one of the two calls, given its path under the trace.
    function proof(Program memory p, uint256 call, bytes memory trace) internal pure returns (bytes memory) {
        return bytes.concat(kernel(p, call), _pathOf(p, 23 + call), _pathOf(p, 3 + call), trace);
    }

    /// @notice A tensor of a witness that the task binds: its buffer's record, and its place among those of its role.
    function bound(Program memory p, uint256 parameter, uint256 buffer, bytes memory place, Shown memory shown)
        internal
        pure
        returns (bytes memory)
    {
        bytes memory record = p.records[buffer];
        bytes memory named = bytes.concat(bytes1(uint8(parameter)), bytes2(uint16(record.length)), record);
        return bytes.concat(named, _pathOf(p, buffer), place, shown.root);
    }

    /// @notice A tensor of so many floats, of which the leaf with this element is there.
    function tensor(uint256 elements, uint256 element, bytes memory salt) internal pure returns (Shown memory t) {
        t.leaf = floats(salt);
        t.path = random(Merkle.depth((elements + 255) / 256), salt);
        bytes32 tree = Merkle.climb(Merkle.leafHash(t.leaf, 0), element / 256, t.path);
        t.root = Merkle.tensorRootOf(DTypes.FLOAT32, elements, tree);
    }

    function opening(Shown memory t) internal pure returns (bytes memory) {
        return bytes.concat(t.leaf, pack(t.path));
    }

    /// @notice 256 float32 between 1 and 2.
    function floats(bytes memory salt) internal pure returns (bytes memory data) {
        for (uint256 i; i < 32; ++i) {
            data = bytes.concat(data, keccak256(abi.encode(salt, i)));
        }
        for (uint256 i; i < 1_024; i += 4) {
            (data[i + 2], data[i + 3]) = (data[i + 2] | 0x80, 0x3f);
        }
    }

    function random(uint256 count, bytes memory salt) internal pure returns (bytes32[] memory hashes) {
        hashes = new bytes32[](count);
        for (uint256 i; i < count; ++i) {
            hashes[i] = keccak256(abi.encode(salt, count, i));
        }
    }

    function pack(bytes32[] memory hashes) internal pure returns (bytes memory) {
        return abi.encodePacked(hashes);
    }

    function _pathOf(Program memory p, uint256 record) private pure returns (bytes memory) {
        return bytes.concat(pack(Toy.path(p.leaves, record)), pack(p.above));
    }

    function _four(uint256 number) private pure returns (bytes4) {
        return bytes4(uint32(_reversed(number) >> 224));
    }

    function _float(uint256 elements) private pure returns (bytes memory) {
        return bytes.concat(hex"0c000000", bytes8(uint64(_reversed(elements) >> 192)));
    }

    /// @dev The bytes of a number below 2^64 from the lowest on.
    function _reversed(uint256 number) private pure returns (uint256 reversed) {
        for (uint256 i; i < 8; ++i) {
            reversed |= (number >> 8 * i & 0xFF) << (248 - 8 * i);
        }
    }
}
