"""Errors on the wire: RFC 9457 problems with the words of the error tree."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eigentensor.errors import (
    BlobCorrupt,
    BlobNotFound,
    BlobTooLarge,
    ChainError,
    ConfigError,
    EigenTensorError,
    NotMined,
    Reverted,
    StoreFull,
    TaskError,
    Unreachable,
)

_STATUS: dict[type[EigenTensorError], HTTPStatus] = {
    BlobNotFound: HTTPStatus.NOT_FOUND,
    BlobCorrupt: HTTPStatus.UNPROCESSABLE_ENTITY,
    BlobTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    StoreFull: HTTPStatus.INSUFFICIENT_STORAGE,
    Reverted: HTTPStatus.CONFLICT,
    Unreachable: HTTPStatus.SERVICE_UNAVAILABLE,
    NotMined: HTTPStatus.GATEWAY_TIMEOUT,
    ChainError: HTTPStatus.BAD_GATEWAY,
    ConfigError: HTTPStatus.NOT_IMPLEMENTED,
    TaskError: HTTPStatus.BAD_REQUEST,
}
_log = structlog.get_logger(__name__)


class TaskNotFound(TaskError):
    exit_code = 4


class ChallengeNotFound(TaskError):
    exit_code = 4


class NotAllowed(TaskError):
    """The request is signed by somebody who may not say this."""

    exit_code = 11


_STATUS[TaskNotFound] = HTTPStatus.NOT_FOUND
_STATUS[ChallengeNotFound] = HTTPStatus.NOT_FOUND
_STATUS[NotAllowed] = HTTPStatus.FORBIDDEN


def problem(status: int, code: str, detail: str, fix: str = "", headers: dict[str, str] | None = None) -> JSONResponse:
    content: dict[str, Any] = {
        "type": f"urn:eigentensor:error:{code}",
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "code": code,
        "detail": detail,
    }
    if fix:
        content["fix"] = fix
    return JSONResponse(content, status, headers, media_type="application/problem+json")


def install(app: FastAPI) -> None:
    """Makes every refusal of an app a problem."""

    @app.exception_handler(EigenTensorError)
    async def expected(_: Request, error: EigenTensorError) -> JSONResponse:
        status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), HTTPStatus.BAD_REQUEST)
        return problem(status, type(error).__name__, error.what, error.fix)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        said = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])
        return problem(HTTPStatus.BAD_REQUEST, "BadRequest", said)

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> JSONResponse:
        headers = dict(error.headers) if error.headers else None
        return problem(error.status_code, HTTPStatus(error.status_code).name, str(error.detail), headers=headers)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        _log.error("request failed", method=request.method, path=request.url.path, exc_info=error)
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "Bug", "The gateway has a fault; its log says more.")


class BodyLimit:
    """Refuses request bodies over a limit before they are read into memory."""

    def __init__(self, app: ASGIApp, limit: Callable[[Scope], int]) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit, seen = self._limit(scope), 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                raise _TooLarge
            return message

        declared = dict(scope["headers"]).get(b"content-length", b"0")
        try:
            if declared.isdigit() and int(declared) > limit:
                raise _TooLarge
            await self._app(scope, counted, send)
        except _TooLarge:
            detail = f"the body of this request may have at most {limit} bytes"
            response: Callable[[Scope, Receive, Send], Awaitable[None]] = problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "BlobTooLarge", detail, headers={"Connection": "close"}
            )
            await response(scope, receive, send)


class _TooLarge(Exception):
    pass
