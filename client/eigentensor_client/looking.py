"""Executing somebody's result again: confined and within limits, as operators do, and saying what differs first."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from eigentensor.chain.transcript import typed
from eigentensor.dispute import refuse
from eigentensor.errors import EigenTensorError, LimitError, NotDisputable
from eigentensor.program import Program, Result
from eigentensor.program.binding import Results
from eigentensor.program.cost import needs_of
from eigentensor.reexecution import confined
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.store import GatewayClient
from eigentensor_client.schemas.results import Difference
from eigentensor_client.transfer import Report, download, silent


@dataclass(frozen=True, slots=True)
class Look:
    """A result that was executed again: its outputs root, and what differs first, where the claimed bytes are known."""

    agrees: bool
    outputs_root: bytes
    difference: Difference | None = None


@dataclass(frozen=True, slots=True)
class Means:
    """What one execution may take: bytes of the program's tensors, seconds; `unsafe` does without the sandbox."""

    memory: int
    seconds: float
    unsafe: bool = False


def look_again(
    bound: BoundProgram, claimed: bytes, gateway: GatewayClient, means: Means, report: Report = silent
) -> Look:
    """Executes what an order names, twice if it gives another result, and rechecks samples with the reference.

    Raises NotDisputable, LimitError, what executing raises, WrongBits if this device cannot be trusted.
    """
    _check_size(bound, means.memory)
    report("executing it again")
    limits = confined.limits(means.memory, means.seconds)
    root, results = confined.repeated(bound, claimed, limits, unsafe=means.unsafe)
    if root == claimed:
        return Look(True, root)
    report("comparing it with the executor's")
    with suppress(EigenTensorError):  # what differs first is told where it is known, and challenged all the same
        claims = download(gateway, bound.program, claimed, report)
        return Look(False, root, first_difference(bound.program, bound.repeat, claims, results))
    return Look(False, root)


def _check_size(bound: BoundProgram, memory: int) -> None:
    if (why := refuse(bound.program, bound.repeat)) is not None:
        raise NotDisputable(why)
    needed = needs_of(bound.program, bound.repeat).memory
    if needed > memory:
        raise LimitError(
            f"its tensors take {needed:,} bytes, at most {memory:,} are allowed here",
            fix="Allow more with --max-memory.",
        )


def first_difference(program: Program, repeat: int, claimed: Results, computed: Results) -> Difference | None:
    """That of the earliest executed call, and of its first element; None if there is none."""
    compared = (_differing(program, repeat, *one) for one in _pairs(program, claimed, computed))
    pairs = [one for one in compared if len(one[2])]
    if not pairs:
        return None
    call, result, places, (theirs, own) = min(pairs, key=lambda pair: -1 if pair[0] is None else pair[0])
    element, dtype = int(places[0]), program.parameter(result.buffer).dtype
    index = tuple(map(int, np.unravel_index(element, result.shape))) if result.shape else ()
    differing = sum(len(places) for _, _, places, _ in pairs)
    claim, computation = (typed(dtype, int(bits[element])) for bits in (theirs, own))
    return Difference(call, result.name, element, index, claim, computation, differing)


def _pairs(program: Program, claimed: Results, computed: Results) -> Iterator[tuple[Result, Any, Any]]:
    for results, theirs, own in (
        (program.outputs, claimed.outputs, computed.outputs),
        (program.new_states, claimed.states, computed.states),
    ):
        yield from ((result, theirs[name], own[name]) for name, result in results.items())


def _differing(
    program: Program, repeat: int, result: Result, claimed: Any, computed: Any
) -> tuple[int | None, Result, Any, tuple[Any, Any]]:
    """The elements of one result that differ, and the bits of all."""
    size, first = program.parameter(result.buffer).dtype.size, len(program.buffers)
    theirs, own = (np.ascontiguousarray(array).reshape(-1).view(f"u{size}") for array in (claimed, computed))
    call = None if result.buffer < first else (repeat - 1) * len(program.calls) + result.buffer - first
    return call, result, np.flatnonzero(theirs != own), (theirs, own)
