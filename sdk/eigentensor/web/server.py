"""The server in front of an app: uvicorn, with bounds on what a connection may keep in memory and how long it may rest;
its socket, and its health.

Its parser (httptools) collects a head until it ends, and waits for one as long as the client likes; here neither is
endless; nor is a body that trickles. Whoever faces the internet wants a proxy in front all the same.
"""

import asyncio
import resource
import socket
import threading
from asyncio import TimerHandle
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from eigentensor.errors import ConfigError
from eigentensor.web import problems

HEAD = 64 << 10  #: bytes that a request may have beside its body
SILENCE = 30.0  #: seconds in which a head is complete, or some of a body comes
LEAST = 16 << 10  #: bytes of a body that are some
PATIENCE = 3.0  #: seconds in which what a service stands on answers, or is away
ENDLESS = "eigentensor.endless"  #: what a request's scope has whose answer ends when its caller goes, or the server
_FEW = 1 << 10  # bytes of a body that wait for more: to wake whoever reads them costs as much for one as for all
_WAITING = 1 << 14  # bytes of an answer that wait for others at most
_GRACE = 10  # seconds that requests get to end when the server does


def server(app: ASGIApp, silence: float = SILENCE) -> uvicorn.Server:
    """A server that is yet to be run; it writes no log."""

    class Connection(_Connection):
        patience = silence

    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_GRACE,
    )
    return uvicorn.Server(config)


def allow_connections() -> None:
    """Lets this process have as many files open as the system does: a connection is one, and some wait for long."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def listen(host: str, port: int) -> socket.socket:
    """A socket on which a service listens; port 0 is a free one. Raises ConfigError if the address is taken or none."""
    try:
        listening = socket.create_server((host, port), backlog=1024)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror}", fix="Name another port.") from None
    # Without this a small write waits 40 ms for the caller to acknowledge the one before.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


class Health:
    """The health of what a service stands on: databases and folders, of which one that hangs must not hang its caller.

    Safe for several threads.
    """

    def __init__(self, *looks: Callable[[], bool], patience: float = PATIENCE) -> None:
        """Each look is true if all is well; an error says that it is not."""
        self._looks, self._patience = looks, patience
        self._looking: Future[bool] | None = None
        self._lock = threading.Lock()

    def is_well(self) -> bool:
        """Whether every look says so in time. Who asks while a look goes on waits for the same."""
        with self._lock:
            if self._looking is None or self._looking.done():
                self._looking = Future()
                threading.Thread(target=self._look, args=[self._looking], name="health", daemon=True).start()
            looking = self._looking
        with suppress(TimeoutError):
            return looking.result(self._patience)
        return False

    def _look(self, result: Future[bool]) -> None:
        try:
            result.set_result(all(look() for look in self._looks))
        except Exception:  # of whichever driver
            result.set_result(False)


class _Joining:
    """A transport that sends together what is written in one turn of the event loop: the other side is woken once for
    the head of an answer and its body."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """As the transport's, a little later; at once where there is much."""
        if not self._parts:
            self._loop.call_soon(self._send)
        self._parts.append(data)
        self._size += len(data)
        if self._size > _WAITING:
            self._send()

    def close(self) -> None:
        """As the transport's."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        if parts and not self._transport.is_closing():
            self._transport.writelines(parts)


class _Connection(HttpToolsProtocol):
    """What one client sends, request after request."""

    patience: float
    _beside = 0  # bytes since the last one of a body
    _came = 0  # bytes of a body since it last had some more time
    _few = b""  # of a body, which nobody has been told of yet
    _until: float | None  # when it must have gone on, if this is a client's turn
    _timer: TimerHandle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        joining: Any = _Joining(transport, self.loop)
        super().connection_made(joining)
        self._expect_more()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """As the base has it; an endless answer is not waited for."""
        if self.cycle is not None and ENDLESS in self.cycle.scope:
            self.transport.close()
        super().shutdown()

    def data_received(self, data: bytes) -> None:
        self._beside += len(data)
        super().data_received(data)
        if self._beside > HEAD and not self.transport.is_closing():
            self._refuse(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the head of a request may have at most {HEAD} bytes"
            )

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._came, self._few = 0, b""
        self._expect_more()

    def on_body(self, body: bytes) -> None:
        self._beside = 0
        self._came += len(body)
        if self._came >= LEAST:
            self._came = 0
            self._expect_more()
        self._few += body
        if len(self._few) >= _FEW:
            self._tell()

    def on_message_complete(self) -> None:
        self._beside, self._until = 0, None
        self._tell()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(HTTPStatus.BAD_REQUEST, msg)

    def _tell(self) -> None:
        few, self._few = self._few, b""
        if few:
            super().on_body(few)

    def _expect_more(self) -> None:
        self._until = self.loop.time() + self.patience

    def _look(self) -> None:
        if self.flow.read_paused:  # it is this side that does not go on
            self._expect_more()
        if self._until is not None and self.loop.time() > self._until:
            self.transport.close()
        else:
            self._timer = self.loop.call_later(self.patience / 4, self._look)

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        answer = problems.problem(status, "BadRequest", detail, headers={"Connection": "close"})
        head = b"".join(b"%s: %s\r\n" % header for header in answer.raw_headers)
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + bytes(answer.body))
        self.transport.close()
