"""How much of requests is read, and kept in memory."""

from collections.abc import Callable
from http import HTTPStatus

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


class BodyLimit:
    """Refuses request bodies over a limit before they are read into memory, and those that would be too much with all
    others that are there at the time."""

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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit, caller, is_kept = self._limit(scope), self._caller(scope), not self._streams(scope)
        headers = dict(reversed(scope["headers"]))  # of a name that is there twice the first one counts
        kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        seen = values = lists = held = 0

        async def counted() -> Message:
            nonlocal seen, values, lists, held
            message = await receive()
            body = message.get("body", b"")
            seen += len(body)
            if seen > limit:
                raise _too_large(limit)
            if is_kept:
                self._hold(caller, len(body))
                held += len(body)
                if kind not in _BINARY:
                    lists += body.count(b"[") + body.count(b"{")
                    values += body.count(b",")
                    if values > VALUES or lists > LISTS:
                        raise _too_many()
            return message

        declared = headers.get(b"content-length", b"0")
        try:
            if declared.isdigit() and int(declared) > limit:
                raise _too_large(limit)
            await self._app(scope, counted, send)
        except _Refused as error:
            response = problems.problem(
                error.status_code, error.code, error.detail, error.fix, headers=dict(error.headers or {})
            )
            await response(scope, receive, send)
        finally:
            self._release(caller, held)

    def _hold(self, caller: str, size: int) -> None:
        own, everybodys = self._held.get(caller, 0) + size, sum(self._held.values()) + size
        if own > self._total // 2 or everybodys > self._total:
            whose = "of this caller " if own > self._total // 2 else ""
            raise _Refused(
                HTTPStatus.SERVICE_UNAVAILABLE,
                ServiceBusy.__name__,
                f"too many bytes of requests {whose}are being read",
                "Try again in a moment, with fewer at a time.",
                {"Retry-After": "1"},
            )
        self._held[caller] = own

    def _release(self, caller: str, size: int) -> None:
        left = self._held.get(caller, 0) - size
        if left > 0:
            self._held[caller] = left
        else:
            self._held.pop(caller, None)


class _Refused(HTTPException):
    """So that nobody on the way takes it for another fault of the body."""

    def __init__(self, status: HTTPStatus, code: str, detail: str, fix: str, headers: dict[str, str]) -> None:
        super().__init__(status, detail, {"Connection": "close", **headers})
        self.code, self.fix = code, fix


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
