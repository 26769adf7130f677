"""What the market computes and enforces, held to a receipt: amounts, windows, and what follows from what."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from eigentensor import economics
from eigentensor.errors import WrongReceipt
from eigentensor.receipt.facts import lost_by, windows
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
    Unlocked,
)
from eigentensor.wire import Object

_WINDOWS = {Accepted: "accept", Committed: "commit", Seeded: "seed", Answered: "answer", Challenged: "challenge"}
_INDICES = 16  # of answers, for each verifier
_AFTER_THE_END = (Settled, Unlocked, BondReturned, Slashed, StakeSlashed, Noted, Paid)


@dataclass(frozen=True, slots=True)
class Proved(Object):
    """Something that a receipt proves."""

    by: str
    """What proves it: signature, hash or formula; chain is what a chain must say."""
    what: str
    """What it says, in words."""
    left: str = ""
    """What it leaves to be asked of the chain, which has it if it has the receipt's events; empty: nothing is left."""


def check_rules(receipt: Receipt) -> Iterator[Proved]:
    """Raises WrongReceipt where the market would not have let it be."""
    _check_amounts(receipt)
    yield Proved("formula", "price, collateral, bonds, payment and refund follow from order and parameters")
    _check_windows(receipt)
    _check_answers(receipt)
    yield Proved("formula", "every block that it names is in its window")
    _check_games(receipt)
    _check_end(receipt)
    if receipt.life.drawn is not None:
        words = "drawn" if receipt.life.drawn else "not drawn"
        yield Proved("formula", f"with this random value the task is {words} for a check")


def _check_amounts(receipt: Receipt) -> None:
    life, order, p = receipt.life, receipt.order, receipt.market.parameters
    won, prepaid = sum(lost_by(game) == "challenger" for game in life.games.values()), 0
    paid = life.price or 0
    for number, event in enumerate(receipt.events):
        expected: dict[str, int | str | None] = {}
        match event:
            case Accepted():
                terms = order.min_price, order.max_price, order.ramp_start, order.ramp_length
                expected["price"] = price = economics.price(*terms, event.place.block)
                expected["collateral"] = economics.collateral(p, price, order.verifiers, order.check_fee)
            case Locked():
                expected["operator"], expected["end"] = life.executor, life.end
            case Challenged():
                expected["bond"] = economics.bond(p, paid)
            case Exposed():
                held = economics.bond(p, paid) if event.slot else economics.reward(p, paid)
                expected["amount"] = held // 2
            case Demanded():
                expected["by"] = event.place.block + economics.clock(p, order.exec)
                prepaid += len(event.leaves) * p.g_chunk
            case Closed():
                fees = min(life.agreed, order.verifiers) * order.check_fee
                expected["paid"] = paid + won * economics.bond_share(p, paid) + prepaid
                expected["refund"] = order.escrow - paid - fees
            case Convicted():
                expected["refund"] = order.escrow + prepaid
        for name, right in expected.items():
            if (stated := getattr(event, name)) != right:
                _refuse(number, f"{name} is {stated}, {right} by the market's rules")


def _check_windows(receipt: Receipt) -> None:
    life, blocks = receipt.life, windows(receipt.life)
    for number, event in enumerate(receipt.events):
        name = _WINDOWS.get(type(event))
        if isinstance(event, Revealed):
            name = "answers_reveal" if event.slot else "reveal"
        window = blocks[name] if name else None
        if name and (window is None or not window[0] <= event.place.block <= window[1]):
            _refuse(number, f"{type(event).__name__} stands outside of its window, {name}")
        own = isinstance(event, Revealed) and not event.slot
        if own and life.drawn and event.place.block <= life.check_by and not life.answers:
            _refuse(number, "a drawn task that nobody answered is revealed after the time of the answers")


def _check_answers(receipt: Receipt) -> None:
    """Between seed and reveals each verifier answers once; what is revealed or exposed was hidden before."""
    life, seeded, answers, revealed = receipt.life, False, dict[int, str](), set[int]()
    for number, event in enumerate(receipt.events):
        if isinstance(event, Revealed | Answered) and not seeded:
            _refuse(number, "without a seed nobody answers, and nothing is revealed")
        match event:
            case Seeded():
                seeded = True
            case Answered():
                index = event.index < _INDICES * receipt.order.verifiers
                if not (life.drawn and index and event.operator != life.executor and not revealed):
                    _refuse(number, "nobody may answer there")
                if event.index in answers or event.operator in answers.values():
                    raise WrongReceipt("checks.answers", "a verifier answered twice")
                answers[event.index] = event.operator
            case Revealed() | Exposed() if event.slot and event.slot - 1 not in answers:
                raise WrongReceipt("checks.answers", "an answer is revealed that nobody gave")
            case Revealed():
                if event.slot in revealed:
                    _refuse(number, "it was revealed before")
                revealed.add(event.slot)


def _check_games(receipt: Receipt) -> None:
    """A game is opened before it ends, and by each answer that differs while its executor is not convicted."""
    life, opened, over, differed = receipt.life, dict[int, str](), dict[int, bool](), set[str]()
    ended = set[int]()
    for number, event in enumerate(receipt.events):
        match event:
            case Challenged():
                if event.game_id in opened:
                    _refuse(number, "the game is open already")
                opened[event.game_id] = event.challenger
                differed.discard(event.challenger)
            case Revealed() if event.slot and life.outputs_root not in (None, event.outputs_root):
                differed.add(life.answers[event.slot - 1].operator)
            case GameEnded():
                if opened.get(event.game_id) != event.challenger or event.game_id in over:
                    _refuse(number, "its challenger opened no such game, or it is over")
                over[event.game_id] = event.executor_lost
            case Ended():
                if event.game_id not in opened or over.get(event.game_id, event.executor_lost) != event.executor_lost:
                    _refuse(number, "there is no such game, or it ended otherwise")
                ended.add(event.game_id)
            case Convicted():
                return
    if differed:
        raise WrongReceipt("games", f"the answer of {sorted(differed)[0]} differs, and opened no game")
    if ended - over.keys():
        raise WrongReceipt("games", "a game ended of which the market took no notice")
    if any(over.values()):
        raise WrongReceipt("games", "the executor lost a game and was not convicted")


def _check_end(receipt: Receipt) -> None:
    """What is settled, unlocked, slashed or returned has an end before it; a conviction has its cause."""
    life, ended = receipt.life, False
    lost = {event.challenger for event in receipt.events if isinstance(event, GameEnded) and event.executor_lost}
    for number, event in enumerate(receipt.events):
        ended |= isinstance(event, Closed | Convicted)
        if isinstance(event, _AFTER_THE_END) and not ended:
            _refuse(number, f"{type(event).__name__} before the task is over")
        if isinstance(event, Convicted):
            causes = {
                Cause.VERDICT: event.winner in lost,
                Cause.SILENCE: life.outputs_root is None and bool(life.drawn),
                Cause.DEMAND: any(isinstance(other, Demanded) for other in receipt.events),
            }
            if not causes.get(event.cause, False):
                _refuse(number, f"nothing that happened is the cause {event.cause.name.lower()}")


def _refuse(number: int, what: str) -> NoReturn:
    raise WrongReceipt(f"events[{number}]", what)
