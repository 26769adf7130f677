"""What browsers get that other callers do not: refusals as pages, files, smaller answers."""

import json
from collections.abc import Awaitable, Callable, Hashable
from http import HTTPStatus

from fastapi import FastAPI, Request
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from eigentensor.web import problems
from eigentensor.web.pages.assets import PREFIX
from eigentensor.web.pages.recent import Recent
from eigentensor.web.pages.site import Site

_Handler = Callable[[Request, Exception], Awaitable[Response]]


def wants_page(request: Request) -> bool:
    """Whether a person asks with a browser: /v1 answers machines, whoever asks."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1/")


def install(app: FastAPI, site: Site, state: Callable[[], Hashable] | None = None) -> None:
    """Adds the files of a site to an app of which every refusal is a problem, and makes pages of those that browsers
    get. Called when all handlers of errors are there. With `state` every page is the same to everybody, and is made
    once as long as that is equal."""
    for kind, handler in list(app.exception_handlers.items()):
        app.exception_handlers[kind] = _shown(site, handler)  # type: ignore[arg-type]
    app.add_middleware(Compressed)
    if state is not None:
        app.add_middleware(Recent, state=state)

    @app.get(PREFIX + "{name}", include_in_schema=False)
    def read_file(request: Request, name: str) -> Response:
        """A static file."""
        response = site.assets.response(name, request.headers)
        return response or problems.problem(HTTPStatus.NOT_FOUND, "NOT_FOUND", "there is no such file")


class Compressed:
    """Compresses pages and their files; what /v1 serves has ranges, and is mostly random bytes."""

    def __init__(self, app: ASGIApp) -> None:
        self._plain, self._compressed = app, GZipMiddleware(app, minimum_size=1024, compresslevel=6)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_page = scope["type"] == "http" and not scope["path"].startswith("/v1/")
        await (self._compressed if is_page else self._plain)(scope, receive, send)


def _shown(site: Site, handler: _Handler) -> _Handler:
    async def handle(request: Request, error: Exception) -> Response:
        answer = await handler(request, error)
        if not wants_page(request) or answer.media_type != problems.MEDIA_TYPE:
            return answer
        problem = {"fix": "", **json.loads(bytes(answer.body))}
        problem["detail"] = problem["detail"].removeprefix("query.")
        page = site.page(request, "error.html", answer.status_code, problem=problem)
        kept = ("www-authenticate", "retry-after", "allow", "connection")
        page.headers.update({name: answer.headers[name] for name in kept if name in answer.headers})
        return page

    return handle
