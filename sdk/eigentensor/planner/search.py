"""Which path to take: estimated first, measured where it matters, held to the oracle before it is taken."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from eigentensor.errors import CaptureError, ExecutionError, ToleranceExceeded, WrongBits
from eigentensor.graph.lower import lower
from eigentensor.graph.node import Graph
from eigentensor.lowering.graph_program import GraphProgram
from eigentensor.planner.measure import Cost
from eigentensor.planner.oracle import oracle
from eigentensor.planner.paths import Path, neighbours, paths
from eigentensor.planner.sample import Sample, Values
from eigentensor.planner.storage import LOSSY
from eigentensor.program.model import Body, Program
from eigentensor.runtime.tuning.tuner import Progress

PATHS = 96  #: programs that are looked at
FINALISTS = 9  #: of them, those whose bodies are measured where no time is known
ROUNDS = 3  #: in which there are more paths, and more measurements to go by
WORTH = 1.003  #: times faster that a path must be for each of its rules
HOPE = 1.5  #: An estimate that is so many times the best measured time is not worth measuring.
CLOSE = 1.1  #: What promises no more than so many times the best is measured at the end, as far as finalists double.
HOPELESS = 4  #: times the tolerance: nothing follows from a path that errs more because it rounds


class Costs(Protocol):
    """What says how long programs take and how far they err: a `Meter` or a `Reckoner`."""

    def cost(self, program: Program) -> Cost:
        """Of a valid program."""

    def is_settled(self, cost: Cost) -> bool:
        """Whether no better cost is to be had."""

    def unmeasured(self, program: Program) -> list[Body]:
        """Bodies that can be measured and were not, those first that the run spends most in."""

    def measure(self, body: Body) -> None:
        """Measures one of them, which changes costs."""

    def error(self, made: GraphProgram, graph: Graph, sample: Sample, exact: Callable[[], Sequence[Values]]) -> float:
        """The largest relative error of the program of a graph on a sample, beside its exact values. Raises
        ExecutionError if it cannot be executed."""


@dataclass(eq=False)
class Candidate:
    """A path as a program. `error` is None until it was executed; `verdict` says why it was refused, if it was."""

    path: Path
    made: GraphProgram
    cost: Cost
    error: float | None = None
    verdict: str = ""

    @property
    def rules(self) -> str:
        """The rules that led to it, in words."""
        return " · ".join(self.path.rules) or "as it is"


Begun = tuple[Candidate, Iterator[Path]]  #: a candidate, and the paths of one rule more that were not looked at yet


class Search:
    """The paths of one graph on one device. What is asked twice is measured once."""

    def __init__(self, graph: Graph, meter: Costs, sample: Sample, tolerance: float, *, most: int = PATHS) -> None:
        self.graph, self.meter, self.sample, self.tolerance, self.most = graph, meter, sample, tolerance, most
        self.candidates: list[Candidate] = []
        self._keys: set[bytes] = set()
        self._programs: set[bytes] = set()
        self._open: list[Begun] = []
        self._hopeless: set[str] = set()
        self._measured = 0

    @cached_property
    def exact(self) -> Sequence[Values]:
        """What the graph means on the sample, in float64: what paths are held to."""
        return oracle(self.graph, self.sample.tensors, self.sample.variables)

    def run(self, progress: Progress = lambda *_: None) -> None:
        """Makes candidates in rounds, and measures the best of each: first of one rule, then from what is cheapest."""
        self._begin(progress)
        first = list(self._open)
        for number in range(1, ROUNDS + 1):
            self._explore(self.most * number // ROUNDS, first if number == 1 else self._open, progress)
            self._settle(FINALISTS * number // ROUNDS, HOPE, progress)
        self._settle(2 * FINALISTS, CLOSE, progress)

    def run_all(self, progress: Progress = lambda *_: None) -> None:
        """Does the same, adds the first paths by the number of rules, and measures and executes every one."""
        self.run(progress)
        self._hopeless.clear()
        for path in paths(self.graph, self.most):
            self._add(path)
        for number, candidate in enumerate(self.candidates):
            progress(f"path {number + 1} of {len(self.candidates)}", number, len(self.candidates))
            self.measure(candidate)
            self.is_exact(candidate)

    def measure(self, candidate: Candidate) -> None:
        """Times the bodies that were not timed yet; every time is kept as soon as it is known."""
        with self._refusing(candidate):
            for body in (unknown := self.meter.unmeasured(candidate.made.program)):
                self.meter.measure(body)
            for other in self.candidates if unknown else ():
                other.cost = self.meter.cost(other.made.program)

    def is_exact(self, candidate: Candidate) -> bool:
        """Whether a path is within the tolerance; executes it if that is not known."""
        if candidate.error is None and not candidate.verdict:
            with self._refusing(candidate):
                graph = candidate.path.graph
                candidate.error = self.meter.error(candidate.made, graph, self.sample, lambda: self.exact)
                if candidate.error > self.tolerance:
                    candidate.verdict = f"refused: {candidate.error:.1e} is more than {self.tolerance:g}"
        return not candidate.verdict

    @contextmanager
    def _refusing(self, candidate: Candidate) -> Iterator[None]:
        """What cannot be executed here is refused, but not the graph as it is: then nobody knows what is fast."""
        try:
            yield
        except WrongBits:
            raise
        except ExecutionError:
            if not candidate.path.rules:
                raise
            candidate.verdict = "refused: it cannot be executed here"

    def ranked(self) -> Iterator[Candidate]:
        """The measured candidates within the tolerance, the cheapest first; of much the same, that of fewer rules.

        Raises ToleranceExceeded if there is none.
        """
        yielded = False
        for candidate in sorted(self.candidates, key=lambda c: c.cost.seconds * WORTH ** len(c.path.rules)):
            if self.meter.is_settled(candidate.cost) and self.is_exact(candidate):  # executes what was not executed yet
                yielded = True
                yield candidate
        if not yielded:
            raise exceeded(self.tolerance, [c.error for c in self.candidates if c.error is not None])

    def _begin(self, progress: Progress) -> None:
        first = self._add(Path.of(self.graph))
        if first is None:
            lower(self.graph, fingerprint=False)  # says why
            return
        progress("the graph as it is", 0, self.most)
        self.measure(first)
        self.is_exact(first)

    def _explore(self, most: int, begun: list[Begun], progress: Progress) -> None:
        """Makes candidates until there are so many: from the cheapest of those begun, one rule further."""
        while len(self.candidates) < most and begun:
            entry = min(begun, key=lambda entry: entry[0].cost.seconds)
            candidate, further = entry
            path = next(further, None) if self._may_go_on(candidate) else None
            if path is None:
                begun.remove(entry)
            elif self._add(path) is not None:
                progress("looking at paths", len(self.candidates), self.most)

    def _settle(self, most: int, hope: float, progress: Progress) -> None:
        """Measures candidates, the most promising first, until so many were measured or no other promises more."""
        while self._measured < most:
            left = [c for c in self.candidates if not c.verdict]
            known = [c.cost.seconds for c in left if self.meter.is_settled(c.cost)]
            unknown = [c for c in left if not self.meter.is_settled(c.cost)]
            if not unknown:
                return
            best = min(unknown, key=lambda c: c.cost.seconds)
            if best.cost.seconds > hope * min(known, default=float("inf")):
                return
            progress("measuring paths", len(self.candidates), self.most)
            if self._may_go_on(best) and self.is_exact(best):
                self._measured += 1
                self.measure(best)

    def _may_go_on(self, candidate: Candidate) -> bool:
        """Whether a path is worth more work: not if it rounds what must not be rounded."""
        lossy = [rule for rule in candidate.path.rules if rule in LOSSY]
        if not lossy or candidate.verdict:
            return not candidate.verdict
        if hopeless := [rule for rule in lossy if rule in self._hopeless]:
            candidate.verdict = f"refused: {hopeless[0]}"
            return False
        if not self.is_exact(candidate) and (candidate.error or 0) > HOPELESS * self.tolerance and len(lossy) == 1:
            self._hopeless.update(lossy)
        return not candidate.verdict

    def _add(self, path: Path) -> Candidate | None:
        """The candidate of a path that is new, can be a program, and is another program than those before."""
        if path.key in self._keys or not self._hopeless.isdisjoint(path.rules):
            return None
        self._keys.add(path.key)
        try:
            made = lower(path.graph, fingerprint=False)
        except CaptureError:
            return None
        if (name := made.to_bytes()) in self._programs:
            return None
        self._programs.add(name)
        candidate = Candidate(path, made, self.meter.cost(made.program))
        self.candidates.append(candidate)
        self._open.append((candidate, neighbours(path)))
        return candidate


def exceeded(tolerance: float, errors: Sequence[float]) -> ToleranceExceeded:
    """The error of a search none of whose paths is within the tolerance, with the least error that it met."""
    least = min(errors, default=float("inf"))
    return ToleranceExceeded(
        f"no path is within {tolerance:g} of the exact result: the best errs by {least:.1e}",
        fix="Allow more, or write the graph so that less is lost.",
    )
