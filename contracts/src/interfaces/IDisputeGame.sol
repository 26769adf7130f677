// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

/// @title What the market asks of the contract that judges results
/// @notice A game is played between a task's executor and one challenger; a task can have many. Holds no money.
interface IDisputeGame {
    /// @notice Starts a game against the revealed claim of `task`. Only by the market.
    function open(bytes32 task, address challenger) external returns (uint256 gameId);

    /// @notice How many games of `task` are not decided yet.
    function openGames(bytes32 task) external view returns (uint256 count);
}

/// @title What the game tells the market
interface IDisputeGameHook {
    /// @notice The game is decided: the executor lost, or the challenger did. Only by the game, once per game.
    function onGameEnded(bytes32 task, uint256 gameId, address challenger, bool executorLost) external;
}
