"""Connections to workers of other hosts, over TLS: pieces of boxes, in order."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from eigentensor.cluster import frames
from eigentensor.cluster.address import parse
from eigentensor.cluster.frames import VERSION, Frame, Hello, Kind, Role, Welcome
from eigentensor.errors import ConnectionLost, EigenTensorError, NotAdmitted
from eigentensor.program.codec import SEMANTICS
from eigentensor_cluster.peers import Peer, connect

SECONDS = 10.0  #: until whom one comes to answers


class Far:
    """A connection to a worker of another host, which is made when there is something to send."""

    def __init__(self, address: str, secret: bytes, own: str, lost: Callable[[str], None]) -> None:
        self.address, self.is_lost = address, False
        self._own, self._secret, self._lost = own, secret, lost
        self._waiting = list[Frame]()
        self._peer: Peer | None = None
        self._life = asyncio.create_task(self._lives())
        self._open: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def send(self, some: Sequence[Frame]) -> None:
        """Sends frames in order, as soon as somebody is there."""
        if self._peer is None:
            self._waiting.extend(some)
            return
        for frame in some:
            self._peer.send(frame)

    async def drained(self) -> None:
        """Returns when not much waits to be sent. Raises ConnectionLost."""
        await asyncio.shield(self._open)
        if self.is_lost or self._peer is None:
            raise ConnectionLost(f"the worker at {self.address} is away")
        await self._peer.drained()

    def close(self) -> asyncio.Task[None]:
        """Ends it; what goes on until it has ended."""
        self._life.cancel()
        return self._life

    async def _lives(self) -> None:
        peer: Peer | None = None
        try:
            async with asyncio.timeout(SECONDS):
                peer = await _reached(self.address)
                peer.send(Hello(VERSION, SEMANTICS, Role.WORKER, session=self._secret, exchange=self._own))
                answer = await _first(peer)
            if not isinstance(answer, Welcome):
                raise frames.error_of(answer) if isinstance(answer, frames.Failed) else NotAdmitted("it is no worker")
            self._peer = peer
            waiting, self._waiting = self._waiting, []
            self.send(waiting)
            self._open.set_result(None)
            await _first(peer)  # nothing comes but its end, or why it ends
        except (EigenTensorError, OSError, TimeoutError):
            pass
        finally:
            self.is_lost = True
            if not self._open.done():
                self._open.set_result(None)
            self._lost(self.address)
            if peer is not None:
                await peer.ended()


def _reached(addresses: str) -> Awaitable[Peer]:
    """The one of these that is reached over TLS. Raises ConnectionLost if there is none."""
    each = [parse(address) for address in addresses.split()]
    far = next((address for address in each if address.path is None), None)
    if far is None:
        raise ConnectionLost("a worker is on another machine, and reached by none")
    return connect(far, {Kind.WELCOME, Kind.FAILED})


async def _first(peer: Peer) -> Frame:
    """The next frame of who is at the other end. Raises ConnectionLost."""
    async for chunk in peer.chunks():
        return chunk[0][1]
    raise ConnectionLost("the other worker is away")
