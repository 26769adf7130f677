// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

/// @title Block headers in RLP with the fields of Prague; only number and random value matter here
library TestHeaders {
    function encode(uint256 number, bytes32 mix) internal pure returns (bytes memory) {
        bytes memory list = bytes.concat(_hash("parent"), _hash("ommers"), _string(new bytes(20)));
        list = bytes.concat(list, _hash("state"), _hash("transactions"), _hash("receipts"), _string(new bytes(256)));
        list = bytes.concat(list, _number(0), _number(number), _number(30_000_000), _number(21_000));
        list = bytes.concat(list, _number(1_700_000_000), _string("extra"), _string(bytes.concat(mix)));
        list = bytes.concat(list, _string(new bytes(8)), _number(7), _hash("withdrawals"), _number(0), _number(0));
        list = bytes.concat(list, _hash("beacon"), _hash("requests"));
        return bytes.concat(bytes1(0xf9), bytes2(uint16(list.length)), list);
    }

    function _hash(string memory text) private pure returns (bytes memory) {
        return _string(bytes.concat(keccak256(bytes(text))));
    }

    function _string(bytes memory data) private pure returns (bytes memory) {
        if (data.length == 1 && uint8(data[0]) < 0x80) return data;
        if (data.length < 56) return bytes.concat(bytes1(uint8(0x80 + data.length)), data);
        return bytes.concat(bytes1(0xb9), bytes2(uint16(data.length)), data);
    }

    /// @dev Big-endian without leading zeros; zero is the empty string.
    function _number(uint256 value) private pure returns (bytes memory) {
        bytes memory data = bytes.concat(bytes32(value));
        uint256 zeros;
        while (zeros < 32 && data[zeros] == 0) ++zeros;
        bytes memory short = new bytes(32 - zeros);
        for (uint256 i; i < short.length; ++i) {
            short[i] = data[zeros + i];
        }
        return _string(short);
    }
}
