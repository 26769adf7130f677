"""What paths cost where nothing is compiled or measured: times are reckoned, errors are those of the reference."""

from collections.abc import Callable, Sequence
from math import ceil

import numpy as np

from eigentensor import reference
from eigentensor.errors import LimitError
from eigentensor.graph.node import Graph
from eigentensor.lowering.graph_program import GraphProgram
from eigentensor.planner.measure import CallCost, Cost
from eigentensor.planner.oracle import max_relative_error
from eigentensor.planner.sample import Sample, Values
from eigentensor.program.bounds import steps_of
from eigentensor.program.cost import costs
from eigentensor.program.model import Body, Program
from eigentensor.runtime.cpu.schedule import Target
from eigentensor.runtime.cpu.toolchain import Toolchain

#: Of a program that is executed: evaluations, steps of NumPy that the reference takes, bytes of all tensors.
EVALUATIONS, STEPS, BYTES = 4_000_000, 40_000, 32 << 20
_NANOSECOND = 1e-9
#: A common processor, which nothing is compiled for.
_PROCESSOR = Toolchain("", Target(8, 16), ())


class Reckoner:
    """A meter for who has no device: every time is an estimate for one thread of a common processor."""

    def __init__(self) -> None:
        self._known: dict[Body, float] = {}

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
        """As a meter's, by the reference. Raises LimitError for a program that takes it too long."""
        require_small(made.program)
        tensors = {**graph.data, **sample.tensors}
        given = {b.name: tensors[b.name] for b in made.program.buffers if b.name}
        results = reference.execute(made.program, given)
        actual = [*(results.outputs[name] for name in graph.outputs), *(results.states[name] for name in graph.states)]
        of = zip(graph.roots, actual, exact(), strict=True)
        return max(max_relative_error(root.dtype, result, values) for root, result, values in of)

    def seconds(self, body: Body) -> float:
        """Of one call."""
        if body not in self._known:
            features = _PROCESSOR.features(body, [_PROCESSOR.heuristic(body)])
            self._known[body] = float(np.exp(features[0, 0])) * _NANOSECOND if body.parameters[0].elements else 0.0
        return self._known[body]


def require_small(program: Program) -> None:
    """Raises LimitError for a valid program that the reference takes more than a second or two for."""
    whole, steps = costs(program), sum(_steps(program.bodies[call.body]) for call in program.calls)
    if whole.evaluations > EVALUATIONS or steps > STEPS:
        raise LimitError(f"a run takes {whole.evaluations:,} evaluations; so long is nothing tried here")
    if whole.all_bytes > BYTES:
        raise LimitError(f"its tensors have {whole.all_bytes:,} bytes; at most {BYTES:,} are tried here")


def _steps(body: Body) -> int:
    """How many operations of NumPy the reference computes a body with, about."""
    return (len(body.instructions) + sum(steps_of(body))) * ceil(body.parameters[0].elements / reference.LANES)
