"""Jobs that no order on chain stands for, as JSON objects: what this machine executes, and paid calls. Pure."""

from functools import lru_cache
from typing import Any

from eigentensor.program import Program
from eigentensor.program.codec import encode
from eigentensor.program.cost import costs, game_work
from eigentensor.program.products import products
from eigentensor.task import objects as schemas
from eigentensor_client.results import Plan
from eigentensor_serve.backend import Ask

_NOBODY: dict[str, Any] = {
    "checked": None, "waits_for": None, "deadline": None, "block": None, "client": None, "executor": None,
    "price": None, "collateral": None, "stake": None, "penalty": None, "draw": None, "verifiers": None,
    "outputs_root": None, "posted": None, "order": None,
}  # fmt: skip


def task_as(task: str, state: str, stage: str, **members: Any) -> schemas.Task:
    """`eigentensor.task/1` of a job that stands so; what of `members` is left out is null."""
    shown: Any = {
        "schema": "eigentensor.task/1", "task": task, "state": state, "stage": stage, **_NOBODY, **members, "games": [],
        "events": [],
    }  # fmt: skip
    return shown  # type: ignore[no-any-return]


def plan_of(ask: Ask, **members: Any) -> dict[str, Any]:
    """`eigentensor.plan/1` of what no market is asked for: beside the size of its work what of money is known."""
    unpaid = dict.fromkeys(Plan.__dataclass_fields__)
    del unpaid["local"]
    return {"schema": Plan.SCHEMA, **unpaid, **_size(ask.uuid, ask.program, ask.repeat), **members}


def explanation_of(now: schemas.Task) -> schemas.Explanation:
    """`eigentensor.explanation/1` of a task as it stands: no operators say anything about it."""
    return {
        "schema": "eigentensor.explanation/1",
        "task": now["task"],
        "state": now["state"],
        "waits_for": now["waits_for"],
        "deadline": None,
        "block": None,
        "price": {"now": None, "maximum": None},
        "operators": [],
        "now": now,
    }


@lru_cache(maxsize=64)
def _size(uuid: str, program: Program, repeat: int) -> dict[str, Any]:
    """What a plan says of a program whoever executes it."""
    from eigentensor.runtime.memory.plan import estimate_memory_requirements

    cost, encoded = costs(program), encode(program)
    return {
        "program": uuid,
        "calls": cost.calls * repeat,
        "evaluations": cost.evaluations * repeat,
        "upload": len(encoded) + cost.input_bytes + cost.weight_bytes + cost.state_bytes,
        "memory": estimate_memory_requirements(program, repeat=repeat)["CPU"],
        "results": cost.result_bytes,
        "repeat": repeat,
        "products": products(program),
        "game": game_work(program),
        "witness": cost.largest_witness,
        "referee_gas": cost.largest_gas,
    }
