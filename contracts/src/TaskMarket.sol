// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {Market} from "./Market.sol";
import {IDisputeGame, IDisputeMarket} from "./interfaces/IDisputeGame.sol";
import {IServiceManager} from "./interfaces/IServiceManager.sol";
import {Account} from "./interfaces/IMarket.sol";
import {
    Admission,
    Answer,
    Challenge,
    Conviction,
    ITaskMarket,
    Leaf,
    LeafProof,
    Opening,
    Order,
    Parameters,
    Stage,
    State,
    Task
} from "./interfaces/ITaskMarket.sol";
import {Accounts} from "./libraries/Accounts.sol";
import {Answers} from "./libraries/Answers.sol";
import {Convictions} from "./libraries/Convictions.sol";
import {Demands} from "./libraries/Demands.sol";
import {Ends} from "./libraries/Ends.sol";
import {Executions} from "./libraries/Executions.sol";
import {Games} from "./libraries/Games.sol";
import {Headers} from "./libraries/Headers.sol";
import {Limits} from "./libraries/Limits.sol";
import {Ledger, Lives} from "./libraries/Lives.sol";
import {Orders} from "./libraries/Orders.sol";
import {Progresses} from "./libraries/Progresses.sol";
import {Terms} from "./libraries/Terms.sol";
import {Views} from "./libraries/Views.sol";

/// @title Market for tasks; see ITaskMarket
/// @notice Who may send a message, and its lock; what the message does to the ledger is in libraries.
contract TaskMarket is ITaskMarket, Market {
    using Accounts for mapping(address => Account);
    using Progresses for mapping(bytes32 => uint256);

    Ledger private _ledger;

    /// @notice Reverts unless the parameters keep the protocol's promises on the core as it is, and all contracts name each
    /// other.
    constructor(IServiceManager serviceManager_, IDisputeGame game_, Parameters memory p)
        Market(serviceManager_, game_, p)
    {
        Limits.check(p, serviceManager_.stakeDelay());
        if (serviceManager_.market() != address(this)) revert NotConnected(address(serviceManager_));
        if (serviceManager_.bounty().market() != address(this)) revert NotConnected(address(serviceManager_.bounty()));
    }

    // ---- Orders ----

    /// @inheritdoc ITaskMarket
    function post(Order calldata order, bytes calldata signature) external nonReentrant {
        _post(parameters(), order, signature, false);
    }

    /// @inheritdoc ITaskMarket
    function postMany(Order[] calldata orders, bytes[] calldata signatures) external nonReentrant {
        if (orders.length != signatures.length) revert LengthMismatch(orders.length, signatures.length);
        Parameters memory p = parameters();
        for (uint256 i; i < orders.length; ++i) {
            _post(p, orders[i], signatures[i], true);
        }
    }

    /// @inheritdoc ITaskMarket
    function cancel(Order calldata order) external nonReentrantView {
        if (msg.sender != order.client) revert NotTheClient(msg.sender, order.client);
        bytes32 uuid = taskOf(order);
        Orders.takeBack(_ledger, uuid, order, State.Cancelled);
        emit Cancelled(uuid);
    }

    /// @inheritdoc ITaskMarket
    function expire(Order calldata order) external nonReentrantView {
        Lives.checkAfter(order.acceptBy);
        bytes32 uuid = taskOf(order);
        Orders.takeBack(_ledger, uuid, order, State.Expired);
        emit Expired(uuid);
    }

    // ---- Execution ----

    /// @inheritdoc ITaskMarket
    function accept(address operator, Order calldata order, Admission calldata admission) external nonReentrantView {
        Parameters memory p = parameters();
        Executions.Acceptor memory by = Executions.acceptor(p, serviceManager, operator);
        Executions.accept(_ledger, p, by, taskOf(order), order, admission, false);
    }

    /// @inheritdoc ITaskMarket
    function acceptMany(address operator, Order[] calldata orders, Admission[] calldata admissions)
        external
        nonReentrantView
    {
        if (orders.length != admissions.length) revert LengthMismatch(orders.length, admissions.length);
        Parameters memory p = parameters();
        Executions.Acceptor memory by = Executions.acceptor(p, serviceManager, operator);
        for (uint256 i; i < orders.length; ++i) {
            Executions.accept(_ledger, p, by, taskOf(orders[i]), orders[i], admissions[i], true);
        }
    }

    /// @inheritdoc ITaskMarket
    function commit(address operator, bytes32 task, bytes32 commitment) external nonReentrantView {
        _checkSigner(operator);
        Executions.commit(_ledger, operator, task, commitment, false);
    }

    /// @inheritdoc ITaskMarket
    function commitMany(address operator, bytes32[] calldata tasks, bytes32[] calldata commitments)
        external
        nonReentrantView
    {
        if (tasks.length != commitments.length) revert LengthMismatch(tasks.length, commitments.length);
        _checkSigner(operator);
        for (uint256 i; i < tasks.length; ++i) {
            Executions.commit(_ledger, operator, tasks[i], commitments[i], true);
        }
    }

    // ---- Checks ----

    /// @inheritdoc ITaskMarket
    function seed(uint256 blockNumber, bytes calldata header) external nonReentrantView {
        Parameters memory p = parameters();
        Headers.seed(_ledger.mixes, p.grid, p.record, blockNumber, header);
    }

    /// @inheritdoc ITaskMarket
    function answer(address operator, Order calldata order, uint256 index, bytes32 commitment)
        external
        nonReentrantView
    {
        uint256 cap = _checkSigner(operator);
        Answer memory a = Answer(operator, Stage.Hidden, commitment);
        Answers.answer(_ledger, parameters(), taskOf(order), order, serviceManager, a, index, cap);
    }

    /// @inheritdoc ITaskMarket
    function expose(Order calldata order, Opening calldata opening) external nonReentrantView {
        Answers.expose(_ledger, parameters(), taskOf(order), order, serviceManager, opening);
    }

    /// @inheritdoc ITaskMarket
    function reveal(Order calldata order, Opening calldata opening) external nonReentrantView {
        _reveal(parameters(), order, opening, false);
    }

    /// @inheritdoc ITaskMarket
    function revealMany(Order[] calldata orders, Opening[] calldata openings) external nonReentrantView {
        if (orders.length != openings.length) revert LengthMismatch(orders.length, openings.length);
        Parameters memory p = parameters();
        for (uint256 i; i < orders.length; ++i) {
            _reveal(p, orders[i], openings[i], true);
        }
    }

    // ---- Disputes ----

    /// @inheritdoc ITaskMarket
    function challenge(address challenger, Order calldata order) external nonReentrant returns (uint256 gameId) {
        bytes32 uuid = taskOf(order);
        uint256 cap = type(uint256).max;
        if (msg.sender == challenger) {
            uint256 price = Lives.priceAt(order, _ledger.progress.load(uuid).acceptedAt);
            _ledger.accounts.top(token, challenger, Terms.bond(parameters(), price));
        } else {
            cap = _checkSigner(challenger);
        }
        // INVARIANT 42: the task as it is when the tokens are here.
        return Games.challenge(_ledger, parameters(), uuid, order, game, challenger, cap);
    }

    /// @inheritdoc IDisputeMarket
    function onGameEnded(bytes32 task, uint256 gameId, address, bool executorLost, bool byClock)
        external
        nonReentrantView
    {
        if (msg.sender != address(game)) revert NotTheGame(msg.sender);
        Games.end(_ledger, parameters(), task, gameId, executorLost, byClock);
    }

    /// @inheritdoc ITaskMarket
    function demand(Order calldata order, Leaf[] calldata leaves) external nonReentrantView {
        Demands.demand(_ledger, parameters(), taskOf(order), order.client, leaves);
    }

    /// @inheritdoc ITaskMarket
    function show(Order calldata order, Leaf[] calldata leaves, LeafProof[] calldata proofs) external nonReentrantView {
        Demands.show(_ledger, parameters(), taskOf(order), leaves, proofs);
    }

    // ---- Ends ----

    /// @inheritdoc ITaskMarket
    function close(Order calldata order) external nonReentrantView {
        _close(parameters(), order, false);
    }

    /// @inheritdoc ITaskMarket
    function closeMany(Order[] calldata orders) external nonReentrantView {
        Parameters memory p = parameters();
        for (uint256 i; i < orders.length; ++i) {
            _close(p, orders[i], true);
        }
    }

    /// @inheritdoc ITaskMarket
    function settle(Order calldata order, uint256 index) external nonReentrantView {
        Convictions.settle(_ledger, parameters(), taskOf(order), order, index);
    }

    /// @inheritdoc ITaskMarket
    function refund(Order calldata order, uint256 gameId) external nonReentrantView {
        Convictions.refund(_ledger, parameters(), taskOf(order), order, gameId);
    }

    /// @inheritdoc ITaskMarket
    function slash(Order calldata order) external nonReentrantView {
        Convictions.slash(_ledger, parameters(), taskOf(order), order, serviceManager);
    }

    // ---- Seats ----

    /// @inheritdoc ITaskMarket
    function holdSeats(address operator, uint256 count, uint256 cap) external nonReentrantView {
        _ledger.accounts.hold(operator, _depositOf(count), cap);
    }

    /// @inheritdoc ITaskMarket
    function releaseSeats(address operator, uint256 count, address receiver) external nonReentrantView {
        uint256 amount = _depositOf(count);
        _ledger.accounts.release(operator, amount, 0);
        _ledger.accounts.credit(receiver, amount);
    }

    // ---- Views ----

    /// @inheritdoc IDisputeMarket
    function taskOf(Order calldata order) public view returns (bytes32) {
        return _hashTypedDataV4(Orders.hash(order));
    }

    /// @inheritdoc ITaskMarket
    function taskAt(bytes32 task) external view returns (Task memory) {
        return Views.taskAt(_ledger, serviceManager, task);
    }

    /// @inheritdoc IDisputeMarket
    function outputsRootOf(bytes32 task) external view returns (bytes32) {
        return Lives.isRevealed(_ledger, task, _ledger.progress.stateOf(task)) ? _ledger.claims[task] : bytes32(0);
    }

    /// @inheritdoc ITaskMarket
    function openGames(bytes32 task) external view returns (uint256 count) {
        return _ledger.progress.stateOf(task) == State.Revealed ? _ledger.tallies[task].games : 0;
    }

    /// @inheritdoc ITaskMarket
    function deadlineOf(bytes32 task) external view returns (uint256 deadline) {
        (deadline,,) = _times(task);
    }

    /// @inheritdoc ITaskMarket
    function answersBy(bytes32 task) external view returns (uint256 by) {
        (, by,) = _times(task);
    }

    /// @inheritdoc ITaskMarket
    function seedBlockOf(bytes32 task) external view returns (uint256 seedBlock) {
        (,, seedBlock) = _times(task);
    }

    /// @inheritdoc ITaskMarket
    function seedOf(uint256 blockNumber) external view returns (bytes32 mix) {
        return _ledger.mixes[blockNumber];
    }

    /// @inheritdoc ITaskMarket
    function isDrawn(Order calldata order) external view returns (bool known, bool drawn) {
        return Views.isDrawn(_ledger, parameters(), taskOf(order), order.checkRate);
    }

    /// @inheritdoc ITaskMarket
    function seatOf(bytes32 task, uint256 index) external view returns (uint256 seat) {
        return Views.seatOf(_ledger, parameters(), serviceManager, task, index);
    }

    /// @inheritdoc ITaskMarket
    function answerOf(bytes32 task, uint256 index) external view returns (Answer memory) {
        return _ledger.answers[task][index];
    }

    /// @inheritdoc ITaskMarket
    function gameOf(bytes32 task, uint256 gameId) external view returns (Challenge memory) {
        return _ledger.challenges[task][gameId];
    }

    /// @inheritdoc ITaskMarket
    function convictionOf(bytes32 task) external view returns (Conviction memory) {
        return Views.convictionOf(_ledger, task);
    }

    // ---- Inside ----

    function _times(bytes32 task) private view returns (uint256 deadline, uint256 by, uint256 seedBlock) {
        return Views.times(_ledger, parameters(), task);
    }

    function _post(Parameters memory p, Order calldata order, bytes calldata signature, bool many) private {
        Orders.post(_ledger, p, token, taskOf(order), order, signature, many);
    }

    function _reveal(Parameters memory p, Order calldata order, Opening calldata o, bool many) private {
        bytes32 uuid = taskOf(order);
        if (o.slot == 0) return Executions.reveal(_ledger, p, uuid, order, serviceManager, o, many);
        // An executor that did not reveal in its time ends here, so that those who answered can go on.
        if (_ledger.progress.stateOf(uuid) == State.Committed) _close(p, order, false);
        Answers.reveal(_ledger, p, uuid, order, o, game, many);
    }

    function _close(Parameters memory p, Order calldata order, bool many) private {
        Ends.close(_ledger, p, taskOf(order), order, serviceManager, many);
    }

    function _accounts() internal view override returns (mapping(address => Account) storage) {
        return _ledger.accounts;
    }

    /// @dev Only the service manager asks.
    function _depositOf(uint256 seats) private view returns (uint256) {
        if (msg.sender != address(serviceManager)) revert NotTheServiceManager(msg.sender);
        return Terms.seatDeposit(parameters()) * seats;
    }
}
