"""How long a program will compute on this machine, by a sample of its compiled kernels: counts can be deceived."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program import Program, encode
from eigentensor.program.cost import body_cost
from eigentensor.program.model import Body, Buffer
from eigentensor.program.restriction import restrict
from eigentensor.runtime.sandbox.execution import Limits, run_sandboxed

#: Bodies that are sampled, those with most work, until they have so much of all of it.
BODIES, ENOUGH = 4, 0.9
#: Work of one iteration, where its call is that large: threads share it. Iterations that are timed: a few, or many.
WORK, LEAST, ITERATIONS = 1 << 28, 4, 64
#: Bytes of operands beyond which a body is not sampled: its counts have to do.
OPERANDS = 1 << 30
BLOCK = 1 << 20  #: random bytes, which operands repeat


@dataclass(frozen=True)
class Sample:
    """A part of a call as a program, the iterations that are timed beside one, and how many of them make all calls of
    its body."""

    program: Program
    iterations: int
    times: float


def samples(program: Program) -> tuple[Sample, ...]:
    """What is timed of a valid program. Work of bodies that are not sampled is counted with that of those that are."""
    calls = Counter(program.bodies[call.body] for call in program.calls)
    all_work = {body: count * body_cost(body).work for body, count in calls.items()}
    heaviest = sorted((b for b in all_work if all_work[b]), key=lambda body: -all_work[body])[:BODIES]
    chosen, covered, total = list[Body](), 0, sum(all_work.values())
    for body in heaviest:
        if covered < ENOUGH * total and sum(p.elements * p.dtype.size for p in body.parameters) <= OPERANDS:
            chosen.append(body)
            covered += all_work[body]
    return tuple(_sample(body, all_work[body] * total / covered) for body in chosen)


def _sample(body: Body, work: float) -> Sample:
    part = restrict(body, _extents(body)).program
    each = body_cost(part.bodies[0]).work
    iterations = max(LEAST, min(ITERATIONS, ceil(LEAST * WORK / each)))
    return Sample(replace(part, max_repeat=1 + iterations), iterations, work / each)


def _extents(body: Body) -> tuple[int, ...]:
    """Of a box with the work of a sample, or little more; cut along its first axes, where neighbours lie far apart."""
    extents, each = list(body.output_ranges), body_cost(body).work / max(1, body.parameters[0].elements)
    for axis, extent in enumerate(extents):
        others = np.prod(extents, dtype=object) // extent * each
        extents[axis] = max(1, min(extent, int(WORK / max(1, others))))
    return tuple(extents)


class Run(Protocol):
    """Executes a program so often; `sandboxed` does. It raises ExecutionError."""

    def __call__(
        self, program: Program, tensors: Mapping[str, NDArray[Any]], variables: Mapping[str, int], repeat: int
    ) -> object: ...


def sandboxed(within: Limits, *, device: str = "CPU", unsafe: bool = False) -> Run:
    """Confined and within limits, as a task is executed."""

    def run(program: Program, tensors: Mapping[str, NDArray[Any]], variables: Mapping[str, int], repeat: int) -> object:
        return run_sandboxed(encode(program), tensors, variables, repeat, within, device=device, unsafe=unsafe)

    return run


def computing(program: Program, run: Run, now: Callable[[], float] = perf_counter) -> float:
    """Seconds that the calls of one iteration of a valid program are expected to take, once they are compiled.

    Operands are random. 0 where nothing is sampled: operands are too large, or there is nothing to do. `now` is a clock
    in seconds. Raises what `run` raises.
    """
    total = 0.0
    for sample in samples(program):
        tensors = {buffer.name: random_tensor(buffer) for buffer in sample.program.buffers}
        variables, begun = {v.name: v.maximum for v in sample.program.variables}, list[float]()
        for repeat in (1, 1, 1 + sample.iterations):  # the first one compiles
            begun.append(now())
            run(sample.program, tensors, variables, repeat)
        more = (now() - begun[2]) - (begun[2] - begun[1])
        total += max(0.0, more) / sample.iterations * sample.times
    return total


def random_tensor(buffer: Buffer) -> NDArray[Any]:
    """Operands of all kinds; no floats that are not numbers, which some processors are slow to compute with."""
    dtype, elements = buffer.dtype, buffer.elements
    random, count = np.random.default_rng(0), min(elements, BLOCK // dtype.size)
    if dtype is DType.BOOL:
        block: NDArray[Any] = random.integers(0, 2, count).astype(bool)
    elif dtype is DType.BFLOAT16:
        block = (random.standard_normal(count, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    elif dtype.is_float:
        block = random.standard_normal(count, np.float32).astype(STORAGE[dtype])
    else:
        block = np.frombuffer(random.bytes(count * dtype.size), STORAGE[dtype])
    return np.resize(block, buffer.shape)
