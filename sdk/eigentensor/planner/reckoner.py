"""What paths cost where nothing is compiled or measured: times are reckoned, errors are those of the reference."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil

import numpy as np

from eigentensor import reference
from eigentensor.errors import LimitError
from eigentensor.graph.node import Graph
from eigentensor.lowering.graph_program import GraphProgram
from eigentensor.planner.lifted import wanted
from eigentensor.planner.measure import CallCost, Cost
from eigentensor.planner.oracle import largest_and_all, max_relative_error, usually
from eigentensor.planner.sample import Sample, Values
from eigentensor.planner.spots import at_spots, evaluations, parts, spots
from eigentensor.program.bounds import steps_of
from eigentensor.program.cost import costs
from eigentensor.program.model import Body, Kind, Program
from eigentensor.regions.boxes import Box, Shape, slices, volume
from eigentensor.runtime.cpu.schedule import Target
from eigentensor.runtime.cpu.toolchain import Toolchain

#: Evaluations in which errors are looked at, and how many times as many a path may take for the same.
EVALUATIONS, MORE = 16_000_000, 8
#: Steps of NumPy that the reference takes for that, at most; and bytes of all tensors of a program.
STEPS, BYTES = 40_000, 32 << 20
#: Elements of the largest tensor in float64, and of all of them.
LARGEST, WORK = 1 << 22, 1 << 27
_NANOSECOND = 1e-9
#: A common processor, which nothing is compiled for.
_PROCESSOR = Toolchain("", Target(8, 16), ())


class Reckoner:
    """A meter for who has no device: every time is an estimate for one thread of a common processor."""

    def __init__(self) -> None:
        self._known: dict[Body, float] = {}
        self._spots: dict[tuple[Shape, ...], list[tuple[Box, ...]]] = {}

    def cost(self, program: Program) -> Cost:
        """Of a valid program; its tensors are there."""
        return Cost(tuple(CallCost(c.body, self.seconds(program.bodies[c.body]), False) for c in program.calls), 0.0)

    def is_settled(self, cost: Cost) -> bool:
        """Every cost is: there is no better one."""
        return True

    def unmeasured(self, program: Program) -> list[Body]:
        """None that could be measured."""
        return []

    def measure(self, body: Body) -> None:
        """Is not asked for what `unmeasured` does not name."""
        raise NotImplementedError

    def error(self, made: GraphProgram, graph: Graph, sample: Sample, exact: Callable[[], Sequence[Values]]) -> float:
        """As a meter's, by the reference; of a program that takes it too long, at the same spots for all programs whose
        results have the same shapes. Raises LimitError where these take too long, too."""
        program, tensors = replace(made.program, results=tuple(wanted(made.program))), {**graph.data, **sample.tensors}
        shapes = tuple(result.shape for result in program.results)
        if shapes not in self._spots:
            self._spots[shapes] = spots(program, EVALUATIONS)
        require_few(program, boxes := self._spots[shapes])
        found = at_spots(program, {b.name: tensors[b.name] for b in program.buffers if b.name}, boxes)
        names = [*((Kind.OUTPUT, name) for name in graph.outputs), *((Kind.STATE, name) for name in graph.states)]
        named = dict(zip(names, zip(graph.roots, exact(), strict=True), strict=True))
        return max(
            max_relative_error(root.dtype, values, true[slices(box)], usually(true) if root.dtype.is_float else None)
            for result, of, arrays in zip(program.results, boxes, found, strict=True)
            for root, true in (named[result.kind, result.name],)
            for box, values in zip(of, arrays, strict=True)
        )

    def seconds(self, body: Body) -> float:
        """Of one call."""
        if body not in self._known:
            features = _PROCESSOR.features(body, [_PROCESSOR.heuristic(body)])
            self._known[body] = float(np.exp(features[0, 0])) * _NANOSECOND if body.parameters[0].elements else 0.0
        return self._known[body]


def require_small(program: Program) -> None:
    """Raises LimitError for a valid program whose tensors are too large to be computed beside other work."""
    if (size := costs(program).all_bytes) > BYTES:
        raise LimitError(f"its tensors have {size:,} bytes; at most {BYTES:,} are tried here")


def require_exact(graph: Graph) -> None:
    """Raises LimitError for a graph whose exact values take more than a second or two, or too much memory."""
    largest, work = largest_and_all(graph.roots)
    if largest > LARGEST or work > WORK:
        raise LimitError(
            f"its exact values are {work:,} numbers, of which {largest:,} are one tensor; that is too many"
        )


def require_few(program: Program, boxes: Sequence[Sequence[Box]]) -> None:
    """Raises LimitError if the reference takes more than a second or two for boxes of a valid program's results."""
    require_small(program)
    needs = parts(program, boxes)
    steps = sum(
        _steps(program.bodies[c.body], needs.get(number, ()))
        for number, c in enumerate(program.calls, len(program.buffers))
    )
    if (most := evaluations(program, needs)) > MORE * EVALUATIONS or steps > STEPS:
        raise LimitError(f"some elements of its results take {most:,} evaluations; so long is nothing tried here")


def _steps(body: Body, boxes: Sequence[Box]) -> int:
    """How many operations of NumPy the reference computes boxes of a body's result with, about."""
    return (len(body.instructions) + sum(steps_of(body))) * sum(ceil(volume(box) / reference.LANES) for box in boxes)
