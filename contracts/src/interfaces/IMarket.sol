// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IDisputeGame, IDisputeMarket} from "./IDisputeGame.sol";
import {IServiceManager} from "./IServiceManager.sol";
import {Account, Parameters} from "./Tasks.sol";

/// @title What markets have in common: accounts, and messages that have a sender and a time
/// @notice While tokens move, no message comes through: a token may call anybody.
/// @dev The token must not take fees on transfers, must not change balances by itself, and its supply must stay below
/// 2^128.
interface IMarket is IDisputeMarket {
    /// @notice `amount` was paid in by `payer` for `account`.
    event Deposited(address indexed account, address indexed payer, uint256 amount);
    /// @notice `amount` left the balance of `account` for `to`.
    event Withdrawn(address indexed account, address indexed to, uint256 amount);

    error ZeroAddress();
    error NotConnected(address other);
    error LengthMismatch(uint256 expected, uint256 actual);
    error NotTheClient(address caller, address client);
    error NotTheSigner(address caller, address signer);
    error NotAMember(address operator);
    error NotTheGame(address caller);
    error InsufficientBalance(address account, uint256 balance, uint256 needed);
    error CollateralCapExceeded(address operator, uint256 inUse, uint256 added, uint256 cap);
    error OutlivesStake(uint256 blocks, uint256 delay);
    error NotEnoughSeats(uint256 seats, uint256 needed);
    error TooEarly(uint256 blockNumber, uint256 after_);
    error TooLate(uint256 blockNumber, uint256 by);
    error WrongCheckRate(uint256 checkRate, uint256 floor, uint256 limit);
    error WrongVerifiers(uint256 verifiers, uint256 limit);
    error WrongExec(uint32 exec, uint32 maxExec);
    error NoSeed(uint256 seedBlock);
    error NotYourSeat(address operator, uint256 seat);
    error AlreadyAnswered(bytes32 task, address operator);
    error UnknownSlot(bytes32 task, uint256 slot);
    error AlreadyOpened(bytes32 task, uint256 slot);
    error WrongTask(bytes32 task, bytes32 actual);
    error WrongOpening(bytes32 task, bytes32 commitment, bytes32 opened);
    error UnknownChallenge(bytes32 task, uint256 gameId);
    error NothingToSettle(bytes32 task, uint256 slot);
    error AlreadySlashed(bytes32 task);
    error NotDemanded(bytes32 task);
    error WrongLeaves(uint256 count, uint256 limit);
    error WrongLeaf(uint256 number);
    error GamesOpen(bytes32 task, uint256 count);

    /// @notice Takes `amount` tokens from the caller into the balance of `account`.
    function deposit(address account, uint256 amount) external;

    /// @notice Pays `amount` of the caller's balance out to `to`.
    function withdraw(address to, uint256 amount) external;

    /// @notice Sends the balance of `BURN` to the address `BURN`. By anybody; nothing waits for it.
    function burn() external;

    /// @notice What an account has: its free balance and what is held of it, in wei.
    function accountOf(address account) external view returns (Account memory);

    /// @notice What the market was deployed with.
    function parameters() external view returns (Parameters memory);

    /// @notice The token that everything here is paid in: the underlying one of the strategy.
    function token() external view returns (IERC20);

    /// @notice The AVS, which knows operators, seats and stake.
    function serviceManager() external view returns (IServiceManager);

    /// @notice The contract that judges results.
    function game() external view returns (IDisputeGame);

    /// @notice Where burned tokens go.
    function BURN() external view returns (address);
}
