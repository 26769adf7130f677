"""What payment, ledger and receipt add to a call over HTTP: paid calls of a small program beside the same calls unpaid,
which are read, executed and answered by the same server in the same way, with nothing signed and nothing written down.

    scripts/bench channel [CALLS]
    scripts/bench channel --chat [ROUNDS]

`--chat`: what a paid chat takes through `serve --channels`, beside `serve --local` (`chat`).

The small program squares eight numbers; `product` multiplies a vector by 1,024 × 1,024 weights, which calls that are
executed together read once. Unpaid calls are executed one after the other.

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
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import psutil
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from eigentensor import merkle, reference
from eigentensor.channel import Key, channel_of, message_of, pool_of, task_of, x402
from eigentensor.channel.calls import Computation, Payment
from eigentensor.channel.deals import Deal, Offer, Voucher
from eigentensor.merkle import Frontier
from eigentensor.numerics.dtypes import DType
from eigentensor.program import Kind, Program, Role, encode
from eigentensor.program.assemble import assemble
from eigentensor.program.binding import Results
from eigentensor.program.expression import Array, Axis, binary, const, counter, load, reduction, to_body
from eigentensor.program.model import Buffer
from eigentensor.program.ops import Op
from eigentensor.reexecution.confined import limits
from eigentensor.reexecution.warm import WarmExecution
from eigentensor.store.tensors import dump_safetensors, save_safetensors
from eigentensor.task.order import NONE
from eigentensor.web import problems
from eigentensor.web.limits import BodyLimit
from eigentensor_operator.calls.channels import ServedProgram
from eigentensor_operator.calls.inputs import read_inputs
from eigentensor_operator.calls.routes import SAFETENSORS
from eigentensor_operator.calls.service import Rules
from eigentensor_operator.node import NodeServer
from support.bench import chat
from support.stories.calls import CLIENT, DOMAIN, PRICE, Programs, ones, programs, scaling, serving

CALLS, WIDE, SIDE = 3000, 8, 1024
MEMORY = next((path for path in ("/dev/shm",) if Path(path).is_dir()), None)
#: What is wanted: milliseconds that are added at p50 and p99; calls a second, or that part of the unpaid ones.
HALF, LATE, RATE, PART = 1.0, 5.0, 1000, 0.6


@dataclass(frozen=True)
class Called:
    """A program with its weights and the inputs that it is called with."""

    name: str
    program: Program
    weights: dict[str, Any]
    inputs: dict[str, Any]

    @property
    def computation(self) -> Computation:
        """What is computed."""
        weights = merkle.role_root(self.program, Role.WEIGHT, self.weights) if self.weights else NONE
        return Computation(merkle.program_root(encode(self.program)), weights)

    @property
    def query(self) -> str:
        """The same in a URL."""
        return urlencode(self.computation.query())

    @property
    def results(self) -> Results:
        """What comes of it."""
        return reference.execute(self.program, self.inputs | self.weights)


def called() -> list[Called]:
    """The small program, and the one with weights."""
    random = np.random.default_rng(1)
    w, x = (random.standard_normal(shape).astype(np.float32) for shape in ((SIDE, SIDE), (SIDE,)))
    return [Called("scaling", scaling(), {}, {"x": ones(2)}), Called("product", product(), {"w": w}, {"x": x})]


def product() -> Program:
    """y = w @ x"""
    row, step = Axis(0, SIDE), Axis(1, SIDE, is_reduce=True)
    place = binary(Op.ADD, binary(Op.MUL, counter(row), const(DType.INDEX, SIDE)), counter(step))
    w, x = load(Array("w", DType.FLOAT32, SIDE**2), place), load(Array("x", DType.FLOAT32, SIDE), counter(step))
    buffers = {
        "w": Buffer(Role.WEIGHT, DType.FLOAT32, (SIDE, SIDE), "w"),
        "x": Buffer(Role.INPUT, DType.FLOAT32, (SIDE,), "x"),
    }
    body = to_body(reduction(Op.REDUCE_MULACC, (step,), w, x), (row,))
    return assemble([("y", body)], buffers, {(Kind.OUTPUT, "y"): ("y", (SIDE,))})


def served(folder: Path, wanted: Sequence[Called]) -> Programs:
    """These programs, warm, and prepared for several calls at once."""
    made = programs(folder)
    for one in wanted:
        if one.name not in made.served:
            save_safetensors(folder / one.name, one.weights)
            execution = WarmExecution(one.program, folder / one.name, replace(limits(1 << 30, 60), threads=1))
            execution.warm()
            of = one.computation
            made.served[one.name] = ServedProgram(of.program, of.weights, one.program, execution, PRICE, 1)
        made.served[one.name].execution.widen()
    return made


def unpaid_app(served: ServedProgram) -> FastAPI:
    """The same calls without payment: executed one after the other."""
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
    """The paid server and an unpaid one of each program, in a process of their own."""
    wanted = called()
    made = served(folder, wanted)
    rules = Rules(waiting=10**4, each=10**4)
    with serving(folder, made, rules, check_rate=10**15) as endpoint:
        for _, deal in [one for some in channels(endpoint.offer) for one in some]:
            endpoint.chain.open(deal, 10**9)
        endpoint.chain.mine()
        loop = endpoint.service.loop
        unpaid = [NodeServer(unpaid_app(made.served[one.name]), "127.0.0.1", 0, loop) for one in wanted]
        connection.send((int(endpoint.url.rpartition(":")[2]), [server.port for server in unpaid], endpoint.offer))
        threading.Event().wait()


def channels(offer: Offer) -> list[list[tuple[Key, Deal]]]:
    """Those of each measurement: one connection, many, and many of the program with weights."""
    return [deals(offer, 0, 1), deals(offer, 1, WIDE), deals(offer, 1 + WIDE, WIDE)]


def signed(one: Called, key: Key, deal: Deal, calls: int) -> list[bytes]:
    """The requests of a channel, one after the other: what they acknowledge is known, since all give the same."""
    program, work, results = one.program, one.computation, one.results
    outputs = merkle.kind_root(program, Kind.OUTPUT, results.outputs)
    result = merkle.result_of(merkle.outputs_root(outputs, merkle.kind_root(program, Kind.STATE, results.states)))
    root, channel = merkle.role_root(program, Role.INPUT, one.inputs), channel_of(DOMAIN, deal)
    body, frontier, requests = dump_safetensors(one.inputs), Frontier(), []
    for index in range(calls):
        task = task_of(DOMAIN, work.order(deal, channel, index, 7, root))
        voucher = Voucher(channel, index + 1, (index + 1) * PRICE, index, frontier.root())
        payment = Payment(7, root, voucher, key.sign(message_of(DOMAIN, voucher)))
        header = f"{x402.SIGNATURE}: {x402.signature(payment, {'scheme': x402.SCHEME})}\r\n"
        requests.append(request(f"/v1/channels/{channel.hex()}/calls?{one.query}", body, header))
        frontier.append(merkle.call_hash(channel, index, task, result))
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
def server(folder: Path) -> Iterator[tuple[int, list[int], Offer, psutil.Process]]:
    """The ports of the paid server and of the unpaid ones, what is offered, and their process."""
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
            with server(folder) as (port, others, offer, process):
                one, many, heavy = channels(offer)
                for which, count, some in ((0, calls // 2, one), (0, calls // WIDE, many), (1, calls // WIDE, heavy)):
                    work = called()[which]
                    paid = [signed(work, *channel, count) for channel in some]
                    plain = request(f"/unpaid?{work.query}", dump_safetensors(work.inputs))
                    for part in (5, 1):  # the first ones are not counted
                        unpaid = measure(others[which], [[plain] * (count // part)] * len(some), process)
                    _report(f"{len(some)} unpaid, {work.name}", unpaid)
                    figures = measure(port, paid, process)
                    _report(f"{len(some)} paid, ledger in {place} (a sync {sync(folder):.2f} ms)", figures)
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
