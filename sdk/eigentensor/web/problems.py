"""Errors on the wire: RFC 9457 problems with the words of the error tree."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from eigentensor import errors
from eigentensor.errors import EigenTensorError

MEDIA_TYPE = "application/problem+json"
#: The status of an error: of its nearest base that stands here.
STATUS: dict[type[EigenTensorError], HTTPStatus] = {
    EigenTensorError: HTTPStatus.BAD_REQUEST,
    errors.ProgramError: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.BindingError: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.ExecutionError: HTTPStatus.INTERNAL_SERVER_ERROR,
    errors.LimitError: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.NotDisputable: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.StoreError: HTTPStatus.BAD_GATEWAY,
    errors.BlobNotFound: HTTPStatus.NOT_FOUND,
    errors.BlobCorrupt: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.BlobTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.StoreFull: HTTPStatus.INSUFFICIENT_STORAGE,
    errors.TensorFileError: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.ChainError: HTTPStatus.BAD_GATEWAY,
    errors.Reverted: HTTPStatus.CONFLICT,
    errors.Unreachable: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.NotMined: HTTPStatus.GATEWAY_TIMEOUT,
    errors.SignerAway: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.TaskError: HTTPStatus.BAD_REQUEST,
    errors.TermsRefused: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.TaskNotFound: HTTPStatus.NOT_FOUND,
    errors.NobodyAccepted: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.ExecutorFailed: HTTPStatus.BAD_GATEWAY,
    errors.ExecutorConvicted: HTTPStatus.BAD_GATEWAY,
    errors.NotChecked: HTTPStatus.CONFLICT,
    errors.TaskCancelled: HTTPStatus.CONFLICT,
    errors.KeyReused: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.NotYet: HTTPStatus.GATEWAY_TIMEOUT,
    errors.WrongResult: HTTPStatus.BAD_GATEWAY,
    errors.ChannelError: HTTPStatus.CONFLICT,
    errors.CallRefused: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.ChannelBusy: HTTPStatus.TOO_MANY_REQUESTS,
    errors.ChannelSpent: HTTPStatus.PAYMENT_REQUIRED,
    errors.NoResponse: HTTPStatus.BAD_GATEWAY,
    errors.ChannelClosed: HTTPStatus.GONE,
    errors.ConfigError: HTTPStatus.NOT_IMPLEMENTED,
    errors.InsufficientFunds: HTTPStatus.PAYMENT_REQUIRED,
    errors.ServiceBusy: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.AppNotFound: HTTPStatus.NOT_FOUND,
}
TOO_LARGE = errors.BlobTooLarge.__name__  #: the code of a body over the limit
#: Patterns of one of some names, and of so many hex digits.
_NAMES, _DIGITS = re.compile(r"\^\(([a-z|]+)\)\$"), re.compile(r"\^(0x|\(0x\)\?)\[0-9a-f(?:A-F)?\]\{(\d+)\}\$")
_log = structlog.get_logger(__name__)


def status_of(error: EigenTensorError) -> HTTPStatus:
    """The HTTP status that says best what an error means."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def members(status: int, code: str, detail: str, fix: str = "") -> dict[str, Any]:
    """The members of a problem: those of RFC 9457, `code` (the error's name), and `fix` where there is one."""
    content: dict[str, Any] = {
        "type": f"urn:eigentensor:error:{code}",
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "code": code,
        "detail": detail,
    }
    return content | {"fix": fix} if fix else content


def of_error(error: EigenTensorError) -> dict[str, Any]:
    """The problem that an error of the tree is."""
    return members(status_of(error), type(error).__name__, error.what, error.fix)


def problem(status: int, code: str, detail: str, fix: str = "", headers: dict[str, str] | None = None) -> JSONResponse:
    """A response that is a problem, with these headers beside its own."""
    return JSONResponse(members(status, code, detail, fix), status, headers, media_type=MEDIA_TYPE)


def fault(method: str, path: str, error: Exception) -> JSONResponse:
    """The response to a request in which this service failed; its log has the error."""
    _log.error("request failed", method=method, path=path, exc_info=error)
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "Bug", "This service has a fault; its log says more.")


def _said(error: Mapping[str, Any]) -> str:
    """What a value was expected to be: of patterns that people meet in words."""
    pattern = str(error.get("ctx", {}).get("pattern", "")).removesuffix("|^$")  # or nothing
    if not pattern:
        return str(error["msg"])
    if names := _NAMES.fullmatch(pattern):
        return f"has to be one of {names[1].replace('|', ', ')}"
    if digits := _DIGITS.fullmatch(pattern):
        return f"has to be {'0x and ' if digits[1] == '0x' else ''}{digits[2]} hex digits"
    return f"has to be as the pattern {pattern} says"


class Heads:
    """Refuses what no path and no query of these services has, and what stands behind them cannot take."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            query: bytes = scope["query_string"]
            if "\0" in scope["path"] or b"%00" in query or not query.isascii():
                refusal = problem(HTTPStatus.BAD_REQUEST, "BadRequest", "the URL has a zero byte, or is no ASCII")
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def install(app: FastAPI) -> None:
    """Makes every refusal of an app a problem."""
    app.add_middleware(Heads)

    @app.exception_handler(EigenTensorError)
    async def expected(_: Request, error: EigenTensorError) -> JSONResponse:
        return problem(status_of(error), type(error).__name__, error.what, error.fix)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        detail = "; ".join(f"{'.'.join(map(str, e['loc']))}: {_said(e)}" for e in error.errors()[:5])
        return problem(HTTPStatus.BAD_REQUEST, "BadRequest", detail)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        headers = dict(error.headers) if error.headers else None
        code, detail = HTTPStatus(error.status_code).name, str(error.detail)
        if error.status_code == 413:
            code = TOO_LARGE
        elif (error.status_code, detail) == (404, HTTPStatus.NOT_FOUND.phrase):
            detail = f"there is nothing at {request.url.path}"
        return problem(error.status_code, code, detail, headers=headers)

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, __: ClientDisconnect) -> JSONResponse:
        return problem(HTTPStatus.BAD_REQUEST, "BadRequest", "the body broke off")  # which nobody hears

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        return fault(request.method, request.scope["path"], error)
