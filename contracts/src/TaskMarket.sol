// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {IDisputeGame, IDisputeMarket} from "./interfaces/IDisputeGame.sol";
import {IServiceManager} from "./interfaces/IServiceManager.sol";
import {
    Account,
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
import {Answers} from "./libraries/Answers.sol";
import {Convictions} from "./libraries/Convictions.sol";
import {Demands} from "./libraries/Demands.sol";
import {Ends} from "./libraries/Ends.sol";
import {Games} from "./libraries/Games.sol";
import {Headers} from "./libraries/Headers.sol";
import {Life, Lives} from "./libraries/Lives.sol";
import {Terms} from "./libraries/Terms.sol";
import {Views} from "./libraries/Views.sol";
import {Ledger} from "./market/Ledger.sol";
import {Orders} from "./market/Orders.sol";

/// @title Market for tasks; see ITaskMarket
/// @dev What few tasks need lies in linked libraries, which work on this contract's storage.
contract TaskMarket is Orders {
    using Lives for Life;
    using SafeCast for uint256;

    constructor(IServiceManager serviceManager_, IDisputeGame game_, Parameters memory p)
        EIP712("EigenTensor", "1")
        Ledger(serviceManager_, game_, p)
    {
        if (serviceManager_.market() != address(this)) {
            revert NotConnected(address(serviceManager_));
        }
        if (address(game_.market()) != address(this)) revert NotConnected(address(game_));
        if (serviceManager_.bounty().market() != address(this)) revert NotConnected(address(serviceManager_.bounty()));
    }

    // ---- Checks ----

    /// @inheritdoc ITaskMarket
    function seed(uint256 blockNumber, bytes calldata header) external nonReentrantView {
        Parameters memory p = parameters();
        Headers.seed(_book.mixes, p.grid, p.record, blockNumber, header);
    }

    /// @inheritdoc ITaskMarket
    function answer(address operator, Order calldata order, uint256 index, bytes32 commitment)
        external
        nonReentrantView
    {
        uint256 cap = _checkSigner(operator);
        Answer memory a = Answer(operator, Stage.Hidden, commitment);
        Answers.answer(_book, _life(taskOf(order)), order, serviceManager, a, index, cap);
    }

    /// @inheritdoc ITaskMarket
    function expose(Order calldata order, Opening calldata opening) external nonReentrantView {
        Answers.expose(_book, _life(taskOf(order)), order, opening);
    }

    /// @inheritdoc ITaskMarket
    function reveal(Order calldata order, Opening calldata opening) external nonReentrantView {
        _reveal(_life(taskOf(order)), order, opening, false);
    }

    /// @inheritdoc ITaskMarket
    function revealMany(Order[] calldata orders, Opening[] calldata openings) external nonReentrantView {
        if (orders.length != openings.length) revert LengthMismatch(orders.length, openings.length);
        Parameters memory p = parameters();
        for (uint256 i; i < orders.length; ++i) {
            _reveal(Lives.load(_book, p, taskOf(orders[i])), orders[i], openings[i], true);
        }
    }

    // ---- Disputes ----

    /// @inheritdoc ITaskMarket
    function challenge(address challenger, Order calldata order) external nonReentrant returns (uint256 gameId) {
        bytes32 uuid = taskOf(order);
        uint256 cap = type(uint256).max;
        if (msg.sender == challenger) {
            Life memory l = _life(uuid);
            _top(challenger, Terms.bond(l.p, l.priceOf(order)));
        } else {
            cap = _checkSigner(challenger);
        }
        // INVARIANT 42: the task as it is when the tokens are here.
        return Games.challenge(_book, _life(uuid), order, game, challenger, cap);
    }

    /// @inheritdoc IDisputeMarket
    function onGameEnded(bytes32 task, uint256 gameId, address, bool executorLost, bool byClock)
        external
        nonReentrantView
    {
        if (msg.sender != address(game)) revert NotTheGame(msg.sender);
        Games.end(_book, _life(task), gameId, executorLost, byClock);
    }

    /// @inheritdoc ITaskMarket
    function demand(Order calldata order, Leaf[] calldata leaves) external nonReentrantView {
        Demands.demand(_book, _life(taskOf(order)), order.client, leaves);
    }

    /// @inheritdoc ITaskMarket
    function show(Order calldata order, Leaf[] calldata leaves, LeafProof[] calldata proofs) external nonReentrantView {
        Demands.show(_book, _life(taskOf(order)), leaves, proofs);
    }

    // ---- Ends ----

    /// @inheritdoc ITaskMarket
    function close(Order calldata order) external nonReentrantView {
        _close(_life(taskOf(order)), order, false);
    }

    /// @inheritdoc ITaskMarket
    function closeMany(Order[] calldata orders) external nonReentrantView {
        Parameters memory p = parameters();
        for (uint256 i; i < orders.length; ++i) {
            _close(Lives.load(_book, p, taskOf(orders[i])), orders[i], true);
        }
    }

    /// @inheritdoc ITaskMarket
    function settle(Order calldata order, uint256 index) external nonReentrantView {
        Convictions.settle(_book, _life(taskOf(order)), order, index);
    }

    /// @inheritdoc ITaskMarket
    function refund(Order calldata order, uint256 gameId) external nonReentrantView {
        Convictions.refund(_book, _life(taskOf(order)), order, gameId);
    }

    /// @inheritdoc ITaskMarket
    function slash(Order calldata order) external nonReentrantView {
        Convictions.slash(_book, _life(taskOf(order)), order, serviceManager);
    }

    // ---- Views ----

    /// @inheritdoc IDisputeMarket
    function taskAt(bytes32 task) external view returns (Task memory) {
        Life memory l = _life(task);
        return Task({
            executor: l.step.executor,
            state: l.step.state,
            acceptedAt: l.step.acceptedAt,
            since: l.step.since,
            exec: l.step.exec,
            claim: _book.claims[task],
            committedAt: l.isCommitted() ? l.committedAt().toUint32() : 0,
            seats: l.draw.seats,
            answered: l.draw.answered,
            agreed: l.draw.agreed,
            differed: l.draw.differed
        });
    }

    /// @inheritdoc IDisputeMarket
    function outputsRootOf(bytes32 task) external view returns (bytes32) {
        return Lives.isRevealed(_book, _life(task)) ? _book.claims[task] : bytes32(0);
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
        return _book.mixes[blockNumber];
    }

    /// @inheritdoc ITaskMarket
    function isDrawn(Order calldata order) external view returns (bool known, bool drawn) {
        return Views.isDrawn(_book, _life(taskOf(order)), order.checkRate);
    }

    /// @inheritdoc ITaskMarket
    function seatOf(bytes32 task, uint256 index) external view returns (uint256 seat) {
        return Views.seatOf(_book, _life(task), index);
    }

    /// @inheritdoc ITaskMarket
    function answerOf(bytes32 task, uint256 index) external view returns (Answer memory) {
        return _book.answers[task][index];
    }

    /// @inheritdoc ITaskMarket
    function gameOf(bytes32 task, uint256 gameId) external view returns (Challenge memory) {
        return _book.challenges[task][gameId];
    }

    /// @inheritdoc ITaskMarket
    function convictionOf(bytes32 task) external view returns (Conviction memory) {
        return _book.convictions[task];
    }

    /// @inheritdoc ITaskMarket
    function accountOf(address account) external view returns (Account memory) {
        return _book.accounts[account];
    }

    /// @inheritdoc IDisputeMarket
    function mayAct(address account, address sender) external view returns (bool) {
        if (sender == account) return true;
        (address signer,) = _signerOf(account);
        return sender == signer && signer != address(0);
    }

    // ---- One task ----

    function _times(bytes32 task) private view returns (uint256 deadline, uint256 by, uint256 seedBlock) {
        return Views.times(_book, _life(task));
    }

    function _reveal(Life memory l, Order calldata order, Opening calldata o, bool many) private {
        if (o.slot != 0) {
            // An executor that did not reveal in its time ends here, so that those who answered can go on.
            if (l.step.state == State.Committed) {
                _close(l, order, false);
                l = _life(l.uuid);
            }
            return Answers.reveal(_book, l, order, o, game, many);
        }
        uint256 last = l.revealBy();
        if (many && (l.step.state > State.Committed || block.number > last)) return;
        l.checkState(State.Committed);
        // INVARIANT 22: a drawn task's result stays hidden until no answer can copy it.
        if (Lives.isDrawn(_book, l, order.checkRate)) Lives.checkAfter(l.checkBy());
        Lives.checkUntil(last);
        l.checkOpening(l.step.executor, o, _book.claims[l.uuid]);

        (_book.steps[l.uuid].state, _book.steps[l.uuid].since) = (State.Revealed, block.number.toUint32());
        _book.claims[l.uuid] = o.outputsRoot;
        emit Revealed(l.uuid, 0, o.outputsRoot);
    }

    function _close(Life memory l, Order calldata order, bool many) private {
        Ends.close(_book, l, order, game, serviceManager, many);
    }
}
