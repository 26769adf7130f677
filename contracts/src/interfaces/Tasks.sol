// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

// What clients, operators, market and game say to each other about tasks.

/// @notice What a client signs (EIP-712, domain "EigenTensor" version "1"). Its hash is the task's uuid.
/// Prices and fees are wei of the market's token, times are blocks, rates are WAD (10^18 is one).
struct Order {
    address client; // pays, and gets back what is not spent
    uint256 nonce; // makes otherwise equal orders different tasks
    uint16 semantics; // version of the meaning of programs
    bytes32 program; // program root
    bytes32 inputs; // bindings roots; zero where there are none
    bytes32 weights;
    bytes32 states;
    bytes32 variables; // root of the bound variables, sorted by name
    uint32 repeat; // how often the program's calls are executed
    uint256 minPrice; // price until `rampStart`
    uint256 maxPrice; // price from `rampStart + rampLength` on
    uint64 rampStart;
    uint64 rampLength;
    uint256 checkFee; // paid to each verifier that is drawn and agrees
    uint64 checkRate; // α: probability of a check
    uint8 verifiers; // n: how many are paid at a check
    uint256 valueAtRisk; // what a wrong result could gain beyond the price
    uint32 exec; // blocks that one execution may take
    uint64 acceptBy; // last block of an acceptance
    bytes32 operators; // root of the admitted operators; zero admits every member
}

/// @notice Where a task stands. A task never leaves Final, Convicted, Cancelled, Expired and Failed.
enum State {
    None,
    Open,
    Accepted,
    Committed,
    Revealed,
    Final,
    Convicted,
    Cancelled,
    Expired,
    Failed
}

/// @notice Why an executor was convicted: it lost a game (by verdict or by its clock), it was drawn and did not reveal,
/// or it did not show leaves that the client had demanded.
enum Cause {
    None,
    Verdict,
    Silence,
    Demand
}

/// @notice What the chain remembers of a task; everything else is in its order. Bit i of a bitmap is answer index i.
struct Task {
    address executor;
    State state;
    uint32 acceptedAt; // block of the acceptance: fixes the price
    uint32 since; // block of the last step from Accepted to Revealed
    uint24 exec; // copied from the order at acceptance
    bytes32 claim; // the executor's commitment until it reveals, its outputs root from then on
    uint32 committedAt; // block of the commit: fixes the seed block; zero before
    uint32 seats; // seats at the end of that block: what is drawn from
    uint64 answered; // indices with an answer
    uint64 agreed; // of these, those that were revealed and equal the executor's root
    uint64 differed; // of these, those that were revealed and do not
}

/// @notice Where an answer, or a challenge, stands. Hidden: not opened. Lost: its bond went in a lost game, or, of a batch,
/// it differed and its bond is back. Exposed: somebody else opened it too early. Paid: nothing is left to be settled or
/// refunded.
enum Stage {
    None,
    Hidden,
    Agreed,
    Differed,
    Lost,
    Exposed,
    Paid
}

/// @notice What a verifier said.
struct Answer {
    address operator;
    Stage stage;
    bytes32 claim; // its commitment while it is hidden, its outputs root from its reveal on
}

/// @notice A bond at stake in a game. Slot 0: the challenger's own; i+1: that of answer i, which `settle` returns.
struct Challenge {
    address challenger;
    uint8 slot;
    bool ended; // the game ended before the task did, or the bond was returned
    bool crowded; // by a challenger's own bond, while as many games were open as an executor has to bear for nothing
}

/// @notice Why a Convicted task is.
struct Conviction {
    address winner; // of the deciding game; zero: nobody
    Cause cause;
    bool divided; // what no verifier will get is burned
    bool slashed; // or too late for it
    bool crowded; // by the executor's clock in a crowded game: that it had too many proves nothing of its result
}

/// @notice What an account has in the market.
struct Account {
    uint128 balance; // can be withdrawn, pays escrows, collateral and bonds
    uint128 collateral; // held: for tasks that the account executes, for its answers and challenges
}

/// @notice Parameters of a market, fixed at deployment. Times are blocks, amounts are wei of the token, rates WAD.
struct Parameters {
    uint24 maxExec; // upper bound of an order's `exec`
    uint32 lag; // blocks between a commit and its seed block at least
    uint32 grid; // seed blocks are multiples of it
    uint32 record; // blocks in which a seed can be recorded
    uint32 check; // blocks for a verifier's answer, beyond one execution
    uint32 reveal; // blocks for a reveal
    uint32 challenge; // blocks for a challenge after the reveal, beyond one execution
    uint32 clock; // blocks of one player's clock in a dispute, beyond one execution
    uint32 margin; // blocks at the end in which a slash can be retried
    uint64 eta; // η: the part of the price that a missed commit costs
    uint96 gDef; // what defending a result costs at most
    uint96 gMiss; // fixed part of the penalty for a missed commit
    uint64 checkFloor; // lowest `checkRate` of an order
    uint64 phi; // φ: the part of the highest price that a verifier is paid at least
    uint64 sybils; // r: the share of the seats that an executor is assumed to control
    uint64 stakeMargin; // how many times the stake makes up for what cheating could gain
    uint96 minStake; // s_min: lowest stake lock
    uint96 gChk; // what answering costs beyond executing
    uint96 gChunk; // prepaid for each leaf that a client demands
    uint32 otherSeats; // seats of others that an acceptance needs
    uint32 confirmations; // blocks on top of a seed block before an executor reveals: advice, not enforced
}

/// @notice Proof that an operator is among those that an order admits: its place in the sorted list.
/// Empty (all zero) where the order admits everybody.
struct Admission {
    uint32 index;
    uint32 count;
    bytes32[] path;
}

/// @notice What opens a commitment. Slot 0 is the executor's, slot i+1 that of answer i.
struct Opening {
    bytes32 task;
    uint256 slot;
    bytes32 outputsRoot;
    bytes32 salt;
}

/// @notice A leaf that a client wants to see: the 1,024 bytes at `index` of a tensor.
struct Leaf {
    bool state; // among the new states; otherwise among the outputs
    uint32 tensor; // its place among these, sorted by name
    uint64 index;
}

/// @notice Shows a demanded leaf under the outputs root, or that there is no such leaf.
/// With `tensor >= count`, `tree` is the root of the tree over the bindings and nothing after it counts. With `index`
/// beyond the tensor's leaves, `data` and `path` do not count.
struct LeafProof {
    bytes32 other; // bindings root of the new states if the leaf is an output's, of the outputs otherwise
    uint32 count; // tensors among which the leaf's tensor stands
    bytes name;
    bytes32[] binding; // path of the binding to the root of the tree over the bindings
    uint8 dtype;
    uint64 elements;
    bytes32 tree; // root of the tree over the tensor's bytes
    bytes data; // 1,024 bytes
    bytes32[] path; // of the leaf in that tree
}
