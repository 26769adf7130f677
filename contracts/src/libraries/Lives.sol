// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Account, IMarket} from "../interfaces/IMarket.sol";
import {Answer, Cause, Challenge, ITaskMarket, Opening, Order, Parameters, State} from "../interfaces/ITaskMarket.sol";
import {Progress, Progresses} from "./Progresses.sol";
import {Terms} from "./Terms.sol";

/// @dev What others have to say about a result. Nobody writes it while they have nothing.
struct Tally {
    uint8 flags;
    uint24 games; // that are open, as long as one can convict
    uint24 won; // bonds, by the executor
    uint64 answered;
    uint64 agreed;
    uint64 differed;
}

/// @dev What the end of a task needs of its order, stored by its first game, which ends without the order; and why and how
/// the task was convicted, stored by whatever convicts it.
struct Bill {
    address client;
    uint96 maxPrice;
    uint96 price;
    uint96 checkFee;
    uint8 verifiers;
    Cause cause;
    uint8 marks;
    uint40 game; // that decided
}

struct Demand {
    bytes32 leaves; // keccak256(abi.encode(leaves))
    uint32 since;
    uint8 count;
}

/// @dev All that the market stores.
struct Ledger {
    mapping(address owner => Account) accounts;
    mapping(bytes32 uuid => uint256) progress; // see `Progresses`
    mapping(bytes32 uuid => bytes32) claims;
    mapping(bytes32 uuid => Tally) tallies;
    mapping(bytes32 uuid => mapping(uint256 index => Answer)) answers;
    mapping(bytes32 uuid => mapping(uint256 gameId => Challenge)) challenges;
    mapping(bytes32 uuid => Bill) bills;
    mapping(bytes32 uuid => Demand) demands;
    mapping(uint256 blockNumber => bytes32 mix) mixes;
}

/// @dev A task as a message finds it.
struct Life {
    bytes32 uuid;
    Parameters p;
    Progress progress;
    Tally tally;
}

/// @title Where a task stands, until when, and what is held for it
library Lives {
    using Progresses for mapping(bytes32 => uint256);

    /// @dev Flags of a tally: the executor's commitment was exposed; the client waits for leaves, or has seen them.
    uint8 internal constant EXPOSED = 1;
    uint8 internal constant DEMANDED = 2;
    uint8 internal constant SHOWN = 4;
    /// @dev Marks of a bill, see `Conviction`.
    uint8 internal constant DIVIDED = 1;
    uint8 internal constant SLASHED = 2;
    uint8 internal constant CROWDED = 4;

    address internal constant BURN = 0x000000000000000000000000000000000000dEaD;

    function load(Ledger storage ledger, Parameters memory p, bytes32 uuid) internal view returns (Life memory) {
        return Life(uuid, p, ledger.progress.load(uuid), ledger.tallies[uuid]);
    }

    function has(Life memory l, uint8 flags) internal pure returns (bool) {
        return l.tally.flags & flags != 0;
    }

    // ---- Times ----

    function isCommitted(Life memory l) internal pure returns (bool) {
        return l.progress.committedAt != 0;
    }

    function seedBlock(Life memory l) internal pure returns (uint256) {
        return Terms.seedBlock(l.p, l.progress.committedAt);
    }

    /// @notice The last block of an answer. Before it a drawn task's executor does not reveal.
    function checkBy(Life memory l) internal pure returns (uint256) {
        return seedBlock(l) + Terms.checkWindow(l.p, l.progress.exec);
    }

    function revealBy(Life memory l) internal pure returns (uint256) {
        return seedBlock(l) + Terms.revealWindow(l.p, l.progress.exec);
    }

    function challengeBy(Life memory l) internal pure returns (uint256) {
        return l.progress.since + Terms.challengeWindow(l.p, l.progress.exec);
    }

    function showBy(Ledger storage ledger, Life memory l) internal view returns (uint256) {
        return ledger.demands[l.uuid].since + Terms.clock(l.p, l.progress.exec);
    }

    function answersBy(Ledger storage ledger, Life memory l) internal view returns (uint256) {
        return (isRevealed(ledger, l.uuid, l.progress.state) ? l.progress.since : revealBy(l)) + l.p.reveal;
    }

    function deadline(Ledger storage ledger, Life memory l) internal view returns (uint256) {
        State state = l.progress.state;
        if (state == State.Accepted) return uint256(l.progress.since) + l.progress.exec;
        if (state == State.Committed) return mixOf(ledger, l) == 0 ? seedBlock(l) + l.p.record : revealBy(l);
        if (state == State.Revealed) return has(l, DEMANDED) ? showBy(ledger, l) : challengeBy(l);
        return 0;
    }

    // ---- What is known ----

    /// @notice The task's random value; zero while it is not recorded.
    function mixOf(Ledger storage ledger, Life memory l) internal view returns (bytes32) {
        return ledger.mixes[seedBlock(l)];
    }

    /// @notice Whether the task is checked. Reverts while the seed is not known.
    function isDrawn(Ledger storage ledger, Life memory l, uint256 rate) internal view returns (bool) {
        bytes32 mix = mixOf(ledger, l);
        if (mix == 0) revert IMarket.NoSeed(seedBlock(l));
        // INVARIANT 19: the seed, the task, and the seats at the commit decide, and nothing else.
        return Terms.isDrawn(mix, l.uuid, rate);
    }

    /// @notice Whether the executor of a task in this state has revealed.
    function isRevealed(Ledger storage ledger, bytes32 uuid, State state) internal view returns (bool) {
        if (state == State.Convicted) return ledger.bills[uuid].cause != Cause.Silence;
        return state == State.Revealed || state == State.Final;
    }

    // ---- Money ----

    function priceOf(Life memory l, Order calldata order) internal pure returns (uint256) {
        return priceAt(order, l.progress.acceptedAt);
    }

    function priceAt(Order calldata order, uint256 acceptedAt) internal pure returns (uint256) {
        return Terms.price(order.minPrice, order.maxPrice, order.rampStart, order.rampLength, acceptedAt);
    }

    function bill(Life memory l, Order calldata order) internal pure returns (Bill memory b) {
        (b.client, b.verifiers) = (order.client, order.verifiers);
        // SAFETY: `post` holds prices and fees below 2^96.
        // forge-lint: disable-next-item(unsafe-typecast)
        (b.maxPrice, b.price, b.checkFee) = (uint96(order.maxPrice), uint96(priceOf(l, order)), uint96(order.checkFee));
    }

    function escrow(Bill memory b) internal pure returns (uint256) {
        return Terms.escrow(b.maxPrice, b.verifiers, b.checkFee);
    }

    /// @notice What is left of the collateral: an exposure takes one W of it.
    function collateral(Life memory l, Bill memory b) internal pure returns (uint256 held) {
        held = Terms.collateral(l.p, b.price, b.verifiers, b.checkFee);
        if (has(l, EXPOSED)) held -= Terms.reward(l.p, b.price);
    }

    /// @notice The executor's share of the bonds that it won, and what the client prepaid to see leaves.
    function gains(Ledger storage ledger, Life memory l, Bill memory b)
        internal
        view
        returns (uint256 won, uint256 prepaid)
    {
        won = uint256(l.tally.won) * Terms.bondShare(l.p, b.price);
        if (has(l, DEMANDED | SHOWN)) prepaid = uint256(ledger.demands[l.uuid].count) * l.p.gChunk;
    }

    // ---- Checks ----

    function checkState(Life memory l, State expected) internal pure {
        if (l.progress.state != expected) revert ITaskMarket.WrongState(l.uuid, expected, l.progress.state);
    }

    function checkUntil(uint256 last) internal view {
        if (block.number > last) revert IMarket.TooLate(block.number, last);
    }

    function checkAfter(uint256 last) internal view {
        if (block.number <= last) revert IMarket.TooEarly(block.number, last);
    }

    function checkOpening(Life memory l, address operator, Opening calldata o, bytes32 commitment) internal view {
        if (o.task != l.uuid) revert IMarket.WrongTask(l.uuid, o.task);
        bytes32 opened =
            keccak256(abi.encode(block.chainid, address(this), o.task, operator, o.slot, o.outputsRoot, o.salt));
        if (opened != commitment) revert IMarket.WrongOpening(o.task, commitment, opened);
    }
}
