// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Account, IMarket} from "../interfaces/IMarket.sol";
import {
    Answer,
    Cause,
    Challenge,
    Conviction,
    ITaskMarket,
    Opening,
    Order,
    Parameters,
    State
} from "../interfaces/ITaskMarket.sol";
import {Terms} from "./Terms.sol";

/// @dev How far a task has come: written by each message. The price follows from the order and `acceptedAt`.
struct Progress {
    address executor;
    State state;
    uint32 acceptedAt;
    uint32 since;
    uint24 exec;
}

/// @dev Written by the commit and by whatever needs a seed.
struct Draw {
    uint24 wait; // blocks from the acceptance to the commit
    uint8 flags;
    uint32 seats;
    uint64 answered;
    uint64 agreed;
    uint64 differed;
}

/// @dev What the end of a task needs of its order. Stored by its first game, which ends without the order.
struct Bill {
    address client;
    uint96 maxPrice;
    uint96 price;
    uint96 checkFee;
    uint8 verifiers;
}

struct Demand {
    bytes32 leaves; // keccak256(abi.encode(leaves))
    uint32 since;
    uint8 count;
}

/// @dev All that the market stores.
struct Ledger {
    mapping(address owner => Account) accounts;
    mapping(bytes32 uuid => Progress) progress;
    mapping(bytes32 uuid => bytes32) claims;
    mapping(bytes32 uuid => Draw) draws;
    mapping(bytes32 uuid => mapping(uint256 index => Answer)) answers;
    mapping(bytes32 uuid => mapping(uint256 gameId => Challenge)) challenges;
    mapping(bytes32 uuid => uint256 count) won; // bonds
    mapping(bytes32 uuid => Bill) bills;
    mapping(bytes32 uuid => Demand) demands;
    mapping(bytes32 uuid => Conviction) convictions;
    mapping(uint256 blockNumber => bytes32 mix) mixes;
}

/// @dev A task as a message finds it.
struct Life {
    bytes32 uuid;
    Parameters p;
    Progress progress;
    Draw draw;
}

/// @title Where a task stands, until when, and what is held for it
library Lives {
    /// @dev Flags of a draw: the executor's commitment was exposed; the client waits for leaves, or has seen them; the
    /// executor has won bonds; the bill is stored.
    uint8 internal constant EXPOSED = 1;
    uint8 internal constant DEMANDED = 2;
    uint8 internal constant SHOWN = 4;
    uint8 internal constant WON = 8;
    uint8 internal constant BILLED = 16;

    address internal constant BURN = 0x000000000000000000000000000000000000dEaD;

    function load(Ledger storage ledger, Parameters memory p, bytes32 uuid) internal view returns (Life memory) {
        return Life(uuid, p, ledger.progress[uuid], ledger.draws[uuid]);
    }

    function has(Life memory l, uint8 flags) internal pure returns (bool) {
        return l.draw.flags & flags != 0;
    }

    // ---- Times ----

    /// @dev Seats are there at every commit.
    function isCommitted(Life memory l) internal pure returns (bool) {
        return l.draw.seats != 0;
    }

    function committedAt(Life memory l) internal pure returns (uint256) {
        return uint256(l.progress.acceptedAt) + l.draw.wait;
    }

    function seedBlock(Life memory l) internal pure returns (uint256) {
        return Terms.seedBlock(l.p, committedAt(l));
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
        return (isRevealed(ledger, l) ? l.progress.since : revealBy(l)) + l.p.reveal;
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

    /// @notice Whether the executor has revealed.
    function isRevealed(Ledger storage ledger, Life memory l) internal view returns (bool) {
        State state = l.progress.state;
        if (state == State.Convicted) return ledger.convictions[l.uuid].cause != Cause.Silence;
        return state == State.Revealed || state == State.Final;
    }

    // ---- Money ----

    function priceOf(Life memory l, Order calldata order) internal pure returns (uint256) {
        return Terms.price(order.minPrice, order.maxPrice, order.rampStart, order.rampLength, l.progress.acceptedAt);
    }

    function bill(Life memory l, Order calldata order) internal pure returns (Bill memory) {
        // SAFETY: `post` holds prices and fees below 2^96.
        // forge-lint: disable-next-item(unsafe-typecast)
        return
            Bill(
                order.client, uint96(order.maxPrice), uint96(priceOf(l, order)), uint96(order.checkFee), order.verifiers
            );
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
        if (has(l, WON)) won = ledger.won[l.uuid] * Terms.bondShare(l.p, b.price);
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
