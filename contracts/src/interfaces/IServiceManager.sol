// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {IBounty} from "./IBounty.sol";
import {IAVSRegistrar, IAllocationManager, IDelegationManager, IStrategy} from "./IEigenLayer.sol";

/// @dev Shares that are locked for a task, or for a batch of calls, until the block `end`, and those that are kept back for its slash's rounding.
struct Lock {
    uint96 shares;
    uint96 rounding;
    uint32 end;
}

/// @dev What markets ask of an operator that accepts tasks, or begins batches.
struct Membership {
    address signer;
    uint96 collateralCap;
    bool isMember;
    uint256 stakeDelay;
    uint256 otherSeats;
}

/// @title The AVS
/// @notice Identity, registrar and slasher of one redistributing EigenLayer operator set with one strategy: hot signers,
/// seats from which verifiers are drawn, stake locks, slashes. No function changes its slasher, registrar, strategies or
/// recipient. An operator joins and leaves through EigenLayer's AllocationManager; leaving ends its seats and no lock.
/// @dev How far locks are covered. Let a lock be taken with `end` at most `stakeDelay()` ahead. Whatever deposits,
/// withdrawals, (de)allocations, deregistrations, slashes by other sets and slashes of other locks follow, in every block
/// up to `end` the core lets at least its shares be slashed, together with those of all other locks that are open then.
/// * It counts what `getMinimumSlashableStake(end)` counts: neither withdrawals queued before, nor deallocations that take
///   effect by `end`. Of the rest nothing that starts now ends before `end`. That view forgets when a former member stops
///   being slashable, so a former member has nothing free.
/// * A slash by another set lowers the operator's shares and its maximal magnitude alike, not its allocation here.
/// * The core cuts in units of magnitude, worth u = operatorShares / maxMagnitude each. A slash takes at least its lock less
///   2 wei, at most two units and 2 wei more: so each lock keeps back max(1,024, 2u + 4) shares beside its own.
///   While u ≤ 510 (510 tokens of 18 decimals that were never slashed) that is 1,024.
/// It holds for the core as it is: an upgrade that shortens its delays, or a pause until `end`, can break it.
interface IServiceManager is IAVSRegistrar {
    /// @notice The operator joined the operator set.
    event OperatorJoined(address indexed operator);
    /// @notice The operator left the operator set. Its tasks go on, its locks stay.
    event OperatorLeft(address indexed operator);
    /// @notice `signer` acts for the operator in the market: it holds at most `collateralCap` wei of its balance in tasks and
    /// bonds, and at most `stakeCap` shares of its stake in locks.
    event SignerSet(address indexed operator, address indexed signer, uint96 collateralCap, uint96 stakeCap);
    /// @notice The operator has `seats` living seats now.
    event SeatsSet(address indexed operator, uint256 seats);
    event Locked(bytes32 indexed task, address indexed operator, uint256 shares, uint256 end);
    event Unlocked(bytes32 indexed task);
    /// @notice The core took `shares` of the operator's stake for its lock. Zero, and no slash, if nothing was left.
    event StakeSlashed(bytes32 indexed task, address indexed operator, uint256 slashId, uint256 shares);

    error NotTheAllocationManager(address caller);
    error WrongAVS(address avs);
    error WrongOperatorSets(uint32[] operatorSetIds);
    error WrongBounty(address bounty);
    error ZeroSeat();
    error NotTheMarket(address caller);
    error NotTheOperator(address caller, address operator);
    error NoSeat(uint256 index, uint256 count);
    error SeatsNotCovered(address operator, uint256 stake, uint256 needed);
    error SeatsCovered(address operator, uint256 stake, uint256 needed);
    error AlreadyLocked(bytes32 task, address operator);
    error NotLocked(bytes32 task, address operator);
    error LockNotOver(uint256 blockNumber, uint256 end);
    error LockOver(uint256 blockNumber, uint256 end);
    error StakeCapExceeded(address operator, uint256 locked, uint256 shares, uint256 cap);
    error SlashingPaused();
    error InsufficientStake(address operator, uint256 free, uint256 shares);

    // ---- Signers ----

    /// @notice Names the hot signer of the caller, an operator, and the most that it may hold at any time: wei of collateral,
    /// shares of stake. Zero removes the signer. Tasks accepted before go on with the new signer.
    function setSigner(address signer, uint96 collateralCap, uint96 stakeCap) external;

    /// @notice The operator's signer (zero: none), and its cap of collateral.
    function signerOf(address operator) external view returns (address signer, uint96 collateralCap);

    /// @notice The signer's cap of stake, in shares.
    function stakeCapOf(address operator) external view returns (uint96);

    /// @notice The operator's signer and cap of collateral, whether it is a member, and `stakeDelay` and `otherSeats`.
    function membershipOf(address operator) external view returns (Membership memory);

    // ---- Seats ----

    /// @notice Adds `count` seats to the operator's. By the operator or its signer. What stays slashable of its stake, when
    /// its deallocations are through, must be worth SEAT for each seat; each holds a deposit of its balance in the market.
    /// @dev First its tombstones become seats again, which makes all its seats as young as this block; then the array grows.
    /// So an operator that leaves and returns adds nothing to the tombstones.
    function enlist(address operator, uint256 count) external;

    /// @notice Turns all seats of the operator into tombstones, and gives it their deposits. By the operator or its signer;
    /// EigenLayer does it when the operator leaves the set.
    function leave(address operator) external;

    /// @notice Turns those seats of the operator that its stake does not cover into tombstones, oldest first. By anybody,
    /// who gets their deposits as a credit in the market.
    function prune(address operator) external;

    /// @notice Reverts with `SeatsNotCovered` while the operator's stake does not cover its living seats: none answers.
    function checkSeats(address operator) external view;

    /// @notice The length of the array of seats, tombstones included. It never falls.
    function seatCount() external view returns (uint256);

    /// @notice `seatCount` at the end of a block; so far, of this one.
    function seatCountAt(uint256 blockNumber) external view returns (uint256);

    /// @notice Whose seat it is (zero: a tombstone), and the block since when.
    function seatAt(uint256 index) external view returns (address operator, uint256 since);

    /// @notice The operator's living seats.
    function seatsOf(address operator) external view returns (uint256);

    /// @notice Living seats of everybody else.
    function otherSeats(address operator) external view returns (uint256);

    /// @notice What a seat takes of slashable stake, in wei of the token.
    function SEAT() external view returns (uint256);

    // ---- Stake ----

    /// @notice Shares that a new lock of the operator can have until `end`: the least that can be slashed in each block until
    /// then, less all open locks and what is kept back for their and its own rounding. Zero for who is not a member, and
    /// while EigenLayer's slashing is paused.
    function freeStake(address operator, uint256 end) external view returns (uint256 shares);

    /// @notice Shares in the operator's open locks, with what is kept back for rounding.
    function lockedStake(address operator) external view returns (uint256 shares);

    /// @notice The lock of an operator for a task: all zero if there is none, or it was unlocked or slashed.
    function lockOf(bytes32 task, address operator) external view returns (Lock memory);

    /// @notice Locks ⌊underlyingToShares(amount)⌋ + 1 shares of the operator's stake until the block `end`. Only by a
    /// market, which sees to it that `end` is at most `stakeDelay()` ahead. Needs a member with that much free, under its cap,
    /// and a core whose slashing is not paused.
    /// @param amount wei of the token
    /// @return shares worth at least `amount` now
    function lock(bytes32 task, address operator, uint256 amount, uint256 end) external returns (uint256 shares);

    /// @notice Ends a lock: by a market at any time (also if it is gone already), by anybody after its end.
    function unlock(bytes32 task, address operator) external;

    /// @notice Slashes what is locked, or all that is left of it, and ends the lock. Only by a market, in a block up to the
    /// lock's end. While the core is paused it reverts as the core does and nothing has changed: call again.
    /// @param beneficiaries get half of it when the core releases it; the rest is burned
    /// @return slashId the core's; zero, with zero shares, if nothing was left to take
    /// @return shares that the core took
    function slash(bytes32 task, address operator, address[] calldata beneficiaries)
        external
        returns (uint256 slashId, uint256 shares);

    // ---- The AVS ----

    /// @notice Whether the operator is in the operator set now.
    function isMember(address operator) external view returns (bool);

    /// @notice Blocks for which stake that is there now can be slashed, whatever its owners do: the lesser of
    /// EigenLayer's deallocation and withdrawal delays, read live.
    function stakeDelay() external view returns (uint256);

    /// @notice The part of EigenLayer's core that allocates and slashes stake.
    function allocationManager() external view returns (IAllocationManager);

    /// @notice The part of EigenLayer's core that delegates and withdraws stake.
    function delegationManager() external view returns (IDelegationManager);

    /// @notice The single strategy; its underlying token is what the market is paid in.
    function strategy() external view returns (IStrategy);

    /// @notice The market for tasks: it locks and slashes, and holds the deposits of seats.
    function market() external view returns (address);

    /// @notice The market for paid calls: it locks and slashes, too; nobody else does.
    function channels() external view returns (address);

    /// @notice The recipient of slashed stake.
    function bounty() external view returns (IBounty);

    /// @notice The id of the operator set.
    function OPERATOR_SET() external view returns (uint32);
}
