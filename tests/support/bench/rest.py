"""How many small requests the gateway and `eigentensor serve` answer in a second, how late the slowest, and how fast
blobs travel with verification on both sides. All over loopback, each server a process of its own.

    scripts/bench rest [SECONDS]

Each line says whether its goal is reached on this machine, as it is. Where others use it, too, read what stands beside
it: what a second of the server's processor brings, and how fast the same bytes are hashed, alone, in the same minute.
"""

import asyncio
import base64
import json
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from http.client import HTTPConnection
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
from fastapi import FastAPI

from eigentensor import merkle
from eigentensor.capture import TensorContext
from eigentensor.chain import Chain, Network, anvil_account, to_wei
from eigentensor.store import GatewayClient, LocalStore, Pieces, save_safetensors
from eigentensor.task import order_uuid
from eigentensor.web.server import listen, server
from eigentensor_aggregator import logs
from eigentensor_aggregator.config import Settings as GatewaySettings
from eigentensor_aggregator.service import assembled as gateway_assembled
from eigentensor_local.anvil import local_network
from eigentensor_serve.apps.deployment import deploy_local, read_parts
from eigentensor_serve.apps.registry import Apps
from eigentensor_serve.server import assembled, create_app
from eigentensor_serve.settings import Settings
from support.stories.market import orders_of

CONNECTIONS, BLOB, BODY, ROUNDS = 8, 256 << 20, 64 << 20, 3
#: What is wanted: requests a second, milliseconds until all but 1 % are answered, bytes of a blob a second.
REQUESTS, LATE, BYTES = 500, 100, 300e6
#: In memory where there is such a folder: what is measured is not the disk.
MEMORY = next((path for path in ("/dev/shm",) if Path(path).is_dir()), None)
Requests = dict[str, bytes]


def request(method: str, path: str, body: bytes = b"") -> bytes:
    """A whole HTTP request."""
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{kind}\r\n".encode() + body


async def _ask(port: int, text: bytes, end: float, taken: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    while (start := time.perf_counter()) < end:
        writer.write(text)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")), head
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
        taken.append(time.perf_counter() - start)
    writer.close()


def load(port: int, text: bytes, seconds: float) -> list[float]:
    """Seconds of each answer to one request, sent again and again over some connections."""

    async def run() -> list[float]:
        taken: list[float] = []
        end = time.perf_counter() + seconds
        await asyncio.gather(*(_ask(port, text, end, taken) for _ in range(CONNECTIONS)))
        return taken

    return asyncio.run(run())


def measure(name: str, port: int, text: bytes, seconds: float, server: psutil.Process) -> None:
    """One line: answers a second, and in a second of the server's processor; how late half and all but 1 % came."""
    load(port, text, seconds / 10)  # what is computed once is
    before = processor(server)
    taken = load(port, text, seconds)
    used = processor(server) - before
    late = np.percentile(taken, [50, 99]) * 1e3
    rate = len(taken) / seconds
    report(
        name,
        f"{rate:8.0f}/s {len(taken) / used:8.0f}/s {late[0]:7.1f} {late[1]:7.1f} ms",
        rate >= REQUESTS and late[1] <= LATE,
        f"{REQUESTS}/s, p99 {LATE} ms",
    )


def report(name: str, figures: str, reached: bool, goal: str) -> None:
    sys.stdout.write(f"{name:44} {figures:42} {'reached' if reached else 'missed '} {goal}\n")
    sys.stdout.flush()


def processor(process: psutil.Process) -> float:
    """Seconds of a processor that a process has used."""
    times = process.cpu_times()
    return float(times.user + times.system)


# Servers


def serve(app: FastAPI, port: Connection, message: object) -> None:
    listening = listen("127.0.0.1", 0)
    port.send((listening.getsockname()[1], message))
    server(app).run(sockets=[listening])


def serve_gateway(network: Path, data: Path, port: Connection) -> None:
    """A gateway with one task to tell of."""
    logs.configure(logging.WARNING)
    settings = GatewaySettings(network=str(network), data=data)
    chain = Chain(Network.load(network), anvil_account(2), data.parent / "client.sqlite")
    with chain, gateway_assembled(settings) as (app, daemon):
        chain.token.mint(chain.address, to_wei("10"))
        chain.token.approve(chain.deployment.task_market, to_wei("10"))
        order = orders_of(chain)()
        chain.market.post(order)
        while daemon.block < chain.node.block_number():
            time.sleep(0.05)
        serve(app, port, order_uuid(order, chain.deployment.domain).hex())


def serve_blobs(settings: GatewaySettings, port: Connection) -> None:
    """A gateway with nothing to tell of."""
    logs.configure(logging.ERROR)
    with gateway_assembled(settings) as (app, _):
        serve(app, port, None)


def serve_local(data: Path, port: Connection) -> None:
    """A service that has a small program and its weights, also as an app."""
    from tinygrad import Tensor

    context = TensorContext()
    x = context.add_graph_input("x", (8, 16))
    graph = context.compile_to_graph((x @ context.add_weight("w", Tensor(np.ones((16, 8), np.float32)))).relu())
    settings = Settings(local=True, data=data, rate=1e9, max_body=BODY)
    with assembled(settings) as service:
        path = data / "weights"
        save_safetensors(path, {name: np.asarray(array) for name, array in graph.weights.items()})
        names = [service.store.names(service.store.put(source)).computed for source in (graph.to_bytes(), path)]
        apps = Apps(data)
        deploy_local(apps, "small", read_parts(graph.program, str(path), None, None, apps))
        serve(create_app(service), port, names)


@contextmanager
def process(run: Callable[..., None], *arguments: object) -> Iterator[tuple[int, Any, psutil.Process]]:
    """A server in a process of its own: its port, what it tells, and the process."""
    ours, theirs = multiprocessing.Pipe()
    spawned = multiprocessing.get_context("spawn").Process(target=run, args=(*arguments, theirs))
    spawned.start()
    try:
        yield *ours.recv(), psutil.Process(spawned.pid)
    finally:
        if spawned.pid is not None and spawned.is_alive():
            spawned.terminate()
        spawned.join()
        assert spawned.exitcode in (0, -signal.SIGTERM)


# What is measured


def gateway_requests(task: str) -> Requests:
    return {
        "gateway  GET /v1/tasks/{uuid}": request("GET", f"/v1/tasks/{task}"),
        "gateway  GET /v1/tasks": request("GET", "/v1/tasks?limit=1"),
        "gateway  GET /v1/operators": request("GET", "/v1/operators"),
    }


def local_requests(program: str, weights: str, port: int) -> Requests:
    data = base64.b64encode(np.ones((8, 16), np.float32).tobytes()).decode()
    inputs = {"x": {"dtype": "float32", "shape": [8, 16], "data": data}}
    body = json.dumps({"program": program, "weights": weights, "inputs": inputs}).encode()
    small = json.dumps({"inputs": inputs}).encode()
    headers = {"content-type": "application/json"}
    task = httpx.post(f"http://127.0.0.1:{port}/v1/tasks", content=body, headers=headers).json()["task"]
    return {
        "serve    GET /v1/tasks/{uuid}": request("GET", f"/v1/tasks/{task}"),
        "serve    POST /v1/quotes": request("POST", "/v1/quotes", body),
        "serve    POST /execute_graph_on_gpu, executed": request("POST", "/execute_graph_on_gpu", body),
        "serve    POST /v1/apps/{name}, executed": request("POST", "/v1/apps/small", small),
    }


class Rates:
    """Bytes of blobs by what was done with them: a second, a second of the server's processor, a second of hashing."""

    def __init__(self, server: psutil.Process, goal: float = BYTES) -> None:
        self._server, self._goal = server, goal
        self._rounds: dict[str, list[tuple[float, float, float]]] = {}

    def timed(self, name: str, data: bytes, run: Callable[[], object]) -> None:
        start = time.perf_counter()
        assert Pieces.of(data).size == len(data)
        middle, busy = time.perf_counter(), processor(self._server)
        run()
        seconds, used = time.perf_counter() - middle, max(processor(self._server) - busy, 0.01)
        rates = len(data) / seconds, len(data) / used, len(data) / (middle - start)
        self._rounds.setdefault(name, []).append(rates)

    def say(self) -> list[float]:
        """A line for each, of its best rounds; their bytes a second."""
        best: list[float] = []
        for name, rounds in self._rounds.items():
            rate, used, alone = (max(column) for column in zip(*rounds, strict=True))
            figures = f"{rate / 1e6:5.0f} MB/s {used / 1e6:6.0f} MB/s {alone / 1e6:6.0f} MB/s hashed"
            report(name, figures, rate >= self._goal, f"{self._goal / 1e6:.0f} MB/s")
            best.append(rate)
        return best


def gateway_blobs(port: int, folder: Path, server: psutil.Process, goal: float = BYTES) -> list[float]:
    """Bytes that are new in each round up, and down into a store that has none of them: the best of each, a second."""
    rng, rates = np.random.default_rng(1), Rates(server, goal)
    for number in range(ROUNDS):
        data = rng.bytes(BLOB)
        sender, receiver = LocalStore(folder / f"sender-{number}"), LocalStore(folder / f"receiver-{number}")
        blob = sender.put(data)
        with GatewayClient(f"http://127.0.0.1:{port}", sender) as up:
            rates.timed("gateway  blob up, verified by both", data, partial(up.upload, blob))
        with GatewayClient(f"http://127.0.0.1:{port}", receiver) as down:
            rates.timed("gateway  blob down, verified", data, partial(down.fetch, blob))
        assert receiver.path(blob).stat().st_size == BLOB
    return rates.say()


def local_blobs(port: int, server: psutil.Process) -> None:
    """The same with Python's own client, which costs little beside the server; its part of verifying is to hash."""
    rng, rates = np.random.default_rng(2), Rates(server)
    with closing(HTTPConnection("127.0.0.1", port, timeout=300)) as http:

        def asked(method: str, url: str, data: bytes | None = None) -> bytes:
            http.request(method, url, data)
            answer = http.getresponse()
            assert answer.status in (200, 201), answer.reason
            return answer.read()

        def down(url: str, blob: bytes) -> None:
            assert Pieces.of(asked("GET", url)).blob == blob

        for _ in range(ROUNDS):
            data = rng.bytes(BODY)
            blob = Pieces.of(data).blob
            rates.timed("serve    blob up, verified", data, partial(asked, "PUT", f"/v1/blobs/{blob.hex()}", data))
            rates.timed("serve    blob down, verified", data, partial(down, f"/v1/blobs/{blob.hex()}", blob))
    rates.say()


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    assert merkle.PIECE == 1 << 20
    load1, processors = os.getloadavg()[0], len(os.sched_getaffinity(0))
    sys.stdout.write(f"{processors} processors, on which {load1:.1f} others wait or run\n")
    sys.stdout.write(f"{'':44} {'a second':>10} {'processor':>10} {'median':>7} {'p99':>7}\n")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-rest-", dir=MEMORY)))
        _, network = stack.enter_context(local_network([]))
        path = network.save(folder / "network.json")
        port, task, server = stack.enter_context(process(serve_gateway, path, folder / "gateway"))
        for name, text in gateway_requests(task).items():
            measure(name, port, text, seconds, server)
        gateway_blobs(port, folder, server)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-rest-", dir=MEMORY)))
        os.environ["EIGENTENSOR_CACHE_DIR"] = str(folder / "blobs")
        port, (program, weights), server = stack.enter_context(process(serve_local, folder / "serve"))
        for name, text in local_requests(program, weights, port).items():
            measure(name, port, text, seconds, server)
        local_blobs(port, server)


if __name__ == "__main__":
    main()
