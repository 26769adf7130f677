"""Errors as OpenAI's clients read them: `{"error": {"message", "type", "param", "code"}}`."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eigentensor.errors import BindingError

PATHS = ("/v1/chat/", "/v1/completions", "/v1/embeddings", "/v1/models")
_CODES = {"AppNotFound": "model_not_found", "Unauthorized": "invalid_api_key", "BudgetSpent": "insufficient_quota"}
_TYPES = {401: "authentication_error", 402: "insufficient_quota", 403: "permission_error", 429: "rate_limit_error"}


class Unsupported(BindingError):
    """A parameter that this service does not honour; it is refused rather than ignored."""

    def __init__(self, parameter: str, why: str = "is not supported here", *, fix: str = "Leave it out.") -> None:
        super().__init__(f"{parameter} {why}", fix=fix)
        self.parameter = parameter


def error_object(status: int, message: str, code: str | None, parameter: str | None = None) -> dict[str, Any]:
    """The body of an answer with this HTTP status."""
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": parameter, "code": code}}


def of_problem(problem: Mapping[str, Any]) -> dict[str, Any]:
    """The same of an RFC 9457 problem of this service; its other fields stand beside `error`."""
    message = " ".join(str(problem[name]) for name in ("detail", "fix") if problem.get(name))
    code = problem.get("code")
    return {**problem, **error_object(int(problem["status"]), message, _CODES.get(str(code), code))}


class OpenAIErrors:
    """Makes the problems that OpenAI's routes are answered with, by whatever refused them, errors of its clients."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PATHS):
            await self._app(scope, receive, send)
            return
        held: list[Message] = []

        async def send_wrapper(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_problem(message):
                held.append(message)
            elif not held:
                await send(message)
            else:
                held.append(message)
                if not message.get("more_body", False):
                    await _send_error(held, send)

        await self._app(scope, receive, send_wrapper)


def _is_problem(message: Message) -> bool:
    return Headers(raw=message["headers"]).get("content-type", "").startswith("application/problem+json")


async def _send_error(held: list[Message], send: Send) -> None:
    start, *parts = held
    body = json.dumps(of_problem(json.loads(b"".join(part.get("body", b"") for part in parts)))).encode()
    headers = MutableHeaders(raw=start["headers"])
    headers["content-type"] = "application/json"
    headers["content-length"] = str(len(body))
    if start["status"] != HTTPStatus.TOO_MANY_REQUESTS:
        headers["x-should-retry"] = "false"  # by itself a client would pay for the same once more
    await send(start)
    await send({"type": "http.response.body", "body": body})
