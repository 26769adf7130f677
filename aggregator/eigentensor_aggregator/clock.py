"""The block as of which pages are told, the pace of blocks, and who hears of the next one."""

import threading
import time
from collections.abc import Callable

from eigentensor.chain import Reader
from eigentensor.errors import ChainError
from eigentensor.pace import UNKNOWN, Pace
from eigentensor.web.pages.feed import Feed
from eigentensor.web.pages.words import Now, count
from eigentensor_aggregator.daemon import Daemon

SECONDS = 30.0  #: after which the pace is measured again
_FRESH = 2.0  # seconds for which a page is the same to all who look


class Clock:
    """The newest block that a daemon has read, and the pace of its chain; for any threads."""

    def __init__(self, reader: Reader, daemon: Daemon) -> None:
        self._reader = reader
        self._daemon = daemon
        self._lock = threading.Lock()
        self._pace: Pace = UNKNOWN
        self._asked = -SECONDS

    def now(self) -> Now:
        """Where the chain is; at an unknown pace as long as the node does not answer."""
        with self._lock:
            if time.monotonic() - self._asked > SECONDS:
                self._asked = time.monotonic()
                try:
                    self._pace = self._reader.node.pace()
                except ChainError:
                    self._pace = UNKNOWN
        return Now(self._daemon.block, self._pace)

    def state(self) -> tuple[int, int, float]:
        """Another one whenever pages may have changed: with a block, with what happened, and every other second, since
        operators say something and stake moves beside that."""
        return self._daemon.block, self._daemon.version, time.monotonic() // _FRESH


def telling(feed: Feed) -> Callable[[int, int], None]:
    """Tells a feed of a new block, and of a change of what pages show, by the store's version."""

    def tell(block: int, version: int) -> None:
        feed.tell("block", count(block))
        feed.tell("changed", str(version))

    return tell
