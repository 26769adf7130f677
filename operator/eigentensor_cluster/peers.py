"""One connection in an event loop, as either side has it: frames in order, both ways."""

import asyncio
import select
import ssl
from collections.abc import AsyncIterator, Collection

from eigentensor.cluster import tls
from eigentensor.cluster.address import Address, check_folder, check_length
from eigentensor.cluster.frames import Frame, Kind
from eigentensor.cluster.layouts import Reader, encode
from eigentensor.errors import ConnectionLost, FrameRefused, NotAdmitted

CHUNK = 1 << 18
LAST = 1.0  #: seconds that the last frames may take
PENDING = 4 << 20  #: bytes that wait to be sent before whoever writes more waits, too


class Peer:
    """Whoever is at the other end. Frames that are sent have the sequence numbers 1, 2, …"""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kinds: Collection[Kind]) -> None:
        self.writer, self.sent = writer, 0
        self._waiting = list[bytes]()
        self._loop = asyncio.get_running_loop()
        self._reader, self._frames = reader, Reader(kinds)
        writer.transport.set_write_buffer_limits(PENDING)

    def goes_on(self, taken: int) -> None:
        """The next frame that comes has the number behind `taken`."""
        self._frames.expected = taken + 1

    def accepts(self, kinds: Collection[Kind]) -> None:
        """Frames of these kinds alone may come from now on."""
        self._frames.accept(kinds)

    def send(self, frame: Frame) -> int:
        """Sends a frame, with all others of this turn of the event loop; its sequence number. What goes to who is away
        is lost."""
        data = encode(frame, self.sent + 1)
        self.sent += 1
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(data)
        return self.sent

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting and not self.writer.is_closing():
            self.writer.writelines(waiting)

    async def drained(self) -> None:
        """Returns when not much waits to be sent. Raises ConnectionLost."""
        self._flush()
        try:
            await self.writer.drain()
        except OSError as error:
            raise ConnectionLost("the other side is away") from error

    async def chunks(self) -> AsyncIterator[list[tuple[int, Frame]]]:
        """The frames that come, some at a time, with their numbers, until the other side is away. Raises FrameRefused
        behind the last one that is a frame."""
        while True:
            try:
                data = await self._reader.read(CHUNK)
            except OSError:
                return
            if not data:
                return
            some, refused = list[tuple[int, Frame]](), None
            try:
                some.extend(self._frames.feed(data))
            except FrameRefused as error:
                refused = error
            if some:
                yield some
            if refused is not None:
                raise refused

    @property
    def is_gone(self) -> bool:
        """Whether the other side has ended the connection, though not all that it sent is read."""
        opened = self.writer.get_extra_info("socket")
        poll = select.poll()
        if opened is None or opened.fileno() < 0:
            return True
        poll.register(opened.fileno(), select.POLLRDHUP)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Ends the connection when what waits is sent."""
        self._flush()
        self.writer.close()

    async def ended(self) -> None:
        """Ends it, and returns when it has ended: soon, whatever the other side does."""
        self.close()
        try:
            async with asyncio.timeout(LAST):
                await self.writer.wait_closed()
        except (OSError, TimeoutError):
            self.writer.transport.abort()


async def connect(address: Address, kinds: Collection[Kind]) -> Peer:
    """The door at an address, whose frames are of these kinds. Raises ConnectionLost if nobody answers there,
    NotAdmitted if it is somebody else."""
    try:
        if address.path is not None:
            check_folder(address.path.parent)
            check_length(address.path)
            return Peer(*await asyncio.open_unix_connection(address.path), kinds)
        reader, writer = await asyncio.open_connection(address.host, address.port, ssl=tls.context())
    except ssl.SSLError as error:
        raise NotAdmitted(f"{address} speaks no TLS 1.3") from error
    except OSError as error:
        raise ConnectionLost(
            f"no cluster answers at {address}", fix="Check its address, and whether it is up.", topic="cluster"
        ) from error
    try:
        tls.keep_alive(writer.get_extra_info("socket"))
        tls.check(writer.get_extra_info("ssl_object").getpeercert(binary_form=True), address)
    except BaseException:
        writer.close()
        raise
    return Peer(reader, writer, kinds)
