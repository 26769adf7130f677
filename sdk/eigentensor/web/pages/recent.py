"""Pages that were asked for a moment ago, for all who look at the same ones."""

from collections.abc import Callable, Hashable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST = 256  #: pages that are kept


class Recent:
    """Makes a page once as long as `state` is equal. Only for what is the same to everybody: the site of a public
    service. Stands outside what compresses."""

    def __init__(self, app: ASGIApp, state: Callable[[], Hashable]) -> None:
        self._app, self._state = app, state
        self._kept: dict[tuple[bytes, bytes, bool], tuple[Hashable, Response]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        if "text/html" not in headers.get("accept", "") or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        key = scope["raw_path"], scope["query_string"], "gzip" in headers.get("accept-encoding", "")
        state = self._state()
        known = self._kept.get(key)
        if known is None or known[0] != state:
            page = await self._made(scope, receive, send)
            if page is None:
                return
            if len(self._kept) >= MOST:
                self._kept.clear()
            known = self._kept[key] = state, page
        page = known[1]
        if headers.get("if-none-match") == page.headers["etag"]:
            unchanged = {name: value for name, value in page.headers.items() if not name.startswith("content-")}
            page = Response(status_code=304, headers=unchanged)
        await page(scope, receive, send)

    async def _made(self, scope: Scope, receive: Receive, send: Send) -> Response | None:
        """The page; None where the answer is none, and is on its way."""
        start: Message | None = None
        body: list[bytes] = []

        async def keep(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_page(message):
                start = message
            elif start is None:
                await send(message)
            else:
                body.append(message.get("body", b""))

        plain = [header for header in scope["headers"] if header[0] != b"if-none-match"]
        await self._app({**scope, "headers": plain}, receive, keep)
        if start is None:
            return None
        page = Response(b"".join(body), 200)
        page.raw_headers = start["headers"]
        return page


def _is_page(start: Message) -> bool:
    headers = MutableHeaders(raw=list(start["headers"]))
    return start["status"] == 200 and headers.get("content-type", "").startswith("text/html") and "etag" in headers
