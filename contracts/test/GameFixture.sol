// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Vm} from "forge-std/Vm.sol";
import {IDisputeGame, Position} from "../src/interfaces/IDisputeGame.sol";
import {Order} from "../src/interfaces/Tasks.sol";
import {Moves} from "../src/libraries/Moves.sol";
import {Positions} from "../src/libraries/Positions.sol";
import {MarketFixture} from "./MarketFixture.sol";

/// @title Disputes over real programs, as tests/support/vectors/games.py wrote them, replayed over the whole market
abstract contract GameFixture is MarketFixture {
    /// @dev `moves` is the calldata of all moves but `publish`: game and position in it are overwritten.
    struct Script {
        string name;
        bytes32 program;
        bytes32 inputs;
        bytes32 weights;
        bytes32 states;
        bytes32 variables;
        uint256 repeat;
        bytes32 outputs;
        bytes32 header;
        bytes32 records;
        bytes32[] children;
        bytes32[] path;
        bytes[] moves;
        bool executorLost;
    }

    string private constant TYPE = "Script(string name,bytes32 program,bytes32 inputs,bytes32 weights,bytes32 states,"
        "bytes32 variables,uint256 repeat,bytes32 outputs,bytes32 header,bytes32 records,bytes32[] children,"
        "bytes32[] path,bytes[] moves,bool executorLost)";
    uint256 internal constant LIE = 0;
    uint256 internal constant BOUGHT = 1;
    uint256 internal constant HOSTILE = 2; // the first of them

    function _script(uint256 number) internal view returns (Script memory) {
        string memory key = string.concat(".games[", vm.toString(number), "]");
        return abi.decode(vm.parseJsonType(_json(), key, TYPE), (Script));
    }

    function _scripts() internal view returns (uint256 count) {
        while (vm.keyExistsJson(_json(), string.concat(".games[", vm.toString(count), "]"))) ++count;
    }

    function _json() private view returns (string memory) {
        return vm.readFile("../tests/vectors/games.json");
    }

    function _orderOf(Script memory script, uint256 nonce) internal view returns (Order memory order) {
        order = _order();
        (order.nonce, order.program, order.inputs) = (nonce, script.program, script.inputs);
        (order.weights, order.states, order.variables) = (script.weights, script.states, script.variables);
        order.repeat = uint32(script.repeat);
    }

    /// @dev The task of the script, revealed and undrawn.
    function _claimed(Script memory script, uint256 nonce) internal returns (Order memory order, bytes32 task) {
        order = _orderOf(script, nonce);
        task = _post(order);
        _accept(order);
        _commit(task, script.outputs);
        _seed(order, false);
        _reveal(order, 0, script.outputs);
    }

    /// @dev Plays on: `from` 0 is publish. The position is empty once the game is over.
    function _playOn(
        uint256 gameId,
        Position memory position,
        Order memory order,
        Script memory script,
        uint256 from,
        uint256 to
    ) internal returns (Position memory) {
        for (uint256 i = from; i < to; ++i) {
            position = _play(gameId, position, _calldata(gameId, position, order, script, i));
        }
        return position;
    }

    function _playAll(uint256 gameId, Position memory position, Order memory order, Script memory script) internal {
        position = _playOn(gameId, position, order, script, 0, script.moves.length + 1);
        assertEq(position.task, 0, "the last move is the verdict");
    }

    function _play(uint256 gameId, Position memory position, bytes memory data) internal returns (Position memory) {
        vm.recordLogs();
        vm.prank(_moverOf(position));
        (bool moved, bytes memory returned) = address(game).call(data);
        assertTrue(moved, vm.toString(returned));
        Vm.Log[] memory logs = vm.getRecordedLogs();
        for (uint256 i; i < logs.length; ++i) {
            if (logs[i].topics[0] != IDisputeGame.Moved.selector) continue;
            assertEq(uint256(logs[i].topics[1]), gameId, "game");
            (bytes32[10] memory words,) = abi.decode(logs[i].data, (bytes32[10], bytes));
            return Positions.unpack(words);
        }
        Position memory over;
        return over;
    }

    function _moverOf(Position memory position) internal view returns (address) {
        return Moves.isExecutors(position.phase) ? _signerOf(position.executor) : position.challenger;
    }

    /// @dev Move `number` of the script in this game; 0 is publish.
    function _calldata(
        uint256 gameId,
        Position memory position,
        Order memory order,
        Script memory script,
        uint256 number
    ) internal pure returns (bytes memory data) {
        if (number == 0) {
            return abi.encodeCall(
                IDisputeGame.publish,
                (gameId, position.pack(), order, script.header, script.records, script.children, script.path)
            );
        }
        data = script.moves[number - 1];
        bytes memory placed = abi.encode(gameId, position.pack());
        assembly ("memory-safe") {
            mcopy(add(data, 36), add(placed, 32), mload(placed))
        }
    }
}
