"""What operators say about an open task, one by one, and what would help: as JSON and as a table."""

import re
from typing import Any

from rich.table import Table

from eigentensor.economics import Parameters
from eigentensor.task import State
from eigentensor_client.amounts import Amount
from eigentensor_client.remedies import Remedy, best, remedy_of
from eigentensor_client.results import TaskView
from eigentensor_client.screen import facts, short, table

_WEI = re.compile(r"(\d+) wei")
_HEAD = ("operator", "says", "needed", "offered", "would help")


def helped(task: TaskView, said: dict[str, Any], p: Parameters, amount: Amount) -> dict[str, Any]:
    """What the gateway says, with `helps` beside each operator, and for all of them together."""
    remedies = _remedies(task, said, p, amount)
    texts = {name: remedy.text for name, remedy in remedies.items()}
    operators = [o | {"helps": texts.get(o["operator"])} for o in said["operators"]]
    return said | {"operators": operators, "helps": _ranked(remedies)}


def opinions(task: TaskView, said: dict[str, Any], p: Parameters, amount: Amount) -> list[str | Table]:
    """A line for each operator; the last one says what helps most."""
    remedies, rows = _remedies(task, said, p, amount), []
    for o in said["operators"]:
        remedy = remedies.get(o["operator"])
        amounts = (_read(text, amount) for text in (o["needed"], o["offered"]))
        rows.append([short(o["operator"]), o["reason"], *amounts, remedy.text if remedy else "–"])
    if not rows:
        return ["operators  none has joined this market"]
    helps = "; or ".join(_ranked(remedies))
    return [table(_HEAD, rows), *([facts([["helps", helps]])] if helps else [])]


def _remedies(task: TaskView, said: dict[str, Any], p: Parameters, amount: Amount) -> dict[str, Remedy]:
    """Of each operator that has not accepted; none unless the task is open."""
    if task.state is not State.OPEN:
        return {}
    found = {o["operator"]: remedy_of(o, task.order, p, amount) for o in said["operators"]}
    return {name: remedy for name, remedy in found.items() if remedy is not None}


def _ranked(remedies: dict[str, Remedy]) -> list[str]:
    """What helps with most operators first."""
    return [f"{remedy.text} ({_named(names)})" for remedy, names in best(remedies)]


def _named(operators: list[str]) -> str:
    return short(operators[0]) if len(operators) == 1 else f"{len(operators)} operators"


def _read(text: str | None, amount: Amount) -> str:
    return amount(int(found[1])) if (found := _WEI.fullmatch(text or "")) else text or "–"
