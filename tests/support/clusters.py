"""Clusters for tests: of this process, a real door and dispatcher in an event loop of their own; of its commands."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import psutil
from numpy.typing import NDArray

from eigentensor.cluster.address import Address
from eigentensor.cluster.remote import RemoteSession
from eigentensor.errors import ExecutionError
from eigentensor.graph import GraphBuilder
from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Program
from eigentensor.regions.boxes import Box, Shape
from eigentensor_cluster.certificate import prepared
from eigentensor_cluster.dispatcher import Dispatcher
from eigentensor_cluster.door import Door
from eigentensor_cluster.engine.executing import Programs, Tensors
from eigentensor_cluster.engine.inprocess import InProcess
from eigentensor_cluster.keeper import Keeper
from eigentensor_cluster.schemas import ClusterStatus
from eigentensor_cluster.sessions import Quota
from eigentensor_cluster.tokens import Member, Tokens
from eigentensor_cluster.worker import work

Of = TypeVar("Of")
F32 = DType.FLOAT32


class Cluster:
    """A door in a folder, and what is behind it; its event loop lives in a thread."""

    def __init__(self, folder: Path, quota: Quota | None, members: Mapping[bytes, Member], grace: float) -> None:
        self.folder, self.address = folder, Address(folder / "door")
        self.loop = asyncio.new_event_loop()
        self.dispatcher = Dispatcher(quota)
        self.door = Door(self.dispatcher, Tokens(members), lambda: "", grace)
        self._thread = threading.Thread(target=self.loop.run_forever, name="cluster", daemon=True)
        self._thread.start()
        self._joined, self._here = list["Future[None]"](), list[InProcess]()
        self.do(self.door.listen_here(folder / "door"))

    def do(self, coroutine: Coroutine[Any, Any, Of]) -> Of:
        """What a coroutine gives in the cluster's event loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    def call(self, function: Callable[[], Of]) -> Of:
        """What a function gives there."""

        async def called() -> Of:
            return function()

        return self.do(called())

    def session(self, identity: bytes = bytes(16)) -> RemoteSession:
        """A client's."""
        return RemoteSession(str(self.address), identity=identity)

    def here(self, slots: int = 1, device: str = "CPU", memory: int = 0) -> InProcess:
        """Lets it have slots in this process."""
        programs = Programs(is_trusting=True, device=device, slots=slots, memory=memory)
        return self.takes(InProcess(programs, slots, "here", socket.gethostname()))

    def takes(self, worker: InProcess) -> InProcess:
        """Lets a worker of this process join."""
        worker.exchange.secret = self.dispatcher.secret
        self.do(worker.exchange.listen_here(self.folder / "exchange"))
        self.call(lambda: self.dispatcher.join(worker))
        self._here.append(worker)
        return worker

    def joined(
        self,
        slots: int = 1,
        device: str = "CPU",
        memory: int = 0,
        address: Address | None = None,
        token: bytes = bytes(32),
        *,
        is_trusting: bool = True,
    ) -> "Future[None]":
        """Lets a worker join over the socket, or elsewhere, in this process; cancelling what is given ends it."""
        programs = Programs(is_trusting=is_trusting, device=device, slots=slots, memory=memory)
        before = set(self.dispatcher.places)
        joining = asyncio.run_coroutine_threadsafe(
            work(address or self.address, token, programs, slots, lambda line: None), self.loop
        )
        self._joined.append(joining)
        self.until(lambda: bool(self.dispatcher.places.keys() - before) or joining.done())
        return joining

    def listen(self) -> Address:
        """Lets others come over TLS on a port of the loopback interface."""
        context, fingerprint = prepared(self.folder)
        return Address(None, "127.0.0.1", self.do(self.door.listen("127.0.0.1", 0, context)), fingerprint)

    def until(self, holds: Callable[[], bool]) -> None:
        """Returns when something holds in the event loop; fails after 20 seconds."""

        async def waited() -> None:
            async with asyncio.timeout(20):
                while not holds():
                    await asyncio.sleep(0.002)

        self.do(waited())

    def close(self) -> None:
        """Ends it."""
        for joining in self._joined:
            joining.cancel()
        self.do(self.door.close())
        for worker in self._here:
            self.do(worker.exchange.close())
            worker.close()
        self.until(lambda: len(asyncio.all_tasks()) == 1)  # but this look itself
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@contextmanager
def cluster(
    folder: Path, quota: Quota | None = None, members: Mapping[bytes, Member] | None = None, grace: float = 50.0
) -> Iterator[Cluster]:
    """While the block runs."""
    folder.mkdir(mode=0o700, exist_ok=True)
    os.chmod(folder, 0o700)
    made = Cluster(folder, quota, members or {}, grace)
    try:
        yield made
    finally:
        made.close()


def children() -> set[int]:
    """Processes of tenants that this process began."""
    found = set()
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if one.cmdline()[1:3] == ["-m", "eigentensor.runtime.sandbox.tenant_child"]:
                found.add(one.pid)
    return found


class Lying(Programs):
    """Computes one wrong bit of every result that is called output."""

    def run(self, *arguments: Any, **named: Any) -> tuple[Tensors, int]:
        outputs, compiled = super().run(*arguments, **named)
        changed = {name: value.copy() for name, value in outputs.items()}
        if "output" in changed:
            wrong = changed["output"].reshape(-1).view("u1")
            wrong[4932 % len(wrong)] ^= 1
        return changed, compiled


class Held(Programs):
    """Executes programs with these roots when it may."""

    def __init__(self, *roots: bytes, slots: int) -> None:
        super().__init__(is_trusting=True, device="CPU", slots=slots)
        self.roots, self.may = roots, threading.Event()

    def run(self, session: int, root: bytes, *arguments: Any) -> tuple[Tensors, int]:
        if root in self.roots:
            assert self.may.wait(60)
        return super().run(session, root, *arguments)


class Failing(Programs):
    """Executes all programs but those with these roots."""

    def __init__(self, *roots: bytes, slots: int) -> None:
        super().__init__(is_trusting=True, device="PYTHON", slots=slots)
        self.roots = roots

    def run(self, session: int, root: bytes, *arguments: Any) -> tuple[Tensors, int]:
        if root in self.roots:
            raise ExecutionError("this one fails")
        return super().run(session, root, *arguments)


def liar() -> InProcess:
    """A worker with one slot that lies."""
    return InProcess(Lying(is_trusting=True, device="CPU"), 1, "liar", socket.gethostname())


class LyingInPart(InProcess):
    """Executes its part of a run rightly, and gives one wrong bit of the first box that is asked of it."""

    def __init__(self, memory: int) -> None:
        super().__init__(Programs(is_trusting=True, device="CPU", memory=memory), 1, "liar", socket.gethostname())
        self._has_lied = False

    async def get_box(self, session: int, number: int, axes: Shape, box: Box) -> NDArray[Any]:
        part = (await super().get_box(session, number, axes, box)).copy()
        if not self._has_lied:
            self._has_lied = True
            part.reshape(-1).view("u1")[1233] ^= 1
        return part


COMMAND = (sys.executable, "-m", "eigentensor_client", "cluster")


class Processes:
    """A cluster of this test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.started = folder, list[subprocess.Popen[str]]()
        runtime = folder / "runtime"
        runtime.mkdir(mode=0o700)
        self.environment = os.environ | {"XDG_RUNTIME_DIR": str(runtime), "XDG_DATA_HOME": str(folder / "data")}
        self.address = ""

    def start(self, *words: str, ready: str) -> subprocess.Popen[str]:
        """A command that goes on, when it has said that it is ready."""
        process = subprocess.Popen([*COMMAND, *words], env=self.environment, stderr=subprocess.PIPE, text=True)
        self.started.append(process)
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if ready in line:
                return process
        raise AssertionError("".join(lines))

    def up(self, *words: str) -> None:
        tokens = self.folder / "tokens"
        self.start("up", "--bind", "127.0.0.1:0", "--token", str(tokens), *words, ready="the cluster is up")
        for line in tokens.read_text().splitlines():
            if not line.startswith("#"):
                role, _, token = line.split()
                (self.folder / role).write_text(token)
        self.address = self.status().address

    def worker(self, *words: str) -> subprocess.Popen[str]:
        token = str(self.folder / "worker")
        return self.start("worker", "--join", self.address, "--token", token, *words, ready="joined")

    def done(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*COMMAND, *words], env=self.environment, capture_output=True, text=True, timeout=60)

    def status(self) -> ClusterStatus:
        keeper = Keeper(Address(self.folder / "runtime" / "eigentensor-cluster" / "door"), bytes(32))
        try:
            return keeper.status()
        finally:
            keeper.close()

    def session(self) -> RemoteSession:
        return RemoteSession(self.address, str(self.folder / "client"))

    def close(self) -> None:
        for process in self.started:
            process.kill()
        for process in self.started:
            process.wait()
            if process.stderr is not None:
                process.stderr.close()


def added(rows: int = 4) -> Program:
    """output = x + y, square matrices."""
    builder = GraphBuilder()
    return builder.compile(builder.input("x", (rows, rows)) + builder.input("y", (rows, rows))).program


def square(rows: int = 4, scale: float = 1.0) -> NDArray[Any]:
    """A matrix of distinct elements."""
    return (np.arange(rows * rows, dtype=np.float32) * np.float32(scale)).reshape(rows, rows)


def stepped(rows: int = 8, features: int = 6) -> Program:
    """A step of descent of a linear model: new weights, and the loss before it."""
    builder = GraphBuilder()
    x, y = builder.input("x", (rows, features)), builder.input("y", (rows, 1))
    w = builder.input("w", (features, 1))
    error = x @ w - y
    new = w - (x.transpose() @ error) * 0.01
    return builder.compile({"new": new, "loss": (error * error).sum()}).program


def data(step: int, rows: int = 8, features: int = 6) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(step)
    return tuple(rng.standard_normal((rows, width)).astype(np.float32) for width in (features, 1))  # type: ignore[return-value]


class Training:
    """Steps of descent at a cluster: new data each time, nothing freed too late."""

    def __init__(self, session: RemoteSession) -> None:
        self.session, self.root = session, session.define(stepped())
        session.put(1, np.zeros((6, 1), np.float32), F32)
        self.last, self.losses = 1, list[int]()

    def step(self) -> None:
        x, y, new, loss = (4 * len(self.losses) + number for number in (2, 3, 4, 5))
        for handle, value in zip((x, y), data(len(self.losses)), strict=True):
            self.session.put(handle, value, F32)
        outputs = {"new": new, "loss": loss}
        self.session.run(self.root, {"x": x, "y": y, "w": self.last}, outputs, freed=[x, y, self.last])
        self.last = new
        self.losses.append(loss)

    def read(self) -> list[bytes]:
        return [self.session.get(handle).tobytes() for handle in self.losses]


def losses_of(steps: int, folder: Path) -> list[bytes]:
    """The same losses, where no worker goes away."""
    with cluster(folder) as c, c.session() as session:
        c.here()
        training = Training(session)
        for _ in range(steps):
            training.step()
        return training.read()
