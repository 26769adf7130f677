// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Batch, BatchState, Breach, Offer, Place} from "../interfaces/Deals.sol";
import {IChannels} from "../interfaces/IChannels.sol";
import {Account, IMarket} from "../interfaces/IMarket.sol";
import {Answer, Challenge, Leaf, LeafProof, Order, Parameters, Stage} from "../interfaces/ITaskMarket.sol";
import {Accounts} from "./Accounts.sol";
import {BatchEnds} from "./BatchEnds.sol";
import {Batches, Book, CallDemand, Dispute, Env, Run} from "./Batches.sol";
import {Bits} from "./Bits.sol";
import {Demands} from "./Demands.sol";
import {Limits} from "./Limits.sol";
import {Lines} from "./Lines.sol";
import {Lives} from "./Lives.sol";
import {Terms} from "./Terms.sol";

/// @title Games about calls, and calls that somebody wants to see
library BatchDisputes {
    using Accounts for mapping(address => Account);
    using Batches for Run;
    using Bits for uint64;
    using SafeCast for uint256;

    // ---- Games ----

    /// @notice See `IChannels.challenge`. What the bond needs is in the challenger's balance. `task` is the order's hash.
    function challenge(
        Book storage book,
        Env memory env,
        Offer calldata o,
        uint32 number,
        Place calldata place,
        Challenge memory c,
        uint256 cap
    ) external returns (uint256 gameId) {
        Run memory r = Batches.load(book, env, o, number);
        r.checkState(BatchState.Committed);
        Lives.checkUntil(r.disputeBy(o.exec));
        Lines.check(book, r, env.domain, place);
        // INVARIANT 52: an order has one place, so that a game about it is about this call.
        if (!Lines.isNamed(place)) revert IChannels.WrongPlace(place.line.line.channel, place.call.index);
        uint256 bond = Terms.bond(r.p, o.maxPrice);
        if (c.slot == 0) {
            book.accounts.hold(c.challenger, bond, cap);
            c.crowded = r.b.games >= Limits.FREE_GAMES;
        } else {
            _takeBond(book, r, c);
        }
        // SAFETY: `offer` holds prices below 2^96.
        // forge-lint: disable-next-line(unsafe-typecast)
        book.disputes[place.call.order] =
            Dispute(r.id, place.call.outputsRoot, o.operator, uint96(o.maxPrice), o.exec, o.verifiers);
        book.batches[r.id].games = r.b.games + 1;
        gameId = env.game.open(place.call.order, c.challenger);
        book.challenges[place.call.order][gameId] = c;
        emit IChannels.Challenged(r.id, gameId, c.challenger, bond, c.slot, place.order, place.call.outputsRoot);
    }

    /// @notice See `IDisputeMarket.onGameEnded`.
    function end(Book storage book, Parameters memory p, bytes32 task, uint256 gameId, bool executorLost, bool byClock)
        external
    {
        Dispute memory d = book.disputes[task];
        Batch storage b = book.batches[d.batch];
        // INVARIANT 2: the first conviction ends the batch; what other games decide after it changes nothing.
        if (b.state != BatchState.Committed) return;
        Challenge memory c = book.challenges[task][gameId];
        if (c.challenger == address(0) || c.ended) revert IMarket.UnknownChallenge(task, gameId);
        book.challenges[task][gameId].ended = true;
        b.games -= 1;
        emit IChannels.GameEnded(d.batch, gameId, c.challenger, executorLost);
        uint256 bond = Terms.bond(p, d.maxPrice);
        if (executorLost) {
            if (c.slot == 0) book.accounts.release(c.challenger, bond, bond);
            BatchEnds.Liability memory t = BatchEnds.Liability(d.operator, d.maxPrice, d.verifiers);
            BatchEnds.convict(book, p, d.batch, t, Breach.Verdict, c.challenger, byClock && c.crowded);
        } else {
            // INVARIANT 9: a part of the bond is burned, whoever plays both sides.
            book.accounts.release(c.challenger, bond, 0);
            book.accounts.credit(Lives.BURN, bond - Terms.bondShare(p, d.maxPrice));
            b.won += 1;
            if (c.slot != 0) book.answers[d.batch][c.slot - 1].stage = Stage.Lost;
        }
    }

    // ---- Demands ----

    /// @notice See `IChannels.demand`.
    function demand(
        Book storage book,
        Env memory env,
        Offer calldata o,
        uint32 number,
        uint64 index,
        Leaf[] calldata leaves
    ) external {
        Run memory r = Batches.load(book, env, o, number);
        r.checkState(BatchState.Committed);
        Lives.checkUntil(r.demandBy(o.exec));
        if (index >= r.b.leaves || leaves.length > Limits.LEAVES) {
            revert IMarket.WrongLeaves(leaves.length, Limits.LEAVES);
        }
        CallDemand storage d = book.demands[r.id][_idOf(index, leaves)];
        if (d.known) revert IChannels.AlreadyDemanded(r.id, index);
        // SAFETY: their number was bounded above.
        // forge-lint: disable-next-line(unsafe-typecast)
        (d.by, d.since, d.leaves, d.known) = (msg.sender, block.number.toUint32(), uint8(leaves.length), true);
        book.batches[r.id].demands = r.b.demands + 1;
        book.accounts.debit(msg.sender, _priceOf(r.p, leaves.length));
        emit IChannels.Demanded(r.id, index, msg.sender, leaves, block.number + Terms.clock(r.p, o.exec));
    }

    /// @notice See `IChannels.show`.
    function show(
        Book storage book,
        Env memory env,
        Offer calldata o,
        uint32 number,
        Place calldata place,
        Leaf[] calldata leaves,
        LeafProof[] calldata proofs
    ) external {
        Run memory r = Batches.load(book, env, o, number);
        r.checkState(BatchState.Committed);
        Lines.check(book, r, env.domain, place);
        uint64 index = Lines.numberOf(place.line.line, place.call.index);
        CallDemand storage d = book.demands[r.id][_idOf(index, leaves)];
        if (d.since == 0) revert IMarket.NotDemanded(r.id);
        Lives.checkUntil(d.since + Terms.clock(r.p, o.exec));
        if (leaves.length != proofs.length) revert IMarket.LengthMismatch(leaves.length, proofs.length);
        emit IChannels.Shown(r.id, index, place.order, place.call.outputsRoot);
        for (uint256 i; i < leaves.length; ++i) {
            emit IChannels.LeafShown(r.id, index, i, _shown(place.order, leaves[i], proofs[i], i));
        }
        d.since = 0;
        Batch storage b = book.batches[r.id];
        b.demands = r.b.demands - 1;
        // INVARIANT 49: what is shown in the last block can still be disputed.
        b.shownUntil = (block.number + r.p.reveal).toUint32();
        book.accounts.credit(o.operator, _priceOf(r.p, leaves.length));
    }

    /// @notice See `IChannels.denounce`.
    function denounce(
        Book storage book,
        Env memory env,
        Offer calldata o,
        uint32 number,
        uint64 index,
        Leaf[] calldata leaves
    ) external {
        Run memory r = Batches.load(book, env, o, number);
        CallDemand memory d = book.demands[r.id][_idOf(index, leaves)];
        if (d.since == 0) revert IMarket.NotDemanded(r.id);
        if (r.b.state != BatchState.Convicted) {
            r.checkState(BatchState.Committed);
            Lives.checkAfter(d.since + Terms.clock(r.p, o.exec));
            BatchEnds.convict(book, r, o, Breach.Demand, d.by);
        }
        book.demands[r.id][_idOf(index, leaves)].since = 0;
        uint256 prepaid = _priceOf(r.p, d.leaves);
        book.accounts.credit(d.by, prepaid);
        emit IChannels.DemandReturned(r.id, index, d.by, prepaid);
    }

    /// @dev The bond of an answer that differed from a share which is justified, once.
    function _takeBond(Book storage book, Run memory r, Challenge memory c) private {
        uint256 index = c.slot - 1;
        Answer memory a = book.answers[r.id][index];
        bool free = a.stage == Stage.Differed && a.operator == c.challenger && !book.disputing[r.id].has(index);
        if (!free) revert IChannels.NotDiffered(r.id, c.slot);
        uint256 share = index / Limits.DRAWS;
        if (book.shareDemands[r.id][share].justifiedAt == 0) revert IChannels.NotJustified(r.id, share);
        book.disputing[r.id] = book.disputing[r.id].with(index);
    }

    /// @dev The bytes of a leaf of what the order gives; none if there is no such leaf, as where nothing is given at all.
    function _shown(Order calldata order, Leaf calldata leaf, LeafProof calldata proof, uint256 i)
        private
        pure
        returns (bytes calldata)
    {
        bytes32 expected = leaf.state ? order.states : order.inputs;
        if (expected == 0) return proof.data[:0];
        (bytes32 root, bool exists) = Demands.bindingsRootOf(leaf, proof);
        if (root != expected) revert IMarket.WrongLeaf(i);
        return exists ? proof.data : proof.data[:0];
    }

    function _idOf(uint64 index, Leaf[] calldata leaves) private pure returns (bytes32) {
        return keccak256(abi.encode(index, leaves));
    }

    function _priceOf(Parameters memory p, uint256 leaves) private pure returns (uint256) {
        return (1 + leaves) * p.gChunk;
    }
}
