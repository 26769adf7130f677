"""Callers of a gateway that begin and do not go on: uploads that are half here, and connections that trickle."""

import asyncio
import json
import multiprocessing
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection

from eigentensor.merkle import PIECE, piece_root
from eigentensor.store import Pieces
from eigentensor.web.server import LEAST, SILENCE
from support.steadily import steadily

ADDRESSES = 50  # of loopback, from which they come
_AT_ONCE = 16  # of them that send their first piece
_PIECE = b"half" * (PIECE // 4)
_SIZE = 2 * PIECE
_TOGETHER = 100  # of them that go on at a time
_SEEN = 10.0  # seconds in which a connection that was ended is noticed


class _Upload:
    """An upload of two pieces on a connection of its own, of which the second one comes as slowly as is allowed, again
    and again."""

    def __init__(self, number: int) -> None:
        # Who never completes it may say any second piece.
        pieces = Pieces(_SIZE, (piece_root(_PIECE, _SIZE), number.to_bytes(32)))
        self._address, self._path = f"127.1.0.{number % ADDRESSES + 1}", f"/v1/blobs/{pieces.blob.hex()}"
        self._words = json.dumps(pieces.to_json()).encode()
        self._writer: asyncio.StreamWriter

    async def begin(self, port: int) -> int:
        """Says what it will be, and sends the first piece; the HTTP status of what was said."""
        reader, self._writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(self._address, 0))
        self._writer.write(_head(f"{self._path}/pieces", len(self._words), "Content-Type: application/json"))
        self._writer.write(self._words)
        answer = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(answer.lower().partition(b"content-length:")[2].split(b"\r\n")[0]))
        self._writer.write(_head(self._path, _SIZE, f"Content-Range: bytes 0-{_SIZE - 1}/{_SIZE}"))
        self._writer.write(_PIECE)
        await self._writer.drain()
        return int(answer.split()[1])

    async def go_on(self, port: int) -> None:
        """Sends what keeps its connection open; if the gateway has ended it, on another one."""
        if not self.is_open:
            _, self._writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(self._address, 0))
            self._writer.write(_head(self._path, PIECE, f"Content-Range: bytes {PIECE}-{_SIZE - 1}/{_SIZE}"))
        self._writer.write(bytes(LEAST))

    @property
    def is_open(self) -> bool:
        """Whether the gateway has not ended it."""
        return not self._writer.is_closing()


def _head(path: str, size: int, more: str) -> bytes:
    return f"PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n{more}\r\n\r\n".encode()


def _stay(port: int, count: int, told: Connection) -> None:
    asyncio.run(_stay_open(port, count, told))


async def _stay_open(port: int, count: int, told: Connection) -> None:
    """Begins all, tells the statuses, and goes on; tells how many are open whenever it is asked to."""
    uploads, begun, some = [_Upload(number) for number in range(count)], list[_Upload](), asyncio.Semaphore(_AT_ONCE)

    async def begin(upload: _Upload) -> int:
        async with some:
            status = await upload.begin(port)
            begun.append(upload)
            return status

    async def go_on() -> None:
        while True:
            for first in range(0, count, _TOGETHER):
                for upload in begun[first : first + _TOGETHER]:
                    await upload.go_on(port)
                await asyncio.sleep(0.7 * SILENCE * _TOGETHER / max(count, _TOGETHER))

    going = asyncio.create_task(go_on())
    told.send(Counter(await asyncio.gather(*map(begin, uploads))))
    while await asyncio.to_thread(told.recv):
        await asyncio.sleep(_SEEN)
        told.send(sum(upload.is_open for upload in uploads))
    going.cancel()


class HalfOpen:
    """Uploads that go on in a process of their own; `statuses` is how many were answered by which HTTP status."""

    def __init__(self, told: Connection) -> None:
        self._told = told
        self.statuses: Counter[int] = told.recv()

    @property
    def open(self) -> int:
        """How many the gateway has not ended."""
        self._told.send(True)
        return int(self._told.recv())


@contextmanager
def half_open(port: int, count: int) -> Iterator[HalfOpen]:
    """So many uploads of two pieces, from many addresses, of which the first piece is there when the block begins. As
    long as it runs the second one trickles; who is sent away comes again."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_stay, args=(port, count, theirs))
    process.start()
    theirs.close()  # else nobody would hear that it has failed
    try:
        yield HalfOpen(ours)
        ours.send(False)
        process.join()
    finally:
        process.kill()
        process.join()


@contextmanager
def trickling(port: int, count: int) -> Iterator[None]:
    """So many connections that send a byte of a body now and then, as long as the block runs; who is sent away comes
    again."""

    def connect(number: int) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", port), source_address=(f"127.2.0.{number % 250 + 1}", 0))
        connection.sendall(_head(f"/v1/blobs/{number:064x}", PIECE, "Connection: close"))
        return connection

    with ExitStack() as stack:
        connections = [stack.enter_context(connect(number)) for number in range(count)]

        def send() -> None:
            for number, connection in enumerate(connections):
                try:
                    connection.sendall(b"?")
                except OSError:
                    connections[number] = stack.enter_context(connect(number))

        stack.enter_context(steadily(send, 1.0))
        yield
