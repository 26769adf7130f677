// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {IMarket} from "./IMarket.sol";
import {ITaskMarket} from "./ITaskMarket.sol";
import {
    Batch,
    BatchState,
    Breach,
    CallProof,
    CallReceipt,
    Channel,
    ChannelState,
    Deal,
    Entry,
    Judgment,
    Line,
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
} from "./Deals.sol";
import {Answer, Challenge, Leaf, LeafProof, Opening, Order} from "./Tasks.sol";

/// @title Paid calls without a task each
/// @notice A client opens a channel with an operator, and pays calls by vouchers that it signs; the operator answers each
/// call with a signed receipt. The chain sees a batch of them: one commit for all channels of a pool. Behind each call stand
/// the stake, the draw, the verifiers, the game and the referee that stand behind a task.
///
/// P is the offer's `maxPrice`, n its `verifiers`; v, s, K, W, B are `Shares`' fee, stake and collateral and `Terms`'
/// reward and bond of P. An offer comes with every message of its batches: the contract stores what its hash does not say.
/// Batch `number` of a pool is keccak256(abi.encode(pool, number)). Leaf i of a channel is sha256(0x0d, channel, i as 8
/// bytes, order, sha256(outputs root)); all leaves of a channel's life stand in one tree. A line is sha256(0x0e, channel,
/// root, first, count, offset as 8 bytes each, amount as 16); a batch's root is the root of the tree over its lines.
///
/// The order of call i of a channel has the channel as its `operators` and i as the low 64 bits of its `nonce`: it has one
/// place anywhere. Its hash, `taskOf`, names the disputes about it.
interface IChannels is IMarket {
    /// @notice The pool is there: channels can be dealt.
    event Offered(bytes32 indexed pool, address indexed operator, Offer offer);
    /// @notice Stake and collateral of batch `number` are locked; it is committed until `commitBy`, or lapses.
    event Begun(bytes32 indexed pool, uint32 number, bytes32 indexed batch, uint256 commitBy, uint256 lockEnd);
    /// @notice The channel's deposit is here.
    event Opened(bytes32 indexed channel, bytes32 indexed pool, address indexed client, Deal deal, uint256 deposit);
    /// @notice `amount` went from the balance of `payer` to the channel's deposit.
    event Funded(bytes32 indexed channel, address indexed payer, uint256 amount);
    /// @notice The channel stands in no batch after number `last`.
    event Left(bytes32 indexed channel, uint32 last);
    /// @notice Both agreed that `count` calls cost `amount` in all: the rest is paid, `refund` went back to the client.
    event Concluded(bytes32 indexed channel, uint64 count, uint256 amount, uint256 refund);
    /// @notice What was left of the deposit went to the client's balance.
    event Ended(bytes32 indexed channel, uint256 refund);
    /// @notice A channel's part of a batch that is committed in the same transaction; `position` counts lines from zero.
    event Lined(bytes32 indexed batch, uint32 position, Line line);
    /// @notice The operator committed to `leaves` calls in `lines` lines under `root`; they cost `amount`.
    event Committed(bytes32 indexed batch, bytes32 root, uint256 lines, uint256 leaves, uint256 amount);
    /// @notice A drawn seat's operator answered for its share; its bond is held.
    event Answered(bytes32 indexed batch, uint256 index, address indexed operator, bytes32 commitment);
    /// @notice The operator's roots of the shares.
    event RootsRevealed(bytes32 indexed batch, bytes32[] roots);
    /// @notice What answer `slot - 1` had said. If it differs, the operator justifies the share.
    event Revealed(bytes32 indexed batch, uint256 slot, bytes32 root, bool agrees);
    /// @notice Leaves of one part of a demanded share, all of which are right under the root that the operator revealed.
    event Justified(bytes32 indexed batch, uint256 share, uint256 part, CallProof[] calls);
    /// @notice A game is open about a call, by a challenger with its own bond, or (`slot` above zero) with an answer's.
    event Challenged(
        bytes32 indexed batch,
        uint256 indexed gameId,
        address indexed challenger,
        uint256 bond,
        uint256 slot,
        Order order,
        bytes32 outputsRoot
    );
    /// @notice A game ended while its batch was Committed: the challenger lost its bond, or the operator is convicted.
    event GameEnded(bytes32 indexed batch, uint256 indexed gameId, address indexed challenger, bool executorLost);
    /// @notice Somebody wants to see a call of the batch and leaves of its inputs, and prepaid for it.
    event Demanded(bytes32 indexed batch, uint64 number, address indexed by, Leaf[] leaves, uint256 showBy);
    /// @notice A demanded call, all that its order binds to variables, and its way to the root of its line.
    event Shown(bytes32 indexed batch, uint64 number, Order order, bytes variables, CallProof call);
    /// @notice Leaf `leaf` of the demand of a call; empty `data`: the inputs have no such leaf.
    event LeafShown(bytes32 indexed batch, uint64 number, uint256 leaf, bytes data);
    /// @notice What was prepaid for a demand that a conviction made idle is back.
    event DemandReturned(bytes32 indexed batch, uint64 number, address indexed by, uint256 amount);
    /// @notice The operator lost its collateral; `winner` got W. What all lines cost goes back to their clients.
    event Convicted(bytes32 indexed batch, Breach breach, address indexed winner);
    /// @notice `paid`, the collateral included, went to the operator's balance; `returned` is for the clients, see `refund`.
    event Closed(bytes32 indexed batch, BatchState state, uint256 paid, uint256 returned);
    /// @notice What answer `slot - 1` got, its bond included.
    event Settled(bytes32 indexed batch, uint256 slot, address indexed account, uint256 amount);
    /// @notice What a channel got back of a line's amount.
    event Refunded(bytes32 indexed batch, bytes32 indexed channel, address indexed account, uint256 amount);
    /// @notice The bond of a challenger whose game a conviction made idle, or half of it.
    event BondReturned(bytes32 indexed batch, uint256 indexed gameId, address indexed challenger, uint256 amount);
    /// @notice `shares` of the operator's stake are slashed; `caller` brought it about.
    event Slashed(bytes32 indexed batch, uint256 slashId, uint256 shares, address indexed caller);

    error AlreadyOffered(bytes32 pool);
    error UnknownPool(bytes32 pool);
    error PoolOver(bytes32 pool);
    error WrongPrice(uint256 maxPrice, uint256 checkPrice, uint256 limit);
    error WrongRisk(uint256 riskEach, uint256 riskAll, uint256 limit);
    error WrongMost(uint256 most, uint256 limit);
    error WrongTail(uint256 tail, uint256 limit);
    error WrongEpoch(uint32 epoch);
    error NoPrograms();
    error BatchesUncommitted(bytes32 pool, uint32 begun, uint32 next);
    error WrongNumber(bytes32 pool, uint32 number, uint32 next);
    error NoLiveBatch(bytes32 pool);
    error WrongBatchState(bytes32 batch, BatchState expected, BatchState actual);
    error WrongPool(bytes32 pool, bytes32 actual);
    error RiskExceeded(bytes32 pool, uint256 reserved, uint256 added, uint256 limit);
    error WrongSigner(bytes32 digest, address expected);
    error AlreadyOpen(bytes32 channel);
    error WrongChannelState(bytes32 channel, ChannelState expected, ChannelState actual);
    error ChannelLeft(bytes32 channel, uint32 last);
    error AlreadyLined(bytes32 channel, uint32 number);
    error WrongCount(bytes32 channel, uint64 count, uint64 acked, uint64 committed, uint256 tail);
    error WrongAmount(bytes32 channel, uint256 amount, uint256 paid, uint256 limit);
    error WrongFrontier(bytes32 channel, bytes32 root, bytes32 actual);
    error TooManyCalls(uint256 leaves, uint256 limit);
    error WrongBatchAmount(bytes32 batch, uint256 amount, uint256 least, uint256 most);
    error WrongLine(bytes32 batch, bytes32 root, bytes32 actual);
    error WrongCall(bytes32 channel, uint64 index);
    error WrongPlace(bytes32 channel, uint64 index);
    error NothingToCheck(bytes32 batch);
    error WrongRoots(bytes32 batch, uint256 count);
    error AlreadyRevealed(bytes32 batch);
    error NotDiffered(bytes32 batch, uint256 slot);
    error NoShareDemand(bytes32 batch, uint256 share);
    error NotJustified(bytes32 batch, uint256 share);
    error WrongShare(bytes32 batch, uint256 share, uint256 part);
    error AlreadyDemanded(bytes32 batch, uint64 number);
    error WrongVariables(bytes32 root);
    error NoContradiction(bytes32 channel, uint64 index);
    error NoOmission(bytes32 channel, uint64 index, uint64 count);
    error NotOutside(bytes32 program);
    error DemandsOpen(bytes32 batch, uint256 count);
    error AlreadyRefunded(bytes32 batch, uint32 position);
    error NotOver(bytes32 channel, uint32 last);

    // ---- Pools and batches ----

    /// @notice Makes an offer a pool, by the operator or its signer in the service manager, once.
    function offer(Offer calldata offer_) external;

    /// @notice Begins the next batch of a pool, by the operator's signer in the service manager, while at most one other is
    /// uncommitted: locks s and holds K until the end of everything that can happen to the batch. It is committed within
    /// `epoch` blocks, or lapses.
    function begin(Offer calldata offer_) external;

    /// @notice Begun → Committed, by the operator, its signer or the offer's, until `commitBy`; batches of a pool in order.
    /// Each channel stands in a batch at most once, with more calls than before, and pays what its voucher says: per
    /// call at most P, in the batch at most `most` of its deal. What all lines pay is at most M, and at least φ · checkPrice for
    /// each call that will be checked. Calls are at most n · SIZE / α.
    function commit(Offer calldata offer_, uint32 number, Sheet[] calldata sheets) external;

    // ---- Channels ----

    /// @notice Opens a channel with a deposit, by the client, until `openBy`, while a batch of the pool is begun. What its
    /// balance lacks is taken from its tokens. A fee of `gChunk` goes to the operator: a channel ties up its stake.
    /// @param signature of the deal, by the offer's signer
    function open(Offer calldata offer_, Deal calldata deal, bytes calldata signature, uint256 amount) external;

    /// @notice Adds to the deposit of a channel, by anybody.
    function fund(bytes32 channel, uint256 amount) external;

    /// @notice Fixes the newest batch of the pool as the last one that the channel stands in, by the client or the operator.
    function leave(Offer calldata offer_, Deal calldata deal) external;

    /// @notice Pays a last voucher at once, and gives the rest of the deposit back; by anybody with the signatures of the
    /// payer and of the offer's signer. No conviction pays the channel anything after it.
    function conclude(
        Offer calldata offer_,
        Deal calldata deal,
        Voucher calldata voucher,
        bytes calldata payers,
        bytes calldata signers
    ) external;

    /// @notice Gives back what is left of the deposit of a channel that was left, by anybody, once its last batch is
    /// committed, or `challenge` blocks after it lapsed; at once where the pool is over.
    function end(Offer calldata offer_, Deal calldata deal) external;

    // ---- Checks ----

    /// @notice Hidden answer of a verifier, by the signer of `operator`: the batch is Committed, its seed known, until
    /// checkBy = seed block + exec + check. Index 16 g + c is the c-th candidate of share g; see `ITaskMarket.answer`.
    /// @param commitment keccak256(abi.encode(chainId, channels, batch, operator, index + 1, root of the share, salt))
    function answer(address operator, Offer calldata offer_, uint32 number, uint256 index, bytes32 commitment) external;

    /// @notice The root of each share, by the operator, its signer or the offer's; after checkBy, until revealBy = seed
    /// block + max(exec + check, record) + reveal. It need not: then every answer agrees.
    /// A share's root is that of the tree over the outputs roots of its calls, in the order in which they are drawn.
    function revealRoots(Offer calldata offer_, uint32 number, bytes32[] calldata roots) external;

    /// @notice Opens an answer, by anybody, from the operator's reveal on (or, if there is none, from the end of its time
    /// on), for `reveal` blocks. One that differs demands that the operator justifies the share.
    /// @param roots as revealed; empty if they are not
    function reveal(Offer calldata offer_, uint32 number, bytes32[] calldata roots, Opening calldata opening) external;

    /// @notice Shows a part of a share that a verifier has another root of, by anybody: its calls lead to the batch's
    /// root, and their outputs roots to the share's. Verifiers that differ have `reveal` blocks after the last part to
    /// challenge a call with the bond of their answer.
    function justify(Offer calldata offer_, uint32 number, bytes32[] calldata roots, Part calldata part) external;

    // ---- Disputes ----

    /// @notice Claims that the result of a committed call is wrong: opens a game between the operator and `challenger`, by the
    /// challenger or its signer, drawn or not, until disputeBy. With `slot` above zero the bond is that of the
    /// challenger's answer, which differed from a share that is justified. Crowds are as for tasks, for each batch.
    function challenge(address challenger, Offer calldata offer_, uint32 number, Place calldata place, uint8 slot)
        external
        returns (uint256 gameId);

    /// @notice Demands to see call `index` of the batch (number x, counted over its lines) and leaves of its inputs (of its
    /// states, where a leaf says so), by anybody, while the batch is Committed, until its window ends. Prepays `gChunk` for the call and for each leaf: the
    /// operator gets it when it shows them.
    function demand(Offer calldata offer_, uint32 number, uint64 index, Leaf[] calldata leaves) external;

    /// @notice Shows a demanded call, its variables and leaves of its inputs, by anybody, until `exec + clock` blocks after
    /// the demand. Events carry all that a challenge of the call takes.
    /// @param variables that the order binds, sorted by name: of each the length of its name, the name, 4 bytes of its value
    function show(
        Offer calldata offer_,
        uint32 number,
        Place calldata place,
        bytes calldata variables,
        Leaf[] calldata leaves,
        LeafProof[] calldata proofs
    ) external;

    /// @notice Convicts an operator that did not show what was demanded in time, by anybody, for whoever demanded it. Where
    /// the batch is convicted already, what was prepaid goes back.
    function denounce(Offer calldata offer_, uint32 number, uint64 index, Leaf[] calldata leaves) external;

    /// @notice Convicts an operator that did not justify a share in time, by anybody, for the verifier that differed first.
    function denounceShare(Offer calldata offer_, uint32 number, uint256 share) external;

    /// @notice Convicts for a call whose order the offer does not allow, by anybody, until disputeBy: it does not name its own
    /// place; its program is not among the offer's (`entries` are the two neighbours between which it would stand, or the
    /// first or last one, of `count`); or it repeats the program (the only entry) more often.
    function outside(Offer calldata offer_, uint32 number, Place calldata place, Entry[] calldata entries, uint32 count)
        external;

    /// @notice Convicts batch `receipt.number` for two receipts of one call with different results, by anybody, for the
    /// client; until the batch is closed.
    function contradict(
        Offer calldata offer_,
        Deal calldata deal,
        CallReceipt calldata receipt,
        bytes calldata signature,
        CallReceipt calldata other,
        bytes calldata otherSignature
    ) external;

    /// @notice Convicts batch `receipt.number` for a receipt of another result than was committed for the call in batch
    /// `number`, by anybody, for the client; until the batch of the receipt is closed.
    /// @param leaf that stands at the receipt's index under the line, with its path
    function contradictLeaf(
        Offer calldata offer_,
        Deal calldata deal,
        CallReceipt calldata receipt,
        bytes calldata signature,
        uint32 number,
        LineProof calldata line,
        bytes32 leaf,
        bytes32[] calldata path
    ) external;

    /// @notice Convicts batch `receipt.number` for a receipt of a call that is not committed, by anybody, for the client: from the
    /// batch's commit until its close, or, where it lapsed while its pool was not over, for `challenge` blocks.
    function accuse(Offer calldata offer_, Deal calldata deal, CallReceipt calldata receipt, bytes calldata signature)
        external;

    // ---- Ends ----

    /// @notice Ends a batch, by anybody. Begun → Lapsed, `challenge` blocks after commitBy. Committed without games and
    /// demands: without calls `challenge` blocks after the commit → Final; without a seed after its record's time →
    /// Failed; after disputeBy → Final. Final: the operator gets amounts and collateral but for v of each share. What calls
    /// paid to a share that nobody checked goes back to clients, in proportion; what the operator put in is burned, so that
    /// nobody gains where nobody checks. Failed: all amounts go back.
    function close(Offer calldata offer_, uint32 number) external;

    /// @notice Pays what answers get, by anybody, each once. Final: bond and, for the lowest of its share that agrees, v; the
    /// bond of one that differed and won no game goes to the operator, W of it, and is burned; so is one that was not
    /// opened. Convicted: the bond.
    function settle(Offer calldata offer_, uint32 number, uint256[] calldata indices) external;

    /// @notice Gives back to their clients what they get of the amounts of lines, by anybody, once for each: all of it of a
    /// batch that failed or was convicted.
    function refund(Offer calldata offer_, uint32 number, LineProof[] calldata lines) external;

    /// @notice Gives back the bond of a challenge whose game a conviction made idle; by anybody.
    function refundBond(Offer calldata offer_, uint32 number, bytes32 task, uint256 gameId) external;

    /// @notice Slashes the operator of a Convicted batch, by anybody, until its lock ends. Half is burned,
    /// half goes to the verifiers that differed, or to the winner unless it won a crowded game by the clock.
    function slash(Offer calldata offer_, uint32 number) external;

    // ---- Views ----

    /// @notice The offer's name: its EIP-712 hash.
    function poolOf(Offer calldata offer_) external view returns (bytes32);

    /// @notice The channel that the deal names: its EIP-712 hash.
    function channelOf(Deal calldata deal) external view returns (bytes32);

    /// @notice The batch's name: keccak256(abi.encode(pool, number)).
    function batchOf(bytes32 pool, uint32 number) external pure returns (bytes32);

    /// @notice What the payer signs.
    function hashOf(Voucher calldata voucher) external view returns (bytes32);

    /// @notice What the offer's signer signs for a call.
    function hashOf(CallReceipt calldata receipt) external view returns (bytes32);

    /// @notice What a pool has come to; `offered` is false where there is none.
    function poolAt(bytes32 pool) external view returns (Pool memory);

    /// @notice Where a channel stands; None where it was never opened.
    function channelAt(bytes32 channel) external view returns (Channel memory);

    /// @notice Where a batch stands; None where it was never begun.
    function batchAt(bytes32 batch) external view returns (Batch memory);

    /// @notice What the operator committed to; zeros before.
    function rootsAt(bytes32 batch) external view returns (Roots memory);

    /// @notice What clients get back of a batch that is over.
    function paybackAt(bytes32 batch) external view returns (Payback memory);

    /// @notice The answer at an index, 16 g + c for candidate c of share g.
    function answerAt(bytes32 batch, uint256 index) external view returns (Answer memory);

    /// @notice The bond at stake in a game about a call, which its order names.
    function challengeAt(bytes32 task, uint256 gameId) external view returns (Challenge memory);

    /// @notice The demand to justify a share; `since` is zero where there is none.
    function shareDemandAt(bytes32 batch, uint256 share) external view returns (ShareDemand memory);

    /// @notice Why a batch is convicted; Breach.None where it is not.
    function judgmentAt(bytes32 batch) external view returns (Judgment memory);

    /// @notice The last blocks of commit, answers, the operator's reveal, the answers' reveals, and disputes; zero for what is
    /// not fixed yet.
    function windowsOf(Offer calldata offer_, uint32 number)
        external
        view
        returns (uint256 commitBy, uint256 checkBy, uint256 revealBy, uint256 answersBy, uint256 disputeBy);

    /// @notice The block whose random value decides about the batch; zero before the commit.
    function seedBlockOf(bytes32 batch) external view returns (uint256);

    /// @notice The market for tasks, with which this one shares parameters, seeds, operators and stake.
    function market() external view returns (ITaskMarket);
}
