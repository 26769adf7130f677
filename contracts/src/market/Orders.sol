// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {Membership} from "../interfaces/IServiceManager.sol";
import {Account, Admission, ITaskMarket, Order, Parameters, State} from "../interfaces/ITaskMarket.sol";
import {Accounts} from "../libraries/Accounts.sol";
import {Limits} from "../libraries/Limits.sol";
import {Draw, Lives, Step} from "../libraries/Lives.sol";
import {Terms} from "../libraries/Terms.sol";
import {Views} from "../libraries/Views.sol";
import {Ledger} from "./Ledger.sol";

/// @title Money in and out, and a task up to its commit
abstract contract Orders is Ledger {
    using Accounts for mapping(address => Account);
    using SafeCast for uint256;

    /// @dev Who accepts, and what the service manager says of it: asked once for a whole batch.
    struct Acceptor {
        address operator;
        uint256 cap;
        uint256 delay;
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
        _withdraw(BURN, BURN, _book.accounts[BURN].balance);
    }

    // ---- Orders ----

    /// @inheritdoc ITaskMarket
    function post(Order calldata order, bytes calldata signature) external nonReentrant {
        bytes32 uuid = taskOf(order);
        if (_book.steps[uuid].state != State.None) revert AlreadyPosted(uuid);
        _post(parameters(), uuid, order, signature);
    }

    /// @inheritdoc ITaskMarket
    function postMany(Order[] calldata orders, bytes[] calldata signatures) external nonReentrant {
        if (orders.length != signatures.length) revert LengthMismatch(orders.length, signatures.length);
        Parameters memory p = parameters();
        for (uint256 i; i < orders.length; ++i) {
            bytes32 uuid = taskOf(orders[i]);
            if (_book.steps[uuid].state == State.None) _post(p, uuid, orders[i], signatures[i]);
        }
    }

    /// @inheritdoc ITaskMarket
    function cancel(Order calldata order) external nonReentrantView {
        if (msg.sender != order.client) revert NotTheClient(msg.sender, order.client);
        emit Cancelled(_takeBack(order, State.Cancelled));
    }

    /// @inheritdoc ITaskMarket
    function expire(Order calldata order) external nonReentrantView {
        Lives.checkAfter(order.acceptBy);
        emit Expired(_takeBack(order, State.Expired));
    }

    // ---- Execution ----

    /// @inheritdoc ITaskMarket
    function accept(address operator, Order calldata order, Admission calldata admission) external nonReentrantView {
        Parameters memory p = parameters();
        Acceptor memory acceptor = _acceptor(p, operator);
        bytes32 uuid = taskOf(order);
        _checkOpen(uuid);
        _accept(p, acceptor, uuid, order, admission);
    }

    /// @inheritdoc ITaskMarket
    function acceptMany(address operator, Order[] calldata orders, Admission[] calldata admissions)
        external
        nonReentrantView
    {
        if (orders.length != admissions.length) revert LengthMismatch(orders.length, admissions.length);
        Parameters memory p = parameters();
        Acceptor memory acceptor = _acceptor(p, operator);
        for (uint256 i; i < orders.length; ++i) {
            bytes32 uuid = taskOf(orders[i]);
            bool isOpen = _book.steps[uuid].state == State.Open && block.number <= orders[i].acceptBy;
            if (isOpen) _accept(p, acceptor, uuid, orders[i], admissions[i]);
        }
    }

    /// @inheritdoc ITaskMarket
    function commit(address operator, bytes32 task, bytes32 commitment) external nonReentrantView {
        _commit(operator, _seatsFor(operator), task, _book.steps[task], commitment);
    }

    /// @inheritdoc ITaskMarket
    function commitMany(address operator, bytes32[] calldata tasks, bytes32[] calldata commitments)
        external
        nonReentrantView
    {
        if (tasks.length != commitments.length) revert LengthMismatch(tasks.length, commitments.length);
        uint256 seats = _seatsFor(operator);
        for (uint256 i; i < tasks.length; ++i) {
            Step memory step = _book.steps[tasks[i]];
            bool isLate = step.state == State.Accepted && block.number > uint256(step.since) + step.exec;
            if (step.state <= State.Accepted && !isLate) _commit(operator, seats, tasks[i], step, commitments[i]);
        }
    }

    // ---- One task ----

    function _post(Parameters memory p, bytes32 uuid, Order calldata order, bytes calldata signature) private {
        Limits.check(p, order);
        uint256 escrow = Terms.escrow(order.maxPrice, order.verifiers, order.checkFee);
        if (msg.sender == order.client) {
            _top(order.client, escrow);
        } else if (!SignatureChecker.isValidSignatureNowCalldata(order.client, uuid, signature)) {
            revert WrongSignature(order.client, uuid);
        }

        // INVARIANT 10: the escrow is all that the client can lose to the task.
        _book.accounts.debit(order.client, escrow);
        _book.steps[uuid].state = State.Open;
        emit Posted(uuid, order.client, order);
    }

    function _takeBack(Order calldata order, State end) private returns (bytes32 uuid) {
        uuid = taskOf(order);
        _checkOpen(uuid);
        _book.steps[uuid].state = end;
        _book.accounts.credit(order.client, Terms.escrow(order.maxPrice, order.verifiers, order.checkFee));
    }

    function _accept(
        Parameters memory p,
        Acceptor memory acceptor,
        bytes32 uuid,
        Order calldata order,
        Admission calldata admission
    ) private {
        Lives.checkUntil(order.acceptBy);
        address operator = acceptor.operator;
        if (order.operators != 0) Views.checkAdmission(order.operators, operator, admission);
        // INVARIANT 38: what the task could still do to the stake ends before the stake can leave.
        uint256 lifetime = Terms.lifetime(p, order.exec);
        if (lifetime > acceptor.delay) revert OutlivesStake(lifetime, acceptor.delay);
        // INVARIANT 39: the price depends on the order and this block only, and the order is the task's name.
        uint256 price = Terms.price(order.minPrice, order.maxPrice, order.rampStart, order.rampLength, block.number);
        uint256 collateral = Terms.collateral(p, price, order.verifiers, order.checkFee);
        uint256 stake = Terms.stake(p, price, order.valueAtRisk, order.checkRate, order.verifiers);

        _book.accounts.hold(operator, collateral, acceptor.cap);
        uint32 now_ = block.number.toUint32();
        // SAFETY: `post` holds `exec` to `maxExec`, which is a uint24.
        _book.steps[uuid] = Step(operator, State.Accepted, now_, now_, uint24(order.exec));
        emit Accepted(uuid, operator, price, collateral);
        serviceManager.lock(uuid, operator, stake, block.number + lifetime);
    }

    function _commit(address operator, uint256 seats, bytes32 uuid, Step memory step, bytes32 commitment) private {
        if (step.state != State.Accepted) revert WrongState(uuid, State.Accepted, step.state);
        if (step.executor != operator) revert NotTheExecutor(operator, step.executor);
        Lives.checkUntil(uint256(step.since) + step.exec);

        (_book.steps[uuid].state, _book.steps[uuid].since) = (State.Committed, block.number.toUint32());
        _book.claims[uuid] = commitment;
        // INVARIANT 19: nobody can change the seats that are drawn from once the seed can be guessed.
        // SAFETY: the wait is `exec` at most.
        _book.draws[uuid] = Draw(uint24(block.number - step.acceptedAt), 0, seats.toUint32(), 0, 0, 0);
        emit Committed(uuid, commitment);
    }

    // ---- Checks ----

    /// @dev The seats that the operator's signer, the caller, commits to.
    function _seatsFor(address operator) private view returns (uint256) {
        _checkSigner(operator);
        return serviceManager.seatCount();
    }

    function _checkOpen(bytes32 uuid) private view {
        State state = _book.steps[uuid].state;
        if (state != State.Open) revert WrongState(uuid, State.Open, state);
    }

    function _acceptor(Parameters memory p, address operator) private view returns (Acceptor memory acceptor) {
        Membership memory membership = serviceManager.membershipOf(operator);
        if (msg.sender != membership.signer) revert NotTheSigner(msg.sender, membership.signer);
        if (!membership.isMember) revert NotAMember(operator);
        acceptor = Acceptor(operator, membership.collateralCap, membership.stakeDelay);
        uint256 others = membership.otherSeats;
        if (others < p.otherSeats) revert NotEnoughSeats(others, p.otherSeats);
    }
}
