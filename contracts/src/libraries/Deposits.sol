// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Batch, BatchState, Channel, ChannelState, Deal, Offer, Pool, Voucher} from "../interfaces/Deals.sol";
import {IChannels} from "../interfaces/IChannels.sol";
import {Account, IMarket} from "../interfaces/IMarket.sol";
import {Accounts} from "./Accounts.sol";
import {Batches, ChannelLedger, Env} from "./Batches.sol";
import {Lives} from "./Lives.sol";
import {Signed} from "./Signed.sol";

/// @title What clients pay in, and how they get it back
library Deposits {
    using Accounts for mapping(address => Account);
    using SafeCast for uint256;

    /// @notice See `IChannels.open`. What deposit and fee need is in the client's balance.
    function open(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        Deal calldata deal,
        bytes calldata signature,
        uint256 amount
    ) external {
        if (msg.sender != deal.client) revert IMarket.NotTheClient(msg.sender, deal.client);
        Lives.checkUntil(deal.openBy);
        _checkPool(env, o, deal);
        bytes32 id = Signed.channelOf(env.domain, deal);
        Signed.check(id, signature, o.signer);
        Channel storage c = ledger.channels[id];
        if (c.state != ChannelState.None) revert IChannels.AlreadyOpen(id);
        Pool storage pool = ledger.pools[deal.pool];
        Batch storage newest = ledger.batches[Batches.idOf(deal.pool, pool.begun)];
        bool live = newest.state == BatchState.Begun && block.number <= uint256(newest.begunAt) + o.epoch;
        if (!live || pool.over) revert IChannels.NoLiveBatch(deal.pool);
        // INVARIANT 54: what all open channels of a pool put at risk is what its stake is sized for.
        uint256 reserved = pool.reserved;
        if (deal.valueAtRisk > o.riskEach || reserved + deal.valueAtRisk > o.riskAll) {
            revert IChannels.RiskExceeded(deal.pool, reserved, deal.valueAtRisk, o.riskAll);
        }
        pool.reserved = (reserved + deal.valueAtRisk).toUint128();

        ledger.accounts.debit(deal.client, amount + env.p.gChunk);
        ledger.accounts.credit(o.operator, env.p.gChunk);
        (c.deposit, c.client, c.state) = (amount.toUint96(), deal.client, ChannelState.Open);
        emit IChannels.Opened(id, deal.pool, deal.client, deal, amount);
    }

    /// @notice See `IChannels.fund`. What it needs is in the caller's balance.
    function fund(ChannelLedger storage ledger, bytes32 id, uint256 amount) external {
        Channel storage c = ledger.channels[id];
        if (c.state != ChannelState.Open && c.state != ChannelState.Left) {
            revert IChannels.WrongChannelState(id, ChannelState.Open, c.state);
        }
        ledger.accounts.debit(msg.sender, amount);
        c.deposit = (c.deposit + amount).toUint96();
        emit IChannels.Funded(id, msg.sender, amount);
    }

    /// @notice See `IChannels.leave`.
    function leave(ChannelLedger storage ledger, Env memory env, Offer calldata o, Deal calldata deal) external {
        if (msg.sender != deal.client) Batches.checkOperator(env, o);
        _checkPool(env, o, deal);
        bytes32 id = Signed.channelOf(env.domain, deal);
        Channel storage c = ledger.channels[id];
        if (c.state != ChannelState.Open) revert IChannels.WrongChannelState(id, ChannelState.Open, c.state);
        // INVARIANT 49: it moves no time: what is served now has the batch that it was promised.
        (c.state, c.last) = (ChannelState.Left, ledger.pools[deal.pool].begun);
        emit IChannels.Left(id, c.last);
    }

    /// @notice See `IChannels.conclude`.
    function conclude(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        Deal calldata deal,
        Voucher calldata voucher,
        bytes calldata payers,
        bytes calldata signers
    ) external {
        bytes32 digest = Signed.hashOf(env.domain, voucher);
        Signed.check(digest, payers, deal.payer);
        Signed.check(digest, signers, o.signer);
        _conclude(ledger, env, o, deal, voucher);
    }

    /// @notice See `IChannels.end`.
    function end(ChannelLedger storage ledger, Env memory env, Offer calldata o, Deal calldata deal) external {
        _checkPool(env, o, deal);
        bytes32 id = Signed.channelOf(env.domain, deal);
        Channel storage c = ledger.channels[id];
        bool over = ledger.pools[deal.pool].over;
        if (c.state != ChannelState.Left && !(over && c.state == ChannelState.Open)) {
            revert IChannels.WrongChannelState(id, ChannelState.Left, c.state);
        }
        if (!over) _checkLast(ledger, env, o, deal.pool, id, c.last);
        uint256 rest = c.deposit;
        (c.state, c.deposit) = (ChannelState.Ended, 0);
        _free(ledger, deal);
        ledger.accounts.credit(deal.client, rest);
        emit IChannels.Ended(id, rest);
    }

    function _conclude(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        Deal calldata deal,
        Voucher calldata voucher
    ) private {
        _checkPool(env, o, deal);
        bytes32 id = Signed.channelOf(env.domain, deal);
        if (voucher.channel != id) revert IMarket.WrongTask(id, voucher.channel);
        Channel storage c = ledger.channels[id];
        if (c.state != ChannelState.Open && c.state != ChannelState.Left) {
            revert IChannels.WrongChannelState(id, ChannelState.Open, c.state);
        }
        (uint256 paid, uint256 deposit) = (c.paid, c.deposit);
        if (voucher.amount < paid || voucher.amount - paid > deposit) {
            revert IChannels.WrongAmount(id, voucher.amount, paid, deposit);
        }
        uint256 rest = deposit - (voucher.amount - paid);
        (c.state, c.deposit, c.paid) = (ChannelState.Concluded, 0, voucher.amount.toUint96());
        _free(ledger, deal);
        ledger.accounts.credit(o.operator, deposit - rest);
        ledger.accounts.credit(deal.client, rest);
        emit IChannels.Concluded(id, voucher.count, voucher.amount, rest);
    }

    /// @dev What the channel put at risk, which was reserved when it was opened.
    function _free(ChannelLedger storage ledger, Deal calldata deal) private {
        // SAFETY: an offer's risks are below 2^96.
        // forge-lint: disable-next-line(unsafe-typecast)
        ledger.pools[deal.pool].reserved -= uint128(deal.valueAtRisk);
    }

    /// @dev The last batch that the channel may stand in is committed, or nobody commits it any more.
    function _checkLast(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        bytes32 pool,
        bytes32 id,
        uint32 last
    ) private view {
        Batch storage b = ledger.batches[Batches.idOf(pool, last)];
        bool lapsed = block.number > uint256(b.begunAt) + o.epoch + env.p.challenge;
        if (b.state == BatchState.Begun && !lapsed) revert IChannels.NotOver(id, last);
    }

    function _checkPool(Env memory env, Offer calldata o, Deal calldata deal) private pure {
        bytes32 pool = Signed.poolOf(env.domain, o);
        if (pool != deal.pool) revert IChannels.WrongPool(pool, deal.pool);
    }
}
