"""A worker: joins a cluster, executes what its door orders, and holds what comes of it."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from eigentensor.cluster import frames
from eigentensor.cluster.address import Address
from eigentensor.cluster.frames import ORDERED, SMALL, SMALLS, VERSION, Frame, Hello, Role, failure
from eigentensor.cluster.pieces import Gathered, values
from eigentensor.errors import BindingError, ConnectionLost, EigenTensorError
from eigentensor.latest import Latest
from eigentensor.merkle import program_root
from eigentensor.numerics.dtypes import DType
from eigentensor.program.codec import SEMANTICS, decode
from eigentensor.program.model import Program
from eigentensor.regions.boxes import extents_of_box
from eigentensor.scratch import scratch
from eigentensor_cluster.certificate import prepared
from eigentensor_cluster.engine.exchange import Exchange
from eigentensor_cluster.engine.executing import Programs
from eigentensor_cluster.engine.inprocess import InProcess
from eigentensor_cluster.engine.interface import KNOWN, Part, Spent, Work
from eigentensor_cluster.peers import Peer, connect


async def work(
    address: Address, token: bytes, programs: Programs, slots: int, say: Callable[[str], None], node: str = ""
) -> None:
    """Works for the cluster at an address until that goes away: ConnectionLost. NotAdmitted at a closed door. `node` is
    the one of Ray that it is on, if any."""
    with scratch() as folder:
        peer = await connect(address, ORDERED)
        engine = InProcess(programs, slots, "", socket.gethostname(), node)
        try:
            if programs.is_sharing:
                await _listens(engine.exchange, peer, folder, is_away=address.path is None)
            await _works(address, token, engine, peer, say)
        finally:
            engine.close()
            await asyncio.gather(peer.ended(), engine.exchange.close())


async def _listens(exchange: Exchange, peer: Peer, folder: Path, *, is_away: bool) -> None:
    """Lets other workers bring boxes: those of this machine, and if the door is away, others over TLS, where this
    worker met the door."""
    await exchange.listen_here(folder / "exchange")
    if is_away:
        host = peer.writer.get_extra_info("sockname")[0]
        await exchange.listen(host, *prepared(folder), host)


async def _works(address: Address, token: bytes, engine: InProcess, peer: Peer, say: Callable[[str], None]) -> None:
    where = " ".join(engine.exchange.addresses)
    hello = Hello(
        VERSION, SEMANTICS, Role.WORKER, token, bytes(16), engine.slots, engine.host[:64], engine.device,
        engine.memory, where, engine.node,
    )  # fmt: skip
    peer.send(hello)
    slots = engine.slots
    orders = _Orders(engine, peer, lambda name: say(f"joined {address} as {name}: {slots} slots of {engine.device}"))
    async for chunk in peer.chunks():
        for sequence, frame in chunk:
            orders.take(sequence, frame)
        await peer.drained()
    raise ConnectionLost(f"the cluster at {address} is away")


class _Orders:
    """What the door orders, in order."""

    def __init__(self, engine: InProcess, peer: Peer, joined: Callable[[str], None]) -> None:
        """`joined` is called with the name that the door gives."""
        self._engine, self._peer, self._joined = engine, peer, joined
        self._session = 0
        self._programs: Latest[tuple[int, bytes], tuple[Program, bytes]] = Latest(KNOWN)
        self._plans: Latest[tuple[int, int], frames.Assign] = Latest(KNOWN)
        self._dtypes: dict[int, dict[int, DType]] = {}
        self._gathered: Gathered | None = None
        self._boxed: frames.Boxed | None = None  # what the tensor is a box of that comes next
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, sequence: int, frame: Frame) -> None:
        """Begins what a frame orders. Raises the error of one that says why nothing is ordered any more."""
        match frame:
            case frames.Welcome():
                self._engine.exchange.secret = frame.session
                self._joined(frame.name)
            case frames.Tenant(session):
                self._session = session
            case frames.Define(encoded):
                self._programs[self._session, program_root(encoded)] = decode(encoded), encoded
            case frames.Put():
                self._put(sequence, frame)
            case frames.Boxed():
                self._boxed = frame
            case frames.Run():
                self._run(sequence, frame)
            case frames.Assign():
                self._plans[self._session, frame.number] = frame
            case frames.Share():
                self._share(sequence, frame)
            case frames.Stop(run):
                self._engine.stop(run)
            case frames.Get(handle):
                self._get(sequence, handle, lambda: self._engine.get(self._session, handle))
            case frames.Fetch(handle, axes, box):
                self._get(
                    sequence, handle, lambda: self._engine.get_box(self._session, handle, axes, box), is_flat=True
                )
            case frames.Free(handles):
                self._engine.free(self._session, handles)
                for handle in handles:
                    self._dtypes.get(self._session, {}).pop(handle, None)
            case frames.End(session):
                self._programs.forget(lambda key: key[0] == session)
                self._plans.forget(lambda key: key[0] == session)
                self._dtypes.pop(session, None)
                self._engine.end(session)
            case frames.Failed():
                raise frames.error_of(frame)

    def _put(self, sequence: int, frame: frames.Put) -> None:
        gathered = self._gathered = self._gathered or Gathered(frame)
        gathered.add(sequence, frame)
        if not gathered.is_whole:
            return
        boxed, self._gathered, self._boxed = self._boxed, None, None
        self._dtypes.setdefault(self._session, {})[frame.handle] = frame.dtype
        if boxed is None:
            self._engine.put(self._session, frame.handle, gathered.array(), frame.dtype)
            return
        elements = gathered.array().reshape(extents_of_box(boxed.box))
        self._engine.put_box(self._session, frame.handle, boxed.shape, boxed.box, elements, frame.dtype)

    def _run(self, sequence: int, frame: frames.Run) -> None:
        try:
            program, encoded = self._program(frame.root)
            work = Work(self._session, frame.root, program, encoded, frame.inputs, frame.outputs, frame.variables)
            spent = self._engine.run(work)
        except EigenTensorError as error:
            self._fail(sequence, error)
            return
        self._execute(sequence, work, spent)

    def _share(self, sequence: int, frame: frames.Share) -> None:
        try:
            assign = self._plans.use((self._session, frame.plan))
            if assign is None:
                raise BindingError("the plan is not at this worker")
            program, encoded = self._program(assign.root)
        except BindingError as error:
            self._fail(sequence, error)
            return
        work = Work(self._session, assign.root, program, encoded, frame.inputs, frame.outputs, frame.variables)
        part = Part(assign.number, assign.slots, assign.addresses, dict(assign.parts))
        self._execute(sequence, work, self._engine.share(work, frame.run, part))

    def _execute(self, sequence: int, work: Work, spent: Awaitable[Spent]) -> None:
        """Answers when something is executed."""
        dtypes = self._dtypes.setdefault(self._session, {})
        for number, result in zip(work.outputs, work.program.results, strict=True):
            if number:
                dtypes[number] = work.program.parameter(result.buffer).dtype

        async def answer() -> None:
            try:
                seconds, compiled, sent, _ = await spent
            except EigenTensorError as error:
                self._fail(sequence, error)
            else:
                self._peer.send(frames.Done(sequence, seconds, compiled, sent, self._small(work)))

        self._begin(answer())

    def _small(self, work: Work) -> tuple[tuple[int, bytes], ...]:
        """The elements of small results that are whole here."""
        small = list[tuple[int, bytes]]()
        for index, (number, result) in enumerate(zip(work.outputs, work.program.results, strict=True)):
            dtype, elements = work.program.parameter(result.buffer)
            if number and elements * dtype.size <= SMALL and len(small) < SMALLS:
                value = self._engine.at_hand(work.session, number)
                if value is not None:
                    small.append((index, b"".join(piece.data for piece in values(0, value, dtype))))
        return tuple(small)

    def _get(
        self, sequence: int, handle: int, held: Callable[[], Awaitable[NDArray[Any]]], *, is_flat: bool = False
    ) -> None:
        try:
            value = held()
        except BindingError as error:
            self._fail(sequence, error)
            return
        dtype = self._dtypes[self._session][handle]

        async def answer() -> None:
            elements = await value
            for frame in values(sequence, elements.reshape(-1) if is_flat else elements, dtype):
                self._peer.send(frame)
                await self._peer.drained()

        self._begin(answer())

    def _program(self, root: bytes) -> tuple[Program, bytes]:
        """A program of the session whose orders come. Raises BindingError."""
        program = self._programs.use((self._session, root))
        if program is None:
            raise BindingError("the program is not at this worker")
        return program

    def _fail(self, sequence: int, error: EigenTensorError) -> None:
        self._peer.send(failure(sequence, sequence, error))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
