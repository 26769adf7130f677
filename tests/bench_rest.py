"""How many small requests the gateway and `eigentensor serve` answer in a second, how late the slowest, and how fast
blobs travel with verification on both sides. All over loopback, each server a process of its own.

    scripts/bench rest [SECONDS]
"""

import asyncio
import base64
import json
import multiprocessing
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import httpx
import numpy as np
import uvicorn

from eigentensor import merkle
from eigentensor.capture import TensorContext
from eigentensor.chain import Chain, Network, anvil_account, order_uuid, to_wei
from eigentensor.store import GatewayClient, LocalStore, Pieces, save_safetensors
from eigentensor.testing.localnet import local_network
from eigentensor_aggregator.config import Settings as GatewaySettings
from eigentensor_aggregator.service import assembled as gateway_assembled
from eigentensor_client.serving.app import create_app
from eigentensor_client.serving.running import assembled
from eigentensor_client.serving.settings import Settings
from market_life import orders_of

CONNECTIONS, BLOB, ROUNDS = 8, 256 << 20, 3
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


def show(name: str, taken: list[float], seconds: float) -> None:
    late = np.percentile(taken, [50, 99]) * 1e3
    sys.stdout.write(f"{name:44} {len(taken) / seconds:8.0f}/s {late[0]:7.1f} {late[1]:7.1f} ms\n")
    sys.stdout.flush()


# Servers


def _serve(app: object, port: Connection, told: object) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    port.send((listening.getsockname()[1], told))
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off")  # type: ignore[arg-type]
    uvicorn.Server(config).run(sockets=[listening])


def serve_gateway(network: Path, data: Path, port: Connection) -> None:
    """A gateway with one task to tell of."""
    settings = GatewaySettings(network=str(network), data=data)
    chain = Chain(Network.load(network), anvil_account(2), data.parent / "client.sqlite")
    with chain, gateway_assembled(settings) as (app, daemon):
        chain.mint(chain.address, to_wei("10"))
        chain.approve(chain.deployment.task_market, to_wei("10"))
        order = orders_of(chain)()
        chain.post(order)
        while daemon.block < chain.block_number():
            time.sleep(0.05)
        _serve(app, port, order_uuid(order, chain.deployment.domain).hex())


def serve_local(data: Path, port: Connection) -> None:
    """A service that has a small program and its weights."""
    from tinygrad import Tensor

    context = TensorContext()
    x = context.add_graph_input("x", (8, 16))
    graph = context.compile_to_graph((x @ context.add_weight("w", Tensor(np.ones((16, 8), np.float32)))).relu())
    with assembled(Settings(local=True, data=data, rate=1e9)) as service:
        path = data / "weights"
        save_safetensors(path, {name: np.asarray(array) for name, array in graph.weights.items()})
        names = [service.store.names(service.store.put(source)).computed for source in (graph.to_bytes(), path)]
        _serve(create_app(service), port, names)


@contextmanager
def process(run: Callable[..., None], *arguments: object) -> Iterator[tuple[int, object]]:
    """A server in a process of its own: its port, and what it tells."""
    ours, theirs = multiprocessing.Pipe()
    spawned = multiprocessing.get_context("spawn").Process(target=run, args=(*arguments, theirs))
    spawned.start()
    try:
        yield ours.recv()
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
    headers = {"content-type": "application/json"}
    task = httpx.post(f"http://127.0.0.1:{port}/v1/tasks", content=body, headers=headers).json()["task"]
    return {
        "serve    GET /v1/tasks/{uuid}": request("GET", f"/v1/tasks/{task}"),
        "serve    POST /v1/quotes": request("POST", "/v1/quotes", body),
        "serve    POST /execute_graph_on_gpu, executed": request("POST", "/execute_graph_on_gpu", body),
    }


def blobs(port: int, folder: Path) -> None:
    """Bytes that are new in each round up, and down into a store that has none of them."""
    rng = np.random.default_rng(1)
    rates: dict[str, list[float]] = {}
    for number in range(ROUNDS):
        data = rng.bytes(BLOB)
        sender, receiver = LocalStore(folder / f"sender-{number}"), LocalStore(folder / f"receiver-{number}")
        blob = sender.put(data)
        with GatewayClient(f"http://127.0.0.1:{port}", sender) as up:
            _timed(rates, "blob up, verified piece by piece", partial(up.upload, blob))
        with GatewayClient(f"http://127.0.0.1:{port}", receiver) as down:
            _timed(rates, "blob down, verified piece by piece", partial(down.fetch, blob))
        assert receiver.path(blob).stat().st_size == BLOB
        _timed(rates, "beside it: hashing the blob once", partial(Pieces.of, data))
    for name, found in rates.items():
        sys.stdout.write(f"{name:44} {max(found):8.0f} MB/s best, {min(found):.0f} worst of {ROUNDS}\n")


def _timed(rates: dict[str, list[float]], name: str, run: Callable[[], object]) -> None:
    start = time.perf_counter()
    run()
    rates.setdefault(name, []).append(BLOB / (time.perf_counter() - start) / 1e6)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    assert merkle.PIECE == 1 << 20
    sys.stdout.write(f"{'':44} {'requests':>10} {'median':>7} {'p99':>7}      {CONNECTIONS} connections\n")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-rest-", dir=MEMORY)))
        _, network = stack.enter_context(local_network([]))
        path = network.save(folder / "network.json")
        port, task = stack.enter_context(process(serve_gateway, path, folder / "gateway"))
        for name, text in gateway_requests(str(task)).items():
            show(name, load(port, text, seconds), seconds)
        blobs(port, folder)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-rest-", dir=MEMORY)))
        port, names = stack.enter_context(process(serve_local, folder / "serve"))
        for name, text in local_requests(*names, port).items():  # type: ignore[misc]
            show(name, load(port, text, seconds), seconds)


if __name__ == "__main__":
    main()
