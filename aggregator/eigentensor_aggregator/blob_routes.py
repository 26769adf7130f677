"""Blobs over HTTP: ranges out, verified pieces in."""

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.exceptions import HTTPException

from eigentensor.errors import BlobCorrupt
from eigentensor.schemas.network import Blob, Upload
from eigentensor.store import Pieces, parse_name
from eigentensor.web.documents import BINARY, Responses, header, refused, response
from eigentensor_aggregator import receiving
from eigentensor_aggregator.blobs import Received
from eigentensor_aggregator.bodies import PieceList, takes
from eigentensor_aggregator.parts import Name, Parts

_BYTES = {"requestBody": {"required": True, "content": {"application/octet-stream": BINARY}}}
_HEADERS = {
    "ETag": header("The blob root: under its name a blob never changes", '"' + "3f" * 32 + '"'),
    "Accept-Ranges": header("Ranges may be asked for", "bytes"),
    "Cache-Control": header("It may be kept for ever", "public, immutable, max-age=31536000"),
}
_PLACE = {"Content-Range": header("Which bytes these are", "bytes 0-1023/1048576")}
_READ: Responses = {
    200: {"description": "All bytes", "content": {"application/octet-stream": BINARY}, "headers": _HEADERS},
    206: {"description": "The range", "content": {"application/octet-stream": BINARY}, "headers": _HEADERS | _PLACE},
    **refused(404, 416),
}
_RECEIVED = response(Upload, "How far the upload is", status=HTTPStatus.ACCEPTED) | refused(404, 413, 422, 503, 507)
Range = Annotated[str, Header(alias="range", description="one range of bytes", examples=["bytes=0-1023"])]
ContentRange = Annotated[str, Header(description="which bytes these are", examples=["bytes 0-1048575/2097152"])]
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def router(parts: Parts) -> APIRouter:
    """The routes about blobs."""
    routes = APIRouter(prefix="/v1/blobs", tags=["blobs"])

    @routes.head("/{name}", include_in_schema=False)
    @routes.get("/{name}", response_class=StreamingResponse, responses=_READ)
    def read_blob(request: Request, name: Name, range_: Range = "") -> Response:
        """The bytes of a blob by its blob root, program root, bindings root, …; one range of them if asked for."""
        names, _ = parts.blobs.find(parse_name(name))
        start, stop, partial = _range(range_, names.size)
        headers = {
            "Accept-Ranges": "bytes",
            "Content-Length": str(stop - start),
            "ETag": f'"{names.blob}"',
            "Cache-Control": "public, immutable, max-age=31536000",
        }
        if partial:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{names.size}"
        status = HTTPStatus.PARTIAL_CONTENT if partial else HTTPStatus.OK
        if request.method == "HEAD":
            return Response(None, status, headers, "application/octet-stream")

        content = parts.blobs.read(names.blob, start, stop)

        def counted() -> Iterator[bytes]:
            for data in content:
                parts.metrics.blob_bytes.labels("out").inc(len(data))
                yield data

        return StreamingResponse(counted(), status, headers, "application/octet-stream")

    @routes.get("/{name}/pieces", responses=response(Blob, "Its names and pieces") | refused(404))
    def read_pieces(name: Name) -> JSONResponse:
        """All names of a blob, and the tree roots of its 1 MiB pieces: enough to verify each piece alone."""
        names, pieces = parts.blobs.find(parse_name(name))
        return JSONResponse({"schema": "eigentensor.blob/1", **names.to_json(), **pieces.to_json()})

    @routes.put("/{name}/pieces", status_code=HTTPStatus.ACCEPTED, responses=_RECEIVED, openapi_extra=takes(PieceList))
    def declare_pieces(request: Request, name: Name, body: Annotated[dict[str, Any], Body()]) -> JSONResponse:
        """Begins or resumes the upload of a blob larger than one piece; the answer says from where to go on. Its first
        piece takes a place among the uploads in progress, which others that need one take when no more come."""
        pieces = Pieces.from_json(body, parts.settings.max_blob)
        if pieces.blob.hex() != parse_name(name):
            raise BlobCorrupt(f"these are the pieces of blob {pieces.blob.hex()}")
        return _received(parts.blobs.declare(pieces, receiving.address_of(request)))

    @routes.put("/{name}", status_code=HTTPStatus.ACCEPTED, responses=_RECEIVED, openapi_extra=_BYTES)
    async def write_pieces(request: Request, name: Name, content_range: ContentRange = "") -> JSONResponse:
        """Pieces of a declared upload, one after the other, at their Content-Range; or a whole blob of at most one.

        Each is verified, and kept, while the next one comes; a request has at most 64 of them.
        """
        blob = parse_name(name)
        if not content_range:
            return _received(await receiving.receive_whole(parts, blob, request))
        return _received(await receiving.receive_pieces(parts, blob, request, content_range))

    return routes


def _received(received: Received) -> JSONResponse:
    upload: Upload = {
        "schema": "eigentensor.upload/1",
        "received": received.received,
        "complete": received.complete,
    }
    return JSONResponse(upload, HTTPStatus.ACCEPTED)


def _range(header: str, size: int) -> tuple[int, int, bool]:
    """The bytes start…stop that a Range header asks for, and whether it asks for a part; others are ignored."""
    match = _RANGE.fullmatch(header.strip())
    if match is None or match.groups() == ("", ""):
        return 0, size, False
    first, last = (int(text[:16]) if text else None for text in match.groups())
    if first is None:
        start, stop = max(0, size - (last or 0)), size
    else:
        start, stop = first, size if last is None else min(size, last + 1)
    if start >= stop:
        raise HTTPException(
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
            f"the blob has {size} bytes",
            {"Content-Range": f"bytes */{size}"},
        )
    return start, stop, True
