// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IDisputeGame, IDisputeMarket} from "../../src/interfaces/IDisputeGame.sol";
import {Order} from "../../src/interfaces/ITaskMarket.sol";

/// @title What a game asks of a market, and nothing of money
contract ToyMarket is IDisputeMarket {
    struct End {
        bytes32 task;
        uint256 gameId;
        address challenger;
        bool executorLost;
    }

    uint32 public constant CLOCK = 7;
    IDisputeGame public game;
    mapping(bytes32 task => bytes32) public outputsRootOf;
    mapping(bytes32 task => address) private executors;
    mapping(bytes32 task => uint32) private clocks;
    mapping(address account => address) public signerOf;
    End[] public ends;

    function connect(IDisputeGame game_) external {
        game = game_;
    }

    function setSigner(address account, address signer) external {
        signerOf[account] = signer;
    }

    function reveal(Order calldata order, address executor, bytes32 outputs) external returns (bytes32 task) {
        task = taskOf(order);
        (executors[task], clocks[task]) = (executor, order.exec + CLOCK);
        outputsRootOf[task] = outputs;
    }

    function challenge(bytes32 task, address challenger) external returns (uint256) {
        return game.open(task, executors[task], challenger, clocks[task]);
    }

    function onGameEnded(bytes32 task, uint256 gameId, address challenger, bool executorLost, bool) external virtual {
        require(msg.sender == address(game), "not the game");
        ends.push(End(task, gameId, challenger, executorLost));
    }

    function endsCount() external view returns (uint256) {
        return ends.length;
    }

    function taskOf(Order calldata order) public pure returns (bytes32) {
        return keccak256(abi.encode(order));
    }

    function mayAct(address account, address sender) external view returns (bool) {
        return sender == account || sender == signerOf[account];
    }
}
