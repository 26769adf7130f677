"""Schedules of one body, timed in turn on the same random tensors. All must give the same bits."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import repeat
from math import ceil
from statistics import median
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from eigentensor.cache import Cache
from eigentensor.errors import WrongBits
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.model import Body, Buffer, Call, Kind, Parameter, Program, Result, Role, Variable
from eigentensor.runtime import devices
from eigentensor.runtime.build.compilers import Build
from eigentensor.runtime.build.decide import S
from eigentensor.runtime.build.names import body_name
from eigentensor.runtime.memory.plan import HOST
from eigentensor.system import processors

SAMPLE = 0.001  #: seconds that a sample takes at least
SHORT, CALLS, BYTES = 1e-4, 64, 1 << 22  #: a call that is shorter is made so often in a row, if results are so small
ROUNDS = 9
#: After so many rounds a schedule is dropped that takes so many times as long as the best.
ELIMINATION = {1: 1.6, 2: 1.3, 4: 1.15}


@dataclass
class Contender:
    """A schedule that was compiled; `ratios` are its times over the heuristic's in the same round."""

    schedule: object
    loaded: devices.Loaded
    ratios: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The median of its times over the heuristic's: below 1 is faster."""
        return median(self.ratios)


class Arena(Generic[S]):
    """Random tensors for a body, and the heuristic's schedule on them, which all others are held to."""

    def __init__(self, body: Body, toolchain: Build[S], cache: Cache) -> None:
        self.body, self.cache = body, cache
        self.toolchain: Build[S] = toolchain
        random = np.random.default_rng(0)
        self.arrays = {number: _random(random, p) for number, p in enumerate(body.parameters[1:])}
        #: On a processor the time of this thread, which other work on the machine does not lengthen.
        self.clock = time.thread_time if toolchain.device.startswith(HOST) else time.perf_counter
        self.calls = 1
        self.heuristic = self._load(None)
        self.bits = self._bits(self.heuristic)
        first = self._least()
        if first < SHORT:
            self.calls = max(1, min(CALLS, BYTES // max(1, len(self.bits))))
            self.heuristic = self._load(None)
            first = self._least()
        self.times = ceil(SAMPLE / max(first * self.calls, SAMPLE / 1000))
        self.samples: list[float] = []  #: of the heuristic, in seconds

    @property
    def seconds(self) -> float:
        """Of a call with the heuristic's schedule: the median of all rounds until now."""
        return median(self.samples)

    def contend(self, schedules: Sequence[S]) -> list[Contender]:
        """Compiles schedules. Raises WrongBits if one does not give the heuristic's bits."""
        with ThreadPoolExecutor(processors()) as pool:
            contenders = [
                Contender(s, loaded) for s, loaded in zip(schedules, pool.map(self._load, schedules), strict=True)
            ]
        for contender in contenders:
            if self._bits(contender.loaded) != self.bits:
                raise WrongBits(
                    f"body {body_name(self.body)} gives other bits with the schedule {contender.schedule}",
                    fix="This device must not be used: report the program and the schedule.",
                )
        return contenders

    def race(self, contenders: Sequence[Contender], *, rounds: int = ROUNDS, eliminate: bool = True) -> None:
        """Rounds in which the heuristic and all that are not dropped yet take a sample each, in turn."""
        left: list[Contender] = list(contenders)
        for number in range(1, rounds + 1):
            own = self._seconds(self.heuristic, self.times)
            self.samples.append(own)
            for contender in left:
                contender.ratios.append(self._seconds(contender.loaded, self.times) / own)
            if eliminate and number in ELIMINATION:
                limit = ELIMINATION[number] * min([1.0, *(c.ratio for c in left)])
                left = [c for c in left if c.ratio <= limit]

    def _load(self, schedule: S | None) -> devices.Loaded:
        chosen = {} if schedule is None else {body_name(self.body): str(schedule)}
        pinned = replace(self.toolchain, schedules=chosen)
        threads = 1 if self.calls > 1 else None  # a call that is so short is not shared
        loaded = devices.load(alone(self.body, self.calls), pinned.device, self.cache, pinned, threads)
        loaded.bind(self.arrays)
        return loaded

    def _run(self, loaded: devices.Loaded, times: int) -> None:
        loaded.run({}, repeat(tuple(bounds.maximum for bounds in self.body.variables), times))

    def _bits(self, loaded: devices.Loaded) -> bytes:
        self._run(loaded, 1)
        (last,) = alone(self.body, self.calls).results
        return loaded.read(last).tobytes()

    def _least(self) -> float:
        """Seconds of a call, roughly: nothing makes a run shorter than it is."""
        first = self._seconds(self.heuristic, 1)
        return min(first, *(self._seconds(self.heuristic, 1) for _ in range(4))) if first < SAMPLE else first

    def _seconds(self, loaded: devices.Loaded, times: int) -> float:
        start = self.clock()
        self._run(loaded, times)
        return (self.clock() - start) / (times * self.calls)


def alone(body: Body, calls: int = 1) -> Program:
    """A program of nothing but some calls of a body, all of the same inputs."""
    parameters = enumerate(body.parameters[1:])
    buffers = tuple(Buffer(Role.INPUT, p.dtype, (p.elements,), f"{number:02}") for number, p in parameters)
    variables = tuple(Variable(f"{number:02}", *bounds) for number, bounds in enumerate(body.variables))
    call = Call(0, tuple(range(len(buffers))), tuple(range(len(variables))))
    last = Result(Kind.OUTPUT, "output", len(buffers) + calls - 1, (body.parameters[0].elements,))
    return Program(variables, buffers, (body,), (call,) * calls, (last,))


def _random(random: np.random.Generator, parameter: Parameter) -> NDArray[Any]:
    """Values as they occur: of floats the normal distribution, of integers small ones."""
    dtype, storage = parameter.dtype, STORAGE[parameter.dtype]
    if dtype is DType.BFLOAT16:
        return (random.standard_normal(parameter.elements, np.float32).view(np.uint32) >> 16).astype(storage)
    if dtype.is_float:
        return random.standard_normal(parameter.elements, np.float32).astype(storage)
    return random.integers(0, 2 if dtype is DType.BOOL else 100, parameter.elements).astype(storage)
