// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity 0.8.30;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {IDisputeGame, IDisputeMarket} from "./interfaces/IDisputeGame.sol";
import {IServiceManager} from "./interfaces/IServiceManager.sol";
import {
    Account,
    Answer,
    Cause,
    Challenge,
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
import {Conviction, Life, Lives} from "./libraries/Lives.sol";
import {Terms} from "./libraries/Terms.sol";
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
    function seed(uint256 blockNumber, bytes calldata header) external {
        if (_book.mixes[blockNumber] != 0) return;
        Parameters memory p = parameters();
        if (blockNumber % p.grid != 0) revert NotASeedBlock(blockNumber);
        Lives.checkAfter(blockNumber);
        Lives.checkUntil(blockNumber + p.record);
        bytes32 mix = Headers.mixOf(blockNumber, header);
        _book.mixes[blockNumber] = mix;
        emit Seeded(blockNumber, mix);
    }

    /// @inheritdoc ITaskMarket
    function answer(address operator, Order calldata order, uint256 index, bytes32 commitment) external {
        uint256 cap = _checkSigner(operator);
        Answer memory a = Answer(operator, Stage.Hidden, commitment);
        Answers.answer(_book, _life(taskOf(order)), order, serviceManager, a, index, cap);
    }

    /// @inheritdoc ITaskMarket
    function expose(Order calldata order, Opening calldata opening) external {
        Answers.expose(_book, _life(taskOf(order)), order, opening);
    }

    /// @inheritdoc ITaskMarket
    function reveal(Order calldata order, Opening calldata opening) external {
        _reveal(_life(taskOf(order)), order, opening);
    }

    /// @inheritdoc ITaskMarket
    function revealMany(Order[] calldata orders, Opening[] calldata openings) external {
        if (orders.length != openings.length) revert LengthMismatch(orders.length, openings.length);
        Parameters memory p = parameters();
        for (uint256 i; i < orders.length; ++i) {
            Life memory l = Lives.load(_book, p, taskOf(orders[i]));
            uint256 slot = openings[i].slot;
            bool opened =
                slot == 0 ? l.step.state > State.Committed : _book.answers[l.uuid][slot - 1].stage > Stage.Hidden;
            if (!opened) _reveal(l, orders[i], openings[i]);
        }
    }

    // ---- Disputes ----

    /// @inheritdoc ITaskMarket
    function challenge(address challenger, Order calldata order) external nonReentrant returns (uint256 gameId) {
        Life memory l = _life(taskOf(order));
        uint256 cap = type(uint256).max;
        if (msg.sender == challenger) _top(challenger, Terms.bond(l.p, l.priceOf(order)));
        else cap = _checkSigner(challenger);
        return Games.challenge(_book, l, order, game, challenger, cap);
    }

    /// @inheritdoc IDisputeMarket
    function onGameEnded(bytes32 task, uint256 gameId, address, bool executorLost) external {
        if (msg.sender != address(game)) revert NotTheGame(msg.sender);
        Games.end(_book, _life(task), gameId, executorLost);
    }

    /// @inheritdoc ITaskMarket
    function demand(Order calldata order, Leaf[] calldata leaves) external {
        if (msg.sender != order.client) revert NotTheClient(msg.sender, order.client);
        Demands.demand(_book, _life(taskOf(order)), leaves);
    }

    /// @inheritdoc ITaskMarket
    function show(Order calldata order, Leaf[] calldata leaves, LeafProof[] calldata proofs) external {
        Demands.show(_book, _life(taskOf(order)), leaves, proofs);
    }

    // ---- Ends ----

    /// @inheritdoc ITaskMarket
    function close(Order calldata order) external {
        _close(_life(taskOf(order)), order);
    }

    /// @inheritdoc ITaskMarket
    function closeMany(Order[] calldata orders) external {
        Parameters memory p = parameters();
        for (uint256 i; i < orders.length; ++i) {
            Life memory l = Lives.load(_book, p, taskOf(orders[i]));
            if (l.step.state >= State.Accepted && l.step.state <= State.Revealed) _close(l, orders[i]);
        }
    }

    /// @inheritdoc ITaskMarket
    function settle(Order calldata order, uint256 index) external {
        Convictions.settle(_book, _life(taskOf(order)), order, index);
    }

    /// @inheritdoc ITaskMarket
    function refund(Order calldata order, uint256 gameId) external {
        Convictions.refund(_book, _life(taskOf(order)), order, gameId);
    }

    /// @inheritdoc ITaskMarket
    function slash(Order calldata order) external {
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
    function deadlineOf(bytes32 task) external view returns (uint256) {
        return Lives.deadline(_book, _life(task));
    }

    /// @inheritdoc ITaskMarket
    function answersBy(bytes32 task) external view returns (uint256) {
        Life memory l = _life(task);
        return l.isCommitted() ? Lives.answersBy(_book, l) : 0;
    }

    /// @inheritdoc ITaskMarket
    function seedBlockOf(bytes32 task) external view returns (uint256) {
        Life memory l = _life(task);
        return l.isCommitted() ? l.seedBlock() : 0;
    }

    /// @inheritdoc ITaskMarket
    function seedOf(uint256 blockNumber) external view returns (bytes32 mix) {
        return _book.mixes[blockNumber];
    }

    /// @inheritdoc ITaskMarket
    function isDrawn(Order calldata order) external view returns (bool known, bool drawn) {
        Life memory l = _life(taskOf(order));
        known = l.isCommitted() && Lives.mixOf(_book, l) != 0;
        drawn = known && Lives.isDrawn(_book, l, order.checkRate);
    }

    /// @inheritdoc ITaskMarket
    function seatOf(bytes32 task, uint256 index) external view returns (uint256 seat) {
        Life memory l = _life(task);
        bytes32 mix = Lives.mixOf(_book, l);
        if (mix == 0 || !l.isCommitted()) revert NoSeed(l.seedBlock());
        return Terms.seatOf(mix, task, index, l.draw.seats);
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
    function convictionOf(bytes32 task) external view returns (Cause cause, address winner, bool slashed) {
        Conviction memory c = _book.convictions[task];
        return (c.cause, c.winner, c.slashed);
    }

    /// @inheritdoc ITaskMarket
    function accountOf(address account) external view returns (Account memory) {
        return _book.accounts[account];
    }

    /// @inheritdoc IDisputeMarket
    function mayAct(address account, address sender) external view returns (bool) {
        if (sender == account) return true;
        (address signer,,) = serviceManager.signerOf(account);
        return sender == signer && signer != address(0);
    }

    // ---- One task ----

    function _reveal(Life memory l, Order calldata order, Opening calldata o) private {
        if (o.slot != 0) {
            // An executor that did not reveal in its time ends here, so that those who answered can go on.
            if (l.step.state == State.Committed) {
                _close(l, order);
                l = _life(l.uuid);
            }
            return Answers.reveal(_book, l, order, o, game);
        }
        l.checkState(State.Committed);
        // INVARIANT 22: a drawn task's result stays hidden until no answer can copy it.
        if (Lives.isDrawn(_book, l, order.checkRate)) Lives.checkAfter(l.checkBy());
        Lives.checkUntil(l.revealBy());
        l.checkOpening(l.step.executor, o, _book.claims[l.uuid]);

        (_book.steps[l.uuid].state, _book.steps[l.uuid].since) = (State.Revealed, block.number.toUint32());
        _book.claims[l.uuid] = o.outputsRoot;
        emit Revealed(l.uuid, 0, o.outputsRoot);
    }

    function _close(Life memory l, Order calldata order) private {
        Ends.close(_book, l, order, game, serviceManager);
    }
}
