// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {IDisputeGame} from "../interfaces/IDisputeGame.sol";
import {IServiceManager} from "../interfaces/IServiceManager.sol";
import {Account, Answer, Challenge, ITaskMarket, Opening, Order, Stage, State} from "../interfaces/ITaskMarket.sol";
import {Accounts} from "./Accounts.sol";
import {Bits} from "./Bits.sol";
import {Games} from "./Games.sol";
import {Limits} from "./Limits.sol";
import {Bill, Book, Life, Lives} from "./Lives.sol";
import {Terms} from "./Terms.sol";

/// @title What drawn verifiers say, hidden, exposed and opened
library Answers {
    using Accounts for mapping(address => Account);
    using Bits for uint64;
    using Lives for Life;

    /// @notice See `ITaskMarket.answer`; the caller is the operator's signer, under its cap.
    function answer(
        Book storage book,
        Life memory l,
        Order calldata order,
        IServiceManager serviceManager,
        Answer memory a,
        uint256 index,
        uint256 cap
    ) external {
        l.checkState(State.Committed);
        if (!Lives.isDrawn(book, l, order.checkRate)) revert ITaskMarket.NotDrawn(l.uuid);
        Lives.checkUntil(l.checkBy());
        if (index >= Limits.DRAWS * order.verifiers) revert ITaskMarket.UnknownSlot(l.uuid, index + 1);
        _checkSeat(book, l, serviceManager, a.operator, index);
        // INVARIANT 41: a seat without stake says nothing.
        serviceManager.checkSeats(a.operator);

        book.answers[l.uuid][index] = a;
        book.draws[l.uuid].answered = l.draw.answered.with(index);
        book.accounts.hold(a.operator, Terms.bond(l.p, l.priceOf(order)), cap);
        emit ITaskMarket.Answered(l.uuid, index, a.operator, a.claim);
    }

    /// @notice See `ITaskMarket.expose`.
    function expose(Book storage book, Life memory l, Order calldata order, Opening calldata o) external {
        l.checkState(State.Committed);
        if (Lives.mixOf(book, l) == 0) Lives.checkUntil(l.seedBlock() + l.p.record);
        else Lives.checkUntil(Lives.isDrawn(book, l, order.checkRate) ? l.checkBy() : l.seedBlock());
        uint256 price = l.priceOf(order);
        address operator = l.step.executor;
        uint256 held;
        // INVARIANT 24: an exposure moves collateral or a bond, once per slot, and nothing else.
        if (o.slot == 0) {
            if (l.has(Lives.EXPOSED)) revert ITaskMarket.AlreadyOpened(l.uuid, 0);
            l.checkOpening(operator, o, book.claims[l.uuid]);
            book.draws[l.uuid].flags = l.draw.flags | Lives.EXPOSED;
            held = Terms.reward(l.p, price);
        } else {
            operator = _hidden(book, l, o);
            book.answers[l.uuid][o.slot - 1].stage = Stage.Exposed;
            held = Terms.bond(l.p, price);
        }
        uint256 reward = held / 2;
        book.accounts.release(operator, held, 0);
        book.accounts.credit(msg.sender, reward);
        book.accounts.credit(Lives.BURN, held - reward);
        emit ITaskMarket.Exposed(l.uuid, o.slot, msg.sender, reward);
    }

    /// @notice See `ITaskMarket.reveal`, of a slot above zero; the task is Revealed or Convicted. `many`: what comes too late,
    /// or is opened already, is left alone.
    function reveal(
        Book storage book,
        Life memory l,
        Order calldata order,
        Opening calldata o,
        IDisputeGame game,
        bool many
    ) external {
        if (l.step.state != State.Revealed) l.checkState(State.Convicted);
        uint256 last = Lives.answersBy(book, l);
        Stage stage = book.answers[l.uuid][o.slot - 1].stage;
        if (many && (block.number > last || stage > Stage.Hidden)) return;
        Lives.checkUntil(last);
        address operator = _hidden(book, l, o);

        bool agrees = Lives.isRevealed(book, l) && o.outputsRoot == book.claims[l.uuid];
        uint256 index = o.slot - 1;
        book.answers[l.uuid][index] = Answer(operator, agrees ? Stage.Agreed : Stage.Differed, o.outputsRoot);
        if (agrees) book.draws[l.uuid].agreed = l.draw.agreed.with(index);
        else book.draws[l.uuid].differed = l.draw.differed.with(index);
        emit ITaskMarket.Revealed(l.uuid, o.slot, o.outputsRoot);
        if (agrees || l.step.state == State.Convicted) return;
        Bill memory b = l.bill(order);
        // SAFETY: slots go up to 64.
        // forge-lint: disable-next-line(unsafe-typecast)
        Games.open(book, l, b, game, Challenge(operator, uint8(o.slot), false, false));
    }

    function _checkSeat(
        Book storage book,
        Life memory l,
        IServiceManager serviceManager,
        address operator,
        uint256 index
    ) private view {
        uint256 seat = Terms.seatOf(Lives.mixOf(book, l), l.uuid, index, l.draw.seats);
        (address holder, uint256 since) = serviceManager.seatAt(seat);
        // INVARIANT 21: the executor never answers its own task, and nobody answers twice.
        if (holder != operator || since >= l.committedAt() || operator == l.step.executor) {
            revert ITaskMarket.NotYourSeat(operator, seat);
        }
        for (uint256 i; l.draw.answered >> i != 0; ++i) {
            if (l.draw.answered.has(i) && book.answers[l.uuid][i].operator == operator) {
                revert ITaskMarket.AlreadyAnswered(l.uuid, operator);
            }
        }
    }

    /// @dev The operator of a hidden answer that `o` opens.
    function _hidden(Book storage book, Life memory l, Opening calldata o) private view returns (address) {
        Answer memory a = book.answers[l.uuid][o.slot - 1];
        if (a.stage == Stage.None) revert ITaskMarket.UnknownSlot(l.uuid, o.slot);
        if (a.stage != Stage.Hidden) revert ITaskMarket.AlreadyOpened(l.uuid, o.slot);
        l.checkOpening(a.operator, o, a.claim);
        return a.operator;
    }
}
