"""A worker in a process of its own, as the dispatcher has it: what is asked goes out in frames, and is answered."""

import asyncio
from collections.abc import Awaitable, Sequence
from math import prod
from typing import Any

from numpy.typing import NDArray

from eigentensor.cluster import frames
from eigentensor.cluster.frames import Frame, Hello
from eigentensor.cluster.pieces import Gathered, puts
from eigentensor.errors import ConnectionLost, EigenTensorError, ExecutionError, FrameRefused, WorkerLost
from eigentensor.latest import Latest
from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Program
from eigentensor.regions.boxes import Box, Shape, extents_of_box, volume
from eigentensor_cluster.engine.interface import KNOWN, Part, Spent, Work
from eigentensor_cluster.peers import Peer

_Answer = asyncio.Future[Any]


class Joined:
    """A worker at the other end of a connection."""

    def __init__(self, peer: Peer, hello: Hello, name: str) -> None:
        self.name, self.host, self.device, self.slots = name, hello.name, hello.device, hello.slots
        self.node, self.memory, self.is_lost = hello.node, hello.memory, False
        self.addresses = tuple(hello.exchange.split()) or None
        self._peer, self._tenant = peer, 0
        self._defined: Latest[tuple[int, bytes | int], bool] = Latest(KNOWN)  # roots and plans, by session
        self._asked: dict[int, tuple[_Answer, Program | None]] = {}  # with the program that is run
        self._gathered: dict[int, Gathered] = {}

    async def put(self, session: int, number: int, value: NDArray[Any], dtype: DType) -> None:
        """As `Worker.put`."""
        self._of(session)
        await self._put(number, value, dtype)

    async def put_box(
        self, session: int, number: int, shape: Shape, box: Box, value: NDArray[Any], dtype: DType
    ) -> None:
        """As `Worker.put_box`."""
        self._of(session)
        self._send(frames.Boxed(number, shape, box))
        await self._put(number, value.reshape(-1), dtype)

    async def _put(self, number: int, value: NDArray[Any], dtype: DType) -> None:
        for frame in puts(number, value, dtype):
            self._send(frame)
        try:
            await self._peer.drained()
        except ConnectionLost as error:
            raise self._away() from error

    def run(self, work: Work) -> Awaitable[Spent]:
        """As `Worker.run`."""
        self._define(work)
        return self._ask(frames.Run(work.root, work.inputs, work.outputs, work.variables), work.program)

    def share(self, work: Work, run: int, part: Part) -> Awaitable[Spent]:
        """As `Worker.share`."""
        self._define(work)
        if not self._defined.use((work.session, part.number)):
            self._defined[work.session, part.number] = True
            parts = tuple(sorted(part.parts.items()))
            self._send(frames.Assign(part.number, work.root, part.slots, part.addresses, parts))
        return self._ask(frames.Share(part.number, run, work.inputs, work.outputs, work.variables))

    def stop(self, run: int) -> None:
        """As `Worker.stop`."""
        if not self.is_lost:
            self._send(frames.Stop(run))

    def _define(self, work: Work) -> None:
        self._of(work.session)
        if not self._defined.use((work.session, work.root)):
            self._defined[work.session, work.root] = True
            self._send(frames.Define(work.encoded))

    def get(self, session: int, number: int) -> Awaitable[NDArray[Any]]:
        """As `Worker.get`."""
        self._of(session)
        return self._ask(frames.Get(number))

    async def get_box(self, session: int, number: int, axes: Shape, box: Box) -> NDArray[Any]:
        """As `Worker.get_box`. Raises ExecutionError for elements that are not as many."""
        self._of(session)
        elements: NDArray[Any] = await self._ask(frames.Fetch(number, axes, box))
        if elements.size != volume(box):
            raise ExecutionError(f"worker {self.name} has something else for box {list(box)} of a tensor")
        return elements.reshape(extents_of_box(box))

    def at_hand(self, session: int, number: int) -> NDArray[Any] | None:
        """As `Worker.at_hand`: nothing is."""
        return None

    def free(self, session: int, numbers: Sequence[int]) -> None:
        """As `Worker.free`."""
        self._of(session)
        for first in range(0, len(numbers), frames.NUMBERS):
            self._send(frames.Free(tuple(numbers[first : first + frames.NUMBERS])))

    def end(self, session: int) -> None:
        """As `Worker.end`."""
        self._send(frames.End(session))
        self._defined.forget(lambda key: key[0] == session)

    def answer(self, sequence: int, frame: Frame) -> None:
        """What the worker answered. Raises FrameRefused for an answer to nothing."""
        asked = frame.asked if isinstance(frame, frames.Value | frames.Done | frames.Failed) else 0
        if asked not in self._asked:
            raise FrameRefused(sequence, "a worker answers what nobody asked")
        future, program = self._asked[asked]
        try:
            value = self._value(sequence, frame, program)
        except EigenTensorError as error:
            if isinstance(error, FrameRefused):
                raise
            value = error
        if value is None:
            return
        del self._asked[asked]
        if future.done():
            return
        if isinstance(value, EigenTensorError):
            future.set_exception(value)
        else:
            future.set_result(value)

    def lose(self) -> None:
        """It is away: whoever waits for an answer has WorkerLost."""
        self.is_lost = True
        for future, _ in self._asked.values():
            if not future.done():
                future.set_exception(self._away())
        self._asked.clear()

    def _value(self, sequence: int, frame: Frame, program: Program | None) -> Any:
        """What an answer gives, or the error that it reports; None if more is to come."""
        if isinstance(frame, frames.Done):
            small = {number: _result(sequence, program, number, data) for number, data in frame.small}
            return Spent(frame.seconds, frame.compiled, frame.sent, small)
        if isinstance(frame, frames.Failed):
            return frames.error_of(frame)
        assert isinstance(frame, frames.Value)
        if frame.asked not in self._gathered:
            self._gathered[frame.asked] = Gathered(frame)
        gathered = self._gathered[frame.asked]
        gathered.add(sequence, frame)
        return self._gathered.pop(frame.asked).array() if gathered.is_whole else None

    def _of(self, session: int) -> None:
        if session != self._tenant:
            self._tenant = session
            self._send(frames.Tenant(session))

    def _ask(self, frame: Frame, program: Program | None = None) -> _Answer:
        future: _Answer = asyncio.get_running_loop().create_future()
        self._asked[self._send(frame)] = future, program
        return future

    def _send(self, frame: Frame) -> int:
        if self.is_lost:
            raise self._away()
        return self._peer.send(frame)

    def _away(self) -> WorkerLost:
        return WorkerLost(f"worker {self.name} on {self.host} went away")


def _result(sequence: int, program: Program | None, number: int, data: bytes) -> NDArray[Any]:
    """The result of this number of a program, of its bytes. Raises FrameRefused for what is none."""
    if program is None or number >= len(program.results):
        raise FrameRefused(sequence, f"there is no result {number}")
    result = program.results[number]
    piece = frames.Put(number, program.parameter(result.buffer).dtype, result.shape, 0, data)
    if len(data) != prod(result.shape) * piece.dtype.size:
        raise FrameRefused(sequence, f"result {number} has {len(data)} bytes")
    gathered = Gathered(piece)
    gathered.add(sequence, piece)
    return gathered.array()
