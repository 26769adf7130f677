"""A task as one JSON object, `eigentensor.task/1`: what gateway, command and services tell. Pure.

Amounts are wei as decimal strings, times are blocks, roots and hashes are hex.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from eigentensor.task import words
from eigentensor.task.events import Place, TaskEvent
from eigentensor.task.life import Answer, Happening, Life

if TYPE_CHECKING:
    from eigentensor.task import objects as schemas


def task(life: Life, block: int) -> "schemas.Task":
    """A task as of a block, without its events."""
    return {
        "schema": "eigentensor.task/1",
        "task": life.uuid.hex(),
        "state": life.state.name.lower(),
        "stage": words.stage(life.counts),
        "checked": words.checked(life.counts),
        "waits_for": words.waits_for(life, block),
        "deadline": life.deadline,
        "block": block,
        "client": life.order.client,
        "executor": life.executor,
        "price": text(life.price),
        "collateral": text(life.collateral),
        "stake": text(life.stake),
        "penalty": text(life.penalty),
        "outputs_root": life.outputs_root.hex() if life.outputs_root else None,
        "posted": _place(life.posted) if life.posted else None,
        "draw": _draw(life),
        "verifiers": _verifiers(life),
        "answers": [_answer(life, answer) for answer in life.answers.values()],
        "games": sorted(life.games),
        "convicted": _convicted(life),
        "order": life.order.to_json(),
    }


def whole(life: Life, block: int) -> "schemas.Task":
    """A task as of a block, and everything that happened to it."""
    return {**task(life, block), "events": events(life.events)}


def events(happened: Iterable[Happening]) -> "list[schemas.TaskEvent]":
    """A task's own events in order."""
    return [event(one) for one in happened if isinstance(one, TaskEvent)]


def event(one: TaskEvent) -> "schemas.TaskEvent":
    """An event with its own fields; order and task stand beside the events of a task."""
    own = {name: value for name, value in one.arguments().items() if name not in ("order", "task")}
    return cast("schemas.TaskEvent", {"event": type(one).__name__, **_place(one.place), **own})


def text(amount: int | None) -> str | None:
    """Wei as a decimal string."""
    return None if amount is None else str(amount)


def _place(place: Place) -> "schemas.Place":
    return {"block": place.block, "transaction": "0x" + place.transaction.hex()}


def _draw(life: Life) -> "schemas.Draw":
    seed_block = None if life.committed_at is None else life.seed_block
    return {"seed_block": seed_block, "known": life.mix is not None, "drawn": life.drawn}


def _verifiers(life: Life) -> "schemas.Verifiers":
    answered, differed = len(life.answers), len(life.differing)
    return {"asked": life.order.verifiers, "answered": answered, "agreed": life.agreed, "differed": differed}


def _answer(life: Life, answer: Answer) -> "schemas.Answer":
    return {
        "index": answer.index,
        "operator": answer.operator,
        "block": answer.block,
        "revealed": answer.root is not None,
        "agrees": None if answer.root is None or life.outputs_root is None else answer.root == life.outputs_root,
        "exposed": answer.exposed,
        "settled": text(answer.settled),
    }


def _convicted(life: Life) -> "schemas.Conviction | None":
    """Why and by whom, and what became of the stake; `paid` is what each beneficiary of the slash got."""
    if (conviction := life.conviction) is None:
        return None
    slash: schemas.Slash | None = None
    if conviction.slash is not None:
        slash = {"slash_id": conviction.slash[0], "shares": str(conviction.slash[1])}
    return {
        "cause": conviction.cause.name.lower(),
        "winner": conviction.winner,
        "refund": str(conviction.refund),
        "block": conviction.block,
        "slash": slash,
        "paid": text(conviction.paid),
    }
