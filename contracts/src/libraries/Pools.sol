// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {
    Batch,
    BatchState,
    Channel,
    ChannelState,
    Line,
    Offer,
    Pool,
    Sheet,
    Tail,
    Voucher
} from "../interfaces/Deals.sol";
import {IChannels} from "../interfaces/IChannels.sol";
import {Account, IMarket} from "../interfaces/IMarket.sol";
import {Membership} from "../interfaces/IServiceManager.sol";
import {Accounts} from "./Accounts.sol";
import {Batches, ChannelLedger, Env, BatchLife} from "./Batches.sol";
import {Frontier} from "./Frontier.sol";
import {Limits} from "./Limits.sol";
import {Lines} from "./Lines.sol";
import {Lives} from "./Lives.sol";
import {Merkle} from "./Merkle.sol";
import {Shares} from "./Shares.sol";
import {Signed} from "./Signed.sol";
import {Terms} from "./Terms.sol";

/// @title What an operator sends: it offers, begins and commits batches
library Pools {
    using Accounts for mapping(address => Account);
    using Batches for BatchLife;
    using Frontier for Frontier.Stack;
    using SafeCast for uint256;

    /// @dev Batches of a pool that are begun and uncommitted: one is served while the other is being committed.
    uint256 private constant UNCOMMITTED = 2;

    /// @notice See `IChannels.offer`.
    function offer(ChannelLedger storage ledger, Env memory env, Offer calldata o) external {
        (address signer,) = env.serviceManager.signerOf(o.operator);
        if (msg.sender != o.operator && msg.sender != signer) revert IMarket.NotTheSigner(msg.sender, signer);
        bytes32 id = Signed.poolOf(env.domain, o);
        Pool storage pool = ledger.pools[id];
        if (pool.offered) revert IChannels.AlreadyOffered(id);
        _check(env, o);
        (pool.offered, pool.next) = (true, 1);
        emit IChannels.Offered(id, o.operator, o);
    }

    /// @notice See `IChannels.begin`.
    function begin(ChannelLedger storage ledger, Env memory env, Offer calldata o) external {
        Membership memory by = env.serviceManager.membershipOf(o.operator);
        if (msg.sender != by.signer) revert IMarket.NotTheSigner(msg.sender, by.signer);
        if (!by.isMember) revert IMarket.NotAMember(o.operator);
        if (by.otherSeats < env.p.otherSeats) revert IMarket.NotEnoughSeats(by.otherSeats, env.p.otherSeats);
        bytes32 id = Signed.poolOf(env.domain, o);
        Pool memory pool = ledger.pools[id];
        if (!pool.offered) revert IChannels.UnknownPool(id);
        if (pool.over) revert IChannels.PoolOver(id);
        pool.next = Batches.next(ledger, id, o.epoch);
        if (pool.begun + 1 - pool.next >= UNCOMMITTED) {
            revert IChannels.BatchesUncommitted(id, pool.begun, pool.next);
        }
        // INVARIANT 38: what the batch could still do to the stake ends before the stake can leave.
        uint256 lifetime = Shares.lifetime(env.p, o.exec, o.epoch);
        if (lifetime > by.stakeDelay) revert IMarket.OutlivesStake(lifetime, by.stakeDelay);

        ++pool.begun;
        ledger.pools[id] = pool;
        bytes32 batch = Batches.idOf(id, pool.begun);
        (ledger.batches[batch].state, ledger.batches[batch].begunAt) = (BatchState.Begun, block.number.toUint32());
        ledger.accounts.hold(o.operator, Shares.collateral(env.p, o.maxPrice, o.verifiers), by.collateralCap);
        uint256 end = block.number + lifetime;
        emit IChannels.Begun(id, pool.begun, batch, block.number + o.epoch, end);
        // INVARIANT 50: the stake is locked before the first receipt of the batch, for all that the offer admits.
        env.serviceManager.lock(batch, o.operator, Shares.stake(env.p, o), end);
    }

    /// @notice See `IChannels.commit`.
    function commit(
        ChannelLedger storage ledger,
        Env memory env,
        Offer calldata o,
        uint32 number,
        Sheet[] calldata sheets
    ) external {
        Batches.checkOperator(env, o);
        BatchLife memory l = Batches.load(ledger, env, o, number);
        l.checkState(BatchState.Begun);
        Lives.checkUntil(l.commitBy(o));
        if (ledger.pools[l.pool].over) revert IChannels.PoolOver(l.pool);
        uint32 next = Batches.next(ledger, l.pool, o.epoch);
        if (number != next) revert IChannels.WrongNumber(l.pool, number, next);
        ledger.pools[l.pool].next = number + 1;

        (bytes32 root, uint256 leaves, uint256 amount) = _lines(ledger, env, l, o, number, sheets);
        _checkTotals(env, o, l.id, leaves, amount);

        Batch storage b = ledger.batches[l.id];
        (b.state, b.committedAt) = (BatchState.Committed, block.number.toUint32());
        // INVARIANT 19: nobody can change the seats that are drawn from once the seed can be guessed.
        b.seats = env.serviceManager.seatCount().toUint32();
        (b.lines, b.leaves, b.amount) = (sheets.length.toUint16(), leaves.toUint32(), amount.toUint96());
        ledger.roots[l.id].lines = root;
        emit IChannels.Committed(l.id, root, sheets.length, leaves, amount);
    }

    function _checkTotals(Env memory env, Offer calldata o, bytes32 batch, uint256 leaves, uint256 amount)
        private
        pure
    {
        uint256 limit = Shares.capacity(o.checkRate, o.verifiers);
        if (leaves > limit) revert IChannels.TooManyCalls(leaves, limit);
        uint256 least = Shares.leastAmount(env.p, o.checkPrice, Shares.checked(leaves, o.checkRate, o.verifiers));
        // INVARIANT 54: no batch is worth more than the stake was sized for, and none too little to pay its verifiers.
        if (amount > o.most || amount < least) revert IChannels.WrongBatchAmount(batch, amount, least, o.most);
    }

    /// @dev The lines of a commit: the root over them, their calls, what they cost.
    function _lines(
        ChannelLedger storage ledger,
        Env memory env,
        BatchLife memory l,
        Offer calldata o,
        uint32 number,
        Sheet[] calldata sheets
    ) private returns (bytes32 root, uint256 leaves, uint256 amount) {
        bytes32[] memory hashes = new bytes32[](sheets.length);
        for (uint256 i; i < sheets.length; ++i) {
            // INVARIANT 53: the contract says where a line begins; a channel has one line, of calls that no batch had.
            Line memory line = _line(ledger, env, l, o, number, sheets[i], leaves);
            hashes[i] = Lines.lineHash(line);
            leaves += line.count;
            amount += line.amount;
            emit IChannels.Lined(l.id, i.toUint32(), line);
        }
        root = Merkle.treeRoot(hashes);
    }

    function _check(Env memory env, Offer calldata o) private pure {
        if (o.operator == address(0) || o.signer == address(0)) revert IMarket.ZeroAddress();
        uint256 limit = Limits.AMOUNT;
        if (o.maxPrice > limit || o.checkPrice > o.maxPrice) {
            revert IChannels.WrongPrice(o.maxPrice, o.checkPrice, limit);
        }
        if (o.riskAll > limit || o.riskEach > o.riskAll) revert IChannels.WrongRisk(o.riskEach, o.riskAll, limit);
        if (o.most > limit || o.most < o.maxPrice) revert IChannels.WrongMost(o.most, limit);
        if (o.checkRate < env.p.checkFloor || o.checkRate > Terms.WAD) {
            revert IMarket.WrongCheckRate(o.checkRate, env.p.checkFloor, Terms.WAD);
        }
        if (o.verifiers == 0 || o.verifiers > Limits.VERIFIERS) {
            revert IMarket.WrongVerifiers(o.verifiers, Limits.VERIFIERS);
        }
        if (o.exec == 0 || o.exec > env.p.maxExec) revert IMarket.WrongExec(o.exec, env.p.maxExec);
        if (o.epoch == 0) revert IChannels.WrongEpoch(o.epoch);
        if (o.tail > Shares.TAIL) revert IChannels.WrongTail(o.tail, Shares.TAIL);
        if (o.programs == 0) revert IChannels.NoPrograms();
    }

    /// @dev The line of a sheet; its channel has stood in the batch and paid then.
    function _line(
        ChannelLedger storage ledger,
        Env memory env,
        BatchLife memory l,
        Offer calldata o,
        uint32 number,
        Sheet calldata sheet,
        uint256 offset
    ) private returns (Line memory line) {
        if (sheet.deal.pool != l.pool) revert IChannels.WrongPool(l.pool, sheet.deal.pool);
        line.channel = Signed.channelOf(env.domain, sheet.deal);
        Channel storage stored = ledger.channels[line.channel];
        Channel memory c = stored;
        if (c.state == ChannelState.Left) {
            if (number > c.last) revert IChannels.ChannelLeft(line.channel, c.last);
        } else if (c.state != ChannelState.Open) {
            revert IChannels.WrongChannelState(line.channel, ChannelState.Open, c.state);
        }
        if (c.number >= number) revert IChannels.AlreadyLined(line.channel, c.number);
        (line.first, line.offset) = (c.count, offset.toUint64());
        line.root = _root(env, o, line, sheet);
        (line.count, line.amount) = (sheet.count - c.count, _amount(o, sheet, line, c));

        // SAFETY: `_amount` holds what is paid to the deposit, which is a uint96.
        // forge-lint: disable-next-line(unsafe-typecast)
        (stored.deposit, stored.paid) = (c.deposit - uint96(line.amount), c.paid + uint96(line.amount));
        (stored.count, stored.number) = (uint256(sheet.count).toUint32(), number);
    }

    /// @dev What the channel pays for the calls of the sheet.
    function _amount(Offer calldata o, Sheet calldata sheet, Line memory line, Channel memory c)
        private
        pure
        returns (uint128)
    {
        uint256 limit = uint256(sheet.count - c.count) * o.maxPrice;
        if (limit > sheet.deal.most) limit = sheet.deal.most;
        if (limit > c.deposit) limit = c.deposit;
        if (sheet.amount < c.paid || sheet.amount - c.paid > limit) {
            revert IChannels.WrongAmount(line.channel, sheet.amount, c.paid, limit);
        }
        // SAFETY: the deposit is a uint96.
        // forge-lint: disable-next-line(unsafe-typecast)
        return uint128(sheet.amount - c.paid);
    }

    /// @dev The root over all leaves of the channel: those that the payer acknowledged, and the tail.
    function _root(Env memory env, Offer calldata o, Line memory line, Sheet calldata sheet)
        private
        pure
        returns (bytes32)
    {
        uint256 tail = sheet.tail.length;
        // INVARIANT 47: the payer signed every leaf but those of the tail, which are few.
        if (sheet.count <= line.first || tail > o.tail || sheet.acked + tail != sheet.count) {
            revert IChannels.WrongCount(line.channel, sheet.count, sheet.acked, line.first, tail);
        }
        bytes32 digest =
            Signed.hashOf(env.domain, Voucher(line.channel, sheet.count, sheet.amount, sheet.acked, sheet.root));
        Signed.check(digest, sheet.signature, sheet.deal.payer);
        if (tail == 0) return sheet.root;
        if (sheet.frontier.length != Frontier.count(sheet.acked)) {
            revert IChannels.WrongFrontier(line.channel, sheet.root, 0);
        }
        Frontier.Stack memory s = Frontier.from(sheet.acked, sheet.frontier, tail);
        bytes32 root = s.root();
        if (root != sheet.root) revert IChannels.WrongFrontier(line.channel, sheet.root, root);
        for (uint64 i; i < tail; ++i) {
            Tail calldata t = sheet.tail[i];
            s.append(Lines.leafHash(line.channel, sheet.acked + i, t.order, t.result));
        }
        return s.root();
    }
}
