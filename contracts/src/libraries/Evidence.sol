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
import {Batches, Book, Env, Run} from "./Batches.sol";
import {Lines} from "./Lines.sol";
import {Lives} from "./Lives.sol";
import {Merkle} from "./Merkle.sol";
import {Signed} from "./Signed.sol";

/// @title What convicts an operator without a game: its own signatures, and calls that its offer does not allow
library Evidence {
    using Batches for Run;

    /// @notice See `IChannels.outside`.
    function outside(
        Book storage book,
        Env memory env,
        Offer calldata o,
        uint32 number,
        Place calldata place,
        Entry[] calldata entries,
        uint32 count
    ) external {
        Run memory r = Batches.load(book, env, o, number);
        r.checkState(BatchState.Committed);
        Lives.checkUntil(r.disputeBy(o.exec));
        Lines.check(book, r, env.domain, place);
        if (Lines.isNamed(place) && !_isOutside(o.programs, place.order, entries, count)) {
            revert IChannels.NotOutside(place.order.program);
        }
        BatchEnds.convict(book, r, o, Breach.Outside, msg.sender);
    }

    /// @notice See `IChannels.contradict`.
    function contradict(
        Book storage book,
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
        _convict(book, env, o, deal, receipt, signature, Breach.Contradiction);
    }

    /// @notice See `IChannels.contradictLeaf`.
    function contradictLeaf(
        Book storage book,
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
        Run memory at = Batches.load(book, env, o, number);
        Lines.check(book, at, line);
        Lines.check(line.line, receipt.index, leaf, path);
        bytes32 signed =
            Lines.leafHash(receipt.channel, receipt.index, receipt.order, Lines.resultOf(receipt.outputsRoot));
        if (line.line.channel != receipt.channel || leaf == signed) {
            revert IChannels.NoContradiction(receipt.channel, receipt.index);
        }
        _convict(book, env, o, deal, receipt, signature, Breach.Contradiction);
    }

    /// @notice See `IChannels.accuse`.
    function accuse(
        Book storage book,
        Env memory env,
        Offer calldata o,
        Deal calldata deal,
        CallReceipt calldata receipt,
        bytes calldata signature
    ) external {
        Run memory r = Batches.load(book, env, o, receipt.number);
        Channel memory c = book.channels[receipt.channel];
        if (c.state == ChannelState.None || c.state == ChannelState.Concluded) {
            revert IChannels.WrongChannelState(receipt.channel, ChannelState.Open, c.state);
        }
        if (receipt.index < c.count) revert IChannels.NoOmission(receipt.channel, receipt.index, c.count);
        if (r.b.state == BatchState.Begun) {
            // What nobody can commit any more nobody pays: one fault does not convict the batch beside its own.
            if (book.pools[r.pool].over) revert IChannels.PoolOver(r.pool);
            Lives.checkAfter(r.commitBy(o));
            Lives.checkUntil(r.commitBy(o) + r.p.challenge);
        }
        // INVARIANT 48: what the operator signed a receipt for is committed, or convicts.
        _convict(book, env, o, deal, receipt, signature, Breach.Omission);
    }

    /// @dev For the client of the receipt's channel, whoever sends it: evidence that is copied pays nobody else.
    function _convict(
        Book storage book,
        Env memory env,
        Offer calldata o,
        Deal calldata deal,
        CallReceipt calldata receipt,
        bytes calldata signature,
        Breach breach
    ) private {
        Signed.check(Signed.hashOf(env.domain, receipt), signature, o.signer);
        Run memory r = Batches.load(book, env, o, receipt.number);
        if (r.b.state != BatchState.Begun) r.checkState(BatchState.Committed);
        // One key may sign for several pools: a receipt convicts in its channel's alone.
        if (deal.pool != r.pool) revert IChannels.WrongPool(r.pool, deal.pool);
        bytes32 channel = Signed.channelOf(env.domain, deal);
        if (channel != receipt.channel) revert IMarket.WrongTask(channel, receipt.channel);
        BatchEnds.convict(book, r, o, breach, deal.client);
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
