"""What is said of tasks that this machine executes itself."""

from functools import lru_cache
from typing import Any, cast

from eigentensor.program import Program
from eigentensor.program.codec import encode
from eigentensor.program.cost import costs
from eigentensor.schemas import tasks as schemas
from eigentensor_client.results import Plan
from eigentensor_serve.backend import Ask
from eigentensor_serve.jobs import Job


def plan(ask: Ask) -> schemas.Plan:
    """Nobody is paid, so nothing is said of prices."""
    unpaid = dict.fromkeys((*Plan.__dataclass_fields__, "affordable"))
    size = _size(ask.uuid, ask.program, ask.repeat)
    return cast(schemas.Plan, {"schema": "eigentensor.plan/1", **unpaid, **size, "local": True})


def explanation(now: schemas.Task) -> schemas.Explanation:
    """There are no operators of whom to tell."""
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


def stage(job: Job) -> str:
    """Of one that has ended."""
    return "failed" if job.problem else "local"


def task(job: Job, stage: str) -> schemas.Task:
    """As it stands at a stage."""
    return {
        "schema": "eigentensor.task/1",
        "task": job.task,
        "state": "local",
        "stage": stage,
        "checked": None,
        "waits_for": {"queued": "its turn on this machine", "running": "this machine"}.get(stage),
        "deadline": None,
        "block": None,
        "client": None,
        "executor": None,
        "price": None,
        "collateral": None,
        "stake": None,
        "penalty": None,
        "draw": None,
        "verifiers": None,
        "games": [],
        "outputs_root": None if job.outputs is None else job.outputs.split()[-1],
        "posted": None,
        "order": None,
        "events": [],
    }


@lru_cache(maxsize=64)
def _size(uuid: str, program: Program, repeat: int) -> dict[str, Any]:
    """What a plan says of a program whoever executes it."""
    from eigentensor.runtime.memory.plan import estimate_memory_requirements  # with tinygrad

    cost, encoded = costs(program), encode(program)
    return {
        "program": uuid,
        "calls": cost.calls * repeat,
        "evaluations": cost.evaluations * repeat,
        "upload": len(encoded) + cost.input_bytes + cost.weight_bytes + cost.state_bytes,
        "memory": estimate_memory_requirements(program, repeat=repeat)["CPU"],
        "results": cost.result_bytes,
        "repeat": repeat,
    }
