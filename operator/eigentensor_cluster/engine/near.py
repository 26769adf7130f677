"""Connections between workers of one host: who has a box writes it into memory that the other has mapped, and says so.

Whoever connects hands over the memory with its hello, and the other answers with the bytes that it begins with. If it
does not, or where there is no room, boxes go by the socket.
"""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from eigentensor.cluster.address import check_folder, check_length
from eigentensor.cluster.frames import Failed, Frame, Hello, Kind, Laid, Welcome, error_of
from eigentensor.cluster.layouts import Reader, encode
from eigentensor.cluster.pieces import parcels, stored_as
from eigentensor.errors import ConnectionLost, EigenTensorError, FrameRefused
from eigentensor.runtime.sharded.mail import Message
from eigentensor_cluster.engine.mapped import Inbox, Outbox, Room

HELLO, SECONDS = 4096, 10.0  #: bytes that a hello has at most; until whom one comes to answers
LONG = 60.0  #: seconds after which one who takes nothing is away


class Near:
    """A connection to a worker that listens at a path. Safe for several threads, which may wait for it."""

    def __init__(self, path: Path, hello: Hello, room: Room) -> None:
        """Raises ConnectionLost if nobody answers there, or lets nobody in."""
        self._lock, self._sent, self._outbox = threading.Lock(), 1, _outbox(room)
        self._reader = Reader({Kind.WELCOME, Kind.FAILED})
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            check_folder(path.parent)
            check_length(path)
            self.socket.settimeout(SECONDS)
            self.socket.connect(str(path))
            descriptors = [] if self._outbox is None else [self._outbox.descriptor]
            socket.send_fds(self.socket, [encode(hello, 1)], descriptors)
            answer = self._next()
            if isinstance(answer, Failed):
                raise error_of(answer)
        except (OSError, EigenTensorError) as error:
            self.close()
            raise ConnectionLost(f"the worker at {path} lets nobody in: {error}") from error
        self._path = path
        self.socket.settimeout(LONG)
        if self._outbox is not None and (not isinstance(answer, Welcome) or answer.session != self._outbox.nonce):
            self._outbox.close()
            self._outbox = None

    def send(self, run: int, sender: int, receiver: int, message: Message) -> None:
        """Sends a box, which may change afterwards. Raises ConnectionLost."""
        frames = self._frames(run, sender, receiver, message)
        try:
            with self._lock:
                for frame in frames:
                    self._sent += 1
                    self.socket.sendall(encode(frame, self._sent))
        except OSError as error:
            self.stop()
            raise ConnectionLost(f"the worker at {self._path} is away") from error

    def trim(self) -> None:
        """Gives memory back where nothing lies for the other."""
        if self._outbox is not None:
            self._outbox.trim()

    def why(self) -> str:
        """Why the other has ended the connection, as it says itself. Waits for nothing."""
        self.socket.setblocking(False)
        try:
            answer = self._next()
        except (OSError, ConnectionLost, FrameRefused):
            return ""
        return answer.what if isinstance(answer, Failed) else ""

    def stop(self) -> None:
        """Ends the connection for who uses it."""
        with suppress(OSError):  # the other was first
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Forgets it."""
        self.stop()
        with self._lock:
            self.socket.close()
            if self._outbox is not None:
                self._outbox.close()
                self._outbox = None

    def _frames(self, run: int, sender: int, receiver: int, message: Message) -> Iterator[Frame]:
        box, outbox = message.box, self._outbox
        at = None if outbox is None else outbox.lay(box)
        if at is None:
            return parcels(run, sender, receiver, message.number, box)
        return iter([Laid(run, sender, receiver, message.number, stored_as(box), box.size, at)])

    def _next(self) -> Frame:
        while data := self.socket.recv(HELLO):
            for _, frame in self._reader.feed(data):
                return frame
        raise ConnectionLost("the other worker is away")


def _outbox(room: Room) -> Outbox | None:
    try:
        return Outbox(room)
    except OSError as error:
        room.lacks(error)
        return None


async def hello(opened: socket.socket, room: Room) -> tuple[bytes, Inbox | None]:
    """The first bytes of whoever has connected, and the memory that came with them. Raises OSError."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(opened, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(opened)
    data, descriptors, _, _ = socket.recv_fds(opened, HELLO, 1, socket.MSG_CMSG_CLOEXEC)
    try:
        return data, Inbox(*descriptors) if descriptors else None
    except OSError as error:
        room.lacks(error)
        return data, None
