"""Who may call, from which pages, and how often: before anything of a request is read."""

import math
import time
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eigentensor.web.problems import problem
from eigentensor_client.serving.metrics import Metrics
from eigentensor_client.serving.tokens import Tokens

OPEN = frozenset({"/healthz", "/version"})  # for anybody, and any number of times
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
    """401 without a token where there are any, 403 for pages of other origins, 429 for those who call too often."""

    def __init__(self, app: ASGIApp, tokens: Tokens, rate: Rate, origins: tuple[str, ...], metrics: Metrics) -> None:
        self._app = app
        self._tokens = tokens
        self._rate = rate
        self._origins = origins
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.requests.labels(f"{message['status'] // 100}xx").inc()
                self._metrics.seconds.observe(time.perf_counter() - started)
            await send(message)

        refusal = None if scope["path"] in OPEN else self._refusal(scope)
        await (self._app if refusal is None else refusal)(scope, receive, counted)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins and urlsplit(origin).netloc != headers.get("host"):
            return problem(
                HTTPStatus.FORBIDDEN,
                "ForeignOrigin",
                f"pages of {origin!r} may not call this service",
                "Allow the origin in the service's settings.",
            )
        if not self._tokens and urlsplit(f"//{headers.get('host', '')}").hostname not in LOOPBACK:
            # A page whose name was made to resolve to this machine has an origin that looks like this host.
            return problem(
                HTTPStatus.MISDIRECTED_REQUEST, "ForeignHost", "without tokens this service answers to localhost alone"
            )
        caller = f"address {scope['client'][0]}" if scope.get("client") else ""
        if self._tokens:
            kind, _, token = headers.get("authorization", "").partition(" ")
            name = self._tokens.holder(token.strip()) if kind.lower() == "bearer" else None
            if name is None:
                return problem(
                    HTTPStatus.UNAUTHORIZED,
                    "Unauthorized",
                    "this service wants a token that it knows",
                    "Send `Authorization: Bearer et_…`; `eigentensor serve token new NAME` makes one.",
                    {"WWW-Authenticate": 'Bearer realm="eigentensor"'},
                )
            caller = scope["eigentensor.caller"] = name
        if wait := self._rate.wait(caller):
            return problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                "TooManyRequests",
                f"more than {self._rate.rate:g} requests a second",
                "Wait as long as Retry-After says.",
                {"Retry-After": str(math.ceil(wait))},
            )
        return None


def install(app: FastAPI, tokens: Tokens, rate: float, origins: tuple[str, ...], metrics: Metrics) -> None:
    """Puts the guard before everything of an app."""
    app.add_middleware(Guard, tokens=tokens, rate=Rate(rate), origins=origins, metrics=metrics)
