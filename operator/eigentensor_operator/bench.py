"""How fast this machine does an operator's work: small programs, compiled, confined and rechecked as strangers' are."""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from eigentensor.economics.pricing import Speed
from eigentensor.errors import StoreError
from eigentensor.graph import GraphBuilder
from eigentensor.lowering.graph_program import GraphProgram
from eigentensor.program import Role
from eigentensor.program.cost import Needs, needs_of
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.scratch import scratch
from eigentensor.store import GatewayClient, LocalStore, save_safetensors
from eigentensor_operator.device import Device

T = TypeVar("T")
RUNS = 3
REPEATS = (4, 16, 64)
MIB = 1 << 20
BLOB = 16 * MIB  # bytes
LIMIT = 600.0  # seconds of one execution
FAR = 1 << 22  # elements of a table of which hardly any is in a core's own cache


@dataclass(frozen=True, slots=True)
class Timing:
    """What a program needs, the seconds of its execution, and `more`, those of an execution of `repeat` iterations."""

    program: str
    needs: Needs
    seconds: float
    repeat: int
    more: float

    @property
    def rate(self) -> float:
        """Instruction evaluations per second of what the iterations take more. A twentieth is theirs at least."""
        return self.needs.operations * (self.repeat - 1) / max(self.more - self.seconds, self.more / 20)


@dataclass(frozen=True, slots=True)
class Measured:
    """`startup_seconds` is what an execution of next to nothing takes; `store` and `gateway` are bytes per second of a
    blob that is hashed and kept here, and that is fetched and verified (None: no gateway took it)."""

    device: str
    startup_seconds: float
    timings: tuple[Timing, ...]
    store: float
    gateway: float | None

    @property
    def operations_per_second(self) -> float:
        """Of the slowest kind of program."""
        return min(timing.rate for timing in self.timings)

    @property
    def bytes_per_second(self) -> float:
        """Bytes of buffers that are read, moved and written beside computing, of the program that has most."""
        most = max(self.timings, key=lambda timing: timing.needs.memory)
        computing = most.needs.operations / most.rate
        return most.needs.memory / max(most.seconds - self.startup_seconds - computing, most.seconds / 20)

    def seconds_of(self, needs: Needs) -> float:
        """What an execution is expected to take, by these rates."""
        speed = Speed(self.operations_per_second, self.bytes_per_second, self.startup_seconds)
        return speed.seconds(needs.operations, needs.memory)


def measure(device: Device, gateway: str | None, progress: Callable[[str], None] = lambda _: None) -> Measured:
    """Everything, one after the other; `gateway` is its URL, `progress` gets each name. Raises ExecutionError."""
    timings: list[Timing] = []
    with scratch() as folder:
        for title, make in PROGRAMS.items():
            progress(f"measures {title}")
            startup = timings[0].seconds if timings else None
            timings.append(_time(device, title, make(), folder, startup))
        progress("measures blobs")
        blob = np.random.default_rng(0).bytes(BLOB)
        LocalStore(folder / "store").put(blob[:MIB])  # hashing is compiled when it is first needed
        store, root = _rate(lambda: LocalStore(folder / "store").put(blob))
        fetched = None if gateway is None else _fetched(gateway, LocalStore(folder / "store"), root, folder)
    return Measured(device.name, timings[0].seconds, tuple(timings[1:]), store, fetched)


def _time(device: Device, title: str, graph: GraphProgram, folder: Path, startup: float | None) -> Timing:
    """With as many iterations as set them apart from the startup; that of nothing is its own."""
    program, random = graph.repeatable(REPEATS[-1]).program, np.random.default_rng(0)
    named = program.named(Role.INPUT).items()
    tensors = {name: random.standard_normal(buffer.shape, dtype=np.float32) for name, buffer in named}
    files = []
    for part, arrays in (("inputs", tensors), ("weights", dict(graph.weights))):
        if arrays:
            files.append(folder / f"{title}-{part}.safetensors")
            save_safetensors(files[-1], arrays)
    bound = BoundProgram(program, tuple(files), {**tensors, **graph.weights}, {}, 1)
    device.compile(program, LIMIT)
    once = [_run(device, bound) for _ in range(RUNS)]
    startup = median(once) if startup is None else startup
    for repeat in REPEATS:
        more = _run(device, replace(bound, repeat=repeat))
        if more > median(once) + 2 * startup:
            break
    return Timing(title, needs_of(program, 1), median(once), repeat, more)


def _run(device: Device, bound: BoundProgram) -> float:
    begun = time.perf_counter()
    device.execute(bound, LIMIT, secrets.token_bytes(32))
    return time.perf_counter() - begun


def _fetched(url: str, store: LocalStore, root: str, folder: Path) -> float | None:
    """Gives the gateway the blob, and fetches it into an empty store."""
    empty = LocalStore(folder / "fetched")
    try:
        with GatewayClient(url, store, attempts=1) as giving, GatewayClient(url, empty) as taking:
            giving.upload(root)
            return _rate(lambda: taking.fetch(root))[0]
    except StoreError:
        return None


def _rate(work: Callable[[], T]) -> tuple[float, T]:
    begun = time.perf_counter()
    done = work()
    return BLOB / (time.perf_counter() - begun), done


# ---- What strangers may send: sums of products, of elements, softmax, and what processors wait for ----


def _nothing() -> GraphProgram:
    b = GraphBuilder()
    return b.compile(b.input("x", 1) + 1.0)


def _product() -> GraphProgram:
    b = GraphBuilder()
    return b.compile(b.input("x", (1024, 1024)) @ b.weight("w", _weights(1024, 1024)))


def _network() -> GraphProgram:
    b = GraphBuilder()
    x = b.input("x", (1024, 784))
    for layer, (rows, columns) in enumerate(((784, 512), (512, 512), (512, 10))):
        x = (x @ b.weight(f"w{layer}", _weights(rows, columns))).relu()
    return b.compile(x)


def _attention() -> GraphProgram:
    b = GraphBuilder()
    q, k, v = (b.input(name, (8, 512, 64)) for name in "qkv")
    return b.compile(((q @ k.swapaxes(1, 2)) * 0.125).softmax() @ v)


def _elements() -> GraphProgram:
    b = GraphBuilder()
    x = b.input("x", (4096, 4096))
    return b.compile((x * x + 1.0).sqrt().sum(axis=1))


def _divisions() -> GraphProgram:
    b = GraphBuilder()
    x = (b.input("x", (1024, 1024)) * 1e9).astype("int64")
    y = (b.input("y", (1024, 1024)) * 1e4).astype("int64")
    for _ in range(8):
        x = (x + x) % y
    return b.compile(x)


def _gathers() -> GraphProgram:
    b = GraphBuilder()
    elsewhere = np.random.default_rng(0).permutation(FAR).astype(np.int32)
    table = b.weight("table", elsewhere)
    x = (b.input("x", (256, 1024)) * 1e6).astype("int32")
    for _ in range(8):
        x = table.take(x % FAR)
    return b.compile(x)


def _weights(rows: int, columns: int) -> NDArray[np.float32]:
    return np.random.default_rng(rows).standard_normal((rows, columns), dtype=np.float32) / np.float32(rows)


#: The first is the startup.
PROGRAMS: Mapping[str, Callable[[], GraphProgram]] = {
    "nothing": _nothing,
    "product": _product,
    "network": _network,
    "attention": _attention,
    "elements": _elements,
    "divisions": _divisions,
    "gathers": _gathers,
}
