"""A network under steady load: `scripts/soak`.

Tasks are posted at a steady pace, pages and lists are asked for, a watcher executes all results again. Of every daemon
memory, handles and threads are sampled, with those of its children. After the first third, in which caches fill, a line
is laid through each: the run fails where one rises by more than is allowed.
"""

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, cycle
from pathlib import Path

import httpx
import numpy as np
import psutil

from eigentensor.chain import anvil_account, to_wei
from eigentensor.economics import WAD
from eigentensor.errors import EigenTensorError
from eigentensor.store import LocalStore
from eigentensor_client.accounts import CLIENT
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms
from eigentensor_local.devnet import Devnet, devnet
from support.campaigns.campaign import say
from support.generated.programs import generate
from support.steadily import steadily
from support.stories.daemons import start_watcher, work_of

OPERATORS, BLOCK_TIME = 2, 0.5
TERMS = Terms(max_price=to_wei("0.002"), ramp=0, exec=40, accept_within=200, check_rate=WAD // 5)
PACE, EVERY = 4.0, 5.0  # seconds between two tasks, and between two samples
#: Programs that are executed in turn: kernels are compiled in the first third.
PROGRAMS = 4
_PAGES = ("/", "/tasks", "/operators", "/health", "/v1/tasks?limit=200", "/v1/operators", "/metrics", "/healthz")


@dataclass(frozen=True)
class Line:
    """What is sampled of a process: its name, and how much it may rise in the last two thirds: a part of its median,
    and so much more."""

    name: str
    part: float
    more: float


#: MiB; open files and connections, of which pools keep some; threads.
LINES = (Line("memory", 0.03, 8.0), Line("handles", 0.1, 4.0), Line("threads", 0.0, 1.0))
#: Files of a database for each task, in KiB: it keeps what happened.
PER_TASK = 64.0
_BUSY = EigenTensorError, httpx.HTTPError  # of a network that refuses what it has no time for
Samples = Mapping[tuple[str, str], Sequence[tuple[float, float]]]


def risen(samples: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """By how much a line through the last two thirds of times and values rises in them, and their median. The line is
    the one that most pairs agree on (Theil and Sen): a single sample does not bend it."""
    times, values = np.array(samples).T
    late = times >= times[0] + (times[-1] - times[0]) / 3
    times, values = times[late], values[late]
    first, second = np.triu_indices(len(times), 1)
    slopes = (values[second] - values[first]) / (times[second] - times[first])
    return float(np.median(slopes) * (times[-1] - times[0])), float(np.median(values))


def failures(samples: Samples) -> Iterator[str]:
    """The lines that rise by more than is allowed."""
    allowed = {line.name: line for line in LINES}
    for (process, name), values in samples.items():
        if name in allowed:
            rise, median = risen(values)
            line = allowed[name]
            if rise > line.part * median + line.more:
                yield f"{name} of {process} rises by {rise:.1f}, from about {median:.1f}"


def sampled(net: Devnet) -> Iterator[tuple[str, str, float]]:
    """Process by process what is measured now."""
    for running in net.processes:
        with suppress(psutil.NoSuchProcess):
            family = [psutil.Process(running.pid), *psutil.Process(running.pid).children(recursive=True)]
            yield running.name, "memory", sum(one.memory_full_info().pss for one in family) / 2**20
            yield running.name, "handles", float(sum(one.num_fds() for one in family))
            yield running.name, "threads", float(sum(one.num_threads() for one in family))
            files = [path for path in (net.folder / running.name).rglob("*.sqlite*") if path.is_file()]
            yield running.name, "database", sum(path.stat().st_size for path in files) / 2**10


def soaked(net: Devnet, client: Client, seconds: float) -> tuple[Samples, int]:
    """The samples of a network under load, and how many tasks it had."""
    programs, pages, tasks = cycle(range(1, PROGRAMS + 1)), cycle(_PAGES), count()
    samples: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    begun = time.monotonic()

    def post() -> None:
        client.send(client.prepare([work_of(generate(next(programs)))], TERMS))
        next(tasks)

    with (
        httpx.Client(base_url=net.network.gateway_url, timeout=30) as http,
        steadily(post, PACE, *_BUSY),
        steadily(lambda: http.get(next(pages)), 0.5, *_BUSY),
    ):
        while (now := time.monotonic() - begun) < seconds:
            for process, name, value in sampled(net):
                samples[process, name].append((now, value))
            time.sleep(EVERY)
    return samples, next(tasks)


def report(samples: Samples, tasks: int) -> int:
    """A line for each line; 1 if one of them rises by more than is allowed, or too few tasks were posted."""
    say(f"{'':24} {'median':>10} {'rise in the last two thirds':>30}")
    for (process, name), values in sorted(samples.items()):
        rise, median = risen(values)
        say(f"{process:14} {name:9} {median:10.1f} {rise:30.1f}")
    wrong = list(failures(samples))
    grown = samples["aggregator", "database"]
    if (each := (grown[-1][1] - grown[0][1]) / max(1, tasks)) > PER_TASK:
        wrong.append(f"the database of the aggregator takes {each:.0f} KiB for each task")
    for words in wrong:
        say(words)
    say(f"{tasks} tasks, {each:.1f} KiB of the aggregator's database each: {'missed' if wrong else 'reached'}")
    return bool(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("minutes", type=float, nargs="?", default=120, help="at least three")
    seconds = 60 * parser.parse_args().minutes
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        with devnet(OPERATORS, block_time=BLOCK_TIME, path=folder / "soak.json") as net:
            watcher = net.party("watcher")
            start_watcher(net, watcher)
            with Client(net.network, anvil_account(CLIENT), LocalStore(folder / "store")) as client:
                return report(*soaked(net, client, seconds))


if __name__ == "__main__":
    sys.exit(main())
