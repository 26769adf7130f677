"""Boxes between slots: here from hand to hand, to other workers over connections of their own, never by the door.

Each worker listens, and connects to those that it has boxes for: on this host with memory in common (`near`), else over
TLS (`far`). Whoever connects says hello as everywhere, and knows what the door tells the workers of its cluster alone.
Frames have numbers, and so have boxes: what is out of order is refused, since a box that comes late is a wrong bit.
"""

import asyncio
import hmac
import socket
import ssl
import threading
from collections.abc import Collection, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from eigentensor.cluster import frames, tls
from eigentensor.cluster.address import Address, check_folder, check_length, parse
from eigentensor.cluster.frames import IDENTITY, VERSION, Frame, Hello, Kind, Laid, Parcel, Role, Welcome, failure
from eigentensor.cluster.pieces import Gathered, parcels
from eigentensor.errors import ConnectionLost, EigenTensorError, FrameRefused, NotAdmitted
from eigentensor.program.codec import SEMANTICS
from eigentensor.runtime.sharded.mail import Mail, Message
from eigentensor_cluster.engine import near
from eigentensor_cluster.engine.far import Far
from eigentensor_cluster.engine.mapped import Inbox, Room
from eigentensor_cluster.engine.near import Near
from eigentensor_cluster.peers import Peer

SECONDS = 10.0  #: until whoever comes has to have said as what
PAUSE = 1.0  #: seconds until somebody is let in again where the system lets nobody in
OVER = 1024  #: runs that are over and remembered, so that what comes late for them is dropped


class Exchange:
    """The boxes of one process: its own, and those of others for it. All but what a run's mail is given happens in the
    event loop."""

    def __init__(self) -> None:
        self.secret = bytes(IDENTITY)  #: by which workers of the cluster know each other; zeros let nobody in
        self.addresses: tuple[str, ...] = ()  #: where others reach it, the nearest first
        self._mails: dict[int, tuple[Mail, frozenset[str], int]] = {}  # by run; addresses that take part; bytes
        self._early: dict[int, list[tuple[int, int, Message]]] = {}  # what came for runs that have not begun here
        self._over: dict[int, None] = {}
        self._links: dict[str, Far] = {}
        self._near: dict[str, Near] = {}
        self._meeting, self._room = threading.Lock(), Room()
        self._servers, self._tasks = list[asyncio.Server](), set[asyncio.Task[None]]()

    async def listen_here(self, path: Path) -> None:
        """Lets in workers of this user, by a socket in a folder that nobody else reaches."""
        check_folder(path.parent)
        check_length(path)
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(path))
        path.chmod(0o600)
        listening.listen(128)
        listening.setblocking(False)
        self._begin(self._accepts(listening))
        self.addresses = (f"unix:{path}", *self.addresses)

    async def listen(self, host: str, context: ssl.SSLContext, fingerprint: bytes, shown: str) -> None:
        """Lets in workers over TLS, on a port of its own of a host that others know as `shown`."""
        server = await asyncio.start_server(self._met, host, 0, ssl=context, ssl_handshake_timeout=SECONDS)
        self._servers.append(server)
        port = server.sockets[0].getsockname()[1]
        self.addresses = (*self.addresses, str(Address(None, shown, port, fingerprint)))

    def begin(self, run: int, slots: Sequence[str], here: Collection[int], room: int = 0) -> Mail:
        """The mail of a run, each of whose slots is at an address, or several with spaces between; some are here. Boxes
        on their way to others may take `room` bytes of memory."""
        mail = Mail(len(slots), here, partial(self._forward, asyncio.get_running_loop(), run, slots))
        self._mails[run] = mail, frozenset(slots), room
        self._room.widen(room)
        if self._room.is_over:
            self._trim()
        for early in self._early.pop(run, ()):
            mail.deliver(*early)
        return mail

    async def sent(self, run: int) -> None:
        """Returns when what a run's slots sent is on its way. Raises ConnectionLost."""
        mail, addresses, _ = self._mails[run]
        for address in addresses:
            if (link := self._links.get(address)) is not None:
                await link.drained()
        if mail.is_closed:
            raise ConnectionLost(mail.why or "a worker that takes part in a run is away")

    def end(self, run: int) -> None:
        """A run is over: whoever waits for a box of it gets an error, what comes late is dropped."""
        if (found := self._mails.pop(run, None)) is not None:
            found[0].close()
            self._room.widen(-found[2])
        self._early.pop(run, None)
        self._over[run] = None
        while len(self._over) > OVER:
            del self._over[next(iter(self._over))]

    def rest(self) -> None:
        """Holds no memory for boxes on their way, unless something goes on."""
        if not self._mails:
            self._trim()

    def stop(self, run: int) -> None:
        """Lets nobody wait any more for boxes of a run; one that has not begun here does not."""
        if run in self._mails:
            self._mails[run][0].close()
        else:
            self.end(run)

    async def close(self) -> None:
        """Lets nobody in any more."""
        for server in self._servers:
            server.close()
        for run in list(self._mails):
            self.end(run)
        lives = [link.close() for link in self._links.values()]
        for address in list(self._near):
            self._leave(address)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, *lives, return_exceptions=True)

    def _forward(
        self, loop: asyncio.AbstractEventLoop, run: int, slots: Sequence[str], sender: int, receiver: int, of: Message
    ) -> None:
        """Sends a box to a slot elsewhere, from any thread. Raises ConnectionLost."""
        other = self._near.get(slots[receiver]) or self._meet(loop, slots[receiver])
        if other is not None:
            other.send(run, sender, receiver, of)
            return
        some = list(parcels(run, sender, receiver, of.number, of.box))
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(self._send, slots[receiver], some)

    def _send(self, address: str, some: Sequence[Frame]) -> None:
        if (link := self._links.get(address)) is None:
            link = self._links[address] = Far(address, self.secret, " ".join(self.addresses), self._lost)
        link.send(some)

    def _meet(self, loop: asyncio.AbstractEventLoop, address: str) -> Near | None:
        """A connection to a worker, if it is one of this host. Raises ConnectionLost."""
        if (path := _path_of(address)) is None:
            return None
        with self._meeting:
            if address not in self._near:
                hello = Hello(VERSION, SEMANTICS, Role.WORKER, session=self.secret, exchange=" ".join(self.addresses))
                self._near[address] = other = Near(path, hello, self._room)
                with suppress(RuntimeError):  # the loop is closed: nobody waits
                    loop.call_soon_threadsafe(self._watch, address, other)
            return self._near[address]

    def _watch(self, address: str, other: Near) -> None:
        if self._near.get(address) is other:
            asyncio.get_running_loop().add_reader(other.socket, self._left, address, other)

    def _trim(self) -> None:
        for other in list(self._near.values()):
            other.trim()

    def _left(self, address: str, other: Near) -> None:
        """Nothing comes from there but its end, or why it ends."""
        why = other.why()
        self._leave(address)
        self._lost(address, why and f"{address} says: {why}")

    def _leave(self, address: str) -> None:
        other = self._near.pop(address)
        asyncio.get_running_loop().remove_reader(other.socket)
        other.close()

    def _lost(self, address: str, why: str = "") -> None:
        """Nothing goes to, or comes from, an address any more: the runs in which it takes part are over."""
        if (link := self._links.get(address)) is not None and link.is_lost:
            del self._links[address]
        for mail, addresses, _ in self._mails.values():
            if address and address in addresses:
                mail.close(why)

    async def _accepts(self, listening: socket.socket) -> None:
        """Lets workers of this host in."""
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                try:
                    opened, _ = await loop.sock_accept(listening)
                except OSError:  # such as too many open files
                    await asyncio.sleep(PAUSE)
                    continue
                self._begin(self._come_near(opened))

    async def _come_near(self, opened: socket.socket) -> None:
        """Somebody of this host who connected, until it is gone."""
        opened.setblocking(False)
        try:
            async with asyncio.timeout(SECONDS):
                data, inbox = await near.hello(opened, self._room)
            reader, writer = await asyncio.open_unix_connection(sock=opened)
        except (OSError, TimeoutError):
            opened.close()
            return
        except BaseException:
            opened.close()
            raise
        reader.feed_data(data)
        await self._met(reader, writer, inbox)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _met(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, inbox: Inbox | None = None
    ) -> None:
        """A worker that has boxes for slots here, until it is gone; with memory that it has handed over, if any."""
        peer, task, name, why = Peer(reader, writer, {Kind.HELLO}), asyncio.current_task(), "", ""
        assert task is not None
        self._tasks.add(task)
        gathered: dict[tuple[int, int, int], Gathered] = {}
        try:
            tls.keep_alive(writer.get_extra_info("socket"))
            async with asyncio.timeout(SECONDS):
                name = await self._hello(peer, inbox)
            async for chunk in peer.chunks():
                for sequence, frame in chunk:
                    if isinstance(frame, Laid):
                        assert inbox is not None
                        self._come(sequence, frame, _lies(inbox, sequence, frame))
                    else:
                        assert isinstance(frame, Parcel)
                        self._piece(sequence, frame, gathered)
        except EigenTensorError as error:
            why = f"{name} has sent what is refused: {error.what}"
            peer.send(failure(0, 1, error))
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass  # it went, or nobody listens any more
        finally:
            self._tasks.discard(task)
            self._lost(name, why)
            await peer.ended()

    async def _hello(self, peer: Peer, inbox: Inbox | None) -> str:
        """Where the worker is reached that has come. Raises NotAdmitted, FrameRefused."""
        async for chunk in peer.chunks():
            (_, hello), *more = chunk
            assert isinstance(hello, Hello)
            same = (hello.version, hello.semantics, hello.role) == (VERSION, SEMANTICS, Role.WORKER)
            if not (same and any(self.secret) and hmac.compare_digest(hello.session, self.secret)):
                raise NotAdmitted("this is no worker of the same cluster")
            if more:
                raise FrameRefused(2, "nothing may come before the answer to HELLO")
            peer.accepts({Kind.PARCEL} if inbox is None else {Kind.PARCEL, Kind.LAID})
            peer.send(Welcome(bytes(IDENTITY) if inbox is None else inbox.nonce, 1, "worker"))
            return hello.exchange
        raise ConnectionLost("it said nothing")

    def _piece(self, sequence: int, frame: Parcel, gathered: dict[tuple[int, int, int], Gathered]) -> None:
        """A piece of a box. Raises FrameRefused for one that is out of order."""
        between = frame[:3]
        put = frames.Put(*frame[3:])
        if between not in gathered:
            gathered[between] = Gathered(put)
        gathered[between].add(sequence, put)
        if gathered[between].is_whole:
            self._come(sequence, frame, gathered.pop(between).array())

    def _come(self, sequence: int, frame: Parcel | Laid, box: NDArray[Any]) -> None:
        """A box. Raises FrameRefused for one to a slot that is not here."""
        run, sender, receiver = frame[:3]
        if run in self._mails:
            mail = self._mails[run][0]
            if (sender, receiver) not in mail.queues:
                raise FrameRefused(sequence, f"slot {receiver} is not here")
            mail.deliver(sender, receiver, Message(frame.number, box))
        elif run not in self._over:
            self._early.setdefault(run, []).append((sender, receiver, Message(frame.number, box)))


def _lies(inbox: Inbox, sequence: int, frame: Laid) -> NDArray[Any]:
    """A box where it lies. Raises FrameRefused."""
    try:
        return inbox.box(frame.dtype, frame.elements, frame.offset)
    except ValueError as error:
        raise FrameRefused(sequence, str(error)) from None


def _path_of(addresses: str) -> Path | None:
    """The socket of a worker, if it is this machine's."""
    paths = [parse(address).path for address in addresses.split()]
    return next((path for path in paths if path is not None and path.exists()), None)
