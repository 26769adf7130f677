// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Batch, BatchState, Breach, Offer, Place} from "../interfaces/Deals.sol";
import {IChannels} from "../interfaces/IChannels.sol";
import {Account, IMarket} from "../interfaces/IMarket.sol";
import {Answer, Challenge, Leaf, LeafProof, Order, Parameters, Stage} from "../interfaces/ITaskMarket.sol";
import {Accounts} from "./Accounts.sol";
import {BatchEnds} from "./BatchEnds.sol";
import {Batches, ChannelLedger, CallDemand, Dispute, Env, BatchLife} from "./Batches.sol";
import {Bits} from "./Bits.sol";
import {Demands} from "./Demands.sol";
import {Limits} from "./Limits.sol";
import {Lines} from "./Lines.sol";
import {Lives} from "./Lives.sol";
import {Merkle} from "./Merkle.sol";
import {Terms} from "./Terms.sol";

/// @title Games about calls, and calls that somebody wants to see
library BatchDisputes {
    using Accounts for mapping(address => Account);
    using Batches for BatchLife;
    using Bits for uint64;
    using SafeCast for uint256;

    // ---- Games ----

    /// @notice See `IChannels.challenge`. What the bond needs is in the challenger's balance. `task` is the order's hash.
    function challenge(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        uint32 number,
        Place calldata place,
        Challenge memory c,
        uint256 cap
    ) external returns (uint256 gameId) {
        BatchLife memory l = Batches.load(ledger, env, o, number);
        l.checkState(BatchState.Committed);
        Lives.checkUntil(l.disputeBy(o.exec));
        Lines.check(ledger, l, env.domain, place);
        // INVARIANT 52: an order has one place, so that a game about it is about this call.
        if (!Lines.isNamed(place)) revert IChannels.WrongPlace(place.line.line.channel, place.call.index);
        uint256 bond = Terms.bond(l.p, o.maxPrice);
        if (c.slot == 0) {
            ledger.accounts.hold(c.challenger, bond, cap);
            c.crowded = l.b.games >= Limits.FREE_GAMES;
        } else {
            _takeBond(ledger, l, c);
        }
        // SAFETY: `offer` holds prices below 2^96.
        // forge-lint: disable-next-line(unsafe-typecast)
        ledger.disputes[place.call.order] =
            Dispute(l.id, place.call.outputsRoot, o.operator, uint96(o.maxPrice), o.exec, o.verifiers);
        ledger.batches[l.id].games = l.b.games + 1;
        // SAFETY: an offer's windows fit EigenLayer's delays, which are uint32.
        // forge-lint: disable-next-line(unsafe-typecast)
        gameId = env.game.open(place.call.order, o.operator, c.challenger, uint32(Terms.clock(l.p, o.exec)));
        ledger.challenges[place.call.order][gameId] = c;
        emit IChannels.Challenged(l.id, gameId, c.challenger, bond, c.slot, place.order, place.call.outputsRoot);
    }

    /// @notice See `IDisputeMarket.onGameEnded`.
    function end(
        ChannelLedger storage ledger,
        Parameters memory p,
        bytes32 task,
        uint256 gameId,
        bool executorLost,
        bool byClock
    ) external {
        Dispute memory d = ledger.disputes[task];
        Batch storage b = ledger.batches[d.batch];
        // INVARIANT 2: the first conviction ends the batch; what other games decide after it changes nothing.
        if (b.state != BatchState.Committed) return;
        Challenge memory c = ledger.challenges[task][gameId];
        if (c.challenger == address(0) || c.ended) revert IMarket.UnknownChallenge(task, gameId);
        ledger.challenges[task][gameId].ended = true;
        b.games -= 1;
        emit IChannels.GameEnded(d.batch, gameId, c.challenger, executorLost);
        uint256 bond = Terms.bond(p, d.maxPrice);
        if (executorLost) {
            if (c.slot == 0) ledger.accounts.release(c.challenger, bond, bond);
            BatchEnds.Liability memory t = BatchEnds.Liability(d.operator, d.maxPrice, d.verifiers);
            BatchEnds.convict(ledger, p, d.batch, t, Breach.Verdict, c.challenger, byClock && c.crowded);
        } else {
            // INVARIANT 9: a part of the bond is burned, whoever plays both sides.
            ledger.accounts.release(c.challenger, bond, 0);
            ledger.accounts.credit(Lives.BURN, bond - Terms.bondShare(p, d.maxPrice));
            b.won += 1;
            if (c.slot != 0) ledger.answers[d.batch][c.slot - 1].stage = Stage.Lost;
        }
    }

    // ---- Demands ----

    /// @notice See `IChannels.demand`.
    function demand(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        uint32 number,
        uint64 index,
        Leaf[] calldata leaves
    ) external {
        BatchLife memory l = Batches.load(ledger, env, o, number);
        l.checkState(BatchState.Committed);
        Lives.checkUntil(l.demandBy(o.exec));
        if (index >= l.b.leaves || leaves.length > Limits.LEAVES) {
            revert IMarket.WrongLeaves(leaves.length, Limits.LEAVES);
        }
        CallDemand storage d = ledger.demands[l.id][_idOf(index, leaves)];
        if (d.known) revert IChannels.AlreadyDemanded(l.id, index);
        // SAFETY: their number was bounded above.
        // forge-lint: disable-next-line(unsafe-typecast)
        (d.by, d.since, d.leaves, d.known) = (msg.sender, block.number.toUint32(), uint8(leaves.length), true);
        ledger.batches[l.id].demands = l.b.demands + 1;
        ledger.accounts.debit(msg.sender, _priceOf(l.p, leaves.length));
        emit IChannels.Demanded(l.id, index, msg.sender, leaves, block.number + Terms.clock(l.p, o.exec));
    }

    /// @notice See `IChannels.show`.
    function show(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        uint32 number,
        Place calldata place,
        bytes calldata variables,
        Leaf[] calldata leaves,
        LeafProof[] calldata proofs
    ) external {
        BatchLife memory l = Batches.load(ledger, env, o, number);
        l.checkState(BatchState.Committed);
        Lines.check(ledger, l, env.domain, place);
        uint64 index = Lines.numberOf(place.line.line, place.call.index);
        _meet(ledger, l, o, index, leaves);
        _emitCall(l.id, index, place, variables);
        _emitLeaves(l.id, index, place.order, leaves, proofs);
    }

    /// @notice See `IChannels.denounce`.
    function denounce(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        uint32 number,
        uint64 index,
        Leaf[] calldata leaves
    ) external {
        BatchLife memory l = Batches.load(ledger, env, o, number);
        CallDemand memory d = ledger.demands[l.id][_idOf(index, leaves)];
        if (d.since == 0) revert IMarket.NotDemanded(l.id);
        if (l.b.state != BatchState.Convicted) {
            l.checkState(BatchState.Committed);
            Lives.checkAfter(d.since + Terms.clock(l.p, o.exec));
            BatchEnds.convict(ledger, l, o, Breach.Demand, d.by);
        }
        ledger.demands[l.id][_idOf(index, leaves)].since = 0;
        uint256 prepaid = _priceOf(l.p, d.leaves);
        ledger.accounts.credit(d.by, prepaid);
        emit IChannels.DemandReturned(l.id, index, d.by, prepaid);
    }

    /// @dev Ends a demand, in its time.
    function _meet(
        ChannelLedger storage ledger,
        BatchLife memory l,
        Offer calldata o,
        uint64 index,
        Leaf[] calldata leaves
    ) private {
        CallDemand storage d = ledger.demands[l.id][_idOf(index, leaves)];
        if (d.since == 0) revert IMarket.NotDemanded(l.id);
        Lives.checkUntil(d.since + Terms.clock(l.p, o.exec));
        d.since = 0;
        Batch storage b = ledger.batches[l.id];
        b.demands = l.b.demands - 1;
        // INVARIANT 49: what is shown in the last block can still be disputed.
        b.shownUntil = (block.number + l.p.reveal).toUint32();
        ledger.accounts.credit(o.operator, _priceOf(l.p, leaves.length));
    }

    /// @dev INVARIANT 57: who knows the chain alone has of a shown call what a challenge of it takes.
    function _emitCall(bytes32 batch, uint64 index, Place calldata place, bytes calldata variables) private {
        _checkVariables(place.order.variables, variables);
        emit IChannels.Shown(batch, index, place.order, variables, place.call);
    }

    function _emitLeaves(
        bytes32 batch,
        uint64 index,
        Order calldata order,
        Leaf[] calldata leaves,
        LeafProof[] calldata proofs
    ) private {
        if (leaves.length != proofs.length) {
            revert IMarket.LengthMismatch(leaves.length, proofs.length);
        }
        for (uint256 i; i < leaves.length; ++i) {
            emit IChannels.LeafShown(batch, index, i, _shown(order, leaves[i], proofs[i], i));
        }
    }

    /// @dev Reverts unless the variables, as `show` has them, are those of a root; zero: of none.
    function _checkVariables(bytes32 root, bytes calldata variables) private pure {
        uint256 count;
        uint256 at;
        for (; at < variables.length; at += 5 + uint256(uint8(variables[at]))) {
            ++count;
        }
        if (at != variables.length) revert IChannels.WrongVariables(root);
        if (root == 0 && count == 0) return;
        bytes32[] memory hashes = new bytes32[](count);
        at = 0;
        for (uint256 i; i < count; ++i) {
            uint256 value = at + 1 + uint8(variables[at]);
            // SAFETY: four bytes are a number with its sign.
            // forge-lint: disable-next-line(unsafe-typecast)
            int32 number = int32(uint32(bytes4(variables[value:value + 4])));
            hashes[i] = Merkle.variableHash(variables[at:value], number);
            at = value + 4;
        }
        if (Merkle.variablesRootOf(count, Merkle.treeRoot(hashes)) != root) revert IChannels.WrongVariables(root);
    }

    /// @dev The bond of an answer that differed from a share which is justified, once.
    function _takeBond(ChannelLedger storage ledger, BatchLife memory l, Challenge memory c) private {
        uint256 index = c.slot - 1;
        Answer memory a = ledger.answers[l.id][index];
        bool free = a.stage == Stage.Differed && a.operator == c.challenger && !ledger.disputing[l.id].has(index);
        if (!free) revert IChannels.NotDiffered(l.id, c.slot);
        uint256 share = index / Limits.DRAWS;
        if (ledger.shareDemands[l.id][share].justifiedAt == 0) revert IChannels.NotJustified(l.id, share);
        ledger.disputing[l.id] = ledger.disputing[l.id].with(index);
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
