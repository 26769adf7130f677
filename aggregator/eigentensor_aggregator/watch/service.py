"""A watcher put together: as a part of an aggregator, or as a process of its own."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import structlog
import typer

from eigentensor import traces
from eigentensor.chain import Chain, Network, Reader, load_account, to_wei
from eigentensor.chain.units import GWEI
from eigentensor.economics import WAD
from eigentensor.runtime.cpu import toolchain
from eigentensor.runtime.sandbox.execution import available
from eigentensor.store import GatewayClient, LocalStore
from eigentensor.talk import QUIET
from eigentensor.task.due import Action, Verb
from eigentensor.version import VERSION
from eigentensor_aggregator.config import Watch, WatchSettings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_aggregator.metrics import Metrics
from eigentensor_aggregator.store import Store
from eigentensor_aggregator.watch.hands import Bounds, Hands
from eigentensor_aggregator.watch.looks import Looks
from eigentensor_aggregator.watch.machine import Act, Policy, Verdict
from eigentensor_aggregator.watch.watcher import Watcher, WatchReport

#: Seconds that a message may keep its thread waiting; what is not in the chain by then is taken up again.
DEADLINE = 20.0
_log = structlog.get_logger(__name__)


@contextmanager
def watching(
    watch: Watch,
    network: Network,
    store: Store,
    metrics: Metrics,
    chain: Chain | None,
    blobs: Path,
    report: Callable[[WatchReport], None],
) -> Iterator[Watcher]:
    """A watcher over a database that somebody else keeps up to date.

    Raises NoSandbox where there is no sandbox, ExecutionError where there is no compiler.
    """
    toolchain.local()
    if not watch.unsafe_no_sandbox:
        available()
    looks = Looks(store)
    policy = Policy(
        network.deployment.parameters,
        chain.address if chain else None,
        looks.key(),
        round(watch.share * WAD),
        to_wei(watch.bonds, network.deployment.token_decimals),
        watch.operator or None,
    )
    bounds = Bounds(watch.max_operations, watch.max_memory, watch.block_seconds, watch.unsafe_no_sandbox)
    with GatewayClient(watch.gateway or network.gateway_url, LocalStore(blobs), limit=watch.max_memory) as gateway:
        watcher = Watcher(policy, looks, Hands(gateway, bounds, chain), metrics, report)
        try:
            yield watcher
        finally:
            watcher.stop()


def logged(report: WatchReport) -> None:
    """Reports as lines of the log."""
    verdict = report.verdict.value if report.verdict else None
    _log.info("watched", task=report.task.hex(), verdict=verdict, words=report.words, games=list(report.games))


def run(settings: WatchSettings, *, as_json: bool = False) -> None:
    """Watches until SIGTERM or SIGINT; what is said goes to stdout, a line each."""
    traces.begin("watcher")
    network = Network.load(settings.network)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with alone(settings, network, printed(as_json)) as chain:
        account = chain.address if chain else "none: only tells"
        share = "every result" if settings.share == 1 else f"{settings.share:.3g} of all results"
        share += f" of {settings.operator}" if settings.operator else ""
        token = network.deployment.token_symbol
        if not QUIET.get():
            typer.echo(f"eigentensor {VERSION} · network {network.name} · account {account}", err=True)
            typer.echo(f"watches {share}, with at most {settings.bonds} {token} in games at once", err=True)
        stop.wait()


@contextmanager
def alone(settings: WatchSettings, network: Network, report: Callable[[WatchReport], None]) -> Iterator[Chain | None]:
    """A watcher with its own database and journal, which runs until the block ends; the account that challenges."""
    reader = Reader(network)
    reader.node.check()
    settings.data.mkdir(parents=True, exist_ok=True)
    store = Store(f"sqlite:///{settings.data / 'watch.sqlite'}", network.deployment)
    chain = None
    try:
        if settings.keystore is not None:
            account = load_account(settings.keystore, settings.password_file)
            journal = settings.data / f"journal-{account.address.lower()}-{reader.node.genesis()[:8].hex()}.sqlite"
            limit, patience = int(settings.max_fee_gwei * GWEI), max(10.0, 3 * settings.block_seconds)
            chain = Chain(network, account, journal, patience=patience, deadline=DEADLINE, max_fee=limit)
        metrics = Metrics(Act, Verdict)
        with watching(settings, network, store, metrics, chain, settings.data / "blobs", report) as watcher:
            concerns = partial(_is_reward, chain.address if chain else "")
            daemon = Daemon(reader, store, metrics, chain, settings.between_looks, watcher.turn, concerns)
            daemon.start()
            try:
                yield chain
            finally:
                daemon.stop()
    finally:
        if chain is not None:
            chain.journal.close()
        store.close()


def _is_reward(address: str, action: Action) -> bool:
    """Whether a message pays for a conviction that this account brought about. The rest is left to others."""
    conviction = action.lives[0].conviction
    return action.verb in (Verb.SLASH, Verb.PAY) and conviction is not None and conviction.winner == address


def printed(as_json: bool) -> Callable[[WatchReport], None]:
    """On stdout, a line or `eigentensor.watch/2` each."""

    def show(report: WatchReport) -> None:
        if as_json:
            typer.echo(json.dumps(report.to_json()))
        else:
            typer.echo(f"block {report.block}  task {report.task.hex()[:16]}…  {report.words}")

    return show
