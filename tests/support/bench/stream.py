"""Recorded tensors in this process: the first result, instructions a second, a step of training, and what it holds.

scripts/bench stream          beside PyTorch's eager step, where that is installed
"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import eigentensor.gt as gt
from eigentensor.gt import connection
from eigentensor.gt.nn import SGD, Linear, Module
from support.bench.pairs import in_turn, say

FIRST = "import eigentensor.gt as gt; print(gt.randn(2, 2))"
FIRST_STEPS = "from support.bench.stream import steps; print(*steps(4))"
INSTRUCTIONS, STEPS, BATCH = 2000, 1000, 64
HAS_TORCH = importlib.util.find_spec("torch") is not None


class Network(Module):
    """784-256-10, as GT's README has it."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = Linear(784, 256), Linear(256, 10)

    def forward(self, x: gt.Tensor) -> gt.Tensor:
        """The scores of a batch."""
        return self.fc2(self.fc1(x).relu())  # type: ignore[no-any-return]


def data() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    numbers = np.random.default_rng(0)
    return tuple(numbers.standard_normal((BATCH, n)).astype(np.float32) for n in (784, 10))  # type: ignore[return-value]


def step() -> Callable[[], float]:
    """A step of training that reads its loss."""
    x, y = map(gt.from_numpy, data())
    model = Network()
    optimizer = SGD(model.parameters(), lr=0.01)

    def one() -> float:
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.item())

    return one


def torch_step() -> Callable[[], float]:
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    x, y = map(torch.from_numpy, data())
    model = torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def one() -> float:
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return one


def first_results() -> None:
    """A new process, without and with what earlier ones have left: bytecode and kernels."""
    with tempfile.TemporaryDirectory() as name:
        places = {"PYTHONPYCACHEPREFIX": f"{name}/bytecode", "XDG_CACHE_HOME": f"{name}/cache"}
        seconds = []
        for _ in range(4):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", FIRST], env={**os.environ, **places}, check=True, capture_output=True)
            seconds.append(time.perf_counter() - start)
    say("first result, seconds", seconds[0], min(seconds[1:]))


def steps(count: int) -> list[float]:
    """Seconds of so many steps of training, from the first one on; then those of processors, compilers' included."""
    one, seconds = step(), []
    for _ in range(count):
        start = time.perf_counter()
        one()
        seconds.append(time.perf_counter() - start)
    return [*seconds, sum(os.times()[:4])]


def first_steps() -> None:
    """Steps of training in new processes, with bytecode at hand, but no kernel."""
    rounds = []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as name:
            run = subprocess.run(
                [sys.executable, "-c", FIRST_STEPS],
                env={**os.environ, "XDG_CACHE_HOME": name},
                check=True,
                capture_output=True,
                text=True,
            )
        rounds.append([float(word) for word in run.stdout.split()])
    names = (*(f"step {number + 1}, nothing compiled, s" for number in range(4)), "processors' seconds of all four")
    say("", "least", "median")
    for name, *seconds in zip(names, *rounds, strict=True):
        say(name, min(seconds), sorted(seconds)[len(seconds) // 2])


def chain() -> Callable[[], None]:
    """INSTRUCTIONS additions of 10 × 10, each on the result of the one before, the last one looked at; compiled."""
    a, b = gt.randn(10, 10), gt.randn(10, 10)

    def added() -> None:
        x = a
        for _ in range(INSTRUCTIONS):
            x = x + b
        x.data.numpy()

    for _ in range(40):  # until segments are joined and compiled
        added()
    return added


def additions() -> None:
    """How many additions of 10 × 10 are recorded and executed a second; the best of several rounds."""
    times, added = [], chain()
    time.sleep(2)
    for _ in range(40):
        start = time.perf_counter()
        added()
        times.append(time.perf_counter() - start)
    say("additions a second, best, median", round(INSTRUCTIONS / min(times)), round(INSTRUCTIONS / sorted(times)[20]))


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    say("", "cold", "warm")
    first_results()
    first_steps()
    additions()
    one = step()
    times = in_turn({"here": one, **({"PyTorch": torch_step()} if HAS_TORCH else {})}, rounds=41, warm=10)
    for name, seconds in times.items():
        say(f"a step, ms: {name}", seconds * 1e3)
    best = []
    before, handles = resident(), connection.recorder().session.stats().handles
    for _ in range(STEPS):
        start = time.perf_counter()
        one()
        best.append(time.perf_counter() - start)
    say("steps in a row, ms: best, median", min(best) * 1e3, sorted(best)[STEPS // 2] * 1e3)
    grown = connection.recorder().session.stats().handles - handles
    say(f"grown in {STEPS} steps: handles, KiB", grown, (resident() - before) >> 10)


if __name__ == "__main__":
    main()
