"""What a box costs that a worker brings to another one of its host, in processes of their own.

scripts/bench boxes    through memory that both have mapped, and by the socket, in turn: microseconds of a processor at
                       each side, and until the other has copied it, of boxes of some sizes, four at a time
"""

import asyncio
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from eigentensor.runtime.sharded.mail import MailPort
from eigentensor_cluster.engine.exchange import Exchange
from eigentensor_cluster.serving import running
from support.bench.pairs import say

SIZES = {1 << 10: 200, 1 << 18: 50, 1 << 22: 10}  #: bytes, and how often so many are brought
TOGETHER, WARM, ROUNDS = 4, 3, 5
ROOMS = {"memory": 1 << 30, "socket": 0}


class Spent(NamedTuple):
    """Microseconds for each box: of this process's processors, and in all."""

    processor: float
    passed: float


class Sides(NamedTuple):
    """The same of who sends and of who receives."""

    sender: Spent
    receiver: Spent


def turn(port: MailPort, number: int, box: np.ndarray) -> None:
    """Some boxes go to the other, which answers with a small one."""
    for which in range(number * TOGETHER, (number + 1) * TOGETHER):
        if port.worker == 0:
            port.send(1, which, box)
        else:
            np.copyto(box, port.receive(0, which))
    if port.worker == 0:
        port.receive(1, number)
    else:
        port.send(0, number, box[:1])


def timed(port: MailPort, size: int, count: int) -> Spent:
    """What one side spends for a box of so many bytes."""
    box = np.full(size // 4, 1.5, np.float32)
    for number in range(WARM):
        turn(port, number, box)
    took, passed = time.process_time(), time.perf_counter()
    for number in range(WARM, WARM + count):
        turn(port, number, box)
    boxes = count * TOGETHER * 1e-6
    return Spent((time.process_time() - took) / boxes, (time.perf_counter() - passed) / boxes)


async def side(into: Connection, folder: Path, own: int, size: int, room: int) -> None:
    """The life of a process that brings boxes to another, or is brought them: what it spends."""
    exchange = Exchange()
    exchange.secret = b"s" * 16
    await exchange.listen_here(folder / str(own))
    while not (folder / str(1 - own)).exists():
        await asyncio.sleep(0.01)
    port = exchange.begin(1, [f"unix:{folder / str(number)}" for number in range(2)], [own], room).port(own)
    into.send(await asyncio.to_thread(timed, port, size, SIZES[size]))
    (folder / f"{own} is done").touch()
    while not (folder / f"{1 - own} is done").exists():
        await asyncio.sleep(0.01)
    await exchange.close()


def lives(into: Connection, folder: Path, own: int, size: int, room: int) -> None:
    """A side in a process of its own."""
    running(side(into, folder, own, size, room))


def measured(size: int, room: int) -> Sides:
    """Both sides, in new processes."""
    context, each = multiprocessing.get_context("spawn"), list[tuple[Connection, Callable[[], None]]]()
    with TemporaryDirectory() as folder:
        for own in range(2):
            result, into = context.Pipe(duplex=False)
            process = context.Process(target=lives, args=(into, Path(folder), own, size, room))
            process.start()
            each.append((result, process.join))
        sides = Sides(*(result.recv() for result, _ in each))
        for _, join in each:
            join()
    return sides


def main() -> None:
    say("", "sender, us", "receiver, us", "passed, us", widths=(44,))
    for size in SIZES:
        every: dict[str, list[Sides]] = {way: [] for way in ROOMS}
        for _ in range(ROUNDS):
            for way, room in ROOMS.items():
                every[way].append(measured(size, room))
        for way, sides in every.items():
            sender, receiver = (min(of[who].processor for of in sides) for who in range(2))
            say(f"{size >> 10:,} KiB, {way}", sender, receiver, min(of.receiver.passed for of in sides), widths=(44,))


if __name__ == "__main__":
    main()
