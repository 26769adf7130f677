"""A gateway that answers anything: bytes that are no HTTP, HTTP that cannot be read, and blobs that are no answer."""

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from eigentensor.store import Pieces

#: How a connection may end without an answer.
SILENT, GARBAGE = b"", b"\x16\x03\x01 this is no HTTP\r\n\r\n"


def answer(status: int, body: bytes, *, length: int | None = None, **headers: str) -> bytes:
    """An HTTP answer; `length` is what it says of its body."""
    fields = {"Content-Length": str(len(body) if length is None else length), "Content-Type": "application/json"} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} Any\r\n{lines}\r\n".encode("latin-1", "replace") + body


def tensor_file(header: Any, data: bytes = b"") -> bytes:
    """A safetensors file with this header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def named(name: str) -> bytes:
    """A safetensors file with one tensor of this name."""
    return tensor_file({name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(4))


#: What challengers, operators and watchers were told, each at every question.
ANSWERS = {
    "nothing": SILENT,
    "no HTTP": GARBAGE,
    "broken gzip": answer(200, b"\x1f\x8b broken", Content_Encoding="gzip"),
    "a problem in broken gzip": answer(404, b"\x1f\x8b broken", Content_Encoding="gzip"),
    "cut gzip": answer(200, gzip.compress(b"{" * 9999)[:20], Content_Encoding="gzip"),
    "less than it says": answer(200, b"{}", length=99),
    "a page": answer(200, b"<html>", Content_Type="text/html"),
    "a redirection": answer(302, b"{}", Location="http://127.0.0.1:1/"),
    "a redirection to nowhere": answer(301, b"", Location="http://[::bad/"),
    "huge headers": answer(200, b"{}", X_Large="x" * (1 << 20)),
    "a number": answer(200, b"1" * 5000),
    "deep JSON": answer(200, b"[" * 100_000),
    "no UTF-8": answer(200, b'{"size": "\xff"}'),
    "another object": answer(200, b'{"blob": [], "size": 1e999, "pieces": {"a": 1}, "received": "all", "state": []}'),
}
#: Files that are handed on for whatever is asked for.
FILES = {
    "a long name": named("x" * 256),
    "a longer name": named("é" * 200),
    "half a character": tensor_file(b'{"\\ud800": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}', bytes(4)),
    "an endless number": tensor_file(b'{"x": {"dtype": "F32", "data_offsets": [0, 0], "shape": [%s]}}' % (b"9" * 5000)),
    "other tensors": named("x"),
    "deep": tensor_file(b'{"x":' * 5000),
    "no program": b"EIGT" + bytes(99),
    "no variables": b"EIGV\xff\xff",
    "no results": b"EIGO" + bytes(9),
    "empty": b"",
}  # fmt: skip


@dataclass
class Hostile:
    """Answers every question with the same bytes; or, where it has a `file`, as if that were what is asked for. What
    is `lacking` is not there when somebody asks whether it is."""

    url: str
    raw: bytes = SILENT
    file: bytes | None = None
    lacking: bool = False

    def to(self, request: bytes) -> bytes:
        if self.lacking and request.startswith(b"HEAD"):
            return answer(404, b"", length=0)
        if self.file is None:
            return self.raw
        if b"/pieces" in request.partition(b"\r\n")[0]:
            pieces = Pieces.of(self.file)
            return answer(200, json.dumps(pieces.to_json() | {"kind": "other", "computed": None}).encode())
        return answer(206, self.file)


@contextmanager
def hostile() -> Iterator[Hostile]:
    """It listens until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        gateway = Hostile(f"http://127.0.0.1:{listening.getsockname()[1]}")

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    connection.settimeout(5)
                    connection.sendall(gateway.to(connection.recv(1 << 16)))
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(1 << 16):
                        pass

        threading.Thread(target=serve, daemon=True).start()
        yield gateway
        listening.shutdown(socket.SHUT_RDWR)
