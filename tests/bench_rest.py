"""How many small requests the gateway and `eigentensor serve` answer in a second, how late the slowest, and how fast
blobs travel with verification on both sides. All over loopback, each server a process of its own.

    scripts/bench rest [SECONDS]

Beside what the clock says stands what a second of the server's processor brings: other work disturbs it least.
"""

import asyncio
import base64
import json
import multiprocessing
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import uvicorn

from eigentensor import merkle
from eigentensor.capture import TensorContext
from eigentensor.chain import Chain, Network, anvil_account, order_uuid, to_wei
from eigentensor.store import GatewayClient, LocalStore, Pieces, save_safetensors
from eigentensor.testing.localnet import local_network
from eigentensor.web.listening import listen
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


def measure(name: str, port: int, text: bytes, seconds: float, server: psutil.Process) -> None:
    """One line: answers a second, and in a second of the server's processor; how late half and all but 1 % came."""
    before = processor(server)
    taken = load(port, text, seconds)
    used = processor(server) - before
    late = np.percentile(taken, [50, 99]) * 1e3
    rates = f"{len(taken) / seconds:8.0f}/s {len(taken) / used:8.0f}/s"
    sys.stdout.write(f"{name:44} {rates} {late[0]:7.1f} {late[1]:7.1f} ms\n")
    sys.stdout.flush()


def processor(process: psutil.Process) -> float:
    """Seconds of a processor that a process has used."""
    times = process.cpu_times()
    return float(times.user + times.system)


# Servers


def _serve(app: object, port: Connection, told: object) -> None:
    listening = listen("127.0.0.1", 0)
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
    headers = {"content-type": "application/json"}
    task = httpx.post(f"http://127.0.0.1:{port}/v1/tasks", content=body, headers=headers).json()["task"]
    return {
        "serve    GET /v1/tasks/{uuid}": request("GET", f"/v1/tasks/{task}"),
        "serve    POST /v1/quotes": request("POST", "/v1/quotes", body),
        "serve    POST /execute_graph_on_gpu, executed": request("POST", "/execute_graph_on_gpu", body),
    }


def blobs(port: int, folder: Path, server: psutil.Process) -> None:
    """Bytes that are new in each round up, and down into a store that has none of them."""
    rng = np.random.default_rng(1)
    rates: dict[str, list[tuple[float, float]]] = {}

    def timed(name: str, run: Callable[[], object]) -> None:
        busy, start = processor(server), time.perf_counter()
        run()
        seconds = time.perf_counter() - start
        rates.setdefault(name, []).append((BLOB / seconds / 1e6, BLOB / max(processor(server) - busy, 0.01) / 1e6))

    for number in range(ROUNDS):
        data = rng.bytes(BLOB)
        sender, receiver = LocalStore(folder / f"sender-{number}"), LocalStore(folder / f"receiver-{number}")
        blob = sender.put(data)
        with GatewayClient(f"http://127.0.0.1:{port}", sender) as up:
            timed("blob up, verified piece by piece", partial(up.upload, blob))
        with GatewayClient(f"http://127.0.0.1:{port}", receiver) as down:
            timed("blob down, verified piece by piece", partial(down.fetch, blob))
        assert receiver.path(blob).stat().st_size == BLOB
        timed("beside it: hashing the blob once", partial(Pieces.of, data))
    for name, found in rates.items():
        beside = (
            "" if name.startswith("beside") else f"{max(of for _, of in found):6.0f} MB/s of the gateway's processor"
        )
        sys.stdout.write(f"{name:44} {max(rate for rate, _ in found):5.0f} MB/s best of {ROUNDS} {beside}\n")


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    assert merkle.PIECE == 1 << 20
    sys.stdout.write(f"{'':44} {'a second':>10} {'processor':>10} {'median':>7} {'p99':>7}\n")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-rest-", dir=MEMORY)))
        _, network = stack.enter_context(local_network([]))
        path = network.save(folder / "network.json")
        port, task, server = stack.enter_context(process(serve_gateway, path, folder / "gateway"))
        for name, text in gateway_requests(task).items():
            measure(name, port, text, seconds, server)
        blobs(port, folder, server)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-rest-", dir=MEMORY)))
        port, names, server = stack.enter_context(process(serve_local, folder / "serve"))
        for name, text in local_requests(*names, port).items():
            measure(name, port, text, seconds, server)


if __name__ == "__main__":
    main()
