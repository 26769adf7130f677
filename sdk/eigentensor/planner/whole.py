"""A plan of a program whose graph nobody has, for who looks at it: bounded in size and time, nothing compiled."""

import time
from collections import Counter

from eigentensor.errors import CaptureError, LimitError, ToleranceExceeded
from eigentensor.graph.lower import lower
from eigentensor.graph.node import Graph
from eigentensor.planner.lifted import lifted, needed, wanted
from eigentensor.planner.plan import TOLERANCE, Plan, Planner
from eigentensor.planner.reckoner import Reckoner, require_exact, require_small
from eigentensor.planner.recognised import recognised
from eigentensor.planner.settled import settled
from eigentensor.program.model import Body, Program

PATHS = 32  #: programs that are looked at for each block
CALLS = 64  #: of a program that is planned
NEAR = 1.5  #: times the program that its graph may take, where lowering knows a shorter index than was found
SLACK = 2  #: times its own error that paths of a program may err


def planned(program: Program, seconds: float) -> Plan:
    """The paths from a valid program's graph, with reckoned times and with errors on random inputs, found in so many
    seconds of a processor. Variables have their greatest values; what the fingerprint takes is left out.

    A path may err by TOLERANCE, or twice as much as the program itself. Raises CaptureError for a program whose graph
    is not found, LimitError for one that is too large, or takes longer.
    """
    end = time.thread_time() + seconds

    def progress(*_: object) -> None:
        if time.thread_time() > end:
            raise LimitError(f"looking at other programs for its mathematics takes longer than {seconds:g} s")

    if len(program.calls) > CALLS:
        raise LimitError(f"it has {len(program.calls):,} calls; of at most {CALLS} a plan is made")
    require_small(program)
    meter = Reckoner()
    graph = _graph(settled(program), meter)
    require_exact(graph)
    planner = Planner(graph, meter, most=PATHS)
    own = meter.error(lower(graph, fingerprint=False), graph, planner.sample, lambda: planner.exact)
    planner.tolerance = max(TOLERANCE, SLACK * own)
    try:
        plan = planner.plan(progress=progress)
    except ToleranceExceeded as error:
        raise CaptureError(error.what) from None
    for part in plan.parts:
        for candidate in part.shown():
            progress()
            part.search.is_exact(candidate)
    return plan


def _graph(program: Program, meter: Reckoner) -> Graph:
    """A graph that lowers to the program, or nearly. What is stored of itself is not marked: rules need not undo it."""
    graph = recognised(lifted(program, stored=False))
    if _bodies(lower(graph, fingerprint=False).program) == _bodies(program):
        return graph
    graph = recognised(lifted(program))
    made = lower(graph, fingerprint=False).program
    if _seconds(meter, made) > NEAR * _seconds(meter, program):
        raise CaptureError("the graph that it was made of cannot be found again")
    return graph


def _bodies(program: Program) -> Counter[Body]:
    """What is computed, besides the fingerprint of results, in any order."""
    first = len(program.buffers)
    of = needed(program, {result.buffer for result in wanted(program)})
    return Counter(program.bodies[program.calls[number - first].body] for number in of)


def _seconds(meter: Reckoner, program: Program) -> float:
    return sum(meter.seconds(body) * count for body, count in _bodies(program).items())
