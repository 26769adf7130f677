"""What the events of a receipt come to: a task's life, and what of it a receipt writes out. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from eigentensor import economics
from eigentensor.chain import Head
from eigentensor.economics import Parameters
from eigentensor.errors import WrongReceipt
from eigentensor.task import (
    Accepted,
    Answer,
    Cancelled,
    Closed,
    Committed,
    Convicted,
    Event,
    Expired,
    Failed,
    Game,
    Life,
    Locked,
    Order,
    Posted,
    Revealed,
    Seeded,
    State,
    TaskEvent,
    words,
)
from eigentensor.task.view import text

Windows = Mapping[str, tuple[int, int] | None]
#: The states from which an event takes a task to another: nothing that a receipt is about happens twice, or too early.
_STEPS: Mapping[type[Event], tuple[State, ...]] = {
    Posted: (State.NONE,),
    Accepted: (State.OPEN,),
    Committed: (State.ACCEPTED,),
    Closed: (State.REVEALED,),
    Convicted: (State.COMMITTED, State.REVEALED),
    Cancelled: (),
    Expired: (),
    Failed: (),
}


def life_of(uuid: bytes, order: Order, parameters: Parameters, events: Sequence[Event], head: Head) -> Life:
    """The task's life. Raises WrongReceipt where the events are none of this order up to a result or a conviction."""
    _check_places(uuid, events, head)
    life = Life(uuid, order, parameters)
    for number, event in enumerate(events):
        if isinstance(event, TaskEvent | Seeded):
            _check_step(life, event, f"events[{number}]")
            life = life.step(event)
    if life.state not in (State.REVEALED, State.FINAL, State.CONVICTED):
        raise WrongReceipt("events", "no result was revealed, and nobody was convicted")
    if sum(isinstance(event, Locked) for event in events) != 1:
        raise WrongReceipt("events", "the executor's stake is not locked once")
    return life


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


def _check_step(life: Life, event: Event, where: str) -> None:
    """Whether this can be the next of the steps from state to state, and the seed that of the task."""
    if isinstance(event, Posted) and (event.order, event.client) != (life.order, life.order.client):
        raise WrongReceipt("events", "what was posted is not the order's")
    if isinstance(event, Seeded):
        if life.committed_at is None or life.mix is not None:
            raise WrongReceipt(where, "a seed before the commit, or a second one")
        if event.seed_block != life.seed_block:
            raise WrongReceipt(
                "events", f"the seed is of block {event.seed_block}, that of the task is {life.seed_block}"
            )
    steps = (State.COMMITTED,) if isinstance(event, Revealed) and not event.slot else _STEPS.get(type(event))
    if steps is not None and life.state not in steps:
        raise WrongReceipt(where, f"{type(event).__name__} of a task whose state is {life.state.name.lower()}")


# ---- What a receipt writes out ----


def end_of(life: Life) -> Closed | Convicted | None:
    """The event that ended the task: who was paid what."""
    return next((event for event in reversed(life.events) if isinstance(event, Closed | Convicted)), None)


def agrees(life: Life, answer: Answer) -> bool | None:
    """Whether a verifier got the executor's result; None unless its answer was revealed."""
    return None if answer.root is None else answer.root == life.outputs_root


def lost_by(game: Game) -> str | None:
    """Who lost a game; None while it is open, and where a conviction made it idle."""
    if not game.counted:
        return None
    return "executor" if game.executor_lost else "challenger"


def windows(life: Life) -> Windows:
    """The first and the last block in which something could be done; None: nobody can do it yet."""
    assert life.posted is not None and life.accepted_at is not None
    taken, seed, shown = life.accepted_at, life.seed_block, life.revealed_at
    return {
        "accept": (life.posted.block, life.order.accept_by),
        "commit": (taken, taken + life.order.exec),
        "seed": (seed + 1, life.record_by),
        "answer": (seed + 1, life.check_by),
        "reveal": (seed + 1, life.reveal_by),
        "answers_reveal": (shown or life.reveal_by + 1, life.answers_by),
        "challenge": None if shown is None else (shown, life.challenge_by),
        "stake": (taken, life.end),
    }


def facts(life: Life, seats: int) -> dict[str, Any]:
    """The part of a receipt that follows from the rest of it. `seats` is how many there were at the commit."""
    end = end_of(life)
    return {
        "state": words.standing(life.counts),
        "money": {
            "price": text(life.price),
            "escrow": text(life.order.escrow),
            "collateral": text(life.collateral),
            "stake": text(life.stake),
            "paid": text(end.paid) if isinstance(end, Closed) else None,
            "refund": text(end.refund) if end else None,
        },
        "checks": {
            "seats": seats,
            "seed_block": life.seed_block,
            "seed": _hex(life.mix),
            "drawn": life.drawn,
            "answers": [_answer(life, answer, seats) for answer in life.answers.values()],
        },
        "games": [
            {
                "game": game.number,
                "challenger": game.challenger,
                "bond": str(game.bond),
                "lost_by": lost_by(game),
                "reason": None if game.reason is None else game.reason.name.lower(),
            }
            for game in life.games.values()
        ],
        "windows": {name: w and {"first": w[0], "last": w[1]} for name, w in windows(life).items()},
    }


def _answer(life: Life, answer: Answer, seats: int) -> dict[str, Any]:
    """`seat` is the drawn place in the list of seats."""
    return {
        "index": answer.index,
        "verifier": answer.operator,
        "seat": economics.seat_of(life.mix, life.uuid, answer.index, seats) if life.mix and seats else None,
        "commitment": _hex(answer.commitment),
        "outputs_root": _hex(answer.root),
        "agrees": agrees(life, answer),
        "exposed": answer.exposed,
    }


def _hex(value: bytes | None) -> str | None:
    return None if value is None else "0x" + value.hex()
