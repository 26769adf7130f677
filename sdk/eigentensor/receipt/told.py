"""What the events of a task come to: who, how much, until when, checked or not. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from eigentensor import economics
from eigentensor.chain import (
    Accepted,
    Answered,
    Cause,
    Challenged,
    Closed,
    Committed,
    Convicted,
    Ended,
    Event,
    Exposed,
    GameEnded,
    Head,
    Locked,
    Order,
    Posted,
    Revealed,
    Seeded,
    State,
    TaskEvent,
)
from eigentensor.economics import Parameters
from eigentensor.errors import WrongReceipt

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class Answerer:
    """A drawn verifier: `seat` is the drawn place in the list of seats; `agrees` is None unless it was revealed."""

    index: int
    operator: str
    seat: int | None
    commitment: bytes
    outputs_root: bytes | None
    agrees: bool | None
    exposed: bool


@dataclass(frozen=True, slots=True)
class Played:
    """A game about the result. `lost_by` is None while it is open, and where a conviction made it idle."""

    number: int
    challenger: str
    bond: int
    lost_by: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Told:
    """Amounts are wei of the market's token, times blocks; None is what has not happened, or is not known yet.

    `windows` are the first and the last block in which something could be done.
    """

    state: State
    executor: str
    commitment: bytes
    outputs_root: bytes | None
    price: int
    escrow: int
    collateral: int
    stake: int
    paid: int | None
    refund: int | None
    cause: Cause | None
    seats: int
    seed_block: int
    mix: bytes | None
    drawn: bool | None
    answers: tuple[Answerer, ...]
    games: tuple[Played, ...]
    windows: dict[str, tuple[int, int] | None]

    @property
    def agreed(self) -> int:
        return sum(answer.agrees is True for answer in self.answers)

    @property
    def open_games(self) -> tuple[int, ...]:
        """While the task is not over: those that can still convict its executor."""
        open_ = (game.number for game in self.games if game.lost_by is None)
        return tuple(open_) if self.state is State.REVEALED else ()

    @property
    def checked(self) -> str | None:
        """`checked(k)`: k verifiers re-executed it and agree; `unchecked`: nobody did; None: not known yet."""
        if self.state is State.CONVICTED:
            return None
        if self.agreed:
            return f"checked({self.agreed})"
        nobody = not self.answers and not self.open_games
        return "unchecked" if self.state is State.FINAL or nobody else None

    @property
    def words(self) -> str:
        """The state in the words of the glossary."""
        if self.state is State.CONVICTED:
            return "convicted"
        if self.state is State.FINAL:
            return f"final, {self.checked}"
        return f"{self.checked or 'result'}{', challenged' if self.open_games else ''}"

    def to_json(self) -> dict[str, Any]:
        """The part of a receipt that follows from the rest of it."""
        return {
            "state": self.words,
            "money": {
                "price": str(self.price),
                "escrow": str(self.escrow),
                "collateral": str(self.collateral),
                "stake": str(self.stake),
                "paid": None if self.paid is None else str(self.paid),
                "refund": None if self.refund is None else str(self.refund),
            },
            "checks": {
                "seats": self.seats,
                "seed_block": self.seed_block,
                "seed": _text(self.mix),
                "drawn": self.drawn,
                "answers": [
                    {
                        "index": answer.index,
                        "verifier": answer.operator,
                        "seat": answer.seat,
                        "commitment": _text(answer.commitment),
                        "outputs_root": _text(answer.outputs_root),
                        "agrees": answer.agrees,
                        "exposed": answer.exposed,
                    }
                    for answer in self.answers
                ],
            },
            "games": [
                {
                    "game": game.number,
                    "challenger": game.challenger,
                    "bond": str(game.bond),
                    "lost_by": game.lost_by,
                    "reason": game.reason,
                }
                for game in self.games
            ],
            "windows": {
                name: None if window is None else {"first": window[0], "last": window[1]}
                for name, window in self.windows.items()
            },
        }


def tell(uuid: bytes, order: Order, p: Parameters, seats: int, events: Sequence[Event], head: Head) -> Told:
    """Raises WrongReceipt where the events are not the life of this order's task up to a result or a conviction."""
    _check_places(uuid, events, head)
    posted, accepted = _one(events, Posted), _one(events, Accepted)
    if posted.order != order or posted.client != order.client:
        raise WrongReceipt("events", "what was posted is not the order's")
    committed, locked = _one(events, Committed), _one(events, Locked)
    seed_block = economics.seed_block(committed.place.block, p.lag, p.grid)
    seeded = _last(events, Seeded)
    if seeded is not None and seeded.seed_block != seed_block:
        raise WrongReceipt("events", f"the seed is of block {seeded.seed_block}, that of the task is {seed_block}")
    mix = None if seeded is None else seeded.mix
    revealed = {event.slot: event for event in _all(events, Revealed)}
    own, closed, convicted = revealed.get(0), _last(events, Closed), _last(events, Convicted)
    if closed is not None and convicted is not None:
        raise WrongReceipt("events", "the task is both final and convicted")
    state = State.REVEALED if own else State.COMMITTED
    state = State.FINAL if closed else State.CONVICTED if convicted else state
    if own is None and state is not State.CONVICTED:
        raise WrongReceipt("events", "no result was revealed, and nobody was convicted")
    root = None if own is None else own.outputs_root
    end = closed or convicted
    return Told(
        state=state,
        executor=accepted.executor,
        commitment=committed.commitment,
        outputs_root=root,
        price=accepted.price,
        escrow=order.escrow,
        collateral=accepted.collateral,
        stake=economics.stake(p, accepted.price, order.value_at_risk, order.check_rate, order.verifiers),
        paid=None if closed is None else closed.paid,
        refund=None if end is None else end.refund,
        cause=None if convicted is None else convicted.cause,
        seats=seats,
        seed_block=seed_block,
        mix=mix,
        drawn=None if mix is None else economics.is_drawn(mix, uuid, order.check_rate),
        answers=tuple(_answers(uuid, events, revealed, root, mix, seats)),
        games=tuple(_games(events)),
        windows=_windows(order, p, posted, accepted, committed, seed_block, own, locked.end),
    )


def _check_places(uuid: bytes, events: Sequence[Event], head: Head) -> None:
    """In order, until the head; a transaction is in one block, and a block has one hash."""
    last = (-1, -1)
    blocks: dict[bytes | int, bytes | int] = {head.number: head.hash, head.hash: head.number}
    for number, event in enumerate(events):
        place, where = event.place, f"events[{number}]"
        if (place.block, place.index) <= last or place.block > head.number:
            raise WrongReceipt(where, "it stands before the one above it, or after the head")
        if isinstance(event, TaskEvent) and event.task != uuid:
            raise WrongReceipt(where, "it is of another task")
        pairs = ((place.block, place.block_hash), (place.block_hash, place.block), (place.transaction, place.block))
        for one, other in pairs:
            if blocks.setdefault(one, other) != other:
                raise WrongReceipt(where, "its block is another one than that of its neighbours")
        last = place.block, place.index


def _answers(
    uuid: bytes,
    events: Sequence[Event],
    revealed: dict[int, Revealed],
    root: bytes | None,
    mix: bytes | None,
    seats: int,
) -> Iterable[Answerer]:
    exposed = {event.slot for event in _all(events, Exposed)}
    for answered in _all(events, Answered):
        slot = answered.index + 1
        said = revealed[slot].outputs_root if slot in revealed else None
        yield Answerer(
            index=answered.index,
            operator=answered.operator,
            seat=economics.seat_of(mix, uuid, answered.index, seats) if mix and seats else None,
            commitment=answered.commitment,
            outputs_root=said,
            agrees=None if said is None else said == root,
            exposed=slot in exposed,
        )


def _games(events: Sequence[Event]) -> Iterable[Played]:
    ended = {event.game_id: event for event in _all(events, GameEnded)}
    reasons = {event.game_id: event.reason for event in _all(events, Ended)}
    for opened in _all(events, Challenged):
        over, reason = ended.get(opened.game_id), reasons.get(opened.game_id)
        lost_by = None if over is None else "executor" if over.executor_lost else "challenger"
        words = None if reason is None else reason.name.lower()
        yield Played(opened.game_id, opened.challenger, opened.bond, lost_by, words)


def _windows(
    order: Order,
    p: Parameters,
    posted: Posted,
    accepted: Accepted,
    committed: Committed,
    seed_block: int,
    revealed: Revealed | None,
    lock_end: int,
) -> dict[str, tuple[int, int] | None]:
    taken, reveal_by = accepted.place.block, seed_block + economics.reveal_window(p, order.exec)
    shown = None if revealed is None else revealed.place.block
    return {
        "accept": (posted.place.block, order.accept_by),
        "commit": (taken, taken + order.exec),
        "seed": (seed_block + 1, seed_block + p.record),
        "answer": (seed_block + 1, seed_block + economics.check_window(p, order.exec)),
        "reveal": (seed_block + 1, reveal_by),
        "answers_reveal": (shown or reveal_by + 1, (shown or reveal_by) + p.reveal),
        "challenge": None if shown is None else (shown, shown + economics.challenge_window(p, order.exec)),
        "stake": (taken, lock_end),
    }


def _all(events: Sequence[Event], kind: type[E]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def _last(events: Sequence[Event], kind: type[E]) -> E | None:
    found = _all(events, kind)
    if len(found) > 1:
        raise WrongReceipt("events", f"{kind.__name__} happened {len(found)} times")
    return found[0] if found else None


def _one(events: Sequence[Event], kind: type[E]) -> E:
    found = _last(events, kind)
    if found is None:
        raise WrongReceipt("events", f"{kind.__name__} is missing")
    return found


def _text(value: bytes | None) -> str | None:
    return None if value is None else "0x" + value.hex()
