"""What a program costs on a device: the times of its bodies, measured where they are known, else by a fitted model."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.cache import Cache
from eigentensor.graph.node import Graph
from eigentensor.lowering.graph_program import GraphProgram
from eigentensor.numerics.dtypes import DType
from eigentensor.planner.oracle import max_relative_error
from eigentensor.planner.sample import Sample, Values
from eigentensor.program.expression import Array, Axis, const, load, to_body
from eigentensor.program.model import Body, Program, Role
from eigentensor.runtime import devices
from eigentensor.runtime.build.compilers import Build
from eigentensor.runtime.build.database import Database, Time
from eigentensor.runtime.build.decide import GAIN, log_seconds
from eigentensor.runtime.build.model import LEAST, Model, fit
from eigentensor.runtime.build.names import structure
from eigentensor.runtime.compiled import CompiledGraph
from eigentensor.runtime.tuning.measure import Arena, alone
from eigentensor.wire import Object

ROUNDS = 5  #: in which a body is timed
MODELLED = 160  #: measured bodies, at most, that a model across structures is fitted to
LEAST_BYTES = 1 << 12  #: less is moved in the same time


@dataclass(frozen=True, slots=True)
class CallCost(Object):
    """A call of a program that was planned."""

    body: int
    """Which of the program's bodies it executes."""
    seconds: float
    """How long it takes."""
    measured: bool
    """Whether that was measured; else it is estimated."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of one run: of its calls in order, and of moving inputs to the device and outputs from it."""

    calls: tuple[CallCost, ...]
    transfers: float

    @property
    def seconds(self) -> float:
        """Seconds of one run: all calls, and what goes to the device and back."""
        return sum(call.seconds for call in self.calls) + self.transfers

    @property
    def measured(self) -> bool:
        """Whether no time is an estimate."""
        return all(call.measured for call in self.calls)


class Meter:
    """Times and errors by the database; what is measured is kept there at once."""

    def __init__(self, toolchain: Build[Any], cache: Cache, database: Database) -> None:
        self.toolchain, self.cache, self.database = toolchain, cache, database
        self._known: dict[Body, tuple[float, bool]] = {}
        self._features: dict[Body, NDArray[np.float64]] = {}
        self.bodies_measured = 0

    def cost(self, program: Program) -> Cost:
        """Of a valid program. Transfers are measured if they are not known."""
        calls = tuple(CallCost(call.body, *self.seconds(program.bodies[call.body])) for call in program.calls)
        return Cost(calls, self._transfers(program))

    def seconds(self, body: Body) -> tuple[float, bool]:
        """Of one call, and whether it was measured."""
        if body not in self._known:
            self._known[body] = self._look_up(body)
        return self._known[body]

    def is_settled(self, cost: Cost) -> bool:
        """Whether no better is to be had: nothing of it is an estimate."""
        return cost.measured

    def unmeasured(self, program: Program) -> list[Body]:
        """Bodies whose times are estimates, those first that the run spends most in."""
        shares: dict[Body, float] = {}
        for call in program.calls:
            seconds, measured = self.seconds(body := program.bodies[call.body])
            if not measured:
                shares[body] = shares.get(body, 0) + seconds
        return sorted(shares, key=lambda body: -shares[body])

    def measure(self, body: Body) -> None:
        """Times a body, and keeps it."""
        arena = Arena(body, self.toolchain, self.cache)
        arena.race([], rounds=ROUNDS)
        timing = Time(str(self.toolchain.heuristic(body)), arena.seconds, len(arena.samples), True)
        self.database.record(self.toolchain.platform, body, [timing])
        self._known = {b: known for b, known in self._known.items() if known[1]}
        for name in ("_general", "_rows"):
            self.__dict__.pop(name, None)
        self.bodies_measured += 1

    def error(self, made: GraphProgram, graph: Graph, sample: Sample, exact: Callable[[], Sequence[Values]]) -> float:
        """The largest `max_relative_error` of the program's outputs and new states.

        `exact` is asked for the values of the graph's roots if the database does not know.
        """
        known = self.database.error(made.uuid, sample.digest)
        if known is not None:
            return known
        true = exact()
        tensors = {**graph.data, **sample.tensors}
        weights = {name: tensors[name] for name in made.program.named(Role.WEIGHT)}
        inputs = {b.name: tensors[b.name] for b in made.program.buffers if b.role in (Role.INPUT, Role.STATE)}
        compiled = CompiledGraph(
            made.program, weights, device=self.toolchain.device, cache=self.cache, toolchain=self.toolchain
        )
        results = compiled.run(inputs, {v.name: sample.variables[v.name] for v in made.program.variables})
        actual = [*(results.outputs[name] for name in graph.outputs), *(results.states[name] for name in graph.states)]
        of = zip(graph.roots, actual, true, strict=True)
        error = max(max_relative_error(root.dtype, result, values) for root, result, values in of)
        self.database.record_error(made.uuid, sample.digest, error)
        return error

    def _look_up(self, body: Body) -> tuple[float, bool]:
        if not body.parameters[0].elements:
            return 0.0, True
        known = [t for t in self.database.times(self.toolchain.platform, body) if t.samples]
        if known:
            usual = next((t.seconds for t in known if t.heuristic), known[0].seconds)
            return (known[0].seconds if known[0].seconds <= GAIN * usual else usual), True
        return float(np.exp(self._estimated_log(body))), False

    def _estimated_log(self, body: Body) -> float:
        alike = self.database.measured(self.toolchain.platform, structure(body))
        if sum(len(times) for _, times in alike) >= LEAST:
            return float(log_seconds(self.toolchain, body, [self.toolchain.heuristic(body)], alike)[0][0])
        if body not in self._features:
            self._features[body] = self.toolchain.features(body, [self.toolchain.heuristic(body)])
        features = self._features[body]
        if self._general is not None:
            return float(self._general.log_seconds(features)[0])
        return float(features[0, 0] + self._level)

    @cached_property
    def _general(self) -> Model | None:
        """A model of bodies of all structures, for those of whose own nothing was measured."""
        rows, seconds = self._rows
        return fit(rows, seconds) if len(rows) >= LEAST else None

    @property
    def _level(self) -> float:
        """Logarithm of what a reckoned nanosecond takes here, by the few bodies that were measured."""
        rows, seconds = self._rows
        return float(np.median(np.log(seconds) - rows[:, 0])) if len(rows) else float(np.log(1e-9))

    @cached_property
    def _rows(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Features of measured bodies under their usual schedules, and the seconds that they took."""
        known = self.database.measured(self.toolchain.platform)[:MODELLED]
        usual = [(body, t) for body, times in known for t in times if t.heuristic]
        rows = [self.toolchain.features(body, [self.toolchain.parse(t.schedule)])[0] for body, t in usual]
        return np.array(rows), np.array([t.seconds for _, t in usual])

    def _transfers(self, program: Program) -> float:
        sizes = [b.elements * b.dtype.size for b in program.buffers if b.role in (Role.INPUT, Role.STATE)]
        results = [program.parameter(r.buffer) for r in program.results]
        return sum(self._transfer("in", size) for size in sizes) + sum(
            self._transfer("out", of.elements * of.dtype.size) for of in results
        )

    def _transfer(self, direction: str, size: int) -> float:
        """Seconds to move so many bytes, by what a power of two at least as large took."""
        if not size:
            return 0.0
        row = max(LEAST_BYTES, 1 << (size - 1).bit_length())
        known = self.database.transfer(self.toolchain.platform, direction, row)
        if known is None:
            known = self._timed_transfer(direction, row)
            self.database.record_transfer(self.toolchain.platform, direction, row, known, ROUNDS)
        return known * min(1.0, max(size, LEAST_BYTES) / row)

    def _timed_transfer(self, direction: str, size: int) -> float:
        """Of a tensor that a run is given and hardly reads, or that it gives and hardly computes."""
        elements = size // DType.FLOAT32.size
        if direction == "out":
            return self._timed(1, elements)[1]
        return max(0.0, self._timed(elements, 1)[0] - self._timed(1, 1)[0])

    def _timed(self, elements: int, results: int) -> tuple[float, float]:
        """Seconds of a run that takes and gives so many elements, and of reading its result."""
        value = load(Array("x", DType.FLOAT32, elements), const(DType.INDEX, 0))
        program = alone(to_body(value, (Axis(0, results),) if results > 1 else ()).body)
        loaded = devices.load(program, self.toolchain.device, self.cache, self.toolchain)
        loaded.bind({})
        array, (result,), times = np.ones(elements, np.float32), program.results, []
        for _ in range(ROUNDS + 1):
            start = time.perf_counter()
            loaded.run({0: array}, [()])
            between = time.perf_counter()
            loaded.read(result)
            times.append((between - start, time.perf_counter() - between))
        runs, reads = zip(*times[1:], strict=True)
        return median(runs), median(reads)
