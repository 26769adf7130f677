"""What the market computes and enforces, held to a receipt: amounts, windows, and what follows from what."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from eigentensor import economics
from eigentensor.errors import WrongReceipt
from eigentensor.receipt.model import Receipt
from eigentensor.task import (
    Accepted,
    Answered,
    BondReturned,
    Cause,
    Challenged,
    Closed,
    Committed,
    Convicted,
    Demanded,
    Ended,
    Exposed,
    GameEnded,
    Locked,
    Noted,
    Paid,
    Revealed,
    Seeded,
    Settled,
    Slashed,
    StakeSlashed,
    State,
    Unlocked,
)

_WINDOWS = {Accepted: "accept", Committed: "commit", Seeded: "seed", Answered: "answer", Challenged: "challenge"}
_INDICES = 16  # of answers, for each verifier
_AFTER_THE_END = (Settled, Unlocked, BondReturned, Slashed, StakeSlashed, Noted, Paid)


@dataclass(frozen=True, slots=True)
class Proved:
    """One line of what a receipt proves. `by` is "signature", "hash" or "formula"; "chain" is what a chain must say.

    `left` is what the line leaves to the chain; the chain that has the receipt's events has that, too.
    """

    by: str
    what: str
    left: str = ""


def check_rules(receipt: Receipt) -> Iterator[Proved]:
    """Raises WrongReceipt where the market would not have let it be."""
    _check_amounts(receipt)
    yield Proved("formula", "price, collateral, bonds, payment and refund follow from order and parameters")
    _check_windows(receipt)
    _check_answers(receipt)
    yield Proved("formula", "every block that it names is in its window")
    _check_games(receipt)
    _check_end(receipt)
    if receipt.told.drawn is not None:
        words = "drawn" if receipt.told.drawn else "not drawn"
        yield Proved("formula", f"with this random value the task is {words} for a check")


def _check_amounts(receipt: Receipt) -> None:
    told, order, p = receipt.told, receipt.order, receipt.market.parameters
    won, taken, prepaid = sum(game.lost_by == "challenger" for game in told.games), 0, 0
    for number, event in enumerate(receipt.events):
        expected: dict[str, int | str] = {}
        match event:
            case Accepted():
                terms = order.min_price, order.max_price, order.ramp_start, order.ramp_length
                taken = event.place.block
                expected["price"] = price = economics.price(*terms, taken)
                expected["collateral"] = economics.collateral(p, price, order.verifiers, order.check_fee)
            case Locked():
                expected["operator"] = told.executor
                expected["end"] = taken + economics.lifetime(p, order.exec)
            case Challenged():
                expected["bond"] = economics.bond(p, told.price)
            case Exposed():
                held = economics.bond(p, told.price) if event.slot else economics.reward(p, told.price)
                expected["amount"] = held // 2
            case Demanded():
                expected["by"] = event.place.block + economics.clock(p, order.exec)
                prepaid += len(event.leaves) * p.g_chunk
            case Closed():
                fees = min(told.agreed, order.verifiers) * order.check_fee
                expected["paid"] = told.price + won * economics.bond_share(p, told.price) + prepaid
                expected["refund"] = order.escrow - told.price - fees
            case Convicted():
                expected["refund"] = order.escrow + prepaid
        for name, right in expected.items():
            if (said := getattr(event, name)) != right:
                _refuse(number, f"{name} is {said}, {right} by the market's rules")


def _check_windows(receipt: Receipt) -> None:
    told = receipt.told
    for number, event in enumerate(receipt.events):
        name = _WINDOWS.get(type(event))
        if isinstance(event, Revealed):
            name = "answers_reveal" if event.slot else "reveal"
        window = told.windows[name] if name else None
        if name and (window is None or not window[0] <= event.place.block <= window[1]):
            _refuse(number, f"{type(event).__name__} stands outside of its window, {name}")
        answers = told.windows["answer"]
        own = isinstance(event, Revealed) and not event.slot
        if own and told.drawn and answers and event.place.block <= answers[1]:
            _refuse(number, "a drawn task is revealed after the answers")


def _check_answers(receipt: Receipt) -> None:
    told, seeded, shown = receipt.told, False, False
    for number, event in enumerate(receipt.events):
        if isinstance(event, Seeded):
            seeded = True
        if isinstance(event, Revealed | Answered) and not seeded:
            _refuse(number, "without a seed nobody answers, and nothing is revealed")
        if isinstance(event, Answered):
            index = event.index < _INDICES * receipt.order.verifiers
            if not (told.drawn and index and event.operator != told.executor and not shown):
                _refuse(number, "nobody may answer there")
        shown |= isinstance(event, Revealed)
    if len({answer.operator for answer in told.answers}) != len(told.answers):
        raise WrongReceipt("checks.answers", "a verifier answered twice")
    slots = {answer.index + 1 for answer in told.answers}
    if any(isinstance(event, Revealed) and event.slot and event.slot not in slots for event in receipt.events):
        raise WrongReceipt("checks.answers", "an answer is revealed that nobody gave")


def _check_games(receipt: Receipt) -> None:
    """A game is opened before it ends, and by each answer that differs while its executor is not convicted."""
    told, opened, over, differed = receipt.told, dict[int, str](), dict[int, bool](), set[str]()
    verifiers = {answer.index + 1: answer.operator for answer in told.answers}
    for number, event in enumerate(receipt.events):
        match event:
            case Challenged():
                opened[event.game_id] = event.challenger
                differed.discard(event.challenger)
            case Revealed() if event.slot and told.outputs_root not in (None, event.outputs_root):
                differed.add(verifiers[event.slot])
            case GameEnded():
                if opened.get(event.game_id) != event.challenger or event.game_id in over:
                    _refuse(number, "its challenger opened no such game, or it is over")
                over[event.game_id] = event.executor_lost
            case Ended():
                if event.game_id not in opened or over.get(event.game_id, event.executor_lost) != event.executor_lost:
                    _refuse(number, "there is no such game, or it ended otherwise")
            case Convicted():
                return
    if differed:
        raise WrongReceipt("games", f"the answer of {sorted(differed)[0]} differs, and opened no game")
    if any(over.values()):
        raise WrongReceipt("games", "the executor lost a game and was not convicted")


def _check_end(receipt: Receipt) -> None:
    """What is settled, unlocked, slashed or returned has an end before it; a conviction has its cause."""
    told, ended = receipt.told, False
    lost = {event.challenger for event in receipt.events if isinstance(event, GameEnded) and event.executor_lost}
    for number, event in enumerate(receipt.events):
        ended |= isinstance(event, Closed | Convicted)
        if isinstance(event, _AFTER_THE_END) and not ended:
            _refuse(number, f"{type(event).__name__} before the task is over")
        if isinstance(event, Convicted):
            causes = {
                Cause.VERDICT: event.winner in lost,
                Cause.SILENCE: told.outputs_root is None and bool(told.drawn),
                Cause.DEMAND: any(isinstance(other, Demanded) for other in receipt.events),
            }
            if not causes.get(event.cause, False):
                _refuse(number, f"nothing that happened is the cause {event.cause.name.lower()}")
        if isinstance(event, Closed) and (told.state is not State.FINAL or told.outputs_root is None):
            _refuse(number, "it is final without a result")


def _refuse(number: int, what: str) -> NoReturn:
    raise WrongReceipt(f"events[{number}]", what)
