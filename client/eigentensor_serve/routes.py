"""Quotes, tasks and blobs over HTTP."""

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from eigentensor.errors import BlobCorrupt
from eigentensor.merkle import Tree
from eigentensor.schemas.network import Blob
from eigentensor.schemas.receipts import Receipt
from eigentensor.scratch import scratch
from eigentensor.store import Pieces, describe, parse_name
from eigentensor.store.local import writing
from eigentensor.task.objects import Explanation, Task, Tasks
from eigentensor.web import bodies
from eigentensor.web.documents import BINARY, Responses, refused, response
from eigentensor_serve import asking, documents
from eigentensor_serve.bodies import ExecuteBody, TaskBody
from eigentensor_serve.documents import RANGE
from eigentensor_serve.ledger import Event, Job
from eigentensor_serve.queries import Elements, TaskQuery
from eigentensor_serve.service import Service, caller_of

_MAY_WAIT = refused(400, 404, 502, 503, 504)
Uuid = Annotated[str, Path(max_length=66, description="64 hex digits, with or without 0x")]


def tasks(service: Service) -> APIRouter:
    """The routes of quotes and tasks, and /execute_graph_on_gpu."""
    routes = APIRouter(tags=["tasks"])
    backend, ledger = service.backend, service.ledger

    async def job_of(task: Uuid, request: Request) -> Job:
        return asking.own_job(service, request, task)

    Own = Annotated[Job, Depends(job_of)]  # noqa: N806

    @routes.post("/execute_graph_on_gpu", **documents.executes(ExecuteBody, TaskQuery))
    async def execute_graph_on_gpu(request: Request) -> Response:
        """Executes a program on weights and inputs and gives the result: JSON for JSON, safetensors for safetensors."""
        read, is_brief = await asking.read_ask(service, request, ExecuteBody)
        return await asking.executed(service, request, read, is_brief=is_brief)

    @routes.post("/v1/quotes", **documents.quotes(TaskBody, TaskQuery))
    async def quote_task(request: Request) -> Response:
        """What a task would cost, and what cheating would cost its executor. Nothing is sent."""
        read, _ = await asking.read_ask(service, request, TaskBody)
        return JSONResponse(await run_in_threadpool(lambda: backend.quote(read())))

    @routes.post("/v1/tasks", status_code=HTTPStatus.ACCEPTED, **documents.executes(TaskBody, TaskQuery))
    async def post_task(request: Request) -> Response:
        """Asks for a task: answers at once (202), or with the result if `Prefer: wait=SECONDS` allows the time."""
        read, is_brief = await asking.read_ask(service, request, TaskBody)
        waits = asking.Prefer.of(request).wait is not None
        return await asking.executed(service, request, read, is_brief=is_brief, waits=waits)

    @routes.get("/v1/tasks", responses=response(Tasks, "A page of tasks"))
    async def list_tasks(
        request: Request,
        cursor: Annotated[int | None, Query(ge=1, lt=1 << 62, description="`next` of the page before")] = None,
        limit: Annotated[int, Query(ge=1, le=200, description="tasks of a page")] = 50,
    ) -> JSONResponse:
        """The caller's tasks, newest first. `next` is the cursor of the next page, null at the end."""
        listed = ledger.jobs(caller_of(request), cursor, limit)
        page: Tasks = {
            "schema": "eigentensor.tasks/1",
            "tasks": [backend.show(job) for _, job in listed],
            "next": listed[-1][0] if len(listed) == limit else None,
        }
        return JSONResponse(page)

    @routes.get("/v1/tasks/{task}", responses=documents.TASK)
    async def read_task(job: Own) -> JSONResponse:
        """A task as it stands."""
        task = backend.show(job)
        return JSONResponse(task, headers=service.headers(task))

    @routes.post("/v1/tasks/{task}/cancel", responses=response(Task, "The task then") | _MAY_WAIT)
    def cancel_task(job: Own) -> JSONResponse:
        """Takes back a task that nobody has accepted: its escrow returns."""
        return JSONResponse(backend.cancel(job))

    @routes.get("/v1/tasks/{task}/explain", responses=response(Explanation, "Why") | _MAY_WAIT)
    def explain_task(job: Own) -> JSONResponse:
        """Why a task is where it is: what it waits for, and what each operator said about it."""
        return JSONResponse(backend.explain(job))

    @routes.get("/v1/tasks/{task}/result", responses=documents.RESULT)
    def read_result(
        request: Request,
        job: Own,
        elements: Annotated[Elements, Query(description="how JSON has elements of tensors")] = "base64",
        whole: Annotated[bool, Query(description="with rows that were not asked for: what the root is of")] = False,
    ) -> Response:
        """The verified outputs: a safetensors file, or JSON if Accept asks for it. 504 while there are none yet."""
        outcome, as_json = backend.result(job), asking.wants_json(request)
        return asking.rendered(service, job, outcome, as_json=as_json, as_lists=elements == "lists", whole=whole)

    @routes.get(
        "/v1/tasks/{task}/receipt",
        responses=response(Receipt, "The file; of a call `eigentensor.call-receipt/1`", headers=documents.HEADERS)
        | _MAY_WAIT,
    )
    def read_receipt(job: Own) -> Response:
        """The receipt: who signed what, in one file that `eigentensor receipt check` verifies."""
        headers = service.headers(backend.show(job))
        return Response(backend.receipt(job), headers=headers, media_type="application/json")

    @routes.get("/v1/tasks/{task}/events", response_class=EventSourceResponse, responses=documents.EVENTS)
    async def read_events(
        job: Own, last_event_id: Annotated[str, Header(max_length=32, description="after which to go on")] = ""
    ) -> AsyncIterator[ServerSentEvent]:
        """What happens to a task, from its beginning or from Last-Event-ID on, until it ends: server-sent events.

        Each is named by its stage, and its data is the task as it stood then.
        """
        after = int(last_event_id[:18]) if last_event_id.isascii() and last_event_id.isdigit() else 0
        while True:
            with service.changes.watched(job.task) as changed:
                ended = ledger.job(job.task).is_over
                for event in ledger.events(job.task, after):
                    after = event.number
                    yield _sent(event)
                if ended:
                    return
                await changed.wait()

    return routes


def _sent(event: Event) -> ServerSentEvent:
    return ServerSentEvent(data=event.response, event=event.response["stage"], id=str(event.number))


Name = Annotated[str, Path(max_length=66, description="a blob root, program root or bindings root: 64 hex digits")]

_BYTES = {"requestBody": {"required": True, "content": {"application/octet-stream": BINARY}}}
_READ: Responses = {
    200: {"description": "All bytes", "content": {"application/octet-stream": BINARY}},
    206: {"description": "The range", "content": {"application/octet-stream": BINARY}},
    **refused(404),
}
_WRITTEN = response(Blob, "It is kept: all its names", status=HTTPStatus.CREATED) | refused(404, 422, 507)


def blobs(service: Service) -> APIRouter:
    """The routes under /v1/blobs."""
    routes = APIRouter(prefix="/v1/blobs", tags=["blobs"])
    store = service.store

    @routes.head("/{name}", include_in_schema=False)
    @routes.get("/{name}", response_class=bodies.PiecedFile, responses=_READ, openapi_extra=RANGE)
    def read_blob(name: Name) -> bodies.PiecedFile:
        """The bytes of a blob that this service has; one range of them if asked for."""
        return bodies.PiecedFile(store.path(parse_name(name)), media_type="application/octet-stream")

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
            await run_in_threadpool(service.uploads.adopt, path, names, caller_of(request))
        return JSONResponse({"schema": "eigentensor.blob/1", **names.to_json()}, HTTPStatus.CREATED)

    return routes
