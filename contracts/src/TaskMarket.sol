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
import {Merkle} from "./libraries/Merkle.sol";
import {Terms} from "./libraries/Terms.sol";

/// @title Market for tasks; see ITaskMarket
contract TaskMarket is ITaskMarket, EIP712, ReentrancyGuardTransient {
    using SafeCast for uint256;
    using SafeERC20 for IERC20;

    bytes32 private constant ORDER_TYPEHASH = keccak256(
        "Order(address client,uint256 nonce,uint16 semantics,bytes32 program,bytes32 inputs,bytes32 weights,"
        "bytes32 states,bytes32 variables,uint32 repeat,uint256 minPrice,uint256 maxPrice,uint64 rampStart,"
        "uint64 rampLength,uint256 checkFee,uint64 checkRate,uint8 verifiers,uint256 valueAtRisk,uint32 exec,"
        "uint64 acceptBy,bytes32 operators)"
    );
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

    mapping(bytes32 uuid => Task) private _tasks;
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
        bytes32 task = taskOf(order);
        if (_tasks[task].state != State.None) revert AlreadyPosted(task);
        _post(task, order, signature);
    }

    /// @inheritdoc ITaskMarket
    function postMany(Order[] calldata orders, bytes[] calldata signatures) external nonReentrant {
        if (orders.length != signatures.length) revert LengthMismatch(orders.length, signatures.length);
        for (uint256 i; i < orders.length; ++i) {
            bytes32 task = taskOf(orders[i]);
            if (_tasks[task].state == State.None) _post(task, orders[i], signatures[i]);
        }
    }

    /// @inheritdoc ITaskMarket
    function cancel(Order calldata order) external {
        if (msg.sender != order.client) revert NotTheClient(msg.sender, order.client);
        bytes32 task = taskOf(order);
        _checkState(task, State.Open);

        _tasks[task].state = State.Cancelled;
        _credit(order.client, order.maxPrice);
        emit Cancelled(task);
    }

    /// @inheritdoc ITaskMarket
    function expire(Order calldata order) external {
        bytes32 task = taskOf(order);
        _checkState(task, State.Open);
        if (block.number <= order.acceptBy) revert TooEarly(block.number, order.acceptBy);

        _tasks[task].state = State.Expired;
        _credit(order.client, order.maxPrice);
        emit Expired(task);
    }

    // ---- Execution ----

    /// @inheritdoc ITaskMarket
    function accept(address operator, Order calldata order, Admission calldata admission) external {
        (uint256 cap, uint256 delay) = _checkOperator(operator);
        bytes32 task = taskOf(order);
        _checkState(task, State.Open);
        _accept(operator, cap, delay, task, order, admission);
    }

    /// @inheritdoc ITaskMarket
    function acceptMany(address operator, Order[] calldata orders, Admission[] calldata admissions) external {
        if (orders.length != admissions.length) revert LengthMismatch(orders.length, admissions.length);
        (uint256 cap, uint256 delay) = _checkOperator(operator);
        for (uint256 i; i < orders.length; ++i) {
            bytes32 task = taskOf(orders[i]);
            if (_tasks[task].state == State.Open) _accept(operator, cap, delay, task, orders[i], admissions[i]);
        }
    }

    /// @inheritdoc ITaskMarket
    function commit(address operator, bytes32 task, bytes32 commitment) external {
        _checkSigner(operator);
        _commit(operator, task, commitment);
    }

    /// @inheritdoc ITaskMarket
    function commitMany(address operator, bytes32[] calldata tasks, bytes32[] calldata commitments) external {
        if (tasks.length != commitments.length) revert LengthMismatch(tasks.length, commitments.length);
        _checkSigner(operator);
        for (uint256 i; i < tasks.length; ++i) {
            _commit(operator, tasks[i], commitments[i]);
        }
    }

    /// @inheritdoc ITaskMarket
    function reveal(Opening calldata opening) external {
        _checkState(opening.task, State.Committed);
        _reveal(opening);
    }

    /// @inheritdoc ITaskMarket
    function revealMany(Opening[] calldata openings) external {
        for (uint256 i; i < openings.length; ++i) {
            if (_tasks[openings[i].task].state == State.Committed) _reveal(openings[i]);
        }
    }

    // ---- Ends ----

    /// @inheritdoc ITaskMarket
    function fail(Order calldata order) external {
        bytes32 uuid = taskOf(order);
        Task storage task = _tasks[uuid];
        if (task.state != State.Accepted) _checkState(uuid, State.Committed);
        _checkOver(task);

        (uint256 price, uint256 collateral) = _held(order, task.acceptedAt);
        uint256 penalty = Terms.penalty(parameters(), price);
        task.state = State.Failed;
        _release(task.executor, collateral, collateral - penalty);
        _credit(order.client, order.maxPrice);
        // INVARIANT 7: the penalty is burned, so a missed commit is worth nothing to anybody.
        _credit(BURN, penalty);
        emit Failed(uuid, order.maxPrice, penalty);
    }

    /// @inheritdoc ITaskMarket
    function close(Order calldata order) external {
        bytes32 task = taskOf(order);
        _checkState(task, State.Revealed);
        _close(task, order);
    }

    /// @inheritdoc ITaskMarket
    function closeMany(Order[] calldata orders) external {
        for (uint256 i; i < orders.length; ++i) {
            bytes32 task = taskOf(orders[i]);
            if (_tasks[task].state == State.Revealed) _close(task, orders[i]);
        }
    }

    // ---- Views ----

    /// @inheritdoc ITaskMarket
    function taskOf(Order calldata order) public view returns (bytes32) {
        return _hashTypedDataV4(keccak256(abi.encode(ORDER_TYPEHASH, order)));
    }

    /// @inheritdoc ITaskMarket
    function taskAt(bytes32 task) external view returns (Task memory) {
        return _tasks[task];
    }

    /// @inheritdoc ITaskMarket
    function outputsRootOf(bytes32 task) external view returns (bytes32) {
        State state = _tasks[task].state;
        return state == State.Revealed || state == State.Final ? _tasks[task].claim : bytes32(0);
    }

    /// @inheritdoc ITaskMarket
    function deadlineOf(bytes32 task) external view returns (uint256) {
        return _deadline(_tasks[task]);
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

    function _post(bytes32 task, Order calldata order, bytes calldata signature) private {
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
        } else if (!SignatureChecker.isValidSignatureNowCalldata(order.client, task, signature)) {
            revert WrongSignature(order.client, task);
        }

        // INVARIANT 10: the escrow is all that the client can lose to the task.
        _debit(order.client, order.maxPrice);
        _tasks[task].state = State.Open;
        emit Posted(task, order.client, order);
    }

    function _accept(
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
        Parameters memory p = parameters();
        // INVARIANT 38: what the task could still do to the stake ends before the stake can leave.
        uint256 lifetime = Terms.lifetime(p, order.exec);
        if (lifetime > delay) revert OutlivesStake(lifetime, delay);
        // INVARIANT 39: the price depends on the order and this block only, and the order is the task's name.
        (uint256 price, uint256 collateral) = _held(order, block.number);
        // INVARIANT 17: the signer cannot tie up more than the owner allowed.
        uint256 inUse = _accounts[operator].collateral;
        if (inUse + collateral > cap) revert CollateralCapExceeded(operator, inUse, collateral, cap);

        _debit(operator, collateral);
        _accounts[operator].collateral = (inUse + collateral).toUint128();
        Task storage task = _tasks[uuid];
        task.executor = operator;
        task.state = State.Accepted;
        task.acceptedAt = block.number.toUint32();
        task.since = block.number.toUint32();
        // SAFETY: `post` holds `exec` to `maxExec`, which is a uint24.
        task.exec = uint24(order.exec);
        emit Accepted(uuid, operator, price, collateral);
    }

    function _commit(address operator, bytes32 uuid, bytes32 commitment) private {
        Task storage task = _tasks[uuid];
        _checkState(uuid, State.Accepted);
        if (task.executor != operator) revert NotTheExecutor(operator, task.executor);
        _checkOpen(task);

        task.state = State.Committed;
        task.since = block.number.toUint32();
        task.claim = commitment;
        emit Committed(uuid, commitment);
    }

    function _reveal(Opening calldata o) private {
        Task storage task = _tasks[o.task];
        if (o.slot != 0) revert UnknownSlot(o.task, o.slot);
        _checkOpen(task);
        bytes32 opened =
            keccak256(abi.encode(block.chainid, address(this), o.task, task.executor, o.slot, o.outputsRoot, o.salt));
        if (opened != task.claim) revert WrongOpening(o.task, task.claim, opened);

        task.state = State.Revealed;
        task.since = block.number.toUint32();
        task.claim = o.outputsRoot;
        emit Revealed(o.task, o.slot, o.outputsRoot);
    }

    function _close(bytes32 uuid, Order calldata order) private {
        Task storage task = _tasks[uuid];
        // INVARIANT 3: nothing is paid before the challenge window is over and every game is decided.
        _checkOver(task);
        uint256 openGames = address(game) == address(0) ? 0 : game.openGames(uuid);
        if (openGames != 0) revert GamesOpen(uuid, openGames);

        (uint256 price, uint256 collateral) = _held(order, task.acceptedAt);
        // INVARIANT 2: every way into a terminal state starts from another state, and no way leads out.
        task.state = State.Final;
        // INVARIANT 5: escrow and collateral go out to the wei.
        _release(task.executor, collateral, collateral + price);
        _credit(order.client, order.maxPrice - price);
        emit Closed(uuid, price, order.maxPrice - price);
    }

    /// @dev Price and collateral of a task that was accepted at this block. Both are functions of the order, so neither
    /// is stored.
    function _held(Order calldata order, uint256 acceptedAt) private view returns (uint256 price, uint256 collateral) {
        price = Terms.price(order.minPrice, order.maxPrice, order.rampStart, order.rampLength, acceptedAt);
        collateral = Terms.collateral(parameters(), price);
    }

    function _deadline(Task storage task) private view returns (uint256) {
        State state = task.state;
        if (state == State.Accepted) return task.since + task.exec;
        if (state == State.Committed) return task.since + Terms.revealWindow(parameters(), task.exec);
        if (state == State.Revealed) return task.since + Terms.challengeWindow(parameters(), task.exec);
        return 0;
    }

    // ---- Accounts ----

    function _deposit(address account, uint256 amount) private {
        _credit(account, amount);
        emit Deposited(account, msg.sender, amount);
        token.safeTransferFrom(msg.sender, address(this), amount);
    }

    function _withdraw(address account, address to, uint256 amount) private {
        _debit(account, amount);
        emit Withdrawn(account, to, amount);
        token.safeTransfer(to, amount);
    }

    function _credit(address account, uint256 amount) private {
        _accounts[account].balance += amount.toUint128();
    }

    function _debit(address account, uint256 amount) private {
        uint256 balance = _accounts[account].balance;
        if (balance < amount) revert InsufficientBalance(account, balance, amount);
        _accounts[account].balance = (balance - amount).toUint128();
    }

    /// @dev Ends the hold on `collateral`; `payout` is what its owner gets of it, and beyond it.
    function _release(address operator, uint256 collateral, uint256 payout) private {
        _accounts[operator].collateral -= collateral.toUint128();
        _credit(operator, payout);
    }

    // ---- Checks ----

    function _checkState(bytes32 task, State expected) private view {
        State actual = _tasks[task].state;
        if (actual != expected) revert WrongState(task, expected, actual);
    }

    function _checkOpen(Task storage task) private view {
        uint256 deadline = _deadline(task);
        if (block.number > deadline) revert TooLate(block.number, deadline);
    }

    function _checkOver(Task storage task) private view {
        uint256 deadline = _deadline(task);
        if (block.number <= deadline) revert TooEarly(block.number, deadline);
    }

    function _checkSigner(address operator) private view returns (uint256 cap) {
        address signer;
        (signer, cap) = serviceManager.signerOf(operator);
        if (msg.sender != signer) revert NotTheSigner(msg.sender, signer);
    }

    function _checkOperator(address operator) private view returns (uint256 cap, uint256 delay) {
        cap = _checkSigner(operator);
        if (!serviceManager.isMember(operator)) revert NotAMember(operator);
        delay = serviceManager.stakeDelay();
    }
}
