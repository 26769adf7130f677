"""Bodies by pieces of 1 MiB: of requests, each piece worked on while the next one arrives, and of responses."""

import asyncio
from collections.abc import AsyncIterator, Callable

from fastapi.responses import FileResponse
from starlette.concurrency import run_in_threadpool

from eigentensor.merkle import PIECE

_MOST = 256  # messages of a piece that are kept apart: each takes more than its bytes


async def pieces(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Cuts a stream into pieces; the last one may be shorter."""
    kept: list[bytes] = []
    have = 0
    async for data in stream:
        start = 0
        while have + len(data) - start >= PIECE:
            stop = start + PIECE - have
            yield b"".join([*kept, memoryview(data)[start:stop]])
            kept, have, start = [], 0, stop
        kept.append(data[start:])
        have += len(data) - start
        del data  # of which a byte may be left, for as long as the sender likes
        if len(kept) == _MOST:
            kept = [b"".join(kept)]
    if have:
        yield b"".join(kept)


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
