"""Bodies by pieces of 1 MiB: of requests, each piece worked on while the next one arrives, and of responses."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi.responses import FileResponse
from starlette.concurrency import run_in_threadpool

from eigentensor.errors import ServiceBusy
from eigentensor.merkle import PIECE

_MOST = 256  # messages of a piece that are kept apart: each takes more than its bytes


class Unfinished:
    """Bytes of pieces that are not whole yet, of all requests to a service. Where they are too many, the piece that
    began first is given up: who trickles makes room for who sends. For one event loop."""

    def __init__(self, most: int) -> None:
        """`most` is of all together, in bytes."""
        self._most = most
        self._total = 0
        self._have: dict[asyncio.Task[Any], int] = {}  # in the order in which they began
        self._given_up: set[asyncio.Task[Any]] = set()

    def hold(self, task: asyncio.Task[Any], have: int) -> None:
        """So much of its piece a task has; nothing, once that is whole."""
        self._total += have - self._have.get(task, 0)
        if have:
            self._have[task] = have
        else:
            self._have.pop(task, None)
        while self._total > self._most and (oldest := next(iter(self._have))) is not task:
            self._total -= self._have.pop(oldest)
            self._given_up.add(oldest)
            oldest.cancel()

    def check(self, task: asyncio.Task[Any]) -> None:
        """Raises ServiceBusy if it is for this that the task was cancelled."""
        if task in self._given_up:
            self._given_up.remove(task)
            task.uncancel()
            raise ServiceBusy("pieces that came faster needed the room", fix="Send it again.")


async def pieces(stream: AsyncIterator[bytes], unfinished: Unfinished | None = None) -> AsyncIterator[bytes]:
    """Cuts a stream into pieces; the last one may be shorter. Raises ServiceBusy where `unfinished` gives this up."""
    unfinished, task = unfinished or Unfinished(PIECE), asyncio.current_task()
    assert task is not None
    kept: list[bytes] = []
    have = 0
    try:
        async for data in stream:
            start = 0
            while have + len(data) - start >= PIECE:
                stop = start + PIECE - have
                unfinished.hold(task, 0)
                yield b"".join([*kept, memoryview(data)[start:stop]])
                kept, have, start = [], 0, stop
            kept.append(data[start:])
            have += len(data) - start
            del data  # of which a byte may be left, for as long as the sender likes
            unfinished.hold(task, have)
            if len(kept) == _MOST:
                kept = [b"".join(kept)]
        if have:
            yield b"".join(kept)
    except asyncio.CancelledError:
        unfinished.check(task)
        raise
    finally:
        unfinished.hold(task, 0)


async def each(stream: AsyncIterator[bytes], do: Callable[[bytes], object]) -> None:
    """Does something with each piece of a stream, one after the other, in a thread; when this ends, nothing goes on."""
    doing: asyncio.Task[object] | None = None
    try:
        async for piece in pieces(stream):
            if doing is not None:
                await doing
            doing = asyncio.create_task(run_in_threadpool(do, piece))
    finally:
        if doing is not None:
            await doing


class PiecedFile(FileResponse):
    """A file as a response, or ranges of it, read by pieces: each read is a change of thread, which takes longer than
    to send the few KiB that are usual."""

    chunk_size = PIECE
