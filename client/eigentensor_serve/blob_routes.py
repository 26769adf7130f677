"""Programs, weights and states into this machine's store, by their names."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from eigentensor.errors import BlobCorrupt
from eigentensor.merkle import Tree
from eigentensor.schemas.network import Blob
from eigentensor.scratch import scratch
from eigentensor.store import Pieces, describe, parse_name
from eigentensor.store.local import writing
from eigentensor.web import bodies, files
from eigentensor.web.documents import BINARY, Responses, refused, told
from eigentensor_serve.documents import RANGE
from eigentensor_serve.service import Service, caller_of

Name = Annotated[str, Path(max_length=66, description="a blob root, program root or bindings root: 64 hex digits")]

_BYTES = {"requestBody": {"required": True, "content": {"application/octet-stream": BINARY}}}
_READ: Responses = {
    200: {"description": "All bytes", "content": {"application/octet-stream": BINARY}},
    206: {"description": "The range", "content": {"application/octet-stream": BINARY}},
    **refused(404),
}
_WRITTEN = told(Blob, "It is kept: all its names", status=HTTPStatus.CREATED) | refused(404, 422, 507)


def router(service: Service) -> APIRouter:
    routes = APIRouter(prefix="/v1/blobs", tags=["blobs"])
    store = service.store

    @routes.head("/{name}", include_in_schema=False)
    @routes.get("/{name}", response_class=files.Pieces, responses=_READ, openapi_extra=RANGE)
    def read_blob(name: Name) -> files.Pieces:
        """The bytes of a blob that this service has; one range of them if asked for."""
        return files.Pieces(store.path(parse_name(name)), media_type="application/octet-stream")

    @routes.put("/{name}", status_code=HTTPStatus.CREATED, responses=_WRITTEN, openapi_extra=_BYTES)
    async def write_blob(request: Request, name: Name) -> JSONResponse:
        """Gives this service a program, weights or states; refused unless they are what the name says."""
        wanted = parse_name(name)
        await run_in_threadpool(service.room.check, now=True)
        store.root.mkdir(parents=True, exist_ok=True)
        with scratch(store.root) as folder, writing(store.root):
            path, tree = folder / "blob", Tree()
            with path.open("wb") as file:

                def keep(piece: bytes) -> None:
                    tree.update(piece)
                    file.write(piece)

                await bodies.each(request.stream(), keep)
            names, _ = await run_in_threadpool(describe, path, Pieces(tree.size, tuple(tree.pieces())))
            if wanted not in names:
                known = names.blob if names.computed is None else f"{names.blob}, or {names.computed} by what it says"
                raise BlobCorrupt(f"these bytes are {known}, not {wanted}", fix="Send them under one of their names.")
            await run_in_threadpool(service.given.adopt, path, names, caller_of(request))
        return JSONResponse({"schema": "eigentensor.blob/1", **names.to_json()}, HTTPStatus.CREATED)

    return routes
