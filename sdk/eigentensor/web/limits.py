"""How much of a request is read."""

from collections.abc import Callable
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eigentensor.web import problems


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
                raise _TooLarge(limit)
            return message

        declared = dict(scope["headers"]).get(b"content-length", b"0")
        try:
            if declared.isdigit() and int(declared) > limit:
                raise _TooLarge(limit)
            await self._app(scope, counted, send)
        except _TooLarge as error:
            response = problems.problem(
                error.status_code, problems.TOO_LARGE, error.detail, headers=dict(error.headers or {})
            )
            await response(scope, receive, send)


class _TooLarge(HTTPException):
    """So that nobody on the way takes it for another fault of the body."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the body of this request may have at most {limit} bytes",
            {"Connection": "close"},
        )
