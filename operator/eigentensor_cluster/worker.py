"""A worker: joins a cluster, executes what its door orders, and holds what comes of it."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from eigentensor.cluster import frames
from eigentensor.cluster.address import Address
from eigentensor.cluster.frames import ORDERED, VERSION, Frame, Hello, Role, failure
from eigentensor.cluster.pieces import Gathered, values
from eigentensor.errors import BindingError, ConnectionLost, EigenTensorError
from eigentensor.merkle import program_root
from eigentensor.numerics.dtypes import DType
from eigentensor.program.codec import SEMANTICS, decode
from eigentensor.program.model import Program
from eigentensor.sharding.signals import Signals, parse
from eigentensor_cluster.engine.executing import Programs
from eigentensor_cluster.engine.inprocess import InProcess
from eigentensor_cluster.engine.interface import NO_SIGNALS, Work
from eigentensor_cluster.peers import Peer, connect


async def work(address: Address, token: bytes, programs: Programs, slots: int, say: Callable[[str], None]) -> None:
    """Works for the cluster at an address until that goes away: ConnectionLost. NotAdmitted at a closed door."""
    peer = await connect(address, ORDERED)
    engine = InProcess(programs, slots, "", socket.gethostname())
    try:
        hello = Hello(VERSION, SEMANTICS, Role.WORKER, token, bytes(16), slots, engine.host[:64], engine.device)
        peer.send(hello)
        orders = _Orders(
            engine, peer, lambda name: say(f"joined {address} as {name}: {slots} slots of {engine.device}")
        )
        async for chunk in peer.chunks():
            for sequence, frame in chunk:
                orders.take(sequence, frame)
            await peer.drained()
        raise ConnectionLost(f"the cluster at {address} is away")
    finally:
        await peer.ended()
        engine.close()


class _Orders:
    """What the door orders, in order."""

    def __init__(self, engine: InProcess, peer: Peer, joined: Callable[[str], None]) -> None:
        """`joined` is called with the name that the door gives."""
        self._engine, self._peer, self._joined = engine, peer, joined
        self._session = 0
        self._programs: dict[int, dict[bytes, tuple[Program, bytes, tuple[tuple[int, str], ...]]]] = {}
        self._signals: dict[int, Signals] = {}
        self._dtypes: dict[int, dict[int, DType]] = {}
        self._gathered: Gathered | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, sequence: int, frame: Frame) -> None:
        """Begins what a frame orders. Raises the error of one that says why nothing is ordered any more."""
        match frame:
            case frames.Welcome():
                self._joined(frame.name)
            case frames.Tenant(session):
                self._session = session
            case frames.Define(encoded, names):
                self._programs.setdefault(self._session, {})[program_root(encoded)] = decode(encoded), encoded, names
            case frames.Configure(signals):
                self._signals[self._session] = parse(signals)
            case frames.Put():
                self._put(sequence, frame)
            case frames.Run():
                self._run(sequence, frame)
            case frames.Get(handle):
                self._get(sequence, handle)
            case frames.Free(handles):
                self._engine.free(self._session, handles)
                for handle in handles:
                    self._dtypes.get(self._session, {}).pop(handle, None)
            case frames.End(session):
                self._programs.pop(session, None)
                self._signals.pop(session, None)
                self._dtypes.pop(session, None)
                self._engine.end(session)
            case frames.Failed():
                raise frames.error_of(frame)

    def _put(self, sequence: int, frame: frames.Put) -> None:
        gathered = self._gathered = self._gathered or Gathered(frame)
        gathered.add(sequence, frame)
        if gathered.is_whole:
            self._gathered = None
            self._dtypes.setdefault(self._session, {})[frame.handle] = frame.dtype
            self._engine.put(self._session, frame.handle, gathered.array(), frame.dtype)

    def _run(self, sequence: int, frame: frames.Run) -> None:
        try:
            program, encoded, names = self._programs[self._session][frame.root]
            work = Work(
                self._session, frame.root, program, encoded, frame.inputs, frame.outputs, frame.variables, names,
                self._signals.get(self._session, NO_SIGNALS),
            )  # fmt: skip
            spent = self._engine.run(work)
        except (KeyError, EigenTensorError) as error:
            self._fail(sequence, error)
            return
        dtypes = self._dtypes.setdefault(self._session, {})
        for number, result in zip(frame.outputs, program.results, strict=True):
            if number:
                dtypes[number] = program.parameter(result.buffer).dtype

        async def answer() -> None:
            try:
                seconds, compiled = await spent
            except EigenTensorError as error:
                self._fail(sequence, error)
            else:
                self._peer.send(frames.Done(sequence, seconds, compiled))

        self._begin(answer())

    def _get(self, sequence: int, handle: int) -> None:
        try:
            value = self._engine.get(self._session, handle)
        except BindingError as error:
            self._fail(sequence, error)
            return
        dtype = self._dtypes[self._session][handle]

        async def answer() -> None:
            for frame in values(sequence, await value, dtype):
                self._peer.send(frame)
                await self._peer.drained()

        self._begin(answer())

    def _fail(self, sequence: int, error: Exception) -> None:
        known = error if isinstance(error, EigenTensorError) else BindingError("the program is not at this worker")
        self._peer.send(failure(sequence, sequence, known))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
