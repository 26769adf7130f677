"""A connection to a cluster's door, as a client or a keeper has it: frames out in batches, answers in order."""

import socket
import ssl
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

from eigentensor.cluster import tls
from eigentensor.cluster.address import Address, check_folder, check_length
from eigentensor.cluster.frames import ANSWERED, VERSION, End, Failed, Frame, Hello, Role, Welcome, error_of
from eigentensor.cluster.layouts import Reader, encode
from eigentensor.errors import ConnectionLost, NotAdmitted
from eigentensor.program.codec import SEMANTICS

SECONDS = 10.0  #: that a door may take to let somebody in
PART = 1.0  #: seconds of a wait: a signal that comes just before one is seen after it
BATCH = 1 << 16  #: bytes of frames that wait for others
CHUNK = 1 << 18


class Connection:
    """A door that let this process in. Not safe for several threads. Whatever finds the other side away raises
    ConnectionLost, also what comes afterwards."""

    def __init__(
        self, address: Address, role: Role, token: bytes, session: bytes = bytes(16), seconds: float | None = None
    ) -> None:
        """Whoever does not answer within `seconds` from now on counts as away; None: it may take for ever. Raises
        ConnectionLost if nobody answers there, NotAdmitted if it is somebody else or lets nobody in so."""
        self.address = address
        begin = time.monotonic()
        self._socket = _opened(address)
        self._until: float | None = time.monotonic() + SECONDS
        self._reader, self._came = Reader(ANSWERED), deque[Frame]()
        self._waiting = bytearray()
        self._sent = 0
        try:
            self.send(Hello(VERSION, SEMANTICS, role, token, session))
            self.flush()
            answer = self.receive()
        except BaseException:
            self._socket.close()
            raise
        self.within(None if seconds is None else seconds - (time.monotonic() - begin))
        if not isinstance(answer, Welcome):
            self._socket.close()
            raise error_of(answer) if isinstance(answer, Failed) else NotAdmitted(f"{address} answers with nonsense")
        self.session = answer.session
        self._sent = max(1, answer.taken)

    def within(self, seconds: float | None) -> None:
        """Whoever does not answer within so many seconds from now on counts as away, and is told that this is the end;
        None: it may take for ever."""
        self._until = None if seconds is None else time.monotonic() + seconds

    @property
    def is_waiting(self) -> bool:
        """Whether there are frames that `flush` would send."""
        return bool(self._waiting)

    def send(self, frame: Frame) -> int:
        """Puts a frame behind those that wait, and sends them where they are many; the frame's sequence number."""
        self._waiting += encode(frame, self._sent + 1)
        self._sent += 1
        if len(self._waiting) >= BATCH:
            self.flush()
        return self._sent

    def flush(self) -> None:
        """Sends what waits."""
        data, self._waiting = self._waiting, bytearray()
        try:
            self._socket.settimeout(self._left())
            self._socket.sendall(data)
        except OSError as error:
            raise self._lost(error) from error

    def receive(self) -> Frame:
        """The next frame that comes."""
        while not self._came:
            try:
                data = self._data()
            except OSError as error:
                raise self._lost(error) from error
            if not data:
                raise self._lost(None)
            self._came.extend(frame for _, frame in self._reader.feed(data))
        return self._came.popleft()

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()

    def _data(self) -> bytes:
        """What comes next. Raises TimeoutError when it was waited for long enough."""
        while True:
            left = self._left()
            self._socket.settimeout(PART if left is None else min(left, PART))
            try:
                return self._socket.recv(CHUNK)
            except TimeoutError:
                if left is not None and left <= PART:
                    raise

    def _left(self) -> float | None:
        """How long this connection still waits."""
        return None if self._until is None else max(1e-3, self._until - time.monotonic())

    def _lost(self, error: OSError | None) -> ConnectionLost:
        if isinstance(error, TimeoutError) and self._until is not None:
            with suppress(OSError):  # it is not waited for: nor is what it holds, and executes
                self._socket.sendall(encode(End(), self._sent + 1))
        self._socket.close()
        why = f": {error.strerror or error}" if error else ""
        return ConnectionLost(f"the cluster at {self.address} is away{why}", session=getattr(self, "session", b""))


def _opened(address: Address) -> socket.socket:
    try:
        return _secured(address) if address.path is None else _local(address.path)
    except ssl.SSLError as error:
        raise NotAdmitted(f"{address} speaks no TLS 1.3") from error
    except OSError as error:
        raise ConnectionLost(
            f"no cluster answers at {address}", fix="Check its address, and whether it is up.", topic="cluster"
        ) from error


def _secured(address: Address) -> socket.socket:
    with socket.create_connection((address.host, address.port), SECONDS) as plain:  # until it is another's
        tls.keep_alive(plain)
        secured = tls.context().wrap_socket(plain)
    try:
        tls.check(secured.getpeercert(binary_form=True), address)
    except NotAdmitted:
        secured.close()
        raise
    return secured


def _local(path: Path) -> socket.socket:
    check_folder(path.parent)
    check_length(path)
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    opened.settimeout(SECONDS)
    try:
        opened.connect(str(path))
    except BaseException:
        opened.close()
        raise
    return opened
