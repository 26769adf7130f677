"""The aggregator as one process: the loop in a thread, HTTP in front of it."""

import gc
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import structlog
import typer
from fastapi import FastAPI

from eigentensor import traces
from eigentensor.chain import Chain, Network, Reader, load_account
from eigentensor.chain.units import GWEI
from eigentensor.web.pages.feed import Feed
from eigentensor.web.server import Health, allow_connections, listen, server
from eigentensor_aggregator.asks import Asks
from eigentensor_aggregator.blob_index import BlobIndex
from eigentensor_aggregator.blobs import Blobs, Limits
from eigentensor_aggregator.clock import Clock, telling
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_aggregator.database import connect, transaction
from eigentensor_aggregator.folder import Folder
from eigentensor_aggregator.gateway import create_app
from eigentensor_aggregator.judgements import Judgements
from eigentensor_aggregator.keeping import Keeper
from eigentensor_aggregator.metrics import Metrics
from eigentensor_aggregator.parts import Parts
from eigentensor_aggregator.plans import Plans
from eigentensor_aggregator.programs import Programs
from eigentensor_aggregator.queries import Queries
from eigentensor_aggregator.scrub import Found, Scrub, printed
from eigentensor_aggregator.standings import Standings
from eigentensor_aggregator.store import Store
from eigentensor_aggregator.watch.machine import Act, Verdict

#: Seconds that a message may keep the loop waiting; what is not in the chain by then is taken up in the next round.
DEADLINE = 5.0
_COLLECTED = 50_000, 20, 100  # new objects until a look at the youngest, and how many until one at older ones
_log = structlog.get_logger(__name__)


@contextmanager
def assembled(settings: Settings) -> Iterator[tuple[FastAPI, Daemon]]:
    """Everything of one aggregator; the daemon runs until the block ends."""
    network = Network.load(settings.network)
    reader = Reader(network)
    reader.node.check()
    settings.data.mkdir(parents=True, exist_ok=True)
    store = Store(settings.database_url, network.deployment)
    metrics = Metrics(Act, Verdict)
    chain = None
    with ExitStack() as stack:
        stack.callback(store.close)
        if settings.keystore is not None:
            account = load_account(settings.keystore, settings.password_file)
            journal = settings.data / f"journal-{account.address.lower()}-{reader.node.genesis()[:8].hex()}.sqlite"
            limit, patience = int(settings.max_fee_gwei * GWEI), max(10.0, 3 * settings.watch.block_seconds)
            chain = Chain(network, account, journal, patience=patience, deadline=DEADLINE, max_fee=limit)
            stack.callback(chain.journal.close)
        limits = Limits(settings.max_blob, settings.max_stored, settings.max_uploads)
        folder, index = Folder(settings.blobs_url), BlobIndex(store.session)
        blobs = Blobs(folder, settings.staging, index, limits)
        watch = None
        if settings.watch.share:
            from eigentensor_aggregator.watch.service import logged, watching  # the runtime, which nothing else needs

            fetched = settings.data / "watched"
            watch = stack.enter_context(watching(settings.watch, network, store, metrics, chain, fetched, logged)).turn
        feed = Feed()
        daemon = Daemon(
            reader, store, metrics, chain, settings.between_looks, watch, taking=blobs.count, tell=telling(feed)
        )
        health = Health(store.is_well, blobs.is_well)
        metrics.well.set_function(health.is_well)
        metrics.lag.set_function(lambda: daemon.silence)
        daemon.start()
        stack.callback(daemon.stop)
        keeper = Keeper(
            blobs,
            index,
            Scrub(folder, index, settings.peer_urls, settings.data / "scrub"),
            Queries(store),
            metrics,
            lambda: daemon.leads and daemon.is_healthy,
            keep_days=settings.keep_days,
            scrub_days=settings.scrub_days,
            rate=settings.scrub_rate,
        )
        keeper.start()
        stack.callback(keeper.stop)
        parts = Parts(
            settings,
            network,
            store,
            Queries(store),
            Standings(reader),
            Asks(),
            blobs,
            daemon,
            chain,
            metrics,
            health,
            feed,
            Clock(reader, daemon),
            Judgements(reader.node),
            Programs(blobs),
            Plans(),
        )
        yield create_app(parts), daemon


def collect_seldom() -> None:
    """Lets Python look for cycles of garbage less often: here are hardly any, and a look goes through thousands of
    tasks that are known. Without it a fifth to a third of catching up is such looks."""
    gc.freeze()
    gc.set_threshold(*_COLLECTED)


def run(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT; requests and the message that is being sent are finished first."""
    for number in (signal.SIGTERM, signal.SIGINT):
        # While it serves, uvicorn catches these, and hands them on when the last request is answered.
        signal.signal(number, lambda *_: sys.exit(0))
    traces.begin("aggregator")
    allow_connections()
    collect_seldom()
    with listen(settings.host, settings.port) as listening, assembled(settings) as (app, _):
        host, port = listening.getsockname()[:2]
        _log.info("listening", url=f"http://{host}:{port}", sends=settings.keystore is not None)
        server(app).run(sockets=[listening])


def scrub(settings: Settings, as_json: bool) -> int:
    """Looks at every blob once, beside whoever serves them; tells what was not well on stdout. How many are lost."""
    say, reports = printed(as_json), Counter[Found]()
    engine = connect(settings.database_url)
    try:
        index = BlobIndex(partial(transaction, engine))
        work = Scrub(Folder(settings.blobs_url), index, settings.peer_urls, settings.data / "scrub")
        for report in work.all():
            reports[report.found] += 1
            if report.found is not Found.WELL:
                say(report)
    finally:
        engine.dispose()
    if not as_json:
        typer.echo(f"{reports.total()} blobs looked at, {reports[Found.LOST]} lost")
    return reports[Found.LOST]
