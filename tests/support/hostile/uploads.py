"""Callers of a gateway that begin and do not go on: uploads of which one piece came, and connections that trickle."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx

from eigentensor.merkle import PIECE
from eigentensor.store import Pieces
from support.steadily import steadily

ADDRESSES = 50  # of loopback, from which they come


def half_open(url: str, count: int) -> dict[int, int]:
    """Begins so many uploads of two pieces, from many addresses, and sends the first piece of each; how many were
    answered by which HTTP status."""

    def some(address: int) -> list[int]:
        transport = httpx.HTTPTransport(local_address=f"127.1.0.{address + 1}", verify=False, trust_env=False)
        statuses = []
        with httpx.Client(base_url=url, transport=transport, timeout=60, trust_env=False, verify=False) as http:
            for number in range(address, count, ADDRESSES):
                data = number.to_bytes(4) * (PIECE // 4) + b"?"
                pieces = Pieces.of(data)
                path = f"/v1/blobs/{pieces.blob.hex()}"
                http.put(f"{path}/pieces", json=pieces.to_json())
                place = {"Content-Range": f"bytes 0-{PIECE - 1}/{len(data)}"}
                statuses.append(http.put(path, content=data[:PIECE], headers=place).status_code)
        return statuses

    with ThreadPoolExecutor(4) as pool:
        statuses = [status for each in pool.map(some, range(min(count, ADDRESSES))) for status in each]
    return {status: statuses.count(status) for status in set(statuses)}


@contextmanager
def trickling(port: int, count: int) -> Iterator[None]:
    """So many connections that send a byte of a body now and then, as long as the block runs; who is sent away comes
    again."""

    def connect(number: int) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", port), source_address=(f"127.2.0.{number % 250 + 1}", 0))
        head = f"PUT /v1/blobs/{number:064x} HTTP/1.1\r\nHost: x\r\nContent-Length: {PIECE}\r\n\r\n"
        connection.sendall(head.encode())
        return connection

    with ExitStack() as stack:
        connections = [stack.enter_context(connect(number)) for number in range(count)]

        def send() -> None:
            for number, connection in enumerate(connections):
                try:
                    connection.sendall(b"?")
                except OSError:
                    connections[number] = stack.enter_context(connect(number))

        stack.enter_context(steadily(send, 1.0))
        yield
