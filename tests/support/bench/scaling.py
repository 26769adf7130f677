"""Two workers of one thread each beside one, in threads and in processes, for programs of more than 50 ms.

scripts/bench scaling    the least milliseconds of each way in turn, how much sooner two are done, and where their
                         time goes: computing, bringing boxes to each other, waiting; some 3 minutes on 2 quiet cores

`at best` is what the machine gives two programs that have nothing to do with each other, each on one thread, beside
one that is alone: what is lost there is lost to shared caches, memory and clocks.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from eigentensor.cluster.resident import with_inputs_alone
from eigentensor.program.model import Kind, Program
from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.sharded import Sharded
from eigentensor.sharding.plan import Compute, WorkerPlan, plan
from eigentensor_cluster.sharing import bytes_of
from support.bench.pairs import REST, say
from support.clusters import Processes
from support.programs.sharded import HEAVY, captured, tensors

ROUNDS, WARM = 9, 3
WORKERS = 2


class Spent(NamedTuple):
    """Seconds of a worker in one iteration: of a processor for computing, and for boxes; and all of it."""

    computing: float
    moving: float
    passed: float


class Watched:
    """A program on two workers of this process, each of whose steps is timed."""

    def __init__(self, program: Program, given: Mapping[str, Any]) -> None:
        self.runs = Sharded(program, given, workers=WORKERS, keep_states=True)
        self.spent: list[list[tuple[bool, float, float]]] = [[] for _ in range(WORKERS)]
        for worker, kept in zip(self.runs.workers, self.spent, strict=True):
            computes = iter(computing(worker.planned))
            worker.actions = [_timed(action, next(computes), kept) for action in worker.actions]
            worker.renewing = [_timed(action, next(computes), kept) for action in worker.renewing]

    def run(self, tensors: Mapping[str, Any]) -> list[Spent]:
        """What each worker spent in a run."""
        for kept in self.spent:
            kept.clear()
        self.runs.run(tensors)
        return [
            Spent(
                sum(took for is_computing, took, _ in kept if is_computing),
                sum(took for is_computing, took, _ in kept if not is_computing),
                sum(passed for *_, passed in kept),
            )
            for kept in self.spent
        ]


def computing(planned: WorkerPlan) -> Iterator[bool]:
    """Of each action of a worker, whether it computes: steps that compute, one behind the other, are one."""
    for steps in (planned.steps, planned.renewing):
        before = False
        for step in steps:
            if not (before and isinstance(step, Compute)):
                yield isinstance(step, Compute)
            before = isinstance(step, Compute)


def _timed(action: Callable[..., None], is_computing: bool, kept: list[tuple[bool, float, float]]) -> Any:
    def timed(*arguments: Any) -> None:
        took, passed = time.thread_time(), time.perf_counter()
        action(*arguments)
        kept.append((is_computing, time.thread_time() - took, time.perf_counter() - passed))

    return timed


class AtCluster:
    """A program at a cluster of so many processes, each with one slot and one core; its states stay there."""

    def __init__(self, folder: Path, workers: int, program: Program, given: Mapping[str, Any]) -> None:
        self.bare = with_inputs_alone(program)
        self.processes = Processes(folder)
        memory = _memory(self.bare.program)
        self.processes.up("--workers", "0", "--trust")
        cores = sorted(os.sched_getaffinity(0))
        for number in range(workers):
            with _on({cores[number % len(cores)]}):
                self.processes.worker("--slots", "1", "--trust", "--memory", str(memory >> 20))
        self.session = self.processes.session()
        self.root = self.session.define(self.bare.program)
        self.handles: dict[str, int] = {}
        for b in program.buffers:
            if b.name:
                self.handles[b.name] = len(self.handles) + 1
                self.session.put(self.handles[b.name], np.asarray(given[b.name]).reshape(b.shape), b.dtype)
        self.next = len(self.handles) + 1

    def run(self) -> None:
        """One run; it is over when an output is here."""
        made = {own: self.next + number for number, own in enumerate(self.bare.names.values())}
        self.next += len(made)
        new = {name: made[own] for (kind, name), own in self.bare.names.items() if kind is Kind.STATE}
        seen = next(made[own] for (kind, _), own in self.bare.names.items() if kind is Kind.OUTPUT)
        self.session.run(self.root, self.handles, made, {}, [self.handles[name] for name in new])
        self.handles |= new
        self.session.get(seen)
        self.session.free([seen])

    def processor(self) -> list[float]:
        """Seconds of a processor that the door and each worker took so far."""
        return [time.clock_gettime(~process.pid << 3 | 2) for process in self.processes.started]  # clock_getcpuclockid

    def close(self) -> None:
        self.session.close()
        self.processes.close()


def _memory(program: Program) -> int:
    """Bytes for each worker with which a cluster shares a program out as it is cheapest: less than one alone needs."""
    held, whole = plan(program, WORKERS).held, bytes_of(program)
    assert held * 1.2 < whole, "a slot has room for all of it"
    return int((held * whole) ** 0.5)


@contextmanager
def _on(cores: set[int]) -> Iterator[None]:
    """Processes that are started meanwhile stay on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def measured(name: str) -> None:
    """One program's lines."""
    program, given = captured(name).program, tensors(name)
    x, weights = {"x": given["x"]}, {key: value for key, value in given.items() if key != "x"}
    alone, other = (CompiledGraph(program, weights, threads=1, keep_states=True) for _ in range(2))
    watched = Watched(program, weights)
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(2))
        process, both = (stack.enter_context(_at_cluster(count, program, given)) for count in (1, WORKERS))
        spent: list[list[Spent]] = []
        ways: dict[str, Callable[[], object]] = {
            "one": lambda: alone.run(x),
            "apart": lambda: list(pool.map(lambda of: of.run(x), (alone, other))),
            "threads": lambda: spent.append(watched.run(x)),
            "process": process.run,
            "processes": both.run,
        }
        before = dict[str, list[float]]()
        times: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(WARM + ROUNDS):
            if number == WARM:
                before = {"process": process.processor(), "processes": both.processor()}
                spent.clear()
            for way, run in ways.items():
                time.sleep(REST)
                start = time.perf_counter()
                run()
                if number >= WARM:
                    times[way].append(time.perf_counter() - start)
        least = {way: min(each) for way, each in times.items()}
        row(name, least)
        of_threads(spent[min(range(ROUNDS), key=lambda n: times["threads"][n])])
        for way, cluster in (("process", process), ("processes", both)):
            took = [1e3 * (now - then) / ROUNDS for now, then in zip(cluster.processor(), before[way], strict=True)]
            say(f"    {way}: processor of door, workers", *took)


@contextmanager
def _at_cluster(workers: int, program: Program, given: Mapping[str, Any]) -> Iterator[AtCluster]:
    with TemporaryDirectory() as folder:
        made = AtCluster(Path(folder), workers, program, given)
        try:
            yield made
        finally:
            made.close()


def row(name: str, least: Mapping[str, float]) -> None:
    one, process = least["one"], least["process"]
    say(
        name, 1e3 * one, f"{2 * one / least['apart']:.2f}", 1e3 * least["threads"], f"{one / least['threads']:.2f}",
        1e3 * process, 1e3 * least["processes"], f"{process / least['processes']:.2f}", widths=(44,),
    )  # fmt: skip


def of_threads(spent: list[Spent]) -> None:
    """Where the time of two threads goes, in the run that took least."""
    for number, of in enumerate(spent):
        computing, moving, waiting = of.computing, of.moving, of.passed - of.computing - of.moving
        say(f"    thread {number}: computing, moving, waiting", 1e3 * computing, 1e3 * moving, 1e3 * waiting)


def main() -> None:
    say("", "one, ms", "at best", "threads", "sooner", "process", "processes", "sooner", widths=(44,))
    for name in HEAVY:
        measured(name)


if __name__ == "__main__":
    main()
