// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {Order} from "./Tasks.sol";

// What clients, operators and channels say to each other about paid calls.

/// @notice What an operator offers on chain: the terms of all channels of one pool. Its EIP-712 hash is the pool.
/// Prices and values are wei of the market's token below 2^96, times are blocks, rates are WAD (10^18 is one).
struct Offer {
    address operator; // executes the calls; its stake and its collateral answer for them
    address signer; // signs deals and receipts
    uint256 nonce; // makes otherwise equal offers different pools
    uint256 maxPrice; // P: the most that one call costs
    uint256 checkPrice; // by which a verifier is paid for each leaf that it checks
    uint256 most; // M: the most that the calls of a batch cost
    uint256 riskEach; // the most that a deal puts at risk beyond the prices
    uint256 riskAll; // the most that all open channels put at risk
    uint64 checkRate; // α: probability with which each call is checked
    uint8 verifiers; // n: into how many shares the checked calls of a batch are divided
    uint32 exec; // blocks that the execution of one share may take
    uint32 epoch; // blocks from the begin of a batch to its commit at most
    uint8 tail; // calls that a voucher may pay without acknowledging them
    bytes32 programs; // root of the programs that are executed, with their most repeats
}

/// @notice The terms of one channel, signed by the offer's signer (EIP-712, domain "EigenTensor" version "1"). Its hash is
/// the channel.
struct Deal {
    bytes32 pool;
    address client; // opens the channel, and gets back what is not spent
    address payer; // signs vouchers
    uint256 nonce;
    uint256 most; // the most that the channel's calls cost in one batch
    uint256 valueAtRisk; // X: what wrong results could gain in one batch beyond their prices
    uint64 openBy; // last block in which it is opened
}

/// @notice What the payer owes, signed by it: `amount` in all for the first `count` calls. It acknowledges the results of
/// the first `acked` of them: the tree over their leaves has this root.
struct Voucher {
    bytes32 channel;
    uint64 count;
    uint256 amount;
    uint64 acked;
    bytes32 root;
}

/// @notice The result of one call, signed by the offer's signer: batch `number` of the pool owes it.
struct CallReceipt {
    bytes32 channel;
    uint64 index;
    bytes32 order; // the order's hash, which is its task's uuid in this market
    bytes32 outputsRoot;
    uint32 number;
}

/// @notice A call that a voucher pays without acknowledging it.
struct Tail {
    bytes32 order;
    bytes32 result; // sha256 of the outputs root
}

/// @notice What a commit brings of one channel: the voucher with its signature; where calls are unacknowledged, also the
/// frontier of the acknowledged ones, and these calls. Nodes of a frontier stand in the order of their leaves.
struct Sheet {
    Deal deal;
    uint64 count;
    uint256 amount;
    uint64 acked;
    bytes32 root;
    bytes signature;
    bytes32[] frontier;
    Tail[] tail;
}

/// @notice A channel in a batch: calls `first` to `first + count` of it are numbers `offset` to `offset + count` of the batch.
struct Line {
    bytes32 channel;
    bytes32 root; // over all leaves of the channel so far
    uint64 first;
    uint64 count;
    uint64 offset;
    uint128 amount; // below 2^96
}

/// @notice A line's way to the root of its batch.
struct LineProof {
    Line line;
    uint32 position; // among the lines
    bytes32[] path;
}

/// @notice A leaf of a channel, under its line.
struct CallProof {
    uint64 index; // within the channel
    bytes32 order;
    bytes32 outputsRoot;
    bytes32[] path;
}

/// @notice A call of a batch, with all that leads to it.
struct Place {
    LineProof line;
    CallProof call;
    Order order;
}

/// @notice A part of a share: its calls in the order in which they are drawn.
struct Part {
    uint256 share;
    uint256 number; // of the part within the share
    LineProof[] lines; // that the calls stand in
    uint32[] at; // the line of each call
    CallProof[] calls;
    bytes32[] path; // from the part to the root of the share
}

/// @notice An entry of an offer's programs, with its way to their root.
struct Entry {
    uint32 position;
    bytes32 program;
    uint32 repeat; // the most
    bytes32[] path;
}

/// @notice What a pool has come to.
struct Pool {
    bool offered;
    bool over; // a batch was convicted before its commit: no batch is begun or committed any more
    uint32 begun; // number of the newest batch
    uint32 next; // number of the oldest batch that can still be committed
    uint128 reserved; // what its open channels put at risk
}

/// @notice Where a batch stands. A batch never leaves Final, Failed, Lapsed and Convicted.
enum BatchState {
    None,
    Begun,
    Committed,
    Final,
    Failed,
    Lapsed,
    Convicted
}

/// @notice What the chain remembers of a batch.
struct Batch {
    BatchState state;
    uint32 begunAt;
    uint32 committedAt;
    uint32 revealedAt; // block in which the operator revealed the roots of the shares; zero: it did not
    uint32 shownUntil; // what was shown late may be disputed until then; zero: nothing was
    uint32 seats; // at the commit: what is drawn from
    uint16 games; // that are open
    uint16 demands; // that are open, those of shares included
    uint32 agreed; // byte g, the lowest first: one more than the lowest candidate of share g that agrees
    uint96 amount; // of all lines
    uint32 leaves; // calls
    uint16 lines;
    uint16 refunded; // lines of which the client has what it gets back
    uint16 won; // bonds that the operator won in games
    uint64 answered; // bit i: answer index i
}

/// @notice What the operator committed to.
struct Roots {
    bytes32 lines; // root over the lines
    bytes32 shares; // keccak256(abi.encode(roots of the shares)) once they are revealed
}

/// @notice What clients get back of a batch that is over.
struct Payback {
    uint96 returned; // of the batch's amount
    uint96 left; // what has not gone yet
}

/// @notice Why a batch is convicted: its operator lost a game; did not show what was demanded; signed a receipt for another
/// result than it signed or committed for the same call; left a call out that it had signed a receipt for; or executed
/// what its offer does not name.
enum Breach {
    None,
    Verdict,
    Demand,
    Contradiction,
    Omission,
    Outside
}

/// @notice Why a batch is convicted.
struct Judgment {
    address winner; // gets W, and half of the slash if no verifier differed
    Breach breach;
    bool slashed; // or too late for it
    bool crowded; // by the operator's clock in a crowded game
}

/// @notice Where a channel stands. Left: its last batch is fixed. Concluded: both signed a last voucher, which is paid.
enum ChannelState {
    None,
    Open,
    Left,
    Concluded,
    Ended
}

/// @notice What the chain remembers of a channel; everything else is in its deal.
struct Channel {
    uint96 deposit; // what is left of it
    uint96 paid; // in all, by vouchers
    uint32 count; // committed calls
    uint32 number; // of the last batch that it stands in
    address client;
    uint32 last; // Left: number of the last batch that it may stand in
    ChannelState state;
}

/// @notice The demand to justify a share of which a verifier has another root.
struct ShareDemand {
    uint32 since; // block of the first verifier that differed; zero: there is none
    uint32 justifiedAt; // block in which all its parts were there
    uint8 slot; // of that verifier's answer
    uint8 parts; // bit q: part q is there
}
