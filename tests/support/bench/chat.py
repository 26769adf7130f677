"""A paid chat beside a chat that this machine executes: OpenAI's client asks `serve --channels` and `serve --local` in
turn for the same text of the same model.

    scripts/bench channel --chat [ROUNDS]

Each is a process of its own on this machine, and so is the operator behind `--channels`, whose program is confined;
the chain is a local one. `first` is until the first piece of the answer is here, `tokens/s` over the whole answer,
`CPU` what an answer takes of a processor in all processes but the client's; of each the median. A step has 16 tokens,
and so has a call. Where others use the machine, too, read CPU.
"""

import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import openai
import psutil

from eigentensor.chain import Chain, Network, anvil_account, to_wei
from eigentensor.chain.rpc import Rpc
from eigentensor.reexecution.confined import limits
from eigentensor.reexecution.warm import WarmExecution
from eigentensor.store import LocalStore, bindings_root
from eigentensor.web.server import listen, server
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms
from eigentensor_local.anvil import local_network
from eigentensor_operator.calls.channels import ServedProgram
from eigentensor_serve.apps.deployment import deploy_local
from eigentensor_serve.apps.registry import Apps, Market
from eigentensor_serve.server import assembled, create_app
from eigentensor_serve.settings import Settings
from language.decoder import SMALL, Shape
from support.programs.texts import CHAT, PAIRS, Files, chatting
from support.stories.calls_place import PRICE, RealPlace
from support.stories.game_table import CLIENT, OPERATORS

ROUNDS, TOKENS, STEP = 9, 96, 16
LOOKS = 1.0  # seconds between an operator's looks at the chain, as an operator has them
#: What is wanted: milliseconds over the local first token; that part of the local tokens a second.
FIRST, PART = 20.0, 0.95
SHAPES = {
    "small": SMALL,
    "medium": Shape(8, 384, 6, 2, 64, 1024, vocabulary=2048, context=192, window=64, full_every=2),
    "large": Shape(12, 768, 12, 4, 64, 2048, vocabulary=2048, context=192, window=64, full_every=2),
}
PROMPT = "a program, a task"


class Blocks:
    """Lets blocks of a local chain pass that another process has started."""

    def __init__(self, network: Network) -> None:
        self._rpc = Rpc(network.rpc_url, 30.0)

    def mine_past(self, block: int) -> None:
        """Until the newest one is behind `block`."""
        if (missing := block + 1 - int(self._rpc.ask_plainly("eth_blockNumber", ()))) > 0:
            self._rpc.ask_plainly("anvil_mine", (hex(missing),))


def operate(folder: Path, name: str, connection: Connection) -> None:
    """An operator of the program."""
    network = Network.load(str(folder / "network.json"))
    graph = chatting(SHAPES[name])
    files = Files(folder / name, graph)
    execution = WarmExecution(graph.program, files.weights, limits(4 << 30, 60))
    execution.warm()
    roots = bytes.fromhex(graph.uuid), bindings_root(files.weights)
    served = ServedProgram(*roots, graph.program, execution, PRICE // STEP, STEP)
    with (
        ExitStack() as stack,
        Chain(network, anvil_account(OPERATORS[0]), folder / "operator.sqlite") as chain,
        Client(network, anvil_account(CLIENT), LocalStore(folder / "unused")) as client,
    ):
        place = RealPlace(chain, client, folder / f"operator-{name}", Blocks(network), stack, [served], LOOKS)
        connection.send(place.url)
        _wait()


def serve(folder: Path, name: str, settings: Settings, connection: Connection) -> None:
    """One service."""
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    os.environ["EIGENTENSOR_CACHE_DIR"] = str(folder / f"cache-{settings.local}")
    client = None
    if not settings.local:
        network = Network.load(str(folder / "network.json"))
        client = Client(network, anvil_account(CLIENT), LocalStore())
    with assembled(settings, client) as service, listen(settings.host, settings.port) as listening:
        connection.send(f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
        server(create_app(service)).run(sockets=[listening])


def _wait() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    while True:
        time.sleep(60)


@contextmanager
def process(of: Callable[..., None], *arguments: Any) -> Iterator[tuple[str, psutil.Process]]:
    """A process until the block ends, and what it says first."""
    ours, theirs = multiprocessing.Pipe()
    started = multiprocessing.get_context("spawn").Process(target=of, args=(*arguments, theirs))
    started.start()
    theirs.close()
    try:
        yield ours.recv(), psutil.Process(started.pid)
    finally:
        started.terminate()
        started.join()


def processor(processes: Sequence[psutil.Process]) -> float:
    """Seconds of a processor that processes and those below them have used."""
    each = (one for process in processes for one in (process, *process.children(recursive=True)))
    used: float = sum(times.user + times.system for times in (one.cpu_times() for one in each))
    return used


def deployed(folder: Path, name: str, network: Network) -> None:
    """The model as an app, for the market and for this machine."""
    files = Files.written(folder / name, chatting(SHAPES[name]), CHAT % STEP)
    for data, market in (("paid", Market(network.name, network.deployment.domain)), ("local", None)):
        apps = Apps(folder / data)
        app = deploy_local(apps, name, files.parts(apps))
        if market is not None:
            apps.add(replace(app, market=market, terms=Terms(to_wei("0.01"))))


def asked(ai: openai.OpenAI, name: str) -> tuple[float, float, str]:
    """Seconds until the first piece of an answer, tokens a second of all of it, and its text."""
    start, first, text = time.perf_counter(), 0.0, ""
    stream = ai.chat.completions.create(
        model=name, messages=[{"role": "user", "content": PROMPT}], max_tokens=TOKENS, temperature=0.8, seed=2,
        stream=True, stream_options={"include_usage": True},
    )  # fmt: skip
    for chunk in stream:
        first = first or time.perf_counter() - start
        text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
        tokens = chunk.usage.completion_tokens if chunk.usage else 0
    return first, tokens / (time.perf_counter() - start), text


def measure(folder: Path, name: str, network: Network, rounds: int) -> None:
    """Both, in turn."""
    deployed(folder, name, network)
    common: dict[str, Any] = {"rate": 1e6, "port": 0}
    with ExitStack() as stack:
        url, operator = stack.enter_context(process(operate, folder, name))
        paid = Settings(
            channels=True, data=folder / "paid", operators=(url,), budget="5", deposit="0.5", max_price="0.01", **common
        )  # fmt: skip
        local = Settings(local=True, data=folder / "local", **common)
        clients, processes = {}, {}
        for word, settings, more in (("local", local, []), ("channels", paid, [operator])):
            where, service = stack.enter_context(process(serve, folder, name, settings))
            processes[word] = [service, *more]
            clients[word] = stack.enter_context(openai.OpenAI(base_url=where, api_key="none", max_retries=0))
        texts = {word: asked(ai, name)[2] for word, ai in clients.items()}  # a channel is opened, programs compiled
        if len(set(texts.values())) != 1:
            raise AssertionError(f"a paid text differs from a local one: {texts}")
        taken: dict[str, list[tuple[float, float, float]]] = {word: [] for word in clients}
        for _ in range(rounds):
            for word, ai in clients.items():
                before = processor(processes[word])
                first, rate, _ = asked(ai, name)
                taken[word].append((first * 1e3, rate, (processor(processes[word]) - before) * 1e3))
    figures = {word: [statistics.median(column) for column in zip(*rows, strict=True)] for word, rows in taken.items()}
    for word, (first, rate, used) in figures.items():
        sys.stdout.write(f"{f'{name}, {word}':24}{first:12.1f}{rate:12.1f}{used:12.0f}\n")
    over = figures["channels"][0] - figures["local"][0]
    part = figures["channels"][1] / figures["local"][1]
    words = " ".join(f"{'reached' if good else 'missed ':8}" for good in (over <= FIRST, part >= PART))
    sys.stdout.write(f"  {over:.1f} ms over the local first token; {part:.2f} of the local tokens/s: {words}\n")
    sys.stdout.flush()


def main(words: list[str]) -> None:
    rounds = int(words[0]) if words else ROUNDS
    assert PAIRS.size <= SMALL.vocabulary
    sys.stdout.write(f"{'':24}{'first, ms':>12}{'tokens/s':>12}{'CPU, ms':>12}\n")
    with tempfile.TemporaryDirectory() as text, local_network(map(anvil_account, OPERATORS)) as (_, network):
        folder = Path(text)
        network.save(folder / "network.json")
        with Chain(network, anvil_account(CLIENT), folder / "client.sqlite") as client:
            client.token.mint(client.address, to_wei("10"))
        for name in SHAPES:
            measure(folder, name, network, rounds)
