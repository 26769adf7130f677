// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IDisputeGame} from "./IDisputeGame.sol";
import {IServiceManager} from "./IServiceManager.sol";

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
    uint64 checkRate; // probability of a check
    uint8 verifiers; // drawn at a check
    uint256 valueAtRisk; // what a wrong result could gain beyond the price
    uint32 exec; // blocks that one execution may take
    uint64 acceptBy; // last block of an acceptance
    bytes32 operators; // root of the admitted operators; zero admits every member
}

/// @notice Where a task stands. A task never leaves Final, Convicted, Cancelled, Expired and Failed.
/// No message leads to Convicted before disputes exist.
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

/// @notice What the chain remembers of a task; everything else is in its order.
struct Task {
    address executor;
    State state;
    uint32 acceptedAt; // block of the acceptance: fixes the price
    uint32 since; // block of the last step from Open to Revealed
    uint24 exec; // copied from the order at acceptance
    bytes32 claim; // the executor's commitment in Committed and in what fails from it, its outputs root from Revealed on
}

/// @notice What an account has in the market.
struct Account {
    uint128 balance; // can be withdrawn, pays escrows and collateral
    uint128 collateral; // held for the tasks that the account executes
}

/// @notice Parameters of a market, fixed at deployment. Times are blocks, amounts are wei of the token.
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
    uint64 eta; // WAD: the part of the price that a missed commit costs
    uint96 gDef; // what defending a result costs at most
    uint96 gMiss; // fixed part of the penalty for a missed commit
}

/// @notice Proof that an operator is among those that an order admits: its place in the sorted list.
/// Empty (all zero) where the order admits everybody.
struct Admission {
    uint32 index;
    uint32 count;
    bytes32[] path;
}

/// @notice What opens a commitment. Slot 0 is the executor's.
struct Opening {
    bytes32 task;
    uint256 slot;
    bytes32 outputsRoot;
    bytes32 salt;
}

/// @title Market for tasks
/// @notice Holds all money: prepaid balances, escrows, collateral. Orders are posted, accepted, committed, revealed and
/// closed here. How results are judged is not its business.
///
/// An order travels with every message that needs its terms; the market stores its hash's state only. Everything that an
/// indexer needs is in the events: `Posted` carries the order.
///
/// Messages that end in `Many` do the same for several tasks in one transaction, and skip tasks that somebody else has
/// already moved on; any other fault reverts the whole of it.
///
/// @dev Until checks exist (`game() == address(0)`), `post` takes only orders without them (`checkRate` and `verifiers`
/// zero), no stake is locked, a reveal is allowed from the commit on, and the commit's block stands in for the seed
/// block in `revealBy`. The token must not take fees on transfers, must not change balances by itself, and its supply
/// must stay below 2^128.
interface ITaskMarket {
    /// @notice `amount` was paid in by `payer` for `account`.
    event Deposited(address indexed account, address indexed payer, uint256 amount);
    /// @notice `amount` left the balance of `account` for `to`.
    event Withdrawn(address indexed account, address indexed to, uint256 amount);
    /// @notice The order's escrow left the client's balance.
    event Posted(bytes32 indexed task, address indexed client, Order order);
    /// @notice The escrow is back in the client's balance.
    event Cancelled(bytes32 indexed task);
    /// @notice The escrow is back in the client's balance.
    event Expired(bytes32 indexed task);
    /// @notice `collateral` left the executor's balance and is held for the task; `price` is fixed.
    event Accepted(bytes32 indexed task, address indexed executor, uint256 price, uint256 collateral);
    event Committed(bytes32 indexed task, bytes32 commitment);
    event Revealed(bytes32 indexed task, uint256 slot, bytes32 outputsRoot);
    /// @notice `refund`, the whole escrow, went to the client's balance, the collateral less `penalty` to the
    /// executor's, and `penalty` to the balance of `BURN`.
    event Failed(bytes32 indexed task, uint256 refund, uint256 penalty);
    /// @notice The task is Final: `paid` and the collateral went to the executor's balance, `refund` to the client's.
    event Closed(bytes32 indexed task, uint256 paid, uint256 refund);

    error ChecksNotAvailable(uint64 checkRate, uint8 verifiers);
    error WrongExec(uint32 exec, uint32 maxExec);
    error WrongPrices(uint256 minPrice, uint256 maxPrice, uint256 limit);
    error AcceptanceOver(uint64 acceptBy, uint256 blockNumber);
    error AlreadyPosted(bytes32 task);
    error WrongSignature(address client, bytes32 task);
    error LengthMismatch(uint256 expected, uint256 given);
    error WrongState(bytes32 task, State expected, State actual);
    error NotTheClient(address caller, address client);
    error NotTheSigner(address caller, address signer);
    error NotTheExecutor(address operator, address executor);
    error NotAMember(address operator);
    error NotAdmitted(address operator, bytes32 operators);
    error InsufficientBalance(address account, uint256 balance, uint256 needed);
    error CollateralCapExceeded(address operator, uint256 inUse, uint256 added, uint256 cap);
    error OutlivesStake(uint256 blocks, uint256 delay);
    error TooEarly(uint256 blockNumber, uint256 after_);
    error TooLate(uint256 blockNumber, uint256 by);
    error UnknownSlot(bytes32 task, uint256 slot);
    error WrongOpening(bytes32 task, bytes32 commitment, bytes32 opened);
    error GamesOpen(bytes32 task, uint256 count);

    error ZeroAddress();
    error ZeroMaxExec();
    error ZeroGrid();
    error ZeroReveal();
    error RecordBeyondHistory(uint256 record, uint256 history);
    error ChallengeShorterThanReveal(uint256 challenge, uint256 reveal);
    error EtaAboveOne(uint256 eta);

    // ---- Money ----

    /// @notice Takes `amount` tokens from the caller into the balance of `account`.
    function deposit(address account, uint256 amount) external;

    /// @notice Pays `amount` of the caller's balance out to `to`.
    function withdraw(address to, uint256 amount) external;

    /// @notice Sends the balance of `BURN` to the address `BURN`. By anybody; nothing waits for it.
    function burn() external;

    // ---- Orders ----

    /// @notice Makes the order a task in Open and takes its escrow, `maxPrice`, from the client's balance.
    /// The client itself may post without signature, and what its balance lacks is taken from its tokens; anybody else
    /// brings the client's signature of the task's uuid (65 bytes, or whatever the client's contract accepts by
    /// ERC-1271).
    /// @dev A signed order can be posted by anybody until `acceptBy`, once.
    function post(Order calldata order, bytes calldata signature) external;

    /// @notice `post` for many; skips orders that are posted already.
    function postMany(Order[] calldata orders, bytes[] calldata signatures) external;

    /// @notice Open → Cancelled, by the client: the escrow goes back to its balance.
    function cancel(Order calldata order) external;

    /// @notice Open → Expired, by anybody after `acceptBy`: the escrow goes back to the client's balance.
    function expire(Order calldata order) external;

    // ---- Execution ----

    /// @notice Open → Accepted, by the signer of `operator`, a member that the order admits, until `acceptBy`.
    /// Fixes the price at this block's place on the ramp, and moves the collateral from the operator's balance.
    function accept(address operator, Order calldata order, Admission calldata admission) external;

    /// @notice `accept` for many; skips tasks that are not Open.
    function acceptMany(address operator, Order[] calldata orders, Admission[] calldata admissions) external;

    /// @notice Accepted → Committed, by the signer of the executor `operator`, until `exec` blocks after the acceptance.
    /// @param commitment keccak256(abi.encode(chainId, market, task, operator, slot, outputsRoot, salt)) with slot 0
    function commit(address operator, bytes32 task, bytes32 commitment) external;

    /// @notice `commit` for many.
    function commitMany(address operator, bytes32[] calldata tasks, bytes32[] calldata commitments) external;

    /// @notice Committed → Revealed, by anybody until `deadlineOf(task)`.
    function reveal(Opening calldata opening) external;

    /// @notice `reveal` for many; skips tasks that are not Committed.
    function revealMany(Opening[] calldata openings) external;

    // ---- Ends ----

    /// @notice Accepted or Committed → Failed, by anybody after `deadlineOf(task)`: the client gets the whole escrow,
    /// the executor its collateral less the penalty, which is burned.
    function fail(Order calldata order) external;

    /// @notice Revealed → Final, by anybody after `deadlineOf(task)` and without an open game: the executor gets price
    /// and collateral, the client the rest of the escrow.
    function close(Order calldata order) external;

    /// @notice `close` for many; skips tasks that are not Revealed.
    function closeMany(Order[] calldata orders) external;

    // ---- Views ----

    /// @notice The task's uuid: the order's EIP-712 hash.
    function taskOf(Order calldata order) external view returns (bytes32);

    function taskAt(bytes32 task) external view returns (Task memory);

    /// @notice The revealed outputs root; zero before.
    function outputsRootOf(bytes32 task) external view returns (bytes32);

    /// @notice The last block of what the task waits for: commit (commitBy), reveal (revealBy) or challenges
    /// (challengeBy) in Accepted, Committed, Revealed; zero otherwise. `fail` and `close` come after it.
    function deadlineOf(bytes32 task) external view returns (uint256);

    function accountOf(address account) external view returns (Account memory);

    function parameters() external view returns (Parameters memory);

    function token() external view returns (IERC20);

    function serviceManager() external view returns (IServiceManager);

    /// @notice The contract that judges results; zero until it exists.
    function game() external view returns (IDisputeGame);

    /// @notice Where burned tokens go.
    function BURN() external view returns (address);
}
