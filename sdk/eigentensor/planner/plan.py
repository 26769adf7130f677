"""From a graph to the program that is fastest here within a tolerance: blocks, their paths, the whole, the check."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeVar

from eigentensor.errors import ExecutionError, WrongBits
from eigentensor.graph.lower import lower
from eigentensor.graph.node import Form, Graph
from eigentensor.lowering.graph_program import GraphProgram
from eigentensor.numerics.conversion import cast
from eigentensor.numerics.dtypes import DType
from eigentensor.planner.blocks import Block, assembled, blocks, collapsed
from eigentensor.planner.measure import Cost
from eigentensor.planner.oracle import evaluated, oracle
from eigentensor.planner.sample import Sample, Values, sample_of
from eigentensor.planner.search import PATHS, Candidate, Costs, Search, exceeded
from eigentensor.runtime.tuning.tuner import Progress

TOLERANCE = 1e-5
SHOWN = 8  #: paths of a block that are shown, besides what was taken, refused and given
ATTEMPTS = 8  #: choices for the blocks that are checked as a whole

C = TypeVar("C", bound=Costs)


@dataclass(eq=False)
class PlannedBlock:
    """A block with its paths, and which was taken."""

    block: Block
    search: Search
    chosen: Candidate

    def shown(self, *, everything: bool = False) -> list[Candidate]:
        """Its paths for people, the cheapest first; without `everything` those that they want to see."""
        ranked = sorted(self.search.candidates, key=lambda c: c.cost.seconds)
        always = (self.search.candidates[0], self.chosen)
        return [c for n, c in enumerate(ranked) if everything or n < SHOWN or c.verdict or c in always]

    def verdict(self, candidate: Candidate) -> str:
        """Why a path was taken, or was not, in words."""
        if candidate is self.chosen:
            return "chosen"
        if candidate.verdict:
            return candidate.verdict
        return "slower" if candidate.cost.seconds > self.chosen.cost.seconds else "as fast, by more rules"


@dataclass(frozen=True, slots=True)
class Whole:
    """A program of the whole graph, what it costs, and its largest relative error."""

    graph: Graph
    made: GraphProgram
    cost: Cost
    error: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What was chosen; `original` is the graph as its author wrote it.

    `planning` are seconds for finding blocks, paths and their times, `checking` those for lowering, executing and
    comparing the whole.
    """

    parts: Sequence[PlannedBlock]
    chosen: Whole
    original: Whole
    planning: float
    checking: float

    @property
    def gain(self) -> float:
        """How many times as fast the chosen program is as the graph as it is."""
        return self.original.cost.seconds / self.chosen.cost.seconds if self.chosen.cost.seconds else 1.0


class Planner(Generic[C]):
    """Plans one graph on the device of a meter."""

    def __init__(
        self,
        graph: Graph,
        meter: C,
        *,
        tolerance: float = TOLERANCE,
        tensors: Mapping[str, Values] | None = None,
        most: int = PATHS,
    ) -> None:
        self.graph, self.meter, self.tolerance, self.most = graph, meter, tolerance, most
        self.sample = sample_of(graph, tensors)

    def plan(self, *, everything: bool = False, progress: Progress = lambda *_: None) -> Plan:
        """The fastest program within the tolerance. With `everything` all paths are measured and executed.

        May be interrupted: what was measured is kept. Raises ToleranceExceeded, or CaptureError for a graph that no
        program can be made of.
        """
        start = time.perf_counter()
        searches = self.searches(everything=everything, progress=progress)
        between = time.perf_counter()
        progress("checking the whole", 0, 1)
        original = self._whole(self.graph)
        parts, chosen = self._chosen(searches, original)
        return Plan(parts, chosen, original, between - start, time.perf_counter() - between)

    def searches(self, *, everything: bool = False, progress: Progress = lambda *_: None) -> list[tuple[Block, Search]]:
        """The blocks with their paths, measured where it matters: what is called planning."""
        parts = blocks(self.graph)
        samples = self._samples(parts)
        searches = []
        for number, (block, sample) in enumerate(zip(parts, samples, strict=True)):

            def say(text: str, done: float, total: float, number: int = number) -> None:
                progress(f"block {number + 1} of {len(parts)}: {text}", done, total)

            search = Search(block.graph, self.meter, sample, self.tolerance, most=self.most)
            (search.run_all if everything else search.run)(say)
            searches.append((block, search))
        return searches

    def _chosen(self, searches: Sequence[tuple[Block, Search]], original: Whole) -> tuple[list[PlannedBlock], Whole]:
        """The cheapest choices that are within the tolerance as a whole; the graph as given, if nothing is better."""
        rankings = [search.ranked() for _, search in searches]
        firsts = [next(ranking) for ranking in rankings]
        parts = [PlannedBlock(block, search, first) for (block, search), first in zip(searches, firsts, strict=True)]
        tried = [original]
        for _ in range(ATTEMPTS):
            try:
                tried.append(self._whole(assembled(self.graph, [(p.block, p.chosen.path.graph) for p in parts])))
            except WrongBits:
                raise
            except ExecutionError:  # the whole may have a kernel that no block has
                is_exact = False
            else:
                is_exact = tried[-1].error <= self.tolerance
            if is_exact or not self._stepped(parts, rankings):
                break
        exact = [whole for whole in tried if whole.error <= self.tolerance]
        if not exact:
            raise exceeded(self.tolerance, [whole.error for whole in tried])
        best = min(exact, key=lambda whole: whole.cost.seconds)
        if best is original:
            parts = [replace(p, chosen=p.search.candidates[0]) for p in parts]
        return parts, best

    def _stepped(self, parts: list[PlannedBlock], rankings: Sequence[Iterator[Candidate]]) -> bool:
        """Takes the next best path of the block that errs most and has another; says whether there was one."""
        order = sorted(range(len(parts)), key=lambda number: -(parts[number].chosen.error or 0))
        for number in order:
            following = next(rankings[number], None)
            if following is not None:
                parts[number].chosen.verdict = "refused: not with the other blocks as they are"
                parts[number].chosen = following
                return True
        return False

    def _whole(self, graph: Graph) -> Whole:
        made = lower(graph)
        error = self.meter.error(made, graph, self.sample, lambda: self.exact)
        for body in self.meter.unmeasured(made.program):
            self.meter.measure(body)
        return Whole(graph, made, self.meter.cost(made.program), error)

    @cached_property
    def exact(self) -> Sequence[Values]:
        return oracle(self.graph, self.sample.tensors, self.sample.variables)

    def _samples(self, parts: Sequence[Block]) -> list[Sample]:
        """Inputs of each block, as the sample of the whole leads to them at its first place."""
        stand_ins = collapsed(self.graph, parts)
        wanted = {leaf: stand_ins[leaf] for block in parts for leaf in block.places[0].leaves.values()}
        values = evaluated(list(wanted.values()), self.sample.tensors, self.sample.variables)
        known = dict(zip(wanted, values, strict=True))
        samples = []
        for block in parts:
            tensors = {}
            for name, n in block.places[0].leaves.items():
                if n.op in (Form.INPUT, Form.WEIGHT, Form.STATE):
                    tensors[name] = self.sample.tensors[n.arg]
                else:
                    value = known[n]
                    tensors[name] = cast(DType.FLOAT32, n.dtype, value.astype("float32")) if n.dtype.is_float else value
            samples.append(Sample(tensors, self.sample.variables))
        return samples
