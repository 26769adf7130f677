"""Who may call, from which pages, and how often: before anything of a request is read."""

import math
import time
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eigentensor.errors import ConfigError
from eigentensor.web.pages.assets import PREFIX
from eigentensor.web.pages.browsers import wants_page
from eigentensor.web.problems import problem, status_of
from eigentensor_serve import cookies
from eigentensor_serve.service import Metrics
from eigentensor_serve.settings import Settings
from eigentensor_serve.tokens import Tokens

OPEN = frozenset({"/healthz", "/version"})  # for anybody, and any number of times; and so are the files of pages
SIGNING = frozenset({"/sign-in", "/sign-out"})  # for who has no token yet, or none any more
_READS = frozenset({"GET", "HEAD"})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_MOST_CALLERS = 4096


class Rate:
    """A bucket of tokens for each caller: `rate` flow in a second, twice as many fit in. Pure but for the clock."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}

    def wait(self, caller: str) -> float:
        """Takes a token: 0; or the seconds after which there will be one."""
        now, most = self._clock(), max(1.0, 2 * self.rate)
        left, since = self._buckets.get(caller, (most, now))
        left = min(most, left + (now - since) * self.rate)
        wait = 0.0 if left >= 1 else (1 - left) / self.rate
        if len(self._buckets) >= _MOST_CALLERS and caller not in self._buckets:
            self._buckets.clear()  # strangers cannot fill the memory; they only get a full bucket
        self._buckets[caller] = (left if wait else left - 1, now)
        return wait


class Guard:
    """401 without a token where there are any, 403 for pages of other origins, 429 for those who call too often, or
    have too many requests open.

    A cookie reads: it counts as its holder's token for GET and HEAD alone, which spend nothing. What may spend wants
    the token itself, which no browser sends by itself.
    """

    def __init__(
        self, app: ASGIApp, tokens: Tokens, settings: Settings, metrics: Metrics, sign_in: Callable[[Request], Response]
    ) -> None:
        """`sign_in` is the page that asks for a token."""
        self._app = app
        self._sign_in = sign_in
        self._tokens = tokens
        self._settings = settings
        self._rate = Rate(settings.rate)
        self._metrics = metrics
        self._open: dict[str, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()

        async def send_wrapper(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.requests.labels(f"{message['status'] // 100}xx").inc()
                self._metrics.seconds.observe(time.perf_counter() - started)
            await send(message)

        if scope["path"] in OPEN or scope["path"].startswith(PREFIX):
            await self._app(scope, receive, send_wrapper)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send_wrapper)
            return
        name = counted(scope)
        self._open[name] = self._open.get(name, 0) + 1
        try:
            await self._app(scope, receive, send_wrapper)
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]

    def _refusal(self, scope: Scope) -> Response | None:
        try:
            caller = self._caller(scope)
        except ConfigError as error:  # a damaged file of tokens lets nobody in
            return problem(status_of(error), type(error).__name__, error.what, error.fix)
        if isinstance(caller, Response):
            return caller
        scope["eigentensor.caller"] = caller
        name = counted(scope)
        if wait := self._rate.wait(name):
            return _later(f"more than {self._rate.rate:g} requests a second", math.ceil(wait))
        if self._open.get(name, 0) >= self._settings.max_open:
            return _later(f"{self._settings.max_open} requests of this caller are open", 1)
        return None

    def _caller(self, scope: Scope) -> str | Response:
        """Whose token it is, empty where only the user of this machine can call; or a refusal."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if origin is not None and origin not in self._settings.origins and _place(origin) != host:
            return problem(
                HTTPStatus.FORBIDDEN,
                "ForeignOrigin",
                f"pages of {origin!r} may not call this service",
                "Allow the origin in the service's settings.",
            )
        if not self._tokens and self._settings.is_loopback:
            if _place(f"//{host}", name=True) in LOOPBACK:
                return ""
            # A page whose name was made to resolve to this machine has an origin that looks like this host.
            return problem(
                HTTPStatus.MISDIRECTED_REQUEST, "ForeignHost", "without tokens this service answers to localhost alone"
            )
        if scope["path"] in SIGNING:
            return ""  # of nobody's tasks these say anything
        kind, _, token = headers.get("authorization", "").partition(" ")
        reads = not kind and scope["method"] in _READS
        if reads:
            name = self._tokens.reader(cookies.kept(HTTPConnection(scope)))
        else:
            name = self._tokens.holder(token.strip()) if kind.lower() == "bearer" else None
        if name is not None:
            return name
        challenge = {"WWW-Authenticate": 'Bearer realm="eigentensor"'}
        if reads and wants_page(request := Request(scope)):
            page = self._sign_in(request)
            page.headers.update(challenge)
            return page
        return problem(
            HTTPStatus.UNAUTHORIZED,
            "Unauthorized",
            "this service wants a token that it knows",
            "Send `Authorization: Bearer et_…`; `eigentensor serve token new NAME` makes one.",
            challenge,
        )


def counted(scope: Scope) -> str:
    """By what requests are counted: a token's name, or an address where there are none."""
    return scope.get("eigentensor.caller") or f"address {scope['client'][0] if scope.get('client') else ''}"


def _place(url: str, *, name: bool = False) -> str | None:
    """Host and port of a URL, or the host's name alone; None for what is no URL."""
    try:
        parts = urlsplit(url)
        return parts.hostname if name else parts.netloc
    except ValueError:
        return None


def _later(what: str, seconds: int) -> Response:
    return problem(
        HTTPStatus.TOO_MANY_REQUESTS,
        "TooManyRequests",
        what,
        "Wait as long as Retry-After says.",
        {"Retry-After": str(seconds)},
    )


def install(
    app: FastAPI, tokens: Tokens, settings: Settings, metrics: Metrics, sign_in: Callable[[Request], Response]
) -> None:
    """Puts the guard before everything of an app."""
    app.add_middleware(Guard, tokens=tokens, settings=settings, metrics=metrics, sign_in=sign_in)
