"""From the events of a task to what they come to. Pure."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from eigentensor import economics
from eigentensor.chain import Head
from eigentensor.economics import Parameters
from eigentensor.errors import WrongReceipt
from eigentensor.receipt.told import Answerer, Played, Told
from eigentensor.task import (
    Accepted,
    Answered,
    Challenged,
    Closed,
    Committed,
    Convicted,
    Ended,
    Event,
    Exposed,
    GameEnded,
    Locked,
    Order,
    Posted,
    Revealed,
    Seeded,
    State,
    TaskEvent,
)

E = TypeVar("E", bound=Event)


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
        lock_end=locked.end,
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
