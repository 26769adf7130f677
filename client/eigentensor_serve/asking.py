"""From a request to a task, and from a task to an answer: what every route that executes something shares."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Self, TypeVar, cast

from anyio import to_thread
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from pydantic_core import from_json
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from eigentensor.errors import BlobNotFound, TaskNotFound
from eigentensor.program import Role
from eigentensor.store import parse_name
from eigentensor.task.objects import Result
from eigentensor.web import bodies
from eigentensor_serve.backend import Ask, Outcome
from eigentensor_serve.bodies import Body, TaskBody, is_listed, outputs_as_json, tensors_in, tensors_of, tensors_out
from eigentensor_serve.ledger import Job
from eigentensor_serve.queries import AppQuery, TaskQuery
from eigentensor_serve.schemas import Accepted, Urls
from eigentensor_serve.service import Service, caller_of

TENSORS = "application/octet-stream"
_TENSOR_TYPES = (TENSORS, "application/vnd.safetensors", "application/safetensors")
Read = TypeVar("Read", bound=Body)
#: Of a request: takes long where its tensors are large, or its program was never read. Raises what is wrong with them.
Reader = Callable[[], Ask]
SMALL = 64 << 10  #: bytes of a body that is read in a millisecond
_WAIT = re.compile(r"wait=([0-9]+)")  # str.isdigit takes what float does not
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass(frozen=True, slots=True)
class Prefer:
    """What a Prefer header (RFC 7240) asks for: no waiting at all, or so many seconds at most."""

    asynchronous: bool = False
    wait: float | None = None

    @classmethod
    def of(cls, request: Request) -> Self:
        """What a request's header says; words that are not known say nothing."""
        words = [word.strip().lower() for word in request.headers.get("prefer", "").split(",")]
        waits = [match[1] for word in words if (match := _WAIT.fullmatch(word))]
        return cls("respond-async" in words, float(waits[0][:6]) if waits else None)


def is_tensors(request: Request) -> bool:
    """Whether the body is a safetensors file. Raises 415 for what is neither that nor JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in _TENSOR_TYPES:
        return True
    if kind != "application/json":
        raise HTTPException(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"a body of type {kind!r} is neither application/json nor {TENSORS}"
        )
    return False


def read_body(model: type[Read], data: bytes) -> Read:
    """Raises RequestValidationError."""
    try:
        # The parser alone takes half the time of pydantic reading JSON by itself, and a third of the memory.
        return model.model_validate(from_json(data))
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False, include_context=False)) from None
    except ValueError as error:
        raise RequestValidationError([{"loc": ("body",), "msg": f"it is no JSON: {error}"}]) from None


def ask_of(service: Service, body: TaskBody, tensors: bytes | None = None) -> Ask:
    """What a body asks for; with `tensors`, a safetensors file, its inputs are those of the file.

    Raises what is wrong with it: BlobNotFound, ProgramError, BindingError, TermsRefused, TensorFileError.
    """
    uuid = parse_name(body.program)
    program = service.backend.program(uuid)
    states = body.states or {}
    return Ask(
        program=program,
        uuid=uuid,
        inputs=tensors_of(program, Role.INPUT, body.inputs) if tensors is None else tensors_in(tensors),
        terms=service.terms(body.terms),
        weights=None if body.weights is None else parse_name(body.weights),
        states=parse_name(states) if isinstance(states, str) else tensors_of(program, Role.STATE, states),
        variables=body.variables,
        repeat=body.repeat,
        stage=body.wait,
        as_lists=tensors is None and is_listed(body.inputs, states if isinstance(states, dict) else {}),
    )


def own_job(service: Service, request: Request, task: str) -> Job:
    """A job of the caller's. Raises TaskNotFound, for those of others as if there was none."""
    try:
        job = service.ledger.job(parse_name(task))
    except BlobNotFound:
        raise TaskNotFound(f"{task!r} is not the uuid of a task") from None
    if caller_of(request) not in ("", job.key.caller):
        raise TaskNotFound(f"this service has asked for no task {job.task}")
    return job


async def read_ask(service: Service, request: Request, model: type[TaskBody]) -> tuple[Reader, bool]:
    """The task that a request asks for: all of it in JSON, or its inputs in the body and the rest in the query. With
    it, whether the reader is brief."""
    members = TaskQuery.of(request).members()
    has_tensors, data = is_tensors(request), await request.body()
    if has_tensors:
        try:
            body = model.model_validate(members)
        except ValidationError as error:
            raise RequestValidationError(error.errors(include_url=False, include_context=False)) from None
        read = partial(ask_of, service, body, data)
    elif len(data) > SMALL:
        return lambda: ask_of(service, read_body(model, data)), False
    else:
        body = read_body(model, data)
        read = partial(ask_of, service, body)
    return read, len(data) <= SMALL and service.backend.is_warm(body.program)


async def executed(
    service: Service, request: Request, read: Reader, *, is_brief: bool = False, waits: bool = True
) -> Response:
    """The answer to a request, whose task is posted now unless its Idempotency-Key names one already: the result if it
    comes in the time that the caller allows, else where it will be (202).

    What is quick, and brief to read, is executed and answered where the request is: to change to another thread, and to
    share the interpreter with it, takes longer.
    """
    caller, key, prefer, backend = caller_of(request), key_of(request), Prefer.of(request), service.backend
    waits, elements = waits and not prefer.asynchronous, AppQuery.of(request).elements

    def answered(ask: Ask, job: Job) -> Response:
        as_lists = ask.as_lists if elements is None else elements == "lists"
        return rendered(service, job, backend.result(job), as_json=wants_json(request), as_lists=as_lists)

    def post(read: Reader) -> tuple[Ask, Job, Response | None]:
        ask, job = _post(service, read, caller, key)
        is_there = waits and backend.is_prompt and backend.reached(job, ask.stage)
        return ask, job, answered(ask, job) if is_there else None

    asked = read() if is_brief else None
    if asked is not None and backend.is_quick(asked):
        ask, job, answer = post(lambda: asked)
    else:
        ask, job, answer = await to_thread.run_sync(post, read, limiter=service.asking)
    if answer is not None:
        return answer
    most = service.settings.patience
    seconds = most if prefer.wait is None else min(prefer.wait, most)
    if not waits or not await finished(service, job, ask.stage, seconds):
        return accepted(service, job)
    return await run_in_threadpool(answered, ask, job)


async def posted(service: Service, read: Reader, caller: str, key: str | None) -> tuple[Ask, Job]:
    """What is asked for and the task of a caller, posted now unless the key names one already.

    Raises what `read` and `Backend.ask` do, StoreFull.
    """
    return await to_thread.run_sync(_post, service, read, caller, key, limiter=service.asking)


def _post(service: Service, read: Reader, caller: str, key: str | None) -> tuple[Ask, Job]:
    ask = read()
    service.room.check()
    return ask, service.backend.ask(ask, caller, key)


def key_of(request: Request) -> str | None:
    """The Idempotency-Key of a request. Raises 400 for what is none."""
    key = request.headers.get("idempotency-key")
    if key is not None and _KEY.fullmatch(key) is None:
        raise HTTPException(HTTPStatus.BAD_REQUEST, "an Idempotency-Key has 1 to 255 visible ASCII characters")
    return key


async def finished(service: Service, job: Job, stage: str, seconds: float) -> bool:
    """Waits for a stage: whether it came true in time. Raises why it never will."""
    backend, end = service.backend, asyncio.get_running_loop().time() + seconds
    while True:
        with service.changes.watched(job.task) as changed:
            if backend.is_prompt:
                is_reached = backend.reached(job, stage)
            else:
                is_reached = await run_in_threadpool(backend.reached, job, stage)
            if is_reached:
                return True
            try:
                async with asyncio.timeout_at(end):
                    await changed.wait()
            except TimeoutError:
                return False


async def outcome(service: Service, job: Job) -> Outcome:
    """The verified result of a task. Raises as `Backend.result`."""
    backend = service.backend
    return backend.result(job) if backend.is_prompt else await run_in_threadpool(backend.result, job)


def accepted(service: Service, job: Job) -> Response:
    """202: the task, and where to ask for more."""
    task, url = service.backend.show(job), f"/v1/tasks/{job.task}"
    urls = {word: f"{url}/{word}" for word in ("events", "result", "explain", "cancel", "receipt")}
    content: Accepted = {
        "schema": "eigentensor.accepted/1",
        "task": job.task,
        "stage": task["stage"],
        "urls": cast(Urls, {"task": url, **urls}),
    }
    return JSONResponse(content, HTTPStatus.ACCEPTED, {"Location": url, **service.headers(task)})


def wants_json(request: Request) -> bool:
    """What Accept says; without a word the kind that the body had."""
    accept = request.headers.get("accept", "")
    if "json" in accept:
        return True
    if any(kind in accept for kind in _TENSOR_TYPES):
        return False
    return "json" in request.headers.get("content-type", "")


def rendered(
    service: Service, job: Job, outcome: Outcome, *, as_json: bool, as_lists: bool, whole: bool = False
) -> Response:
    """The outputs as a safetensors file, or as JSON, in lists of numbers or base64: those of the rows that were asked
    for, or with `whole` all, of which the outputs root is."""
    task, cut = service.backend.show(job), None if whole else job.cut
    headers = service.headers(task) | {"EigenTensor-States": outcome.states_root.hex()}
    if cut is not None:
        headers["EigenTensor-Rows"] = str(cut.rows)
    if not as_json and cut is None:
        return bodies.PiecedFile(outcome.file, headers=headers, media_type=TENSORS, content_disposition_type="inline")
    tensors = outcome.outputs if cut is None else cut.of(outcome.outputs)
    if not as_json:
        return Response(tensors_out(outcome.program, tensors), headers=headers, media_type=TENSORS)
    outputs = outputs_as_json(outcome.program, tensors, as_lists=as_lists)
    content: Result = {
        "schema": "eigentensor.result/1",
        "task": task,
        "outputs_root": task["outputs_root"],
        "states_root": outcome.states_root.hex(),
        "outputs": outputs,
    }
    if "earlier" in task:
        content["earlier"] = task["earlier"]
    if outputs.keys() - {"fingerprint"} == {"output"}:
        content["tensor"] = outputs["output"]
    return JSONResponse(content, headers=headers)
