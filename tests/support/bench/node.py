"""How many requests each part of a network puts to the chain's node: in an hour without tasks, and for a task.

    scripts/bench node [SECONDS ...]

For blocks of so many SECONDS (1, 2 and 12 unless given). A question is one, whether it comes alone or with others; what
a provider counts is no less. A task is checked and settled; what its parts would have asked without it is taken off.
"""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from eigentensor.chain import Network, anvil_account, to_wei
from eigentensor.economics import WAD
from eigentensor.pace import between_looks
from eigentensor.store import LocalStore
from eigentensor_client.accounts import CLIENT
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms
from eigentensor_client.tasks import POLL
from eigentensor_local.devnet import Devnet, devnet
from support.campaigns.campaign import say
from support.hostile.node import counting
from support.stories.daemons import example_with_everything, start_watcher, until, work_of

#: Blocks without a task that are looked at, twice the time after which an operator asks everything again; and seconds.
BLOCKS, SECONDS = 16, 30.0
PARTS = ("executor", "verifier", "watcher", "aggregator", "client")
HOUR = 3600
TERMS = Terms(max_price=to_wei("0.05"), ramp=0, exec=30, accept_within=100, check_rate=WAD)
Counts = dict[str, Counter[str]]


def main() -> None:
    for seconds in map(float, sys.argv[1:] or ("1", "2", "12")):
        with tempfile.TemporaryDirectory() as folder, there(Path(folder), seconds) as (client, counts, blocks):
            idle, lasted = looked(counts, max(SECONDS, BLOCKS * seconds), seconds)
            say(shown(f"blocks of {seconds:g} s, an hour without tasks", idle, HOUR / lasted))
            first, begun = blocks(), time.monotonic()
            clear(counts)
            client.run(work_of(example_with_everything()), TERMS)
            took = time.monotonic() - begun
            more = {
                part: Counter({m: n - round(idle[part][m] * took / lasted) for m, n in counts[part].items()})
                for part in PARTS
            }
            say(shown(f"blocks of {seconds:g} s, a task of {blocks() - first} blocks", more, 1))


def looked(counts: Counts, seconds: float, block: float) -> tuple[Counts, float]:
    """What was asked in so many seconds."""
    time.sleep(2 * block)
    clear(counts)
    begun = time.monotonic()
    time.sleep(seconds)
    return {part: counts[part].copy() for part in PARTS}, time.monotonic() - begun


def clear(counts: Counts) -> None:
    for count in counts.values():
        count.clear()


def shown(title: str, counts: Counts, times: float) -> str:
    """A line for each part: how often it asks in all, and what."""
    lines = [title]
    for part, count in counts.items():
        there = {method: number * times for method, number in count.most_common() if number > 0}
        each = ", ".join(f"{method.removeprefix('eth_')} {number:,.0f}" for method, number in there.items())
        lines.append(f"  {part:10} {sum(there.values()):8,.0f}   {each}")
    return "\n".join(lines)


@contextmanager
def there(folder: Path, seconds: float) -> Iterator[tuple[Client, Counts, Callable[[], int]]]:
    """A network with one of each part, with its own address of the node, and what is asked there."""
    counts: Counts = {part: Counter() for part in PARTS}
    with ExitStack() as stack:
        net = stack.enter_context(devnet(block_time=seconds, path=folder / "node.json"))
        paths = {part: stack.enter_context(counted(net, folder, part, counts[part])) for part in PARTS}
        with net.anvil.hurried():
            net.processes["aggregator"].stop()
            aggregator = net.start_aggregator({"EIGENTENSOR_NETWORK": paths["aggregator"]})
            looks = {"EIGENTENSOR_OPERATOR_POLL_SECONDS": str(between_looks(seconds))}
            for part in ("executor", "verifier"):
                net.join(party := net.party(part))
                net.start_operator(party, {"EIGENTENSOR_NETWORK": paths[part], **looks}).wait_ready()
            start_watcher(
                net,
                net.party("watcher"),
                paths["watcher"],
                block_seconds=str(seconds),
                poll=str(between_looks(seconds)),
            )
            aggregator.wait_ready()
        network = Network.load(paths["client"])
        client = stack.enter_context(Client(network, anvil_account(CLIENT), LocalStore(folder / "store")))
        client.poll = POLL  # as on a chain that is not local
        until(lambda: all(counts[part]["eth_getLogs"] for part in PARTS if part != "client"))
        yield client, counts, client.chain.node.block_number


@contextmanager
def counted(net: Devnet, folder: Path, part: str, count: Counter[str]) -> Iterator[Path]:
    """The network's file as this part reads it."""
    with counting(net.anvil.rpc_url, count) as url:
        yield replace(net.network, name=part, rpc_url=url).save(folder / f"{part}.json")


if __name__ == "__main__":
    main()
