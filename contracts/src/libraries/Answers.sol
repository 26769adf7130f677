// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.30;

import {IDisputeGame} from "../interfaces/IDisputeGame.sol";
import {IServiceManager} from "../interfaces/IServiceManager.sol";
import {Account, IMarket} from "../interfaces/IMarket.sol";
import {Answer, Challenge, ITaskMarket, Opening, Order, Parameters, Stage, State} from "../interfaces/ITaskMarket.sol";
import {Accounts} from "./Accounts.sol";
import {Bits} from "./Bits.sol";
import {Games} from "./Games.sol";
import {Limits} from "./Limits.sol";
import {Ledger, Life, Lives} from "./Lives.sol";
import {Terms} from "./Terms.sol";

/// @title What drawn verifiers say, hidden, exposed and opened
library Answers {
    using Accounts for mapping(address => Account);
    using Bits for uint64;
    using Lives for Life;

    /// @notice See `ITaskMarket.answer`; the caller is the operator's signer, under its cap.
    function answer(
        Ledger storage ledger,
        Parameters memory p,
        bytes32 uuid,
        Order calldata order,
        IServiceManager serviceManager,
        Answer memory a,
        uint256 index,
        uint256 cap
    ) external {
        Life memory l = Lives.load(ledger, p, uuid);
        l.checkState(State.Committed);
        if (!Lives.isDrawn(ledger, l, order.checkRate)) revert ITaskMarket.NotDrawn(l.uuid);
        Lives.checkUntil(l.checkBy());
        if (index >= Limits.DRAWS * order.verifiers) revert IMarket.UnknownSlot(l.uuid, index + 1);
        _checkSeat(ledger, l, serviceManager, a.operator, index);
        // INVARIANT 41: a seat without stake says nothing.
        serviceManager.checkSeats(a.operator);

        ledger.answers[l.uuid][index] = a;
        ledger.tallies[l.uuid].answered = l.tally.answered.with(index);
        ledger.accounts.hold(a.operator, Terms.bond(l.p, l.priceOf(order)), cap);
        emit ITaskMarket.Answered(l.uuid, index, a.operator, a.claim);
    }

    /// @notice See `ITaskMarket.expose`.
    function expose(
        Ledger storage ledger,
        Parameters memory p,
        bytes32 uuid,
        Order calldata order,
        IServiceManager serviceManager,
        Opening calldata o
    ) external {
        Life memory l = Lives.load(ledger, p, uuid);
        l.checkState(State.Committed);
        if (Lives.mixOf(ledger, l) == 0) {
            Lives.checkUntil(l.seedBlock() + l.p.record);
        } else if (!Lives.isDrawn(ledger, l, order.checkRate)) {
            Lives.checkUntil(l.seedBlock());
        } else {
            Lives.checkUntil(l.checkBy());
            if (!_isAwaited(ledger, l, order, serviceManager)) revert ITaskMarket.AnswersOver(uuid);
        }
        uint256 price = l.priceOf(order);
        address operator = l.progress.executor;
        uint256 held;
        // INVARIANT 24: an exposure moves collateral or a bond, once per slot, and nothing else.
        if (o.slot == 0) {
            if (l.has(Lives.EXPOSED)) revert IMarket.AlreadyOpened(l.uuid, 0);
            l.checkOpening(operator, o, ledger.claims[l.uuid]);
            ledger.tallies[l.uuid].flags = l.tally.flags | Lives.EXPOSED;
            held = Terms.reward(l.p, price);
        } else {
            operator = _hidden(ledger, l, o);
            ledger.answers[l.uuid][o.slot - 1].stage = Stage.Exposed;
            held = Terms.bond(l.p, price);
        }
        uint256 reward = held / 2;
        ledger.accounts.release(operator, held, 0);
        ledger.accounts.credit(msg.sender, reward);
        ledger.accounts.credit(Lives.BURN, held - reward);
        emit ITaskMarket.Exposed(l.uuid, o.slot, msg.sender, reward);
    }

    /// @notice Reverts while an answer to a drawn task may come: before checkBy the executor reveals if nobody is left that
    /// may give one.
    function checkOver(
        Ledger storage ledger,
        Parameters memory p,
        bytes32 uuid,
        Order calldata order,
        IServiceManager serviceManager
    ) external view {
        Life memory l = Lives.load(ledger, p, uuid);
        if (_isAwaited(ledger, l, order, serviceManager)) revert IMarket.TooEarly(block.number, l.checkBy());
    }

    /// @notice See `ITaskMarket.reveal`, of a slot above zero; the task is Revealed or Convicted. `many`: what comes too late,
    /// or is opened already, is left alone.
    function reveal(
        Ledger storage ledger,
        Parameters memory p,
        bytes32 uuid,
        Order calldata order,
        Opening calldata o,
        IDisputeGame game,
        bool many
    ) external {
        Life memory l = Lives.load(ledger, p, uuid);
        if (l.progress.state != State.Revealed) l.checkState(State.Convicted);
        uint256 last = Lives.answersBy(ledger, l);
        uint256 index = o.slot - 1;
        if (many && (block.number > last || ledger.answers[l.uuid][index].stage > Stage.Hidden)) return;
        Lives.checkUntil(last);
        address operator = _hidden(ledger, l, o);

        bool agrees = Lives.isRevealed(ledger, l.uuid, l.progress.state) && o.outputsRoot == ledger.claims[l.uuid];
        ledger.answers[l.uuid][index] = Answer(operator, agrees ? Stage.Agreed : Stage.Differed, o.outputsRoot);
        if (agrees) ledger.tallies[l.uuid].agreed = l.tally.agreed.with(index);
        else ledger.tallies[l.uuid].differed = l.tally.differed.with(index);
        emit ITaskMarket.Revealed(l.uuid, o.slot, o.outputsRoot);
        if (agrees || l.progress.state == State.Convicted) return;
        // SAFETY: slots go up to 64.
        // forge-lint: disable-next-line(unsafe-typecast)
        Challenge memory challenge = Challenge(operator, uint8(o.slot), false, false);
        Games.open(ledger, l, l.bill(order), game, challenge);
    }

    function _checkSeat(
        Ledger storage ledger,
        Life memory l,
        IServiceManager serviceManager,
        address operator,
        uint256 index
    ) private view {
        uint256 seats = serviceManager.seatCountAt(l.progress.committedAt);
        (address candidate, uint256 seat) = _candidate(ledger, l, serviceManager, seats, index);
        if (candidate != operator) revert IMarket.NotYourSeat(operator, seat);
        // INVARIANT 21: nobody answers twice.
        if (_hasAnswered(ledger, l, operator)) revert IMarket.AlreadyAnswered(l.uuid, operator);
    }

    /// @dev Whether an answer may come until checkBy: nobody has answered yet, or not every drawn seat's operator has.
    /// INVARIANT 45: seats lose the right to answer a task and never get it back, so an end of the answers is for good.
    function _isAwaited(Ledger storage ledger, Life memory l, Order calldata order, IServiceManager serviceManager)
        private
        view
        returns (bool)
    {
        if (l.tally.answered == 0) return true;
        uint256 seats = serviceManager.seatCountAt(l.progress.committedAt);
        for (uint256 i; i < Limits.DRAWS * order.verifiers; ++i) {
            if (l.tally.answered.has(i)) continue;
            (address candidate,) = _candidate(ledger, l, serviceManager, seats, i);
            if (candidate != address(0) && !_hasAnswered(ledger, l, candidate)) return true;
        }
        return false;
    }

    /// @dev Who may answer at an index, unless it has answered at another: zero if the seat that is drawn for it is nobody's,
    /// younger than the commit, or the executor's. So many seats were there at the commit.
    function _candidate(
        Ledger storage ledger,
        Life memory l,
        IServiceManager serviceManager,
        uint256 seats,
        uint256 index
    ) private view returns (address operator, uint256 seat) {
        seat = Terms.seatOf(Lives.mixOf(ledger, l), l.uuid, index, seats);
        uint256 since;
        (operator, since) = serviceManager.seatAt(seat);
        // INVARIANT 21: the executor never answers its own task.
        if (since >= l.progress.committedAt || operator == l.progress.executor) operator = address(0);
    }

    function _hasAnswered(Ledger storage ledger, Life memory l, address operator) private view returns (bool) {
        for (uint64 rest = l.tally.answered; rest != 0; rest &= rest - 1) {
            if (ledger.answers[l.uuid][rest.lowest()].operator == operator) return true;
        }
        return false;
    }

    /// @dev The operator of a hidden answer that `o` opens.
    function _hidden(Ledger storage ledger, Life memory l, Opening calldata o) private view returns (address) {
        Answer memory a = ledger.answers[l.uuid][o.slot - 1];
        if (a.stage == Stage.None) revert IMarket.UnknownSlot(l.uuid, o.slot);
        if (a.stage != Stage.Hidden) revert IMarket.AlreadyOpened(l.uuid, o.slot);
        l.checkOpening(a.operator, o, a.claim);
        return a.operator;
    }
}
