// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Convert} from "../../src/libraries/Convert.sol";
import {DTypes} from "../../src/libraries/DTypes.sol";
import {Integers} from "../../src/libraries/Integers.sol";
import {Patterns} from "../../src/libraries/Patterns.sol";
import {Reader} from "../../src/libraries/Reader.sol";
import {Records} from "../../src/libraries/Records.sol";

/// @title Readers of packed bytes give the bytes that stand there, and read nothing beyond the end
contract BytesSymbolic {
    /// @dev Places in 64 bytes: memory is read at one that has to be known. They lie around words and ends.
    bytes12 private constant PLACES = hex"0001071F20213738393B3F40";

    function check_Little(uint8 place, uint8 size, bytes32 first, bytes32 second) public view {
        bytes memory data = abi.encodePacked(first, second);
        for (uint256 n; n < PLACES.length; ++n) {
            uint256 at = uint8(PLACES[n]);
            if (place == at) _checkLittle(data, at, size);
        }
    }

    /// @dev Wherever it lies, and however large the sum of place and size is.
    function check_BeyondTheEndNothingIsRead(uint256 at, uint256 size, bytes32 only) public view {
        bytes memory data = abi.encodePacked(only);
        unchecked {
            if (at <= 32 && size <= 32 && at + size <= 32) return;
        }
        (bool read,) = address(this).staticcall(abi.encodeCall(this.little, (data, at, size)));
        assert(!read);
        (read,) = address(this).staticcall(abi.encodeCall(this.part, (data, at, size)));
        assert(!read);
        (read,) = address(this).staticcall(abi.encodeCall(this.number, (data, at, size)));
        assert(!read);
    }

    /// @dev The reader goes on behind what it read.
    function check_Reader(uint8 size, bytes32 first, bytes32 second) public pure {
        for (uint256 n = 1; n <= 32; ++n) {
            if (size != n) continue;
            Reader.Cursor memory cursor = Reader.Cursor(abi.encodePacked(first, second), 0);
            assert(Reader.number(cursor, n) == uint256(first) >> 256 - 8 * n);
            assert(cursor.at == n);
            uint256 rest = uint256(first) << 8 * n | (n == 32 ? 0 : uint256(second) >> 256 - 8 * n);
            assert(uint256(Reader.word(cursor)) == (n == 32 ? uint256(second) : rest));
            assert(cursor.at == n + 32);
        }
    }

    /// @dev What a value of the type is stored as, and nothing else.
    function check_IsCanonical(uint8 dtype, uint64 pattern) public pure {
        for (uint256 d = DTypes.BOOL; d <= DTypes.FLOAT32; ++d) {
            if (dtype != d) continue;
            uint256 value = Convert.fromPattern(d, pattern);
            assert(Patterns.isCanonical(d, pattern) == (Convert.toPattern(d, value) == pattern));
        }
        if (dtype == DTypes.INDEX) assert(!Patterns.isCanonical(dtype, pattern));
    }

    /// @dev The results of two reductions of any two types lie one behind the other.
    function check_Unpack(uint8 first, uint8 second, bytes8 one, bytes8 two) public pure {
        for (uint256 d = DTypes.BOOL; d <= DTypes.FLOAT32; ++d) {
            if (first != d) continue;
            for (uint256 e = DTypes.BOOL; e <= DTypes.FLOAT32; ++e) {
                if (second != e) continue;
                (uint256 m, uint256 n) = (Integers.width(d) + 7 >> 3, Integers.width(e) + 7 >> 3);
                bytes memory results = new bytes(m + n);
                for (uint256 i; i < m + n; ++i) {
                    results[i] = i < m ? one[i] : two[i - m];
                }
                uint256[] memory patterns = Patterns.unpacked(e << 8 | d, results);
                assert(patterns.length == 2 && Patterns.sizeOfAll(e << 8 | d) == m + n);
                assert(patterns[0] == _reversed(one, m) && patterns[1] == _reversed(two, n));
            }
        }
    }

    function check_Instruction(bytes8 code) public pure {
        Records.Body memory body;
        (body.record, body.instructionsAt) = (abi.encodePacked(uint64(0), code), 8);
        (uint256 op, uint256 dtype, uint256 a, uint256 b, uint256 c) = Records.instruction(body, 0);
        assert(op == uint8(code[0]) && dtype == uint8(code[1]) && dtype == Records.dtypeOf(body, 0));
        assert(a == uint256(uint8(code[3])) << 8 | uint8(code[2]));
        assert(b == uint256(uint8(code[5])) << 8 | uint8(code[4]));
        assert(c == uint256(uint8(code[7])) << 8 | uint8(code[6]));
    }

    function little(bytes memory data, uint256 at, uint256 size) external pure returns (uint256) {
        return Records.little(data, at, size);
    }

    function part(bytes memory data, uint256 at, uint256 size) external pure returns (bytes memory) {
        return Records.part(data, at, size);
    }

    function number(bytes memory data, uint256 at, uint256 size) external pure returns (uint256) {
        return Reader.number(Reader.Cursor(data, at), size);
    }

    function _checkLittle(bytes memory data, uint256 at, uint256 size) private view {
        for (uint256 bytes_ = 1; bytes_ <= 8; bytes_ *= 2) {
            if (size != bytes_) continue;
            (bool read,) = address(this).staticcall(abi.encodeCall(this.little, (data, at, bytes_)));
            assert(read == (at + bytes_ <= data.length));
            if (!read) return;
            uint256 value;
            for (uint256 i = bytes_; i != 0; --i) {
                value = value << 8 | uint8(data[at + i - 1]);
            }
            assert(Records.little(data, at, bytes_) == value);
        }
    }

    /// @dev The number whose first n bytes these are, the lowest first.
    function _reversed(bytes8 from, uint256 n) private pure returns (uint256 value) {
        for (uint256 i = n; i != 0; --i) {
            value = value << 8 | uint8(from[i - 1]);
        }
    }
}
