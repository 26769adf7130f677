"""What payment, ledger and receipt add to a call over HTTP: paid calls of a small program beside the same calls unpaid,
which are read, executed and answered by the same server in the same way, with nothing signed and nothing written down.

    scripts/bench channel [CALLS]
    scripts/bench channel --chat [ROUNDS]

`--chat`: what a paid chat takes through `serve --channels`, beside `serve --local` (`chat`).

All over loopback; the server and its clients share this machine's processors. Requests are signed before they are
measured. Each line stands for so many connections, with a call under way on each: milliseconds until half and all but
1 % of the calls are answered, calls a second, and microseconds of a processor that the server takes for a call, its
sandbox included. The ledger lies in memory, where there is such a folder, and on the disk, whose sync is measured
beside it.
"""

import asyncio
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import psutil
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from eigentensor import merkle
from eigentensor.channel import Key, channel_of, hash_of, pool_of, task_of, x402
from eigentensor.channel.calls import Computation, Payment
from eigentensor.channel.deals import Deal, Offer, Voucher
from eigentensor.merkle import Frontier
from eigentensor.program import Kind, Role, encode
from eigentensor.store.tensors import dump_safetensors
from eigentensor.web import problems
from eigentensor.web.limits import BodyLimit
from eigentensor_operator.calls.channels import ServedProgram
from eigentensor_operator.calls.inputs import read_inputs
from eigentensor_operator.calls.routes import SAFETENSORS
from eigentensor_operator.calls.service import Rules
from eigentensor_operator.node import NodeServer
from support.bench import chat
from support.stories.calls import CLIENT, DOMAIN, ELEMENTS, PRICE, counting, offered, ones, programs, scaling, serving

CALLS, WIDE = 3000, 8
MEMORY = next((path for path in ("/dev/shm",) if Path(path).is_dir()), None)
#: What is wanted: milliseconds that are added at p50 and p99; calls a second, or that part of the unpaid ones.
HALF, LATE, RATE, PART = 1.0, 5.0, 1000, 0.6


def unpaid_app(served: ServedProgram) -> FastAPI:
    """The same calls without payment: executed one after the other, as the endpoint's lane does."""
    app = FastAPI(openapi_url=None)
    problems.install(app)
    app.add_middleware(BodyLimit, limit=lambda _: 1 << 20, total=8 << 20)
    turn = asyncio.Lock()

    async def call(request: Request) -> Response:
        computation = Computation.of_query(list(request.query_params.multi_items()))
        inputs = read_inputs(served.program, computation, await request.body(), lambda _: False)
        async with turn:
            results = await served.execution.execute_async(inputs.inputs, {}, 1, 10)
        return Response(dump_safetensors(results.outputs), media_type=SAFETENSORS)

    app.add_route("/unpaid", call, methods=["POST"])
    return app


def deals(offer: Offer, first: int, count: int) -> list[tuple[Key, Deal]]:
    """So many channels, each with its payer."""
    keys = [Key((1000 + first + n).to_bytes(32, "big")) for n in range(count)]
    return [(key, Deal(pool_of(DOMAIN, offer), CLIENT, key.address, 1, 10**8, 0, 10**6)) for key in keys]


def serve(folder: Path, connection: Connection) -> None:
    """Both servers in a process of their own."""
    made = programs(folder)
    rules = Rules(waiting=10**4, each=10**4)
    with serving(folder, made, rules, check_rate=10**15) as endpoint:
        for _, deal in deals(endpoint.offer, 0, 1) + deals(endpoint.offer, 1, WIDE):
            endpoint.chain.open(deal, 10**9)
        endpoint.chain.mine()
        unpaid = NodeServer(unpaid_app(made.served["scaling"]), "127.0.0.1", 0, endpoint.service.loop)
        connection.send((int(endpoint.url.rpartition(":")[2]), unpaid.port))
        threading.Event().wait()


def signed(offer: Offer, key: Key, deal: Deal, calls: int) -> list[bytes]:
    """The requests of a channel, one after the other: what they acknowledge is known, since all give the same."""
    program, x = scaling(), {"x": ones(2)}
    work = Computation(merkle.program_root(encode(program)))
    outputs = merkle.kind_root(program, Kind.OUTPUT, {"y": ones(4)})
    result = merkle.result_of(merkle.outputs_root(outputs, merkle.kind_root(program, Kind.STATE, {})))
    root, channel = merkle.role_root(program, Role.INPUT, x), channel_of(DOMAIN, deal)
    body, frontier, requests = dump_safetensors(x), Frontier(), []
    for index in range(calls):
        task = task_of(DOMAIN, work.order(deal, channel, index, 7, root))
        voucher = Voucher(channel, index + 1, (index + 1) * PRICE, index, frontier.root())
        payment = Payment(7, root, voucher, key.sign(hash_of(DOMAIN, voucher)))
        header = f"{x402.SIGNATURE}: {x402.signature(payment, {'scheme': x402.SCHEME})}\r\n"
        requests.append(request(f"/v1/channels/{channel.hex()}/calls?{urlencode(work.query())}", body, header))
        frontier.append(merkle.call_hash(channel, index, task, result))
    assert len(body) > ELEMENTS and offer.tail
    return requests


def request(path: str, body: bytes, header: str = "") -> bytes:
    """A whole HTTP request."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{header}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _ask(port: int, requests: Sequence[bytes], taken: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    for text in requests:
        start = time.perf_counter()
        writer.write(text)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        assert head.startswith(b"HTTP/1.1 200"), (head, body)
        taken.append(time.perf_counter() - start)
    writer.close()


Figures = tuple[float, float, float, float]


def measure(port: int, each: Sequence[Sequence[bytes]], server: psutil.Process) -> Figures:
    """p50 and p99 in ms, calls a second, µs of a processor for a call."""

    async def run() -> list[float]:
        taken: list[float] = []
        await asyncio.gather(*(_ask(port, requests, taken) for requests in each))
        return taken

    before, start = _processor(server), time.perf_counter()
    taken = asyncio.run(run())
    seconds, used = time.perf_counter() - start, _processor(server) - before
    half, late = np.percentile(taken, [50, 99]) * 1e3
    return float(half), float(late), len(taken) / seconds, used / len(taken) * 1e6


def _processor(process: psutil.Process) -> float:
    """Seconds of a processor that a process and those below it have used."""
    total = 0.0
    for one in (process, *process.children(recursive=True)):
        times = one.cpu_times()
        total += times.user + times.system
    return total


def sync(folder: Path) -> float:
    """Milliseconds of a synced write there."""
    with tempfile.TemporaryFile(dir=folder) as file:
        start = time.perf_counter()
        for _ in range(50):
            file.write(bytes(4096))
            file.flush()
            os.fdatasync(file.fileno())
        return (time.perf_counter() - start) * 20


@contextmanager
def server(folder: Path) -> Iterator[tuple[int, int, psutil.Process]]:
    """The ports of the paid and of the unpaid server, and their process."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(folder, theirs))
    process.start()
    try:
        yield *ours.recv(), psutil.Process(process.pid)
    finally:
        if process.pid is not None:
            os.kill(process.pid, signal.SIGTERM)
        process.join()


def main() -> None:
    if sys.argv[1:2] == ["--chat"]:
        chat.main(sys.argv[2:])
        return
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else CALLS
    head = ("", "p50, ms", "p99, ms", "calls/s", "CPU, µs")
    sys.stdout.write("{:42}{:>10}{:>10}{:>10}{:>10}\n".format(*head))
    for place, where in (("memory", MEMORY), ("disk", None)):
        with tempfile.TemporaryDirectory(dir=where) as name:
            folder = Path(name)
            listed = {merkle.program_root(encode(program)): 4 for program in (scaling(), counting())}
            offer = offered(listed, check_rate=10**15)
            channels = [deals(offer, 0, 1), deals(offer, 1, WIDE)]
            counts = [calls // 2, calls // WIDE]
            paid = [[signed(offer, *one, count) for one in some] for some, count in zip(channels, counts, strict=True)]
            plain = request(f"/unpaid?program={next(iter(listed)).hex()}", dump_safetensors({"x": ones(2)}))
            with server(folder) as (port, other, process):
                for each, count in zip(paid, counts, strict=True):
                    measure(other, [[plain] * (count // 5)] * len(each), process)
                    unpaid = measure(other, [[plain] * count] * len(each), process)
                    _report(f"{len(each)} unpaid", unpaid)
                    figures = measure(port, each, process)
                    _report(f"{len(each)} paid, ledger in {place} (a sync {sync(folder):.2f} ms)", figures)
                    _goals(figures, unpaid)


def _report(name: str, figures: Figures) -> None:
    half, late, rate, used = figures
    sys.stdout.write(f"{name:42}{half:10.2f}{late:10.2f}{rate:10.0f}{used:10.0f}\n")
    sys.stdout.flush()


def _goals(paid: Figures, unpaid: Figures) -> None:
    added, late, part = paid[0] - unpaid[0], paid[1] - unpaid[1], paid[2] / unpaid[2]
    reached = added <= HALF, late <= LATE, paid[2] >= RATE or part >= PART
    words = " ".join(f"{'reached' if good else 'missed ':8}" for good in reached)
    sys.stdout.write(f"  added {added:.2f} ms at p50, {late:.2f} at p99; {part:.2f} of the unpaid rate: {words}\n")


if __name__ == "__main__":
    main()
