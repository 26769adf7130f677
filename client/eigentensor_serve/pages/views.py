"""What pages tell of apps and tasks: values for the templates. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from eigentensor.chain.units import from_wei
from eigentensor.program import Program, Role
from eigentensor.task.objects import Task
from eigentensor_serve.apps.registry import App
from eigentensor_serve.apps.schema import outputs, rows_word
from eigentensor_serve.ledger import Event, Job, State
from eigentensor_serve.pages.widgets import Asking, asking

#: Which tasks a list shows, by the word in its URL.
FILTERS: Mapping[str, tuple[State, ...]] = {
    "open": (State.ASKED, State.OPEN),
    "ended": (State.ENDED,),
    "void": (State.VOID,),
}
_TONES = {
    "good": ("final", "checked"),
    "warn": ("unchecked", "expired", "cancelled"),
    "bad": ("convicted", "failed", "void"),
    "quiet": ("local",),
}
#: What a task goes through, in the words of the glossary.
_LIFE = ("asked", "accepted", "committed", "result", "checked", "final")
_CALL = ("asked", "signed", "committed", "checked", "final")
_HERE = ("queued", "running", "local")

Progress = Literal["done", "now", "ahead"]


@dataclass(frozen=True, slots=True)
class Card:
    """An app on the first page; `why` says why this service cannot answer for it."""

    name: str
    version: int
    kind: str
    takes: str
    gives: str
    price: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A task in a list; amounts are wei, `price` is known once somebody has accepted it."""

    task: str
    app: str | None
    stage: str
    tone: str
    price: str | None
    most: int
    created: datetime
    waits_for: str | None
    is_over: bool


def card(app: App, program: Program, price: str) -> Card:
    """An app that this service answers for."""
    asks = asking(app, program)
    if app.model is not None:
        words = ("messages", "text") if asks.kind == "chat" else ("texts", "vectors")
        return Card(app.name, app.version, asks.kind, *words, price)
    return Card(
        app.name, app.version, kind_of(asks), ", ".join(takes(app, program)), ", ".join(gives(app, program)), price
    )


def kind_of(asks: Asking) -> str:
    """In one word how a page asks an app of tensors."""
    if asks.digits:
        return "digits"
    return asks.widgets[0].kind if len(asks.widgets) == 1 else "tensors"


def takes(app: App, program: Program) -> list[str]:
    """Each input in words."""
    words = [
        f"{name} {b.dtype.name.lower()} {rows_word(b.shape, name, app.rows)}"
        for name, b in program.named(Role.INPUT).items()
    ]
    return words + [f"{v.name} {v.minimum} to {v.maximum}" for v in program.variables]


def gives(app: App, program: Program) -> list[str]:
    """Each output in words."""
    return [f"{o['name']} {o['dtype']} {rows_word(o['shape'], o['name'], app.rows)}" for o in outputs(program)]


def price_of(app: App, decimals: int, symbol: str) -> str:
    """What a request costs, in words; nothing is paid where `symbol` is empty."""
    if app.terms is None or not symbol:
        return "Executed by this machine: nothing is paid, nobody checks."
    most = from_wei(app.terms.max_price, decimals)
    a_day = "" if app.budget is None else f"; at most {from_wei(app.budget, decimals)} a day"
    what = f"a paid task for at most {most} {symbol} and its verifiers{a_day}"
    return f"A request is {what}; answered when it is {app.stage}."


def row(job: Job, task: Task) -> Row:
    """A task in a list."""
    return Row(
        job.task, job.app, stage_of(task), tone(stage_of(task)), task["price"], job.reckoned,
        datetime.fromtimestamp(job.created, UTC), task["waits_for"], job.is_over,
    )  # fmt: skip


def stage_of(task: Task) -> str:
    """How a task stands as people are told: with what came of its check once it is final."""
    return f"final, {task['checked']}" if task["stage"] == "final" and task["checked"] else task["stage"]


def tone(stage: str) -> str:
    """How the badge of a stage looks."""
    if stage == "final, unchecked":
        return "warn"
    return next((tone for tone, words in _TONES.items() if stage.startswith(words)), "live")


def has_result(job: Job, task: Task) -> bool:
    """Whether there are outputs to be fetched."""
    return job.problem is None and task["outputs_root"] is not None


def life(task: Task) -> list[tuple[str, Progress]]:
    """What a task has been through, where it is, and what comes; of one that failed how far it came."""
    stage = task["stage"].partition("(")[0]
    way = _HERE if task["state"] == "local" else _CALL if task["state"] == "signed" or _is_call(task) else _LIFE
    stage = {"open": "asked", "unchecked": "result"}.get(stage, stage)
    if stage not in way:
        return [*((word, "done") for word in way[:1]), (task["stage"], "now")]
    at = way.index(stage)
    is_last = at == len(way) - 1
    steps: list[tuple[str, Progress]] = [(word, "done") for word in way[:at]]
    if is_last and task["checked"] in (None, "unchecked"):
        steps = [one for one in steps if one[0] != "checked"]
    return [*steps, (stage_of(task), "done" if is_last else "now"), *((word, "ahead") for word in way[at + 1 :])]


def _is_call(task: Task) -> bool:
    return task["order"] is None and task["state"] not in ("local", "asked")


def history(events: Sequence[Event]) -> list[dict[str, Any]]:
    """What was written down of a task, each stage once."""
    listed: list[dict[str, Any]] = []
    for event in events:
        stage = stage_of(event.response)
        if not listed or listed[-1]["stage"] != stage:
            listed.append({"stage": stage, "tone": tone(stage), "block": event.response["block"]})
    return listed
