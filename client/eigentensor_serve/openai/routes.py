"""`/v1/chat/completions`, `/v1/completions`, `/v1/embeddings` and `/v1/models`, for OpenAI's clients as they are."""

import hashlib
import secrets
from contextlib import aclosing
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, FastAPI, Path, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool

from eigentensor.errors import ExecutionError, NotYet
from eigentensor.web.documents import Responses, response
from eigentensor_serve import asking
from eigentensor_serve.apps.deployed import Deployed
from eigentensor_serve.apps.models import OUTPUT, Chat, Embeddings
from eigentensor_serve.apps.registry import App
from eigentensor_serve.asking import key_of
from eigentensor_serve.documents import HEADERS, KEY
from eigentensor_serve.openai import embeddings as openai_embeddings
from eigentensor_serve.openai import schemas
from eigentensor_serve.openai.chat import ChatRequest, PlainRequest, TextRequest
from eigentensor_serve.openai.completion import Completion, proofs
from eigentensor_serve.openai.embeddings import EmbeddingsRequest
from eigentensor_serve.openai.errors import Unsupported, error_object
from eigentensor_serve.openai.texts import Writers
from eigentensor_serve.service import caller_of

_KEPT = 1024  # requests
_COUNT = "x-stainless-retry-count"  # 0, 1, 2: how often its client has sent a request before


class Retries:
    """Keys for requests of OpenAI's clients: a new one for each, the same for what is sent again after a timeout or a
    lost connection. Only in memory, and of the last requests."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, str, bytes], str] = {}

    async def key(self, request: Request) -> str | None:
        """The request's own Idempotency-Key, or else one that it has in common with those it repeats; None for other
        clients. Raises 400 for a key that is none."""
        own, count = key_of(request), request.headers.get(_COUNT)
        if own is not None or count is None:
            return own
        name = (caller_of(request), request.url.path, hashlib.sha256(await request.body()).digest())
        before = self._keys.pop(name, None)
        key = before if before is not None and count != "0" else f"client-{secrets.token_hex(16)}"
        self._keys[name] = key
        if len(self._keys) > _KEPT:
            del self._keys[next(iter(self._keys))]  # the oldest
        return key


_REFUSED: Responses = {"default": {"model": schemas.OpenAIError, "description": "Refused, in OpenAI's form"}}
_STREAM = {"text/event-stream": {"schema": {"type": "string", "description": "OpenAI's chunks, with `stream`"}}}
_COMPLETION = response(schemas.ChatCompletion, "The answer", content=_STREAM, headers=HEADERS)
_TEXT = response(schemas.TextCompletion, "The answer", content=_STREAM, headers=HEADERS)
_VECTORS = response(schemas.EmbeddingList, "A vector for each text", headers=HEADERS)
_KEYED: dict[str, Any] = {"parameters": [KEY]}


def include(app: FastAPI, deployed: Deployed) -> None:
    """Adds the routes to a service."""
    app.include_router(_router(deployed))

    @app.exception_handler(Unsupported)
    async def unsupported(_: Request, error: Unsupported) -> JSONResponse:
        message = " ".join(filter(None, (error.what, error.fix)))
        body = error_object(HTTPStatus.BAD_REQUEST, message, "unsupported_value", error.parameter)
        return JSONResponse(body, HTTPStatus.BAD_REQUEST)


def _router(deployed: Deployed) -> APIRouter:
    routes = APIRouter(prefix="/v1", tags=["openai"], responses=_REFUSED)
    writers, retries = Writers(deployed), Retries()

    @routes.get("/models", responses=response(schemas.ModelList, "The models"))
    def list_models() -> JSONResponse:
        """Every app that is a model."""
        models = [_model(app) for app in deployed.apps.list() if app.model]
        return JSONResponse({"object": "list", "data": models})

    @routes.get("/models/{model}", responses=response(schemas.Model, "The model"))
    def read_model(model: Annotated[str, Path(max_length=80, description="an app's name")]) -> JSONResponse:
        """A model: NAME, or NAME@VERSION."""
        return JSONResponse(_model(deployed.model(model, (Chat, Embeddings))))

    @routes.post("/chat/completions", responses=_COMPLETION, openapi_extra=_KEYED)
    async def create_chat_completion(body: ChatRequest, request: Request) -> Response:
        """A chat app's answer. With a seed it is the same whenever it is asked for, on every device."""
        return await written(body, request)

    @routes.post("/completions", responses=_TEXT, openapi_extra=_KEYED)
    async def create_completion(body: PlainRequest, request: Request) -> Response:
        """The same of a text as it is, without turns."""
        return await written(body, request)

    async def written(body: TextRequest, request: Request) -> Response:
        app = await run_in_threadpool(deployed.model, body.model, (Chat,))
        completion = await run_in_threadpool(Completion, deployed, app, body, await retries.key(request))
        pieces = completion.pieces(writers, caller_of(request))
        first = await anext(pieces)  # what is wrong is known before an answer begins
        if body.stream and not await request.is_disconnected():
            events = completion.events(first, pieces)
            return StreamingResponse(events, headers=completion.headers(), media_type="text/event-stream")
        async with aclosing(pieces):
            while completion.answer.finish is None:
                if await request.is_disconnected():  # nobody reads it: nothing more is paid for
                    return Response(status_code=HTTPStatus.REQUEST_TIMEOUT)
                await anext(pieces)
        return JSONResponse(completion.whole(), headers=completion.headers())

    @routes.post("/embeddings", responses=_VECTORS, openapi_extra=_KEYED)
    async def create_embeddings(body: EmbeddingsRequest, request: Request) -> Response:
        """A vector for each text, with as few tasks as the encoder's rows allow."""
        app = await run_in_threadpool(deployed.model, body.model, (Embeddings,))
        return await _embedded(deployed, app, body, request, await retries.key(request))

    return routes


async def _embedded(
    deployed: Deployed, app: App, body: EmbeddingsRequest, request: Request, key: str | None
) -> Response:
    assert isinstance(app.model, Embeddings)
    service, program, pairs = deployed.service, deployed.program(app), deployed.tokenizer(app)
    rows = await run_in_threadpool(openai_embeddings.read, body, pairs, Embeddings.shape(program)[1])
    jobs, vectors = [], []
    for number, inputs in enumerate(openai_embeddings.batches(rows, program)):
        ask = partial(deployed.ask, app, program, inputs)
        _, job = await asking.posted(service, ask, caller_of(request), key and f"{key}.{number}")
        jobs.append(job)
    most = Embeddings.shape(program)[0]
    for number, job in enumerate(jobs):
        if not await asking.finished(service, job, app.stage, service.settings.patience):
            raise NotYet(f"task {job.task} is not {app.stage} yet", fix=f"GET /v1/tasks/{job.task} says how it stands.")
        outcome = await asking.outcome(service, job)
        part = rows[number * most : (number + 1) * most]
        vectors.append(openai_embeddings.pooled(outcome.outputs[OUTPUT], part, app.model))
    every = np.concatenate(vectors)
    if not np.isfinite(every).all():
        raise ExecutionError("the encoder's output has elements that are no numbers", fix="Choose other texts.")
    response = openai_embeddings.answer(body.model, every, sum(map(len, rows)), body.encoding_format)
    content = {**response, "eigentensor": {"tasks": proofs(deployed, jobs)}}
    return JSONResponse(content, headers=service.headers(service.backend.show(jobs[-1])))


def _model(app: App) -> schemas.Model:
    created = int(datetime.fromisoformat(app.created).timestamp())
    return {"id": app.name, "object": "model", "created": created, "owned_by": "eigentensor"}
