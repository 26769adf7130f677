"""Uploads as they come in: cut into pieces, each verified and kept while the next one arrives."""

import asyncio
import re
from http import HTTPStatus

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request

from eigentensor.errors import EigenTensorError
from eigentensor.merkle import PIECE
from eigentensor.web import limits
from eigentensor.web.bodies import pieces
from eigentensor_aggregator import uploads
from eigentensor_aggregator.blobs import Received
from eigentensor_aggregator.parts import Parts

#: Bytes of one request: some pieces.
REQUEST = 64 * PIECE
#: What came of a piece: how far the upload is, or why it was refused.
Outcome = tuple[Received | None, EigenTensorError | None]
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,15})-([0-9]{1,15})/([0-9]{1,15})")


def address_of(request: Request) -> str:
    """By what uploads of this sender are counted."""
    return uploads.address_of(limits.address(request.scope))


async def receive_whole(parts: Parts, blob: str, request: Request) -> Received:
    """A blob of at most one piece. Raises what `Blobs.receive` raises."""
    data = await request.body()
    parts.metrics.blob_bytes.labels("in").inc(len(data))
    return await run_in_threadpool(parts.blobs.receive, blob, data)


async def receive_pieces(parts: Parts, blob: str, request: Request, content_range: str) -> Received:
    """Pieces of a declared upload, one after the other. Raises what `Blobs.receive` raises, 400 for a wrong range.

    Those before a wrong one are kept. The body is read to its end in any case: a sender that is still sending would
    not see the answer.
    """
    address = address_of(request)
    first, last, size = _place(content_range, request.headers.get("content-length", ""))
    at, done = first, None
    refused: EigenTensorError | None = None
    verified: asyncio.Task[Outcome] | None = None
    try:
        async for data in pieces(request.stream()):
            if verified is not None and refused is None:
                done, refused = await verified
            if refused is None and at + len(data) <= last + 1:
                parts.metrics.blob_bytes.labels("in").inc(len(data))
                verified = asyncio.create_task(_verified(parts, blob, data, (at, size), address))
            at += len(data)
            del data  # the next piece may come in half an hour
    finally:  # also of a sender that is gone, or made room, the last piece is kept
        if verified is not None and refused is None:
            done, refused = await verified
    if refused is not None:
        raise refused
    if done is None or at != last + 1:
        raise _misfit(content_range, at - first)
    return done


async def _verified(parts: Parts, blob: str, data: bytes, place: tuple[int, int], address: str) -> Outcome:
    try:
        return await run_in_threadpool(parts.blobs.receive, blob, data, place, address), None
    except EigenTensorError as error:
        # The calls that it came through have the piece, and whoever is refused may rest for long.
        error.__cause__ = error.__context__ = None
        return None, error.with_traceback(None)


def _place(header: str, length: str) -> tuple[int, int, int]:
    """First and last byte, and size of the blob, that a Content-Range header names; `length` is the announced one."""
    match = _CONTENT_RANGE.fullmatch(header.strip())
    first, last, size = map(int, match.groups()) if match else (0, 0, 0)
    announced = int(length) if length.isdecimal() else last - first + 1
    if match is None or not first <= last < size or announced != last - first + 1:
        raise _misfit(header, announced)
    return first, last, size


def _misfit(header: str, length: int) -> HTTPException:
    return HTTPException(HTTPStatus.BAD_REQUEST, f"Content-Range {header!r} does not fit a body of {length} bytes")
