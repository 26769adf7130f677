// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {
    BatchState,
    Breach,
    CallReceipt,
    Channel,
    ChannelState,
    Deal,
    Entry,
    LineProof,
    Offer,
    Place
} from "../interfaces/Deals.sol";
import {IChannels} from "../interfaces/IChannels.sol";
import {IMarket} from "../interfaces/IMarket.sol";
import {Order} from "../interfaces/ITaskMarket.sol";
import {BatchEnds} from "./BatchEnds.sol";
import {Batches, ChannelLedger, Env, BatchLife} from "./Batches.sol";
import {Lines} from "./Lines.sol";
import {Lives} from "./Lives.sol";
import {Merkle} from "./Merkle.sol";
import {Signed} from "./Signed.sol";

/// @title What convicts an operator without a game: its own signatures, and calls that its offer does not allow
library Evidence {
    using Batches for BatchLife;

    /// @notice See `IChannels.outside`.
    function outside(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        uint32 number,
        Place calldata place,
        Entry[] calldata entries,
        uint32 count
    ) external {
        BatchLife memory l = Batches.load(ledger, env, o, number);
        l.checkState(BatchState.Committed);
        Lives.checkUntil(l.disputeBy(o.exec));
        Lines.check(ledger, l, env.domain, place);
        if (Lines.isNamed(place) && !_isOutside(o.programs, place.order, entries, count)) {
            revert IChannels.NotOutside(place.order.program);
        }
        BatchEnds.convict(ledger, l, o, Breach.Outside, msg.sender);
    }

    /// @notice See `IChannels.contradict`.
    function contradict(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        Deal calldata deal,
        CallReceipt calldata receipt,
        bytes calldata signature,
        CallReceipt calldata other,
        bytes calldata otherSignature
    ) external {
        Signed.check(Signed.hashOf(env.domain, other), otherSignature, o.signer);
        bool same = other.channel == receipt.channel && other.index == receipt.index;
        bool differ = other.order != receipt.order || other.outputsRoot != receipt.outputsRoot;
        if (!same || !differ) revert IChannels.NoContradiction(receipt.channel, receipt.index);
        _convict(ledger, env, o, deal, receipt, signature, Breach.Contradiction);
    }

    /// @notice See `IChannels.contradictLeaf`.
    function contradictLeaf(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        Deal calldata deal,
        CallReceipt calldata receipt,
        bytes calldata signature,
        uint32 number,
        LineProof calldata line,
        bytes32 leaf,
        bytes32[] calldata path
    ) external {
        BatchLife memory at = Batches.load(ledger, env, o, number);
        Lines.check(ledger, at, line);
        Lines.check(line.line, receipt.index, leaf, path);
        bytes32 signed =
            Lines.leafHash(receipt.channel, receipt.index, receipt.order, Lines.resultOf(receipt.outputsRoot));
        if (line.line.channel != receipt.channel || leaf == signed) {
            revert IChannels.NoContradiction(receipt.channel, receipt.index);
        }
        _convict(ledger, env, o, deal, receipt, signature, Breach.Contradiction);
    }

    /// @notice See `IChannels.accuse`.
    function accuse(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        Deal calldata deal,
        CallReceipt calldata receipt,
        bytes calldata signature
    ) external {
        BatchLife memory l = Batches.load(ledger, env, o, receipt.number);
        Channel memory c = ledger.channels[receipt.channel];
        if (c.state == ChannelState.None || c.state == ChannelState.Concluded) {
            revert IChannels.WrongChannelState(receipt.channel, ChannelState.Open, c.state);
        }
        if (receipt.index < c.count) revert IChannels.NoOmission(receipt.channel, receipt.index, c.count);
        if (l.b.state == BatchState.Begun) {
            // What nobody can commit any more nobody pays: one fault does not convict the batch beside its own.
            if (ledger.pools[l.pool].over) revert IChannels.PoolOver(l.pool);
            Lives.checkAfter(l.commitBy(o));
            Lives.checkUntil(l.commitBy(o) + l.p.challenge);
        }
        // INVARIANT 48: what the operator signed a receipt for is committed, or convicts.
        _convict(ledger, env, o, deal, receipt, signature, Breach.Omission);
    }

    /// @dev For the client of the receipt's channel, whoever sends it: evidence that is copied pays nobody else.
    function _convict(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        Deal calldata deal,
        CallReceipt calldata receipt,
        bytes calldata signature,
        Breach breach
    ) private {
        Signed.check(Signed.hashOf(env.domain, receipt), signature, o.signer);
        BatchLife memory l = Batches.load(ledger, env, o, receipt.number);
        if (l.b.state != BatchState.Begun) l.checkState(BatchState.Committed);
        // One key may sign for several pools: a receipt convicts in its channel's alone.
        if (deal.pool != l.pool) revert IChannels.WrongPool(l.pool, deal.pool);
        bytes32 channel = Signed.channelOf(env.domain, deal);
        if (channel != receipt.channel) revert IMarket.WrongTask(channel, receipt.channel);
        BatchEnds.convict(ledger, l, o, breach, deal.client);
    }

    /// @dev Whether the entries, which are the offer's, show that it does not allow the order's program so often.
    function _isOutside(bytes32 programs, Order calldata order, Entry[] calldata entries, uint32 count)
        private
        pure
        returns (bool)
    {
        if (entries.length == 0 || entries.length > 2) return false;
        for (uint256 i; i < entries.length; ++i) {
            Entry calldata e = entries[i];
            bytes32 tree = Merkle.climb(Lines.entryHash(e.program, e.repeat), e.position, e.path);
            if (e.position >= count || Lines.programsRootOf(count, tree) != programs) return false;
        }
        Entry calldata first = entries[0];
        if (entries.length == 2) {
            bool neighbours = entries[1].position == first.position + 1;
            return neighbours && first.program < order.program && order.program < entries[1].program;
        }
        if (first.program == order.program) return order.repeat > first.repeat;
        return order.program < first.program ? first.position == 0 : first.position + 1 == count;
    }
}
