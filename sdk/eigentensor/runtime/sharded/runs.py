"""Runs of a program on several workers of this process, each on a thread."""

from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigentensor.cache import Cache, default_folder
from eigentensor.errors import ExecutionError
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.binding import Results, bind, iteration_values
from eigentensor.program.model import Kind, Program, Role, Variable
from eigentensor.regions.boxes import slices
from eigentensor.runtime.compiled import Kept, load_bound
from eigentensor.runtime.memory.plan import HOST
from eigentensor.runtime.sharded.machines import machine_of
from eigentensor.runtime.sharded.mail import Mail, MailClosed
from eigentensor.runtime.sharded.worker import Worker
from eigentensor.sharding.layout import Layout, axes_of
from eigentensor.sharding.plan import plan
from eigentensor.sharding.signals import Hint
from eigentensor.threads import pool

#: Threads of a process that compute as workers: enough for all at a time, since they wait for each other. Those that
#: have nothing to do serve whoever comes next.
WORKERS = 1 << 16
Values = NDArray[Any]


class Sharded:
    """A program on so many workers: threads of this process that share nothing but boxes which they send each other.

    Bits are those of a run on one device, by construction. `weights` (or any other tensors), given here as arrays or as
    a safetensors file, stay bound; states given here are what every run starts from that is not given others. `memory`
    are the bytes that each worker may hold, `hints` where calls are to be computed, `layouts` where tensors lie, as
    `sharding.plan` takes them. Each worker computes on `threads` threads. Raises LimitError where no plan fits into the
    memory, ExecutionError for devices with memory of their own.

    With `keep_states`, states stay where they are: a run that is given none goes on from those that the last run left,
    and no results have any. `states` gathers them.
    """

    def __init__(
        self,
        program: Program,
        weights: Mapping[str, ArrayLike] | Path | None = None,
        *,
        workers: int,
        memory: int | None = None,
        hints: Sequence[Hint | None] = (),
        layouts: Mapping[str, Layout] | None = None,
        device: str = HOST,
        threads: int = 1,
        cache: Cache | None = None,
        keep_states: bool = False,
    ) -> None:
        self.program, self.lock = program, Lock()
        self.plan = plan(program, workers, tuple(sorted((layouts or {}).items())), tuple(hints), memory)
        machine = machine_of(device, cache or Cache(default_folder()), threads)
        self.workers = [Worker(program, of, machine) for of in self.plan.workers]
        bound = dict(load_bound(weights, program) if isinstance(weights, Path) else weights or {})
        self.first_states = {name: bound.pop(name) for name in program.named(Role.STATE) if name in bound}
        closed = [n for n, b in enumerate(program.buffers) if b.role is Role.CONSTANT or b.name in bound]
        self.open = [n for n in range(len(program.buffers)) if n not in set(closed)]
        self.inputs = [n for n in self.open if program.buffers[n].role is not Role.STATE]
        self.keep_states, self.kept = keep_states and bool(program.named(Role.STATE)), Kept.NONE
        self._give(closed, bound)

    def run(
        self, tensors: Mapping[str, ArrayLike], variables: Mapping[str, int] | None = None, repeat: int = 1
    ) -> Results:
        """As CompiledGraph.run, from any thread. Raises BindingError if the tensors do not fit the program, and what
        the first worker raised that failed; the next run begins anew."""
        with self.lock:
            goes_on = self.kept is not Kept.NONE and not self.program.named(Role.STATE).keys() & tensors.keys()
            if goes_on and self.kept is Kept.LOST:
                raise ExecutionError(
                    "the last run ended early: its states are lost", fix="Give the states to go on from."
                )
            given = tensors if goes_on else {**self.first_states, **tensors}
            self._give(self.inputs if goes_on else self.open, given, self.program.variables, variables or {}, repeat)
            values = [iteration_values(self.program, variables or {}, n) for n in range(repeat)]
            self.kept = Kept.LOST if self.keep_states else Kept.NONE  # an error leaves something in between
            self._everyone(values, goes_on)
            self.kept = Kept.HERE if self.keep_states else Kept.NONE
            return Results(self._results(Kind.OUTPUT), {} if self.keep_states else self._results(Kind.STATE))

    def states(self) -> dict[str, Values]:
        """The states that the last run left, gathered. Raises ExecutionError if none are kept."""
        with self.lock:
            if self.kept is not Kept.HERE:
                raise ExecutionError("no run has left states that are kept", fix="Make it with keep_states, and run.")
            return self._results(Kind.STATE)

    def _give(
        self,
        numbers: Sequence[int],
        tensors: Mapping[str, ArrayLike],
        declared: tuple[Variable, ...] = (),
        variables: Mapping[str, int] | None = None,
        repeat: int = 1,
    ) -> None:
        """Gives each worker what it needs of some tensors, by number of buffer."""
        records = replace(self.program, buffers=tuple(self.program.buffers[n] for n in numbers), variables=declared)
        arrays = dict(zip(numbers, bind(records, tensors, variables, repeat), strict=True))
        shaped = {n: array.reshape(axes_of(self.program)[n]) for n, array in arrays.items()}
        for worker in self.workers:
            worker.give(shaped)

    def _everyone(self, values: Sequence[tuple[int, ...]], goes_on: bool) -> None:
        """One iteration for each of the variables' values, on all workers, the first from the states that were left if
        it goes on. Raises what the first raised that failed."""
        mail = Mail(len(self.workers))

        def work(number: int) -> None:
            worker, port = self.workers[number], mail.port(number)
            try:
                for iteration, of in enumerate(values):
                    if iteration or goes_on:
                        worker.renew(port)
                    worker.run(of, port)
            except BaseException:
                mail.close()
                raise

        jobs = [pool(WORKERS).submit(work, number) for number in range(len(self.workers))]
        try:
            wait(jobs)
        except BaseException:  # such as Ctrl-C: no worker goes on behind the back of a next run
            mail.close()
            wait(jobs)
            raise
        errors = [error for job in jobs if (error := job.exception()) is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, MailClosed)):
            raise error

    def _results(self, kind: Kind) -> dict[str, Values]:
        return {r.name: self._whole(r.buffer).reshape(r.shape) for r in self.program.results if r.kind is kind}

    def _whole(self, buffer: int) -> Values:
        """All of a result, from where it lies."""
        whole = np.empty(axes_of(self.program)[buffer], STORAGE[self.program.parameter(buffer).dtype])
        for worker, piece, box in self.plan.results[buffer]:
            whole[slices(box)] = self.workers[worker].read(piece, box)
        return whole
