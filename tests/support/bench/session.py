"""What a session at a cluster costs: client, dispatcher and worker in processes of their own, over TLS on one machine.
Then what recorded tensors take there: additions of 10 × 10, and steps of training that read their loss.

scripts/bench session    the best of five; frames alone: encoded and decoded in this process
"""

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import numpy as np

import eigentensor.gt as gt
from eigentensor.cluster import frames
from eigentensor.cluster.frames import ASKED
from eigentensor.cluster.layouts import Reader, encode
from eigentensor.cluster.remote import RemoteSession
from eigentensor.gt import connection
from support.bench.pairs import say
from support.bench.stream import INSTRUCTIONS, chain, step
from support.clusters import F32, Processes, added, square

ROUNDS, RUNS, READS, STEPS = 5, 2_000, 300, 500
MIB = 1 << 20


def main() -> None:
    frame = frames.Run(bytes(32), (1, 2, 3, 4), (5, 6, 7, 8, 9, 10), (), (1, 2))
    data = b"".join(encode(frame, number + 1) for number in range(RUNS))
    say(f"frames encoded     {RUNS / best(lambda: [encode(frame, n) for n in range(RUNS)]):12,.0f} a second")
    say(f"frames decoded     {RUNS / best(lambda: sum(1 for _ in Reader(ASKED).feed(data))):12,.0f} a second")
    for kind, words in (("trusted", ("--trust",)), ("in a sandbox", ())):
        with TemporaryDirectory() as folder:
            processes = Processes(Path(folder))
            try:
                processes.up("--workers", "0", *words)
                start = time.perf_counter()
                both = [Thread(target=processes.worker, args=("--slots", "36", *words)) for _ in range(2)]
                for thread in both:
                    thread.start()
                for thread in both:
                    thread.join()
                say(f"72 slots           {time.perf_counter() - start:12.2f} s until two processes lend them, {kind}")
                gone = processes.started.pop()
                gone.kill()
                gone.wait()
                start = time.perf_counter()
                while len(processes.status().workers) > 1:
                    pass
                say(f"a killed worker    {(time.perf_counter() - start) * 1e3:12.0f} ms until it is noticed")
                with processes.session() as session:
                    measure(session, kind)
                gt.connect(processes.address, str(Path(folder) / "client"))
                recorded(kind)
                connection.close()
            finally:
                processes.close()


def measure(session: RemoteSession, kind: str) -> None:
    """A worker's figures: runs of one small program, each on the result of the one before."""
    root, last = session.define(added(10)), 2
    session.put(1, square(10), F32)
    session.put(2, square(10), F32)

    def chain(count: int, *, is_read: bool) -> None:
        nonlocal last
        for _ in range(count):
            session.run(root, {"x": last, "y": 1}, {"output": last + 1}, freed=[last])
            last += 1
            if is_read:
                session.get(last)
        session.get(last)

    chain(10, is_read=False)
    say(f"runs, {kind:12} {RUNS / best(lambda: chain(RUNS, is_read=False)):12,.0f} a second, one behind the other")
    say(f"runs, {kind:12} {best(lambda: chain(READS, is_read=True)) / READS * 1e3:12.2f} ms, each result read")
    large, number = np.zeros((16 * MIB // 4,), np.float32), 1 << 32

    def there_and_back() -> None:
        nonlocal number
        number += 1
        session.put(number, large, F32)
        session.get(number)
        session.free([number])

    say(f"a tensor           {32 / best(there_and_back):12,.0f} MiB a second, to the dispatcher and back")


def recorded(kind: str) -> None:
    """The same worker's figures of `eigentensor.gt`."""
    say(f"additions, {kind:12}{INSTRUCTIONS / best(chain(), 40):12,.0f} a second")
    one = step()
    for _ in range(10):
        one()
    say(f"a step, {kind:12} {best(one, STEPS) * 1e3:14.2f} ms, its loss read")


def best(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The least seconds of some rounds."""
    took = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return min(took)


if __name__ == "__main__":
    main()
