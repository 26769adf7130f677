"""What the index of a gateway carries: a thousand operators and a million tasks. How fast it catches up with a chain
from an empty database, how much memory that takes, and how late it answers lists, searches and pages then.

    scripts/bench index [--tasks 1000000] [--database sqlite|postgresql] [--folder FOLDER]

The chain is a node on loopback whose blocks are told and not executed (tests/support/stories/crowd.py); what operators
say beside it their thousand signers sign. What has to reach a goal is time of the server's processor, since others use
the machine, too: `median` is what a visitor waits here. With a folder that has the database of an earlier run nothing
is read again.
"""

import argparse
import logging
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import httpx
import numpy as np
import psutil
from sqlalchemy import create_engine, text

from eigentensor.chain import Decline, Network, PublishedAsk
from eigentensor.economics.pricing import Ask, Pricing, Speed
from eigentensor.web.server import listen, server
from eigentensor_aggregator import logs
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.service import assembled, collect_seldom
from support.bench.rest import process, processor, report
from support.services import postgres_server
from support.stories.crowd import Crowd, serve_node

#: What is wanted: events a second, milliseconds of an answer, bytes of memory.
EVENTS, LATE, MEMORY = 5_000, 50, 1 << 30
#: Logs that the node gives at once: as many as public ones do.
MOST = 10_000
ROUNDS = 20


@dataclass(frozen=True)
class Place:
    """A gateway under measurement."""

    crowd: Crowd
    http: httpx.Client
    process: psutil.Process
    database: str


def serve_index(settings: Settings, port: Connection) -> None:
    """A gateway that listens from the beginning, while it catches up."""
    logs.configure(logging.ERROR)
    collect_seldom()
    with listen("127.0.0.1", 0) as listening:
        port.send((listening.getsockname()[1], None))
        with assembled(settings) as (app, _):
            server(app).run(sockets=[listening])


def memory_of(one: psutil.Process) -> int:
    """Bytes that are its own: what it shares counts in part."""
    return int(one.memory_full_info().pss)


def catch_up(place: Place) -> None:
    """Until the newest block is read: the rate, and the most memory seen meanwhile."""
    start, busy, most = time.perf_counter(), processor(place.process), 0
    while (block := indexed(place)) < place.crowd.head:
        most = max(most, memory_of(place.process))
        sys.stderr.write(f"\rblock {block} of {place.crowd.head}, {time.perf_counter() - start:.0f} s ")
        time.sleep(2.0)
    sys.stderr.write("\n")
    seconds, used = time.perf_counter() - start, processor(place.process) - busy
    if most:
        with create_engine(place.database).connect() as connection:
            events = int(connection.execute(text("SELECT count(*) FROM events")).scalar_one())
        figures = f"{events / seconds:8.0f}/s {events / used:8.0f}/s of a processor"
        report(
            f"{events} events, from an empty database", figures, events / used >= EVENTS, f"{EVENTS}/s of a processor"
        )
        report("memory, the most meanwhile", f"{most / 2**20:8.0f} MiB", most <= MEMORY, f"{MEMORY >> 20} MiB")


def indexed(place: Place) -> int:
    """The newest block that is read."""
    try:
        (line,) = re.findall(r"^et_indexed_block (\S+)", place.http.get("/metrics").text, re.MULTILINE)
        return int(float(line))
    except httpx.TransportError:
        return 0


def late(place: Place, name: str, path: str) -> None:
    """One line: milliseconds of the server's processor for an answer, and until it came, in the middle of some; the
    first one, which reads what nobody has asked for, counts alone, too."""
    taken, spent = [], [processor(place.process)]
    for number in range(ROUNDS):
        start = time.perf_counter()
        answer = place.http.get(path.replace("{n}", str(number)))
        taken.append((time.perf_counter() - start) * 1e3)
        spent.append(processor(place.process))
        assert answer.status_code == 200, answer.text
    first, mean = 1e3 * (spent[1] - spent[0]), 1e3 * (spent[-1] - spent[0]) / ROUNDS
    figures = f"{first:7.0f} {mean:7.1f} {np.median(taken):7.1f} ms"
    report(name, figures, mean <= LATE, f"{LATE} ms")


def lists(place: Place) -> Iterator[tuple[str, str]]:
    """What is asked for: a name, and a path in which {n} is the number of the round."""
    crowd = place.crowd
    client, executor = crowd.client_of_many, crowd.operator(7)
    deep = f"{crowd.block_of(crowd.tasks // 100)}-0"
    middle = f"{crowd.block_of(crowd.tasks // 2)}-{{n}}"
    yield "newest tasks", "/v1/tasks"
    yield "200 of them", "/v1/tasks?limit=200"
    yield "in the middle", f"/v1/tasks?cursor={middle}"
    yield "at the end", f"/v1/tasks?cursor={deep}"
    for state in ("open", "committed", "final", "failed", "convicted"):
        yield f"state {state}", f"/v1/tasks?state={state}"
        yield f"state {state}, of a client with a fifth of all", f"/v1/tasks?state={state}&client={client}"
        yield f"state {state}, of one operator, deep", f"/v1/tasks?state={state}&executor={executor}&cursor={deep}"
    yield "a client with a fifth of all, at one operator", f"/v1/tasks?client={client}&executor={executor}"
    yield "both, and a state", f"/v1/tasks?client={client}&executor={executor}&state=failed"
    yield "a client with few", f"/v1/tasks?client={crowd.client_of_few}&state=final"
    yield "a client without", f"/v1/tasks?client=0x{'0' * 40}&state=final"
    yield "a program, on a page", f"/tasks?program={crowd.program(11).hex()}&state=final&n={{n}}"
    yield "games of an operator", f"/v1/challenges?executor={executor}"
    yield "one task", f"/v1/tasks/{crowd.uuid(crowd.tasks // 3).hex()}"
    yield "why a task waits", f"/v1/tasks/{crowd.uuid(crowd.tasks - 1).hex()}/explain"
    yield "a thousand operators", "/v1/operators"
    yield "page of the market", "/?blocks=4096&n={n}"
    yield "page of the market, all blocks", "/?n={n}"
    yield "page of operators", "/operators?n={n}"
    yield "page of one operator", f"/operators/{executor}?n={{n}}"
    yield "metrics", "/metrics"


def said(place: Place) -> None:
    """All operators say what they reckon with, and decline the newest task, each signed."""
    crowd, domain = place.crowd, place.crowd.deployment.domain
    task, ask = crowd.uuid(crowd.tasks - 1), Ask(Pricing(), Speed(1e12, 1e11, 2.0), 12.0, 2)
    signed = [
        (
            f"/v1/operators/{operator}/asks",
            PublishedAsk(operator, crowd.head, ask).sign(domain, signer),
            Decline(operator, task, "price", "9", "5").sign(domain, signer),
        )
        for number in range(crowd.operators)
        for operator, signer in ((crowd.operator(number), crowd.signer(number)),)
    ]
    busy, start = processor(place.process), time.perf_counter()
    for path, published, declined in signed:
        assert place.http.put(path, json=published).status_code == 200
        answer = place.http.post(f"/v1/tasks/{task.hex()}/declines", json=declined)
        assert answer.status_code in (201, 403), answer.text  # so many may speak, no more
    seconds, used = time.perf_counter() - start, processor(place.process) - busy
    count = 2 * len(signed)
    figures = f"{count / seconds:8.0f}/s {count / used:8.0f}/s of a processor"
    report("asks and declines of operators, checked", figures, count / used >= 100, "100/s of a processor")


@contextmanager
def database(kind: str, folder: Path) -> Iterator[str | None]:
    """The URL of an empty database; None is the SQLite of the gateway's folder."""
    if kind == "sqlite":
        yield None
        return
    with postgres_server() as url:
        assert url is not None, "postgresql is not installed"
        yield f"{url}postgres"


def measure(crowd: Crowd, kind: str, folder: Path) -> None:
    with process(serve_node, crowd, MOST) as (port, _, _), database(kind, folder) as url:
        path = Network("crowd", f"http://127.0.0.1:{port}", "", crowd.deployment).save(folder / "crowd.json")
        settings = Settings(network=str(path), data=folder / "gateway", poll=0.1, database=url, scrub_days=0)
        with (
            process(serve_index, settings) as (served, _, running),
            httpx.Client(base_url=f"http://127.0.0.1:{served}", timeout=3600) as http,
        ):
            place = Place(crowd, http, running, settings.database_url)
            catch_up(place)
            said(place)
            sys.stdout.write(f"{'milliseconds':44} {'first':>7} {'mean':>7} {'median':>7}\n")
            for name, asked in lists(place):
                late(place, name, asked)
            most = memory_of(running)
            report("memory, after all that", f"{most / 2**20:8.0f} MiB", most <= MEMORY, f"{MEMORY >> 20} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench index", description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--folder", type=Path, help="where the gateway's data stay")
    arguments = parser.parse_args()
    load, processors = os.getloadavg()[0], len(os.sched_getaffinity(0))
    sys.stdout.write(f"{processors} processors, on which {load:.1f} others wait or run\n")
    with tempfile.TemporaryDirectory(prefix="bench-index-") as folder:
        measure(Crowd(arguments.tasks), arguments.database, arguments.folder or Path(folder))


if __name__ == "__main__":
    main()
