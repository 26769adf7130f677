"""The server in front of an app, before whom clients do what they like."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from eigentensor.web.server import HEAD, LEAST, listen, server

SILENCE = 1.0
PIECES = [bytes([n % 251]) * (n % 3000) for n in range(1500)]
SLOW = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "


async def counting(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the number of bytes that it got, with those of each part, or with many pieces."""
    if scope["path"] == "/pieces":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in PIECES:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body"})
        return
    sizes = [len(data) async for data in Request(scope, receive).stream()]
    if scope["path"] == "/parts":
        await PlainTextResponse(" ".join(map(str, filter(None, sizes))))(scope, receive, send)
        return
    await PlainTextResponse(str(sum(sizes)))(scope, receive, send)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with listen("127.0.0.1", 0) as listening:
        running = server(counting, SILENCE)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        yield listening.getsockname()[1]
        running.should_exit = True
        thread.join()


@contextmanager
def connected(port: int, text: bytes) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(text)
        yield connection


def heard(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    received = b""
    try:
        while data := connection.recv(1 << 16):
            received += data
    except ConnectionResetError:  # it closed while we were still sending
        pass
    return received


@pytest.mark.parametrize(
    ("endless", "begun"),
    [
        (b"a", b"GET / HTTP/1.1\r\nX: "),
        (b"X: 1\r\n", b"GET / HTTP/1.1\r\n"),
        (b"a", b"GET /"),
        (b"X: 1\r\n", b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"),
    ],
    ids=["header", "headers", "path", "trailers"],
)
def test_what_stands_beside_a_body_has_an_end(port: int, endless: bytes, begun: bytes) -> None:
    with connected(port, begun) as connection:
        time.sleep(0.3)  # what comes together with a body is counted as one
        connection.sendall(endless * (HEAD // len(endless) + 1))
        answer = heard(connection)
    assert answer.startswith(b"HTTP/1.1 431 ") and b"application/problem+json" in answer, answer


@pytest.mark.parametrize(
    "text",
    [
        b"\x16\x03\x01\x00\xa5",
        b"GET / HTTP/1.1\r\nX: \x00\r\n\r\n",
        b"PUT / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"PUT / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
        b"PUT / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    ],
    ids=["TLS", "control character", "negative", "two lengths", "length and chunks"],
)
def test_what_is_no_http_is_a_problem_like_others(port: int, text: bytes) -> None:
    with connected(port, text) as connection:
        answer = heard(connection)
    assert answer.startswith(b"HTTP/1.1 400 ") and b'"code":"BadRequest"' in answer, answer


def test_bodies_with_and_without_a_length_arrive_whole(port: int) -> None:
    data = bytes(range(256)) * 8192
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as http:
        assert http.put("/", content=data).text == str(len(data))
        assert http.put("/", content=(data[i : i + 999] for i in range(0, len(data), 999))).text == str(len(data))


def test_whoever_reads_a_body_that_comes_byte_by_byte_is_not_woken_for_each(port: int) -> None:
    """Nor kept waiting for its end."""
    size = 2100
    with connected(port, b"PUT /parts HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(size):
            connection.sendall(b"?")
        answer = connection.recv(1 << 16)
    parts = list(map(int, answer.splitlines()[-1].split()))
    assert parts[0] >= 1024 and sum(parts) == size and len(parts) <= 3


def test_head_and_body_of_an_answer_come_together(port: int) -> None:
    for _ in range(20):
        with connected(port, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc") as connection:
            answer = connection.recv(1 << 16)
            assert answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(b"\r\n\r\n3")


def test_what_is_written_piece_by_piece_arrives_whole_and_in_order(port: int) -> None:
    assert httpx.get(f"http://127.0.0.1:{port}/pieces", timeout=60).content == b"".join(PIECES)


def test_clients_that_say_no_more_keep_nobody_waiting_and_are_let_go(port: int) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(port, SLOW)) for _ in range(300)]
        assert httpx.get(f"http://127.0.0.1:{port}/").text == "0"
        assert {heard(connection) for connection in slow} == {b""}
    with connected(port, b"PUT / HTTP/1.1\r\nContent-Length: 9\r\n\r\n1") as resting:
        assert heard(resting) == b""


def test_a_body_may_be_slow_and_a_head_may_not(port: int) -> None:
    size = 12 * LEAST // 2
    with connected(port, f"PUT / HTTP/1.1\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n".encode()) as slow:
        for _ in range(12):
            time.sleep(SILENCE / 6)
            slow.sendall(bytes(LEAST // 2))
        assert heard(slow).endswith(str(size).encode())
    with connected(port, b"PUT / HTTP/1.1\r\nContent-Length: 99999\r\n\r\n") as trickling, pytest.raises(OSError):
        for _ in range(12):
            time.sleep(SILENCE / 3)
            trickling.sendall(b"1")
    with connected(port, SLOW) as connection, pytest.raises(OSError):
        for _ in range(12):
            time.sleep(SILENCE / 3)
            connection.sendall(b"1")
