"""How much of requests is read, and kept in memory."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eigentensor.errors import ServiceBusy
from eigentensor.merkle import PIECE
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
    """What is held of a request's body, and by whom; whether more of it is waited for; whether others have its room."""

    caller: str
    task: asyncio.Task[Any]
    held: int = 0
    is_awaited: bool = False
    is_given_up: bool = False


class BodyLimit:
    """Refuses request bodies over a limit before they are read into memory. Where all that are there would be too much,
    one of which more is waited for makes room: of the caller who has most, that which began first. For one event
    loop."""

    def __init__(
        self,
        app: ASGIApp,
        limit: Callable[[Scope], int],
        total: int,
        streams: Callable[[Scope], bool] = no_stream,
        caller: Callable[[Scope], str] = address,
    ) -> None:
        """`limit` is of one body; all that are open together have at most `total` bytes in memory, those of one
        `caller` half. Of a body that `streams` only the piece that is coming is kept (`web.bodies`), and it need not be
        JSON."""
        self._app = app
        self._limit = limit
        self._total = total
        self._streams = streams
        self._caller = caller
        self._held = 0
        self._held_by: dict[str, int] = {}
        self._bodies: dict[str, dict[_Body, None]] = {}  # of each caller, in the order in which they began

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit, streams = self._limit(scope), self._streams(scope)
        task = asyncio.current_task()
        assert task is not None
        body = _Body(self._caller(scope), task)
        headers = dict(reversed(scope["headers"]))  # of a name that is there twice the first one counts
        kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        is_counted = not streams and kind not in _BINARY
        seen = values = lists = 0
        more = True

        async def counted() -> Message:
            nonlocal seen, values, lists, more
            body.is_awaited = more
            message = await receive()
            body.is_awaited, more = False, message.get("more_body", False)
            data = message.get("body", b"")
            seen += len(data)
            if seen > limit:
                raise _too_large(limit)
            self._hold(body, seen % PIECE if streams else seen)
            if is_counted:
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
            self._set(body, 0)

    def _hold(self, body: _Body, size: int) -> None:
        """So much of a body is in memory now."""
        more = size - body.held
        if more > 0 and self._held_by.get(body.caller, 0) + more > self._total // 2:
            raise _too_much("too many bytes of requests of this caller are being read")
        slow = self._slow()
        while self._held + more > self._total:
            if (other := next(slow, None)) is None:
                raise _too_much("too many bytes of requests are being read")
            self._set(other, 0)
            other.is_given_up = True
            other.task.cancel()
        self._set(body, size)

    def _slow(self) -> Iterator[_Body]:
        """What makes room, one after the other."""
        for caller in sorted(self._held_by, key=self._held_by.__getitem__, reverse=True):
            yield from [body for body in self._bodies[caller] if body.is_awaited]

    def _set(self, body: _Body, size: int) -> None:
        if size == body.held:
            return
        own = self._bodies.setdefault(body.caller, {})
        if size < body.held:
            del own[body]  # the piece that it had is whole: it begins anew
        if size:
            own[body] = None
        self._held += size - body.held
        self._held_by[body.caller] = self._held_by.get(body.caller, 0) + size - body.held
        body.held = size
        if not own:
            del self._bodies[body.caller], self._held_by[body.caller]


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
