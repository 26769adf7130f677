// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {IDisputeGame} from "./interfaces/IDisputeGame.sol";
import {IServiceManager} from "./interfaces/IServiceManager.sol";
import {Account, Admission, ITaskMarket, Opening, Order, Parameters, State, Task} from "./interfaces/ITaskMarket.sol";
import {Accounts} from "./libraries/Accounts.sol";
import {Merkle} from "./libraries/Merkle.sol";
import {Terms} from "./libraries/Terms.sol";

/// @title Market for tasks; see ITaskMarket
contract TaskMarket is ITaskMarket, EIP712, ReentrancyGuardTransient {
    using Accounts for mapping(address => Account);
    using SafeCast for uint256;
    using SafeERC20 for IERC20;

    /// @dev A task without its claim, in one word. The price is not stored: it follows from the order and `acceptedAt`.
    struct Step {
        address executor;
        State state;
        uint32 acceptedAt;
        uint32 since;
        uint24 exec;
    }

    bytes32 private constant ORDER_TYPEHASH = keccak256(
        "Order(address client,uint256 nonce,uint16 semantics,bytes32 program,bytes32 inputs,bytes32 weights,"
        "bytes32 states,bytes32 variables,uint32 repeat,uint256 minPrice,uint256 maxPrice,uint64 rampStart,"
        "uint64 rampLength,uint256 checkFee,uint64 checkRate,uint8 verifiers,uint256 valueAtRisk,uint32 exec,"
        "uint64 acceptBy,bytes32 operators)"
    );
    uint256 private constant ORDER_SIZE = 20 * 32;
    /// @dev Block hashes that EIP-2935 keeps: a seed block must not fall out of it before it is recorded.
    uint256 private constant HISTORY = 8191;
    uint256 private constant PRICE_LIMIT = type(uint96).max;

    address public constant BURN = 0x000000000000000000000000000000000000dEaD;

    IERC20 public immutable token;
    IServiceManager public immutable serviceManager;
    IDisputeGame public immutable game;

    uint24 private immutable MAX_EXEC;
    uint32 private immutable LAG;
    uint32 private immutable GRID;
    uint32 private immutable RECORD;
    uint32 private immutable CHECK;
    uint32 private immutable REVEAL;
    uint32 private immutable CHALLENGE;
    uint32 private immutable CLOCK;
    uint32 private immutable MARGIN;
    uint64 private immutable ETA;
    uint96 private immutable G_DEF;
    uint96 private immutable G_MISS;

    mapping(bytes32 uuid => Step) private _steps;
    mapping(bytes32 uuid => bytes32) private _claims;
    mapping(address owner => Account) private _accounts;

    constructor(IServiceManager serviceManager_, IDisputeGame game_, Parameters memory p) EIP712("EigenTensor", "1") {
        if (p.maxExec == 0) revert ZeroMaxExec();
        if (p.grid == 0) revert ZeroGrid();
        if (p.reveal == 0) revert ZeroReveal();
        if (p.record > HISTORY) revert RecordBeyondHistory(p.record, HISTORY);
        if (uint256(p.challenge) + 1 < p.reveal) revert ChallengeShorterThanReveal(p.challenge, p.reveal);
        if (p.eta > Terms.WAD) revert EtaAboveOne(p.eta);
        uint256 lifetime = Terms.lifetime(p, p.maxExec);
        uint256 delay = serviceManager_.stakeDelay();
        if (lifetime > delay) revert OutlivesStake(lifetime, delay);

        serviceManager = serviceManager_;
        game = game_;
        token = serviceManager_.strategy().underlyingToken();
        MAX_EXEC = p.maxExec;
        LAG = p.lag;
        GRID = p.grid;
        RECORD = p.record;
        CHECK = p.check;
        REVEAL = p.reveal;
        CHALLENGE = p.challenge;
        CLOCK = p.clock;
        MARGIN = p.margin;
        ETA = p.eta;
        G_DEF = p.gDef;
        G_MISS = p.gMiss;
    }

    // ---- Money ----

    /// @inheritdoc ITaskMarket
    function deposit(address account, uint256 amount) external nonReentrant {
        if (account == address(0)) revert ZeroAddress();
        _deposit(account, amount);
    }

    /// @inheritdoc ITaskMarket
    function withdraw(address to, uint256 amount) external nonReentrant {
        // INVARIANT 6: whoever is owed money fetches it; no message of a task waits for a transfer.
        _withdraw(msg.sender, to, amount);
    }

    /// @inheritdoc ITaskMarket
    function burn() external nonReentrant {
        _withdraw(BURN, BURN, _accounts[BURN].balance);
    }

    // ---- Orders ----

    /// @inheritdoc ITaskMarket
    function post(Order calldata order, bytes calldata signature) external nonReentrant {
        bytes32 uuid = taskOf(order);
        if (_steps[uuid].state != State.None) revert AlreadyPosted(uuid);
        _post(uuid, order, signature);
    }

    /// @inheritdoc ITaskMarket
    function postMany(Order[] calldata orders, bytes[] calldata signatures) external nonReentrant {
        if (orders.length != signatures.length) revert LengthMismatch(orders.length, signatures.length);
        for (uint256 i; i < orders.length; ++i) {
            bytes32 uuid = taskOf(orders[i]);
            if (_steps[uuid].state == State.None) _post(uuid, orders[i], signatures[i]);
        }
    }

    /// @inheritdoc ITaskMarket
    function cancel(Order calldata order) external {
        if (msg.sender != order.client) revert NotTheClient(msg.sender, order.client);
        bytes32 uuid = taskOf(order);
        _checkState(uuid, State.Open);

        _steps[uuid].state = State.Cancelled;
        _accounts.credit(order.client, order.maxPrice);
        emit Cancelled(uuid);
    }

    /// @inheritdoc ITaskMarket
    function expire(Order calldata order) external {
        bytes32 uuid = taskOf(order);
        _checkState(uuid, State.Open);
        if (block.number <= order.acceptBy) revert TooEarly(block.number, order.acceptBy);

        _steps[uuid].state = State.Expired;
        _accounts.credit(order.client, order.maxPrice);
        emit Expired(uuid);
    }

    // ---- Execution ----

    /// @inheritdoc ITaskMarket
    function accept(address operator, Order calldata order, Admission calldata admission) external {
        (uint256 cap, uint256 delay) = _checkOperator(operator);
        bytes32 uuid = taskOf(order);
        _checkState(uuid, State.Open);
        _accept(parameters(), operator, cap, delay, uuid, order, admission);
    }

    /// @inheritdoc ITaskMarket
    function acceptMany(address operator, Order[] calldata orders, Admission[] calldata admissions) external {
        if (orders.length != admissions.length) revert LengthMismatch(orders.length, admissions.length);
        (uint256 cap, uint256 delay) = _checkOperator(operator);
        Parameters memory p = parameters();
        for (uint256 i; i < orders.length; ++i) {
            bytes32 uuid = taskOf(orders[i]);
            if (_steps[uuid].state == State.Open) _accept(p, operator, cap, delay, uuid, orders[i], admissions[i]);
        }
    }

    /// @inheritdoc ITaskMarket
    function commit(address operator, bytes32 task, bytes32 commitment) external {
        _checkSigner(operator);
        _commit(parameters(), operator, task, commitment);
    }

    /// @inheritdoc ITaskMarket
    function commitMany(address operator, bytes32[] calldata tasks, bytes32[] calldata commitments) external {
        if (tasks.length != commitments.length) revert LengthMismatch(tasks.length, commitments.length);
        _checkSigner(operator);
        Parameters memory p = parameters();
        for (uint256 i; i < tasks.length; ++i) {
            _commit(p, operator, tasks[i], commitments[i]);
        }
    }

    /// @inheritdoc ITaskMarket
    function reveal(Opening calldata opening) external {
        _checkState(opening.task, State.Committed);
        _reveal(parameters(), opening);
    }

    /// @inheritdoc ITaskMarket
    function revealMany(Opening[] calldata openings) external {
        Parameters memory p = parameters();
        for (uint256 i; i < openings.length; ++i) {
            if (_steps[openings[i].task].state == State.Committed) _reveal(p, openings[i]);
        }
    }

    // ---- Ends ----

    /// @inheritdoc ITaskMarket
    function fail(Order calldata order) external {
        bytes32 uuid = taskOf(order);
        Parameters memory p = parameters();
        Step memory step = _steps[uuid];
        if (step.state != State.Accepted) _checkState(uuid, State.Committed);
        _checkOver(p, step);

        uint256 price = _price(order, step.acceptedAt);
        uint256 collateral = Terms.collateral(p, price);
        uint256 penalty = Terms.penalty(p, price);
        _steps[uuid].state = State.Failed;
        _accounts.release(step.executor, collateral, collateral - penalty);
        _accounts.credit(order.client, order.maxPrice);
        // INVARIANT 7: the penalty is burned, so a missed commit is worth nothing to anybody.
        _accounts.credit(BURN, penalty);
        emit Failed(uuid, order.maxPrice, penalty);
    }

    /// @inheritdoc ITaskMarket
    function close(Order calldata order) external {
        bytes32 uuid = taskOf(order);
        _checkState(uuid, State.Revealed);
        _close(parameters(), uuid, order);
    }

    /// @inheritdoc ITaskMarket
    function closeMany(Order[] calldata orders) external {
        Parameters memory p = parameters();
        for (uint256 i; i < orders.length; ++i) {
            bytes32 uuid = taskOf(orders[i]);
            if (_steps[uuid].state == State.Revealed) _close(p, uuid, orders[i]);
        }
    }

    // ---- Views ----

    /// @inheritdoc ITaskMarket
    function taskOf(Order calldata order) public view returns (bytes32) {
        bytes32 typehash = ORDER_TYPEHASH;
        bytes32 structHash;
        // SAFETY: scratches beyond the free memory pointer only. Words that are no valid fields hash to a name that
        // nobody can post: `post` decodes the whole order.
        assembly ("memory-safe") {
            let preimage := mload(0x40)
            mstore(preimage, typehash)
            calldatacopy(add(preimage, 0x20), order, ORDER_SIZE)
            structHash := keccak256(preimage, add(ORDER_SIZE, 0x20))
        }
        return _hashTypedDataV4(structHash);
    }

    /// @inheritdoc ITaskMarket
    function taskAt(bytes32 task) external view returns (Task memory) {
        Step memory step = _steps[task];
        return Task(step.executor, step.state, step.acceptedAt, step.since, step.exec, _claims[task]);
    }

    /// @inheritdoc ITaskMarket
    function outputsRootOf(bytes32 task) external view returns (bytes32) {
        State state = _steps[task].state;
        return state == State.Revealed || state == State.Final ? _claims[task] : bytes32(0);
    }

    /// @inheritdoc ITaskMarket
    function deadlineOf(bytes32 task) external view returns (uint256) {
        return _deadline(parameters(), _steps[task]);
    }

    /// @inheritdoc ITaskMarket
    function accountOf(address account) external view returns (Account memory) {
        return _accounts[account];
    }

    /// @inheritdoc ITaskMarket
    function parameters() public view returns (Parameters memory) {
        return Parameters({
            maxExec: MAX_EXEC,
            lag: LAG,
            grid: GRID,
            record: RECORD,
            check: CHECK,
            reveal: REVEAL,
            challenge: CHALLENGE,
            clock: CLOCK,
            margin: MARGIN,
            eta: ETA,
            gDef: G_DEF,
            gMiss: G_MISS
        });
    }

    // ---- One task ----

    function _post(bytes32 uuid, Order calldata order, bytes calldata signature) private {
        if (order.checkRate != 0 || order.verifiers != 0) {
            revert ChecksNotAvailable(order.checkRate, order.verifiers);
        }
        if (order.exec == 0 || order.exec > MAX_EXEC) revert WrongExec(order.exec, MAX_EXEC);
        if (order.minPrice > order.maxPrice || order.maxPrice > PRICE_LIMIT) {
            revert WrongPrices(order.minPrice, order.maxPrice, PRICE_LIMIT);
        }
        if (order.acceptBy < block.number) revert AcceptanceOver(order.acceptBy, block.number);
        if (msg.sender == order.client) {
            uint256 balance = _accounts[order.client].balance;
            if (balance < order.maxPrice) _deposit(order.client, order.maxPrice - balance);
        } else if (!SignatureChecker.isValidSignatureNowCalldata(order.client, uuid, signature)) {
            revert WrongSignature(order.client, uuid);
        }

        // INVARIANT 10: the escrow is all that the client can lose to the task.
        _accounts.debit(order.client, order.maxPrice);
        _steps[uuid].state = State.Open;
        emit Posted(uuid, order.client, order);
    }

    function _accept(
        Parameters memory p,
        address operator,
        uint256 cap,
        uint256 delay,
        bytes32 uuid,
        Order calldata order,
        Admission calldata admission
    ) private {
        if (block.number > order.acceptBy) revert TooLate(block.number, order.acceptBy);
        if (order.operators != 0) {
            bool admitted = Merkle.admits(order.operators, operator, admission.index, admission.count, admission.path);
            if (!admitted) revert NotAdmitted(operator, order.operators);
        }
        // INVARIANT 38: what the task could still do to the stake ends before the stake can leave.
        uint256 lifetime = Terms.lifetime(p, order.exec);
        if (lifetime > delay) revert OutlivesStake(lifetime, delay);
        // INVARIANT 39: the price depends on the order and this block only, and the order is the task's name.
        uint256 price = _price(order, block.number);
        uint256 collateral = Terms.collateral(p, price);

        _accounts.hold(operator, collateral, cap);
        uint32 now_ = block.number.toUint32();
        // SAFETY: `post` holds `exec` to `maxExec`, which is a uint24.
        _steps[uuid] = Step(operator, State.Accepted, now_, now_, uint24(order.exec));
        emit Accepted(uuid, operator, price, collateral);
    }

    function _commit(Parameters memory p, address operator, bytes32 uuid, bytes32 commitment) private {
        Step memory step = _steps[uuid];
        if (step.state != State.Accepted) revert WrongState(uuid, State.Accepted, step.state);
        if (step.executor != operator) revert NotTheExecutor(operator, step.executor);
        _checkOpen(p, step);

        (_steps[uuid].state, _steps[uuid].since) = (State.Committed, block.number.toUint32());
        _claims[uuid] = commitment;
        emit Committed(uuid, commitment);
    }

    function _reveal(Parameters memory p, Opening calldata o) private {
        if (o.slot != 0) revert UnknownSlot(o.task, o.slot);
        Step memory step = _steps[o.task];
        _checkOpen(p, step);
        bytes32 opened =
            keccak256(abi.encode(block.chainid, address(this), o.task, step.executor, o.slot, o.outputsRoot, o.salt));
        if (opened != _claims[o.task]) revert WrongOpening(o.task, _claims[o.task], opened);

        (_steps[o.task].state, _steps[o.task].since) = (State.Revealed, block.number.toUint32());
        _claims[o.task] = o.outputsRoot;
        emit Revealed(o.task, o.slot, o.outputsRoot);
    }

    function _close(Parameters memory p, bytes32 uuid, Order calldata order) private {
        Step memory step = _steps[uuid];
        // INVARIANT 3: nothing is paid before the challenge window is over and every game is decided.
        _checkOver(p, step);
        uint256 openGames = address(game) == address(0) ? 0 : game.openGames(uuid);
        if (openGames != 0) revert GamesOpen(uuid, openGames);

        uint256 price = _price(order, step.acceptedAt);
        uint256 collateral = Terms.collateral(p, price);
        // INVARIANT 2: every way into a terminal state starts from another state, and no way leads out.
        _steps[uuid].state = State.Final;
        // INVARIANT 5: escrow and collateral go out to the wei.
        _accounts.release(step.executor, collateral, collateral + price);
        _accounts.credit(order.client, order.maxPrice - price);
        emit Closed(uuid, price, order.maxPrice - price);
    }

    function _price(Order calldata order, uint256 blockNumber) private pure returns (uint256) {
        return Terms.price(order.minPrice, order.maxPrice, order.rampStart, order.rampLength, blockNumber);
    }

    function _deadline(Parameters memory p, Step memory step) private pure returns (uint256) {
        if (step.state == State.Accepted) return step.since + step.exec;
        if (step.state == State.Committed) return step.since + Terms.revealWindow(p, step.exec);
        if (step.state == State.Revealed) return step.since + Terms.challengeWindow(p, step.exec);
        return 0;
    }

    // ---- Tokens ----

    function _deposit(address account, uint256 amount) private {
        _accounts.credit(account, amount);
        emit Deposited(account, msg.sender, amount);
        token.safeTransferFrom(msg.sender, address(this), amount);
    }

    function _withdraw(address account, address to, uint256 amount) private {
        _accounts.debit(account, amount);
        emit Withdrawn(account, to, amount);
        token.safeTransfer(to, amount);
    }

    // ---- Checks ----

    function _checkState(bytes32 uuid, State expected) private view {
        State actual = _steps[uuid].state;
        if (actual != expected) revert WrongState(uuid, expected, actual);
    }

    function _checkOpen(Parameters memory p, Step memory step) private view {
        uint256 deadline = _deadline(p, step);
        if (block.number > deadline) revert TooLate(block.number, deadline);
    }

    function _checkOver(Parameters memory p, Step memory step) private view {
        uint256 deadline = _deadline(p, step);
        if (block.number <= deadline) revert TooEarly(block.number, deadline);
    }

    function _checkSigner(address operator) private view returns (uint256 cap) {
        address signer;
        (signer, cap,) = serviceManager.signerOf(operator);
        if (msg.sender != signer) revert NotTheSigner(msg.sender, signer);
    }

    function _checkOperator(address operator) private view returns (uint256 cap, uint256 delay) {
        cap = _checkSigner(operator);
        if (!serviceManager.isMember(operator)) revert NotAMember(operator);
        delay = serviceManager.stakeDelay();
    }
}
