"""How much of requests is read, and kept in memory."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eigentensor.errors import ServiceBusy
from eigentensor.web import problems

#: What a body in JSON may have: values, and lists and objects among them, each of which takes fifty times its bytes.
VALUES, LISTS = 4 << 20, 1 << 18
_BINARY = ("application/octet-stream", "application/vnd.safetensors", "application/safetensors")


def no_stream(_: Scope) -> bool:
    """Every body is read whole."""
    return False


def address(scope: Scope) -> str:
    """By what bodies are counted where nobody says who calls."""
    return str(scope["client"][0]) if scope.get("client") else ""


@dataclass(eq=False, slots=True)
class _Body:
    """What is held of a request's body, and by whom; whether it is there whole, or was given up for another."""

    caller: str
    task: asyncio.Task[Any]
    held: int = 0
    is_whole: bool = False
    is_given_up: bool = False


class BodyLimit:
    """Refuses request bodies over a limit before they are read into memory. Where all that are there would be too much,
    one that is not there whole makes room: of the caller who has most, that which began first."""

    def __init__(
        self,
        app: ASGIApp,
        limit: Callable[[Scope], int],
        total: int,
        streams: Callable[[Scope], bool] = no_stream,
        caller: Callable[[Scope], str] = address,
    ) -> None:
        """`limit` is of one body; all that are open together have at most `total` bytes, those of one `caller` half.
        A body that `streams` is not kept, and need not be JSON."""
        self._app = app
        self._limit = limit
        self._total = total
        self._streams = streams
        self._caller = caller
        self._held: dict[str, int] = {}
        self._bodies: dict[_Body, None] = {}  # in the order in which they began

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit, is_kept = self._limit(scope), not self._streams(scope)
        task = asyncio.current_task()
        assert task is not None
        body = _Body(self._caller(scope), task)
        headers = dict(reversed(scope["headers"]))  # of a name that is there twice the first one counts
        kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        seen = values = lists = 0

        async def counted() -> Message:
            nonlocal seen, values, lists
            message = await receive()
            data = message.get("body", b"")
            seen += len(data)
            if seen > limit:
                raise _too_large(limit)
            if is_kept:
                self._hold(body, len(data))
                body.is_whole = not message.get("more_body", False)
                if kind not in _BINARY:
                    lists += data.count(b"[") + data.count(b"{")
                    values += data.count(b",")
                    if values > VALUES or lists > LISTS:
                        raise _too_many()
            return message

        declared = headers.get(b"content-length", b"0")
        try:
            if declared.isdigit() and int(declared) > limit:
                raise _too_large(limit)
            await self._app(scope, counted, send)
        except _Refused as error:
            await _answer(error, scope, receive, send)
        except asyncio.CancelledError:
            if not body.is_given_up:
                raise
            task.uncancel()
            await _answer(_too_much("the room for this body was needed for one that came faster"), scope, receive, send)
        finally:
            self._release(body)

    def _hold(self, body: _Body, size: int) -> None:
        self._bodies[body] = None
        if self._held.get(body.caller, 0) + size > self._total // 2:
            raise _too_much("too many bytes of requests of this caller are being read")
        while sum(self._held.values()) + size > self._total:
            others = [b for b in self._bodies if b is not body and b.held and not b.is_whole]
            if not others:
                raise _too_much("too many bytes of requests are being read")
            slow = max(others, key=lambda b: self._held[b.caller])  # of those that are alike the first one
            self._release(slow)
            slow.is_given_up = True
            slow.task.cancel()
        body.held += size
        self._held[body.caller] = self._held.get(body.caller, 0) + size

    def _release(self, body: _Body) -> None:
        self._bodies.pop(body, None)
        left = self._held.get(body.caller, 0) - body.held
        body.held = 0
        if left > 0:
            self._held[body.caller] = left
        else:
            self._held.pop(body.caller, None)


class _Refused(HTTPException):
    """So that nobody on the way takes it for another fault of the body."""

    def __init__(self, status: HTTPStatus, code: str, detail: str, fix: str, headers: dict[str, str]) -> None:
        super().__init__(status, detail, {"Connection": "close", **headers})
        self.code, self.fix = code, fix


async def _answer(error: _Refused, scope: Scope, receive: Receive, send: Send) -> None:
    problem = problems.problem(
        error.status_code, error.code, error.detail, error.fix, headers=dict(error.headers or {})
    )
    await problem(scope, receive, send)


def _too_much(what: str) -> _Refused:
    return _Refused(
        HTTPStatus.SERVICE_UNAVAILABLE,
        ServiceBusy.__name__,
        what,
        "Try again in a moment, with fewer at a time.",
        {"Retry-After": "1"},
    )


def _too_large(limit: int) -> _Refused:
    what = f"the body of this request may have at most {limit} bytes"
    return _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problems.TOO_LARGE, what, "", {})


def _too_many() -> _Refused:
    return _Refused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        problems.TOO_LARGE,
        f"JSON of a request may have at most {VALUES:,} values, {LISTS:,} of them lists or objects",
        "Send tensors as base64, or as a safetensors file.",
        {},
    )
