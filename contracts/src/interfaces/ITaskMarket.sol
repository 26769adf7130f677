// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {IMarket} from "./IMarket.sol";
import {
    Admission,
    Answer,
    Cause,
    Challenge,
    Conviction,
    Leaf,
    LeafProof,
    Opening,
    Order,
    Parameters,
    Stage,
    State,
    Task
} from "./Tasks.sol";

/// @title Market for tasks
/// @notice Holds all money: prepaid balances, escrows, collateral, bonds. The whole life of a task runs here. How results
/// are judged is the game's business, stake is the service manager's.
///
/// P is the price, v the order's `checkFee`, n its `verifiers`; W, K, h, B, s are `Terms`' reward, collateral, penalty,
/// bond and stake. An order travels with every message that needs its terms; the market stores its hash's state only.
/// Everything that an indexer needs is in the events: `Posted` carries the order.
///
/// Messages that end in `Many` do the same for several tasks in one transaction. They skip what somebody else or time has
/// moved on, or holds up; a mistake of the caller reverts the whole of it.
interface ITaskMarket is IMarket {
    /// @notice The order's escrow left the client's balance.
    event Posted(bytes32 indexed task, address indexed client, Order order);
    /// @notice The escrow is back in the client's balance.
    event Cancelled(bytes32 indexed task);
    /// @notice The escrow is back in the client's balance.
    event Expired(bytes32 indexed task);
    /// @notice `mix`, the random value of block `seedBlock`, is known: it decides for all tasks of that seed block.
    event Seeded(uint256 indexed seedBlock, bytes32 mix);
    /// @notice A drawn seat's operator answered; its bond is held.
    event Answered(bytes32 indexed task, uint256 index, address indexed operator, bytes32 commitment);
    /// @notice `caller` opened a hidden commitment before its time and got `amount`; as much was burned.
    event Exposed(bytes32 indexed task, uint256 slot, address indexed caller, uint256 amount);
    /// @notice A game is open: by a challenger with its own bond, or by a verifier whose root differs, with its answer's.
    event Challenged(bytes32 indexed task, uint256 indexed gameId, address indexed challenger, uint256 bond);
    /// @notice A game ended while its task was Revealed: the challenger lost its bond, or the executor is convicted.
    event GameEnded(bytes32 indexed task, uint256 indexed gameId, address indexed challenger, bool executorLost);
    /// @notice The client wants to see these leaves, and prepaid for them; the executor shows them until `by`.
    event Demanded(bytes32 indexed task, Leaf[] leaves, uint256 by);
    /// @notice Leaf `number` of the demand; empty `data`: the outputs have no such leaf.
    event Shown(bytes32 indexed task, uint256 number, bytes data);
    /// @notice `refund`, the whole escrow and what was prepaid for a demand, went to the client's balance; the executor
    /// lost its collateral. `winner` won the deciding game and got W; zero otherwise.
    event Convicted(bytes32 indexed task, Cause cause, address indexed winner, uint256 refund);
    /// @notice `shares` of the executor's stake are slashed; `caller` brought it about.
    event Slashed(bytes32 indexed task, uint256 slashId, uint256 shares, address indexed caller);
    /// @notice What an answer got, its bond included, or (slot 0) what nobody had won yet and the caller of `slash` got.
    event Settled(bytes32 indexed task, uint256 slot, address indexed account, uint256 amount);
    /// @notice The bond of a challenger whose game a conviction made idle, or half of it.
    event BondReturned(bytes32 indexed task, uint256 indexed gameId, address indexed challenger, uint256 amount);
    /// @notice `collateral` left the executor's balance and is held for the task; `price` is fixed.
    event Accepted(bytes32 indexed task, address indexed executor, uint256 price, uint256 collateral);
    event Committed(bytes32 indexed task, bytes32 commitment);
    /// @notice Slot 0: the executor's result is here; slot i+1: what answer i had said.
    event Revealed(bytes32 indexed task, uint256 slot, bytes32 outputsRoot);
    /// @notice `refund`, the whole escrow, went to the client's balance, the collateral less `penalty` to the
    /// executor's, and `penalty` to the balance of `BURN`.
    event Failed(bytes32 indexed task, uint256 refund, uint256 penalty);
    /// @notice The task is Final: `paid` and the collateral went to the executor's balance, `refund` to the client's.
    event Closed(bytes32 indexed task, uint256 paid, uint256 refund);

    error WrongCheckFee(uint256 checkFee, uint256 floor, uint256 limit);
    error WrongValueAtRisk(uint256 valueAtRisk, uint256 limit);
    error WrongPrices(uint256 minPrice, uint256 maxPrice, uint256 limit);
    error AcceptanceOver(uint64 acceptBy, uint256 blockNumber);
    error AlreadyPosted(bytes32 task);
    error WrongSignature(address client, bytes32 task);
    error WrongState(bytes32 task, State expected, State actual);
    error NotTheExecutor(address operator, address executor);
    error NotAdmitted(address operator, bytes32 operators);
    error NotASeedBlock(uint256 blockNumber);
    error WrongHeader(uint256 blockNumber, bytes32 expected, bytes32 actual);
    error NotDrawn(bytes32 task);
    error NotTheServiceManager(address caller);
    error AlreadyDemanded(bytes32 task);
    error AnswersOver(bytes32 task);

    error ZeroMaxExec();
    error ZeroGrid();
    error ZeroReveal();
    error ZeroRecord();
    error ZeroClock();
    error ZeroRepeat();
    error ZeroLag();
    error ZeroOtherSeats();
    error WrongCheckFloor(uint256 checkFloor, uint256 sybils);
    error StakeMarginBelowOne(uint256 stakeMargin);
    error RecordBeyondHistory(uint256 record, uint256 history);
    error ChallengeShorterThanReveal(uint256 challenge, uint256 reveal);
    error EtaAboveOne(uint256 eta);

    // ---- Orders ----

    /// @notice Makes the order a task in Open and takes its escrow, `maxPrice + verifiers * checkFee`, from the client's
    /// balance. The client itself may post without signature, and what its balance lacks is taken from its tokens;
    /// anybody else brings the client's signature of the task's uuid (65 bytes, or whatever the client's contract accepts
    /// by ERC-1271).
    /// @dev A signed order can be posted by anybody until `acceptBy`, once.
    function post(Order calldata order, bytes calldata signature) external;

    /// @notice `post` for many; skips orders that are posted already.
    function postMany(Order[] calldata orders, bytes[] calldata signatures) external;

    /// @notice Open → Cancelled, by the client: the escrow goes back to its balance.
    function cancel(Order calldata order) external;

    /// @notice Open → Expired, by anybody after `acceptBy`: the escrow goes back to the client's balance.
    function expire(Order calldata order) external;

    // ---- Execution ----

    /// @notice Open → Accepted, by the signer of `operator`, a member that the order admits, until `acceptBy`, while
    /// others have enough seats. Fixes the price at this block's place on the ramp, moves the collateral K from the
    /// operator's balance, and locks the stake s until the end of everything that can happen to the task.
    function accept(address operator, Order calldata order, Admission calldata admission) external;

    /// @notice `accept` for many; skips tasks that are not Open, or no more to be accepted.
    function acceptMany(address operator, Order[] calldata orders, Admission[] calldata admissions) external;

    /// @notice Accepted → Committed, by the signer of the executor `operator`, until `exec` blocks after the acceptance.
    /// Fixes the seed block and the seats that verifiers are drawn from.
    /// @param commitment keccak256(abi.encode(chainId, market, task, operator, slot, outputsRoot, salt)) with slot 0
    function commit(address operator, bytes32 task, bytes32 commitment) external;

    /// @notice `commit` for many; skips tasks that are past Accepted, or past their time.
    function commitMany(address operator, bytes32[] calldata tasks, bytes32[] calldata commitments) external;

    // ---- Checks ----

    /// @notice Records the random value of a seed block, by anybody, in the `record` blocks after it. A second record is
    /// a no-op.
    /// @param header the block's header in RLP, as it was hashed
    function seed(uint256 blockNumber, bytes calldata header) external;

    /// @notice Hidden answer of a verifier, by the signer of `operator`: the task is Committed and drawn, its seed known,
    /// until checkBy = seed block + exec + check. `operator` is not the executor, holds the seat drawn for `index`
    /// (below 16 * verifiers) since before the commit, and has not answered. Holds its bond B under its cap.
    /// @param commitment as the executor's, with the verifier's own operator and slot `index + 1`
    function answer(address operator, Order calldata order, uint256 index, bytes32 commitment) external;

    /// @notice Opens somebody's commitment as long as the executor may not reveal, by anybody: the executor loses W of its
    /// collateral, a verifier its bond and its answer; half goes to the caller, half is burned. Once per slot.
    function expose(Order calldata order, Opening calldata opening) external;

    /// @notice Opens a commitment, by anybody.
    /// Slot 0: Committed → Revealed, until `deadlineOf(task)`; from the seed on, and after checkBy if the task is drawn,
    /// or before it once somebody has answered and nobody is left that may: each of the 16 * verifiers drawn seats is
    /// nobody's, no older than the commit, the executor's, or its operator has answered.
    /// Slot i+1: from the executor's reveal on (or, if there is none, from the end of its time on), until
    /// `answersBy(task)`. An equal root agrees; a different root opens a game with the answer's bond, unless the
    /// executor is convicted already (an executor that did not reveal is convicted here).
    function reveal(Order calldata order, Opening calldata opening) external;

    /// @notice `reveal` for many; skips what is opened already, and what comes too late.
    function revealMany(Order[] calldata orders, Opening[] calldata openings) external;

    // ---- Disputes ----

    /// @notice Claims that a revealed result is wrong, until `challengeBy`: opens a game between the executor and
    /// `challenger`. By the challenger (what its balance lacks of the bond B is taken from its tokens) or by its signer
    /// (under its cap). Any number, in parallel. While four games are open against the task, a further one is crowded: if
    /// the executor is convicted by its clock in a crowded game, half of the slash goes to nobody, and other crowded games
    /// get back half of their bonds.
    function challenge(address challenger, Order calldata order) external returns (uint256 gameId);

    /// @notice The client wants to see up to 32 leaves of the revealed outputs, until `challengeBy`, once. Prepays
    /// `gChunk` for each from its balance: the executor gets it if the task becomes Final, otherwise it comes back.
    function demand(Order calldata order, Leaf[] calldata leaves) external;

    /// @notice Shows all demanded leaves, by anybody, until `exec + clock` blocks after the demand.
    /// @param leaves as demanded
    function show(Order calldata order, Leaf[] calldata leaves, LeafProof[] calldata proofs) external;

    // ---- Ends ----

    /// @notice Ends a task, by anybody after `deadlineOf(task)`. Accepted, Committed without a seed, or undrawn and not
    /// revealed → Failed: the escrow goes back to the client, the penalty h is burned, the rest of the collateral goes
    /// back. Committed and drawn → Convicted. Revealed with an unanswered demand → Convicted. Revealed without an open
    /// game → Final: the executor gets price, collateral and its share of the bonds it won; the client the rest of the
    /// escrow, less the fees of verifiers that agreed.
    function close(Order calldata order) external;

    /// @notice `close` for many; skips tasks that are not Accepted, Committed or Revealed, whose time is not over, or
    /// against which a game is open.
    function closeMany(Order[] calldata orders) external;

    /// @notice Pays what answer `index` gets of a Final task, or, after `answersBy`, of a Convicted one; by anybody, once.
    /// Final: bond and, for the n lowest that agree, v. Convicted: bond for whoever agreed; bond (unless lost), v for the
    /// n lowest, and a part of W if the executor did not reveal, for whoever differed. Not revealed: the bond is burned.
    function settle(Order calldata order, uint256 index) external;

    /// @notice Gives the bond of a challenge back whose game was open when its task became Convicted; by anybody. Half of it
    /// is burned if the game was crowded and the conviction came by the clock of a crowded game.
    function refund(Order calldata order, uint256 gameId) external;

    /// @notice Slashes the executor of a Convicted task after `answersBy`, by anybody. Half is burned, half goes to the
    /// verifiers that differed, or to the winner of the deciding game unless it won a crowded one by the clock. W goes to
    /// the caller if nobody else has earned it. Whatever stops EigenLayer's core reverts: try again, until the lock ends;
    /// after it nothing is slashed, and W is burned.
    function slash(Order calldata order) external;

    // ---- Seats ----

    /// @notice Holds the deposits of `count` seats, G_CHK each, out of the operator's balance. Only by the service manager.
    /// @param cap most that may be held of the operator's balance in all
    function holdSeats(address operator, uint256 count, uint256 cap) external;

    /// @notice Ends the hold of `count` seats' deposits, which go to the balance of `receiver`. Only by the service manager.
    function releaseSeats(address operator, uint256 count, address receiver) external;

    // ---- Views ----

    /// @notice The last block of what the task waits for: commit (commitBy) in Accepted; the seed's record, and after it
    /// the reveal (revealBy) in Committed; an unanswered demand, else challenges (challengeBy) in Revealed; zero
    /// otherwise. `close` comes after it.
    function deadlineOf(bytes32 task) external view returns (uint256);

    /// @notice How many games against the task's result are open and can still convict its executor.
    function openGames(bytes32 task) external view returns (uint256 count);

    /// @notice What the market stores of the task; all zero if it was never posted.
    function taskAt(bytes32 task) external view returns (Task memory);

    /// @notice The last block in which verifiers open their answers, from the commit on: `reveal` blocks after the
    /// executor's reveal, or after revealBy while there is none.
    function answersBy(bytes32 task) external view returns (uint256);

    /// @notice The block whose random value decides about the task; zero before the commit.
    function seedBlockOf(bytes32 task) external view returns (uint256);

    /// @notice The recorded random value of a seed block; zero: not recorded.
    function seedOf(uint256 blockNumber) external view returns (bytes32 mix);

    /// @notice Whether the task is checked: keccak256(abi.encode(mix, task, "draw")) mod WAD < checkRate.
    /// @return known whether the seed is recorded
    function isDrawn(Order calldata order) external view returns (bool known, bool drawn);

    /// @notice The seat drawn for an answer index: keccak256(abi.encode(mix, task, index)) mod seats at the commit.
    function seatOf(bytes32 task, uint256 index) external view returns (uint256 seat);

    /// @notice The answer at an index below 16n; all zero if there is none.
    function answerOf(bytes32 task, uint256 index) external view returns (Answer memory);

    /// @notice The challenge that opened a game; all zero if there is none.
    function gameOf(bytes32 task, uint256 gameId) external view returns (Challenge memory);

    /// @notice Why a Convicted task is; all zero for others.
    function convictionOf(bytes32 task) external view returns (Conviction memory);
}
