"""Accumulators of a sample by a kernel: the steps of a long reduction one after the other, on terms that are known.

The kernel is of a program of ours, so no stranger's text runs here, and one serves all bodies: it is told terms and how
many steps it takes. An interval of its accumulators is computed by the reference besides.
"""

from collections.abc import Sequence
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.numerics.storage import STORAGE
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, Named, const, counter, load, node, reduction, to_body
from eigentensor.program.model import Bounds, Buffer, Kind, Program, Role, Variable
from eigentensor.program.ops import DType, Op
from eigentensor.runtime import CompiledGraph, devices

LANES = 16  #: chains side by side
STEPS = 4096  #: of a chain at most: longer sums are cut when they are captured
Values = NDArray[Any]


class Chain:
    """A reduction's steps, for one operation and type. Several threads may use it."""

    def __init__(self, op: Op, dtype: DType) -> None:
        self._compiled = CompiledGraph(chains_of(op, dtype), device="CPU", threads=1)
        self._terms = [np.zeros((STEPS, LANES), STORAGE[dtype]) for _ in _names(op)]
        self._lock = Lock()

    def totals(self, terms: Sequence[Values], counts: Sequence[int]) -> list[Values]:
        """The accumulators after so many steps, for each of some counts, from the factors of all steps: at most STEPS
        of at most LANES elements."""
        steps, lanes = terms[0].shape
        with self._lock:
            for room, term in zip(self._terms, terms, strict=True):
                room[:steps, :lanes] = term
            named = {f"factor_{n}": room for n, room in enumerate(self._terms)}
            runs = [self._compiled.run(named, {"steps": count}) for count in counts]
            return [run.outputs["total"][:lanes].copy() for run in runs]


@cache
def chain(op: Op, dtype: DType) -> Chain | None:
    """What takes the steps of such reductions; None where the processor has no compiler: the reference takes them."""
    return Chain(op, dtype) if devices.default() == "CPU" else None


def _names(op: Op) -> list[str]:
    return [f"factor_{n}" for n in range(2 if op is Op.REDUCE_MULACC else 1)]


def chains_of(op: Op, dtype: DType) -> Program:
    """LANES totals of `steps` steps, on the inputs `factor_0` and, of MULACC, `factor_1`: (STEPS, LANES) each."""
    lane, step = Axis(0, LANES), Axis(1, STEPS, is_reduce=True)
    steps = Named("steps", Bounds(0, STEPS))
    place = node(
        Op.ADD, DType.INDEX, node(Op.MUL, DType.INDEX, counter(step), const(DType.INDEX, LANES)), counter(lane)
    )
    factors = [load(Array(name, dtype, STEPS * LANES), place) for name in _names(op)]
    total = reduction(op, (step,), *factors, extents=(node(Op.VAR, DType.INDEX, arg=steps),))
    buffers = {name: Buffer(Role.INPUT, dtype, (STEPS, LANES), name) for name in _names(op)}
    named = {(Kind.OUTPUT, "total"): ("total", (LANES,))}
    return assemble([("total", to_body(total, (lane,)))], buffers, named, [Variable("steps", 0, STEPS)])
