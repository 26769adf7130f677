"""What is done to blobs in the background: all of them are looked at again and again, and those that nobody names any
more are collected."""

import threading
import time
from collections.abc import Callable

import structlog

from eigentensor.errors import EigenTensorError
from eigentensor.store.parts import decode_results
from eigentensor_aggregator.blob_index import BlobIndex
from eigentensor_aggregator.blobs import Blobs
from eigentensor_aggregator.metrics import Metrics
from eigentensor_aggregator.queries import Queries
from eigentensor_aggregator.scrub import Found, Scrub

#: Seconds between two looks for what nobody names.
COLLECT = 3600.0
DAY = 24 * 3600.0
_PAUSE = 0.05  # seconds between two blobs at least
_LONG = 60.0  # seconds between two looks whether there is anything to do
_log = structlog.get_logger(__name__)


class Keeper:
    """Looks at blobs, `rate` bytes a second, each every `scrub_days`, and collects those that were neither given, asked
    for nor named by anything open for `keep_days`. Does nothing while `ready` says no."""

    def __init__(
        self,
        blobs: Blobs,
        index: BlobIndex,
        scrub: Scrub,
        queries: Queries,
        metrics: Metrics,
        ready: Callable[[], bool],
        *,
        keep_days: float | None,
        scrub_days: float,
        rate: int,
    ) -> None:
        """`keep_days` None: everything is kept; `scrub_days` 0: nothing is looked at."""
        self._blobs, self._index, self._scrub = blobs, index, scrub
        self._queries, self._metrics, self._ready = queries, metrics, ready
        self._keep_days, self._scrub_days, self._rate = keep_days, scrub_days, rate
        self._results: dict[str, set[str]] = {}
        self._collected = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keeper")

    def start(self) -> None:
        """Begins, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Returns when what it does at the moment is done."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def scrub(self) -> None:
        """Looks at every blob whose turn it is, until it is told to stop."""
        for names, report in self._scrub.due(time.time() - self._scrub_days * DAY):
            self._metrics.checked.labels(str(report.found)).inc()
            if report.found is not Found.WELL:
                _log.error("blob was damaged", blob=names.blob, found=str(report.found), what=report.words)
            self._rest(max(_PAUSE, names.size / self._rate))
            if self._stop.is_set() or not self._ready():
                return

    def collect(self) -> None:
        """Collects what nobody names any more. What is named counts as named now, before anything goes."""
        assert self._keep_days is not None
        now = time.time()
        self._index.renew(self._named(), now)
        if self._queries.open_channels():  # their calls' programs are named by one root
            self._index.renew_programs(now)
        before = now - self._keep_days * DAY
        for names in self._index.forgotten(before):
            if self._stop.is_set() or not self._ready():
                return
            if self._blobs.collect(names, before):
                self._metrics.collected.inc()
                _log.info("blob collected", blob=names.blob, bytes=names.size)

    def _named(self) -> set[str]:
        """All that is named by anything open, and what results that are named are made of."""
        named = self._queries.named()
        results = self._index.results(named)
        self._results = {blob: self._results.get(blob) or self._parts_of(blob) for blob in results}
        return named.union(*self._results.values())

    def _parts_of(self, result: str) -> set[str]:
        try:
            data = b"".join(self._blobs.read(result, 0, 1 << 10))
            return {root.hex() for root in decode_results(data)}
        except EigenTensorError:  # it is not there, or not what it was: the scrub will tell
            return set()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if self._ready():
                    if self._keep_days is not None and time.monotonic() > self._collected + COLLECT:
                        self.collect()
                        self._collected = time.monotonic()
                    if self._scrub_days:
                        self.scrub()
            except EigenTensorError as error:
                _log.warning("blobs failed", what=error.what)
            except Exception:
                _log.exception("blobs failed")
            self._rest(_LONG)

    def _rest(self, seconds: float) -> None:
        """Waits, unless it is told to stop; uploads that nobody goes on with end meanwhile."""
        until = time.monotonic() + seconds
        while not self._stop.is_set() and (left := until - time.monotonic()) > 0:
            self._blobs.expire()
            self._stop.wait(min(left, _LONG))
