// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Test} from "forge-std/Test.sol";
import {Referee} from "../../src/Referee.sol";
import {Claim, IReferee, Point} from "../../src/interfaces/IReferee.sol";
import {Positions} from "../../src/libraries/Positions.sol";

/// @title What Python's players say and hash is what the contracts read
contract DisputeVectorsTest is Test {
    struct Question {
        string name;
        bytes question;
        bytes answer;
    }

    struct Standing {
        bytes encoded;
        bytes32 hash;
    }

    Referee private referee = new Referee();

    function test_Referee_AnswersAsPythonDoes() public view {
        Question[] memory cells = _cells();
        for (uint256 i; i < cells.length; ++i) {
            (bool answered, bytes memory answer) = address(referee).staticcall(cells[i].question);
            assertTrue(answered, cells[i].name);
            assertEq(answer, cells[i].answer, cells[i].name);
        }
    }

    /// @dev INVARIANT 32: nothing that is shown can be something else, or shorter, or longer.
    function testFuzz_Referee_RefusesAnyOtherByte(uint256 seed, bytes1 change) public view {
        if (change == 0) change = 0x01;
        Question[] memory cells = _cells();
        Question memory cell = cells[seed % cells.length];
        (bytes memory head, bytes memory shown) = _split(cell.question);
        if (shown.length == 0) return;
        uint256 place = (seed >> 64) % shown.length;
        shown[place] ^= change;
        _refuses(cell, head, shown);
        shown[place] ^= change;
        _refuses(cell, head, bytes.concat(shown, change));
        bytes memory shorter = new bytes(shown.length - 1);
        for (uint256 i; i < shorter.length; ++i) {
            shorter[i] = shown[i];
        }
        _refuses(cell, head, shorter);
    }

    function test_Position_HashesAsInPython() public view {
        string memory json = vm.readFile("../tests/vectors/dispute.json");
        Standing[] memory positions =
            abi.decode(vm.parseJsonTypeArray(json, ".positions", "Standing(bytes encoded,bytes32 hash)"), (Standing[]));
        for (uint256 i; i < positions.length; ++i) {
            (uint256 gameId, bytes32[10] memory words) = abi.decode(positions[i].encoded, (uint256, bytes32[10]));
            assertEq(keccak256(abi.encode(gameId, Positions.unpack(words).pack())), positions[i].hash);
            assertEq(gameId, i + 1, "order");
        }
        assertGt(positions.length, 5, "a whole game");
    }

    function _refuses(Question memory cell, bytes memory head, bytes memory shown) private view {
        (bool answered,) = address(referee).staticcall(_join(head, shown));
        assertFalse(answered, cell.name);
    }

    /// @dev What is asked about, and the bytes that are shown for it: those of calls, steps and outputs are all bound.
    function _split(bytes memory question) private pure returns (bytes memory head, bytes memory shown) {
        bytes memory data = new bytes(question.length - 4);
        for (uint256 i; i < data.length; ++i) {
            data[i] = question[i + 4];
        }
        bytes4 selector = bytes4(question);
        if (selector == IReferee.call.selector) {
            (Claim memory claim, uint256 number, bytes32 root, bytes memory proof) =
                abi.decode(data, (Claim, uint256, bytes32, bytes));
            return (abi.encode(selector, abi.encode(claim, number, root)), proof);
        }
        if (selector == IReferee.step.selector) {
            (Claim memory claim, uint256 number, bytes32 kernel, Point memory point, bytes memory witness) =
                abi.decode(data, (Claim, uint256, bytes32, Point, bytes));
            return (abi.encode(selector, abi.encode(claim, number, kernel, point)), witness);
        }
        if (selector == IReferee.result.selector) {
            (Claim memory claim, uint256 number, bytes memory proof) = abi.decode(data, (Claim, uint256, bytes));
            return (abi.encode(selector, abi.encode(claim, number)), proof);
        }
        if (selector == IReferee.collect.selector) {
            (Claim memory claim, bytes memory proof) = abi.decode(data, (Claim, bytes));
            return (abi.encode(selector, abi.encode(claim)), proof);
        }
    }

    function _join(bytes memory head, bytes memory shown) private pure returns (bytes memory) {
        (bytes4 selector, bytes memory asked) = abi.decode(head, (bytes4, bytes));
        if (selector == IReferee.call.selector) {
            (Claim memory claim, uint256 number, bytes32 root) = abi.decode(asked, (Claim, uint256, bytes32));
            return abi.encodeCall(IReferee.call, (claim, number, root, shown));
        }
        if (selector == IReferee.step.selector) {
            (Claim memory claim, uint256 number, bytes32 kernel, Point memory point) =
                abi.decode(asked, (Claim, uint256, bytes32, Point));
            return abi.encodeCall(IReferee.step, (claim, number, kernel, point, shown));
        }
        if (selector == IReferee.result.selector) {
            (Claim memory claim, uint256 number) = abi.decode(asked, (Claim, uint256));
            return abi.encodeCall(IReferee.result, (claim, number, shown));
        }
        return abi.encodeCall(IReferee.collect, (abi.decode(asked, (Claim)), shown));
    }

    function _cells() private view returns (Question[] memory) {
        string memory json = vm.readFile("../tests/vectors/dispute.json");
        bytes memory cells = vm.parseJsonTypeArray(json, ".cells", "Question(string name,bytes question,bytes answer)");
        return abi.decode(cells, (Question[]));
    }
}
