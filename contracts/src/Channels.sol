// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Multicall} from "@openzeppelin/contracts/utils/Multicall.sol";
import {Market} from "./Market.sol";
import {
    Batch,
    CallReceipt,
    Channel,
    Deal,
    Entry,
    Judgment,
    LineProof,
    Offer,
    Part,
    Payback,
    Place,
    Pool,
    Roots,
    ShareDemand,
    Sheet,
    Voucher
} from "./interfaces/Deals.sol";
import {IChannels} from "./interfaces/IChannels.sol";
import {IDisputeGame, IDisputeMarket} from "./interfaces/IDisputeGame.sol";
import {Account} from "./interfaces/IMarket.sol";
import {Answer, Challenge, ITaskMarket, Leaf, LeafProof, Opening, Order, Stage} from "./interfaces/ITaskMarket.sol";
import {Accounts} from "./libraries/Accounts.sol";
import {BatchChecks} from "./libraries/BatchChecks.sol";
import {BatchDisputes} from "./libraries/BatchDisputes.sol";
import {BatchEnds} from "./libraries/BatchEnds.sol";
import {Batches, ChannelLedger, Env, BatchLife} from "./libraries/Batches.sol";
import {Deposits} from "./libraries/Deposits.sol";
import {Evidence} from "./libraries/Evidence.sol";
import {Pools} from "./libraries/Pools.sol";
import {Signed} from "./libraries/Signed.sol";
import {Terms} from "./libraries/Terms.sol";

/// @title Paid calls without a task each; see IChannels
/// @notice Who may send a message, and its lock; what the message does to the ledger is in libraries.
/// @dev Several messages of one sender go in one transaction: a batch is committed as the next one begins.
contract Channels is IChannels, Market, Multicall {
    using Accounts for mapping(address => Account);
    using Batches for BatchLife;

    /// @inheritdoc IChannels
    ITaskMarket public immutable market;

    ChannelLedger private _ledger;

    /// @notice Parameters, seeds, operators and stake are those of the market for tasks.
    constructor(ITaskMarket market_, IDisputeGame game_) Market(market_.serviceManager(), game_, market_.parameters()) {
        market = market_;
        if (serviceManager.channels() != address(this)) revert NotConnected(address(serviceManager));
    }

    // ---- Pools and batches ----

    /// @inheritdoc IChannels
    function offer(Offer calldata offer_) external nonReentrantView {
        Pools.offer(_ledger, _env(), offer_);
    }

    /// @inheritdoc IChannels
    function begin(Offer calldata offer_) external nonReentrantView {
        Pools.begin(_ledger, _env(), offer_);
    }

    /// @inheritdoc IChannels
    function commit(Offer calldata offer_, uint32 number, Sheet[] calldata sheets) external nonReentrantView {
        Pools.commit(_ledger, _env(), offer_, number, sheets);
    }

    // ---- Channels ----

    /// @inheritdoc IChannels
    function open(Offer calldata offer_, Deal calldata deal, bytes calldata signature, uint256 amount)
        external
        nonReentrant
    {
        Env memory env = _env();
        _ledger.accounts.top(token, msg.sender, amount + env.p.gChunk);
        Deposits.open(_ledger, env, offer_, deal, signature, amount);
    }

    /// @inheritdoc IChannels
    function fund(bytes32 channel, uint256 amount) external nonReentrant {
        _ledger.accounts.top(token, msg.sender, amount);
        Deposits.fund(_ledger, channel, amount);
    }

    /// @inheritdoc IChannels
    function leave(Offer calldata offer_, Deal calldata deal) external nonReentrantView {
        Deposits.leave(_ledger, _env(), offer_, deal);
    }

    /// @inheritdoc IChannels
    function conclude(
        Offer calldata offer_,
        Deal calldata deal,
        Voucher calldata voucher,
        bytes calldata payers,
        bytes calldata signers
    ) external nonReentrantView {
        Deposits.conclude(_ledger, _env(), offer_, deal, voucher, payers, signers);
    }

    /// @inheritdoc IChannels
    function end(Offer calldata offer_, Deal calldata deal) external nonReentrantView {
        Deposits.end(_ledger, _env(), offer_, deal);
    }

    // ---- Checks ----

    /// @inheritdoc IChannels
    function answer(address operator, Offer calldata offer_, uint32 number, uint256 index, bytes32 commitment)
        external
        nonReentrantView
    {
        uint256 cap = _checkSigner(operator);
        Answer memory a = Answer(operator, Stage.Hidden, commitment);
        BatchChecks.answer(_ledger, _env(), offer_, number, a, index, cap);
    }

    /// @inheritdoc IChannels
    function revealRoots(Offer calldata offer_, uint32 number, bytes32[] calldata roots) external nonReentrantView {
        BatchChecks.revealRoots(_ledger, _env(), offer_, number, roots);
    }

    /// @inheritdoc IChannels
    function reveal(Offer calldata offer_, uint32 number, bytes32[] calldata roots, Opening calldata opening)
        external
        nonReentrantView
    {
        BatchChecks.reveal(_ledger, _env(), offer_, number, roots, opening);
    }

    /// @inheritdoc IChannels
    function justify(Offer calldata offer_, uint32 number, bytes32[] calldata roots, Part calldata part)
        external
        nonReentrantView
    {
        BatchChecks.justify(_ledger, _env(), offer_, number, roots, part);
    }

    // ---- Disputes ----

    /// @inheritdoc IChannels
    function challenge(address challenger, Offer calldata offer_, uint32 number, Place calldata place, uint8 slot)
        external
        nonReentrant
        returns (uint256 gameId)
    {
        uint256 cap = type(uint256).max;
        if (msg.sender != challenger) cap = _checkSigner(challenger);
        else if (slot == 0) _ledger.accounts.top(token, challenger, Terms.bond(parameters(), offer_.maxPrice));
        Challenge memory c = Challenge(challenger, slot, false, false);
        // INVARIANT 42: the batch as it is when the tokens are here.
        return BatchDisputes.challenge(_ledger, _env(), offer_, number, place, c, cap);
    }

    /// @inheritdoc IDisputeMarket
    function onGameEnded(bytes32 task, uint256 gameId, address, bool executorLost, bool byClock)
        external
        nonReentrantView
    {
        if (msg.sender != address(game)) revert NotTheGame(msg.sender);
        BatchDisputes.end(_ledger, parameters(), task, gameId, executorLost, byClock);
    }

    /// @inheritdoc IChannels
    function demand(Offer calldata offer_, uint32 number, uint64 index, Leaf[] calldata leaves)
        external
        nonReentrantView
    {
        BatchDisputes.demand(_ledger, _env(), offer_, number, index, leaves);
    }

    /// @inheritdoc IChannels
    function show(
        Offer calldata offer_,
        uint32 number,
        Place calldata place,
        bytes calldata variables,
        Leaf[] calldata leaves,
        LeafProof[] calldata proofs
    ) external nonReentrantView {
        BatchDisputes.show(_ledger, _env(), offer_, number, place, variables, leaves, proofs);
    }

    /// @inheritdoc IChannels
    function denounce(Offer calldata offer_, uint32 number, uint64 index, Leaf[] calldata leaves)
        external
        nonReentrantView
    {
        BatchDisputes.denounce(_ledger, _env(), offer_, number, index, leaves);
    }

    /// @inheritdoc IChannels
    function denounceShare(Offer calldata offer_, uint32 number, uint256 share) external nonReentrantView {
        BatchChecks.denounceShare(_ledger, _env(), offer_, number, share);
    }

    /// @inheritdoc IChannels
    function outside(Offer calldata offer_, uint32 number, Place calldata place, Entry[] calldata entries, uint32 count)
        external
        nonReentrantView
    {
        Evidence.outside(_ledger, _env(), offer_, number, place, entries, count);
    }

    /// @inheritdoc IChannels
    function contradict(
        Offer calldata offer_,
        Deal calldata deal,
        CallReceipt calldata receipt,
        bytes calldata signature,
        CallReceipt calldata other,
        bytes calldata otherSignature
    ) external nonReentrantView {
        Evidence.contradict(_ledger, _env(), offer_, deal, receipt, signature, other, otherSignature);
    }

    /// @inheritdoc IChannels
    function contradictLeaf(
        Offer calldata offer_,
        Deal calldata deal,
        CallReceipt calldata receipt,
        bytes calldata signature,
        uint32 number,
        LineProof calldata line,
        bytes32 leaf,
        bytes32[] calldata path
    ) external nonReentrantView {
        Evidence.contradictLeaf(_ledger, _env(), offer_, deal, receipt, signature, number, line, leaf, path);
    }

    /// @inheritdoc IChannels
    function accuse(Offer calldata offer_, Deal calldata deal, CallReceipt calldata receipt, bytes calldata signature)
        external
        nonReentrantView
    {
        Evidence.accuse(_ledger, _env(), offer_, deal, receipt, signature);
    }

    // ---- Ends ----

    /// @inheritdoc IChannels
    function close(Offer calldata offer_, uint32 number) external nonReentrantView {
        BatchEnds.close(_ledger, _env(), offer_, number);
    }

    /// @inheritdoc IChannels
    function settle(Offer calldata offer_, uint32 number, uint256[] calldata indices) external nonReentrantView {
        BatchEnds.settle(_ledger, _env(), offer_, number, indices);
    }

    /// @inheritdoc IChannels
    function refund(Offer calldata offer_, uint32 number, LineProof[] calldata lines) external nonReentrantView {
        BatchEnds.refund(_ledger, _env(), offer_, number, lines);
    }

    /// @inheritdoc IChannels
    function refundBond(Offer calldata offer_, uint32 number, bytes32 task, uint256 gameId) external nonReentrantView {
        BatchEnds.refundBond(_ledger, _env(), offer_, number, task, gameId);
    }

    /// @inheritdoc IChannels
    function slash(Offer calldata offer_, uint32 number) external nonReentrantView {
        BatchEnds.slash(_ledger, _env(), offer_, number);
    }

    // ---- Views ----

    /// @inheritdoc IChannels
    function poolOf(Offer calldata offer_) external view returns (bytes32) {
        return Signed.poolOf(_domainSeparatorV4(), offer_);
    }

    /// @inheritdoc IChannels
    function channelOf(Deal calldata deal) external view returns (bytes32) {
        return Signed.channelOf(_domainSeparatorV4(), deal);
    }

    /// @inheritdoc IChannels
    function batchOf(bytes32 pool, uint32 number) external pure returns (bytes32) {
        return Batches.idOf(pool, number);
    }

    /// @inheritdoc IChannels
    function hashOf(Voucher calldata voucher) external view returns (bytes32) {
        return Signed.hashOf(_domainSeparatorV4(), voucher);
    }

    /// @inheritdoc IChannels
    function hashOf(CallReceipt calldata receipt) external view returns (bytes32) {
        return Signed.hashOf(_domainSeparatorV4(), receipt);
    }

    /// @inheritdoc IDisputeMarket
    function taskOf(Order calldata order) external view returns (bytes32) {
        return Signed.taskOf(_domainSeparatorV4(), order);
    }

    /// @inheritdoc IDisputeMarket
    function outputsRootOf(bytes32 task) external view returns (bytes32) {
        return _ledger.disputes[task].outputsRoot;
    }

    /// @inheritdoc IChannels
    function poolAt(bytes32 pool) external view returns (Pool memory) {
        return _ledger.pools[pool];
    }

    /// @inheritdoc IChannels
    function channelAt(bytes32 channel) external view returns (Channel memory) {
        return _ledger.channels[channel];
    }

    /// @inheritdoc IChannels
    function batchAt(bytes32 batch) external view returns (Batch memory) {
        return _ledger.batches[batch];
    }

    /// @inheritdoc IChannels
    function rootsAt(bytes32 batch) external view returns (Roots memory) {
        return _ledger.roots[batch];
    }

    /// @inheritdoc IChannels
    function paybackAt(bytes32 batch) external view returns (Payback memory) {
        return _ledger.paybacks[batch];
    }

    /// @inheritdoc IChannels
    function answerAt(bytes32 batch, uint256 index) external view returns (Answer memory) {
        return _ledger.answers[batch][index];
    }

    /// @inheritdoc IChannels
    function challengeAt(bytes32 task, uint256 gameId) external view returns (Challenge memory) {
        return _ledger.challenges[task][gameId];
    }

    /// @inheritdoc IChannels
    function shareDemandAt(bytes32 batch, uint256 share) external view returns (ShareDemand memory) {
        return _ledger.shareDemands[batch][share];
    }

    /// @inheritdoc IChannels
    function judgmentAt(bytes32 batch) external view returns (Judgment memory) {
        return _ledger.judgments[batch];
    }

    /// @inheritdoc IChannels
    function windowsOf(Offer calldata offer_, uint32 number)
        external
        view
        returns (uint256 commitBy, uint256 checkBy, uint256 revealBy, uint256 answersBy, uint256 disputeBy)
    {
        BatchLife memory l = Batches.load(_ledger, _env(), offer_, number);
        if (l.b.begunAt != 0) commitBy = l.commitBy(offer_);
        if (l.b.committedAt == 0) return (commitBy, 0, 0, 0, 0);
        uint32 exec = offer_.exec;
        (checkBy, revealBy) = (l.checkBy(exec), l.revealBy(exec));
        (answersBy, disputeBy) = (l.answersBy(exec), l.disputeBy(exec));
    }

    /// @inheritdoc IChannels
    function seedBlockOf(bytes32 batch) external view returns (uint256) {
        Batch memory b = _ledger.batches[batch];
        return b.committedAt == 0 ? 0 : Terms.seedBlock(parameters(), b.committedAt);
    }

    // ---- Inside ----

    function _env() private view returns (Env memory) {
        return Env(market, serviceManager, game, _domainSeparatorV4(), parameters());
    }

    function _accounts() internal view override returns (mapping(address => Account) storage) {
        return _ledger.accounts;
    }
}
