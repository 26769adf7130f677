"""Boxes between slots: here from hand to hand, to other workers over connections of their own, never by the door.

Each worker listens, and connects to those that it has boxes for. Whoever connects says hello as everywhere, and knows
what the door tells the workers of its cluster alone. Frames have numbers, and so have boxes: what is out of order is
refused, since a box that comes late is a wrong bit.
"""

import asyncio
import hmac
import ssl
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from eigentensor.cluster import frames, tls
from eigentensor.cluster.address import Address, check_folder, check_length, parse
from eigentensor.cluster.frames import IDENTITY, VERSION, Frame, Hello, Kind, Parcel, Role, Welcome, failure
from eigentensor.cluster.pieces import Gathered, parcels
from eigentensor.errors import ConnectionLost, EigenTensorError, FrameRefused, NotAdmitted
from eigentensor.program.codec import SEMANTICS
from eigentensor.runtime.sharded.mail import Mail, Message
from eigentensor_cluster.peers import Peer, connect

SECONDS = 10.0  #: until whoever comes has to have said as what, and until whom one comes to answers
OVER = 1024  #: runs that are over and remembered, so that what comes late for them is dropped


class Exchange:
    """The boxes of one process: its own, and those of others for it. All but what a run's mail is given happens in the
    event loop."""

    def __init__(self) -> None:
        self.secret = bytes(IDENTITY)  #: by which workers of the cluster know each other; zeros let nobody in
        self.addresses: tuple[str, ...] = ()  #: where others reach it, the nearest first
        self._mails: dict[int, tuple[Mail, frozenset[str]]] = {}  # by run, with the addresses that take part
        self._early: dict[int, list[tuple[int, int, Message]]] = {}  # what came for runs that have not begun here
        self._over: dict[int, None] = {}
        self._links: dict[str, _Link] = {}
        self._servers, self._tasks = list[asyncio.Server](), set[asyncio.Task[None]]()

    async def listen_here(self, path: Path) -> None:
        """Lets in workers of this user, by a socket in a folder that nobody else reaches."""
        check_folder(path.parent)
        check_length(path)
        path.unlink(missing_ok=True)
        self._servers.append(await asyncio.start_unix_server(self._met, path))
        path.chmod(0o600)
        self.addresses = (f"unix:{path}", *self.addresses)

    async def listen(self, host: str, context: ssl.SSLContext, fingerprint: bytes, shown: str) -> None:
        """Lets in workers over TLS, on a port of its own of a host that others know as `shown`."""
        server = await asyncio.start_server(self._met, host, 0, ssl=context, ssl_handshake_timeout=SECONDS)
        self._servers.append(server)
        port = server.sockets[0].getsockname()[1]
        self.addresses = (*self.addresses, str(Address(None, shown, port, fingerprint)))

    def begin(self, run: int, slots: Sequence[str], here: Collection[int]) -> Mail:
        """The mail of a run, each of whose slots is at an address, or several with spaces between; some are here."""
        mail = Mail(len(slots), here, partial(self._forward, asyncio.get_running_loop(), run, slots))
        self._mails[run] = mail, frozenset(slots)
        for early in self._early.pop(run, ()):
            mail.deliver(*early)
        return mail

    async def sent(self, run: int) -> None:
        """Returns when what a run's slots sent is on its way. Raises ConnectionLost."""
        mail, addresses = self._mails[run]
        for address in addresses:
            if (link := self._links.get(address)) is not None:
                await link.drained()
        if mail.is_closed:
            raise ConnectionLost("a worker that takes part in a run is away")

    def end(self, run: int) -> None:
        """A run is over: whoever waits for a box of it gets an error, what comes late is dropped."""
        if (found := self._mails.pop(run, None)) is not None:
            found[0].close()
        self._early.pop(run, None)
        self._over[run] = None
        while len(self._over) > OVER:
            del self._over[next(iter(self._over))]

    def stop(self, run: int) -> None:
        """Lets nobody wait any more for boxes of a run, if it goes on here."""
        if run in self._mails:
            self._mails[run][0].close()

    async def close(self) -> None:
        """Lets nobody in any more."""
        for server in self._servers:
            server.close()
        for run in list(self._mails):
            self.end(run)
        lives = [link.close() for link in self._links.values()]
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, *lives, return_exceptions=True)

    def _forward(
        self, loop: asyncio.AbstractEventLoop, run: int, slots: Sequence[str], sender: int, receiver: int, of: Message
    ) -> None:
        """Sends a box to a slot elsewhere, from any thread."""
        some = list(parcels(run, sender, receiver, of.number, of.box))
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(self._send, slots[receiver], some)

    def _send(self, address: str, some: Sequence[Frame]) -> None:
        if (link := self._links.get(address)) is None:
            link = self._links[address] = _Link(address, self.secret, " ".join(self.addresses), self._lost)
        link.send(some)

    def _lost(self, address: str) -> None:
        """Nothing goes to, or comes from, an address any more: the runs in which it takes part are over."""
        if (link := self._links.get(address)) is not None and link.is_lost:
            del self._links[address]
        for mail, addresses in self._mails.values():
            if address and address in addresses:
                mail.close()

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A worker that has boxes for slots here, until it is gone."""
        peer, task, name = Peer(reader, writer, {Kind.HELLO}), asyncio.current_task(), ""
        assert task is not None
        self._tasks.add(task)
        gathered: dict[tuple[int, int, int], Gathered] = {}
        try:
            tls.keep_alive(writer.get_extra_info("socket"))
            async with asyncio.timeout(SECONDS):
                name = await self._hello(peer)
            async for chunk in peer.chunks():
                for sequence, frame in chunk:
                    assert isinstance(frame, Parcel)
                    self._come(sequence, frame, gathered)
        except EigenTensorError as error:
            peer.send(failure(0, 1, error))
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass  # it went, or nobody listens any more
        finally:
            self._tasks.discard(task)
            self._lost(name)
            await peer.ended()

    async def _hello(self, peer: Peer) -> str:
        """Where the worker is reached that has come. Raises NotAdmitted, FrameRefused."""
        async for chunk in peer.chunks():
            (_, hello), *more = chunk
            assert isinstance(hello, Hello)
            same = (hello.version, hello.semantics, hello.role) == (VERSION, SEMANTICS, Role.WORKER)
            if not (same and any(self.secret) and hmac.compare_digest(hello.session, self.secret)):
                raise NotAdmitted("this is no worker of the same cluster")
            if more:
                raise FrameRefused(2, "nothing may come before the answer to HELLO")
            peer.accepts({Kind.PARCEL})
            peer.send(Welcome(bytes(IDENTITY), 1, "worker"))
            return hello.exchange
        raise ConnectionLost("it said nothing")

    def _come(self, sequence: int, frame: Parcel, gathered: dict[tuple[int, int, int], Gathered]) -> None:
        """A piece of a box. Raises FrameRefused for one that is out of order."""
        run, sender, receiver = between = frame[:3]
        put = frames.Put(*frame[3:])
        if between not in gathered:
            gathered[between] = Gathered(put)
        gathered[between].add(sequence, put)
        if not gathered[between].is_whole:
            return
        box: NDArray[Any] = gathered.pop(between).array()
        if run in self._mails:
            mail = self._mails[run][0]
            if (sender, receiver) not in mail.queues:
                raise FrameRefused(sequence, f"slot {receiver} is not here")
            mail.deliver(sender, receiver, Message(frame.number, box))
        elif run not in self._over:
            self._early.setdefault(run, []).append((sender, receiver, Message(frame.number, box)))


class _Link:
    """A connection to another worker, which is made when there is something to send."""

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
    """The first of these that can be reached: a socket of this machine, if it is this machine's, else over TLS."""
    each = [parse(address) for address in addresses.split()]
    near = next((address for address in each if address.path is not None and address.path.exists()), None)
    if near is None:
        near = next((address for address in each if address.path is None), None)
    if near is None:
        raise ConnectionLost("a worker is on another machine, and reached by none")
    return connect(near, {Kind.WELCOME, Kind.FAILED})


async def _first(peer: Peer) -> Frame:
    """The next frame of who is at the other end. Raises ConnectionLost."""
    async for chunk in peer.chunks():
        return chunk[0][1]
    raise ConnectionLost("the other worker is away")
