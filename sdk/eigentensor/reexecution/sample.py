"""A random sample of a result, recomputed with the reference: hardware faults and miscompilations are wrong bits too.

Some calls are chosen before the execution, which keeps what these calls read and write; a few elements of each are
computed again from what they read. All of that is the reference's, but for the steps of long reductions: a kernel of
ours takes them, on terms of the reference's, and the reference takes an interval of them, too. So what may be missed is
a step that the processor computes wrong both times, in a program's kernel and in ours, outside of the interval.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from eigentensor import reference
from eigentensor.errors import WrongBits
from eigentensor.numerics.floats import canonical
from eigentensor.numerics.storage import STORAGE
from eigentensor.program import Program, Role
from eigentensor.program.binding import bind, iteration_values
from eigentensor.program.cost import body_cost
from eigentensor.reexecution.chains import STEPS, chain
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.reference import Evaluation, Values

CALLS = 4
ELEMENTS = 16
BYTES = 64 << 20  # that is kept for the chosen calls
EVALUATIONS = 1 << 22  # of the reference for one element
LONG = 64  # steps of a reduction that a kernel takes
INTERVAL = 8  # of which so many are the reference's, too


@dataclass(frozen=True, slots=True)
class Sample:
    """Calls of the last iteration to recheck, and the executed calls whose results that takes."""

    calls: tuple[int, ...]
    keep: tuple[int, ...]


def choose(program: Program, repeat: int, seed: bytes, most: int | None = None) -> Sample:
    """Calls that make results first, then others, as long as what they touch and cost stays within the bounds. Of
    executed calls whose results are none of the program at most so many are kept, if there is such a bound."""
    source = random.Random(seed)
    results = {r.buffer - len(program.buffers) for r in program.results}
    final = source.sample(sorted(results), min(len(results), CALLS // 2))
    others = [c for c in range(len(program.calls)) if c not in results]
    chosen: list[int] = []
    buffers: set[int] = set()
    for call in (*final, *source.sample(others, min(len(others), 4 * CALLS))):
        touched = {*program.calls[call].arguments, len(program.buffers) + call}
        more = buffers | {b for b in touched if b >= len(program.buffers)}
        if (
            len(chosen) < CALLS
            and _is_cheap(program, call)
            and _fits(program, more)
            and (most is None or len({b - len(program.buffers) for b in more} - results) <= most)
            and (
                repeat == 1
                or not any(_is_state(program, b) for b in touched)  # what states were in between is not known
            )
        ):
            chosen.append(call)
            buffers = more
    first = (repeat - 1) * len(program.calls) - len(program.buffers)
    return Sample(tuple(chosen), tuple(first + buffer for buffer in sorted(buffers)))


def recheck(bound: BoundProgram, sample: Sample, kept: Mapping[int, Values], seed: bytes) -> None:
    """Raises WrongBits for the first element of the sample that the reference computes otherwise.

    `kept` are the results of the executed calls `keep`: in each chosen call up to ELEMENTS elements are computed again.
    """
    program, source = bound.program, random.Random(seed)
    arrays = bind(program, bound.tensors, bound.variables, bound.repeat)
    values = iteration_values(program, bound.variables, bound.repeat - 1)
    missing = np.empty(0)
    buffers = arrays + [missing] * len(program.calls)
    for number in sample.keep:
        buffers[len(arrays) + number % len(program.calls)] = kept[number]
    for call in sample.calls:
        buffer = len(program.buffers) + call
        count = program.parameter(buffer).elements
        indices = np.array(sorted(source.sample(range(count), min(count, ELEMENTS))), np.int64)
        evaluated = partial(_ByKernels, source, call)
        expected = reference.elements(program, buffers, call, indices, values, evaluated)
        _compare(call, indices, expected, buffers[buffer][indices], STORAGE[program.parameter(buffer).dtype])


class _ByKernels(Evaluation):
    """The reference, but for the steps of long reductions."""

    def __init__(self, source: random.Random, call: int, *of: Any) -> None:
        super().__init__(*of)
        self.source, self.call = source, call

    def total(self, number: int, inner: Sequence[int]) -> Values:
        """As the reference's. Raises WrongBits where the kernel and the reference differ in the interval."""
        reduction, steps = self.body.instructions[number], prod(self.extents(number))
        kernel = chain(reduction.op, reduction.dtype) if LONG <= steps <= STEPS else None
        if kernel is None:
            return super().total(number, inner)
        terms = self.terms(number, np.arange(steps), inner)
        first = self.source.randrange(steps - INTERVAL)
        before, after, last = kernel.totals(terms, (first, first + INTERVAL, steps))
        for step in range(first, first + INTERVAL):
            before = self.accumulate(number, [term[step] for term in terms], before)
        if canonical(reduction.dtype, before).tobytes() != after.tobytes():
            raise WrongBits(f"call {self.call}, steps {first} to {first + INTERVAL} of a reduction: a kernel errs")
        return last


def _compare(call: int, indices: Any, expected: Any, computed: Any, storage: np.dtype[Any]) -> None:
    bits = np.dtype(f"u{storage.itemsize}")
    for index, right, actual in zip(indices, expected.view(bits), computed.view(bits), strict=True):
        if right != actual:
            width = 2 * storage.itemsize
            raise WrongBits(f"call {call}, element {index}: {actual:0{width}x} instead of {right:0{width}x}")


def _is_cheap(program: Program, call: int) -> bool:
    body = program.bodies[program.calls[call].body]
    return body_cost(body).evaluations <= EVALUATIONS * body.parameters[0].elements


def _fits(program: Program, buffers: set[int]) -> bool:
    size = sum(program.parameter(b).elements * program.parameter(b).dtype.size for b in buffers)
    return size <= BYTES


def _is_state(program: Program, buffer: int) -> bool:
    return buffer < len(program.buffers) and program.buffers[buffer].role is Role.STATE
