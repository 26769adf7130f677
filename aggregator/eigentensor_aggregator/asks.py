"""What operators reckon with when they make prices, as they say it: in memory, for as long as they say it again."""

import threading
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from eigentensor.chain import PublishedAsk
from eigentensor.economics.pricing import Ask

FRESH = 60.0  #: seconds after which an ask that is not repeated counts no more: operators repeat theirs every 15


class _Kept(NamedTuple):
    """An ask, since when it is known, and how it is listed: lists are asked for more often than it is said."""

    since: float
    published: PublishedAsk
    listed: Mapping[str, Any]


class Asks:
    """The last ask of each operator; for any threads."""

    def __init__(self) -> None:
        self._known: dict[str, _Kept] = {}
        self._lock = threading.Lock()

    def keep(self, published: PublishedAsk) -> None:
        """Keeps an operator's ask, unless it has published one as of the same block or a later one: what it signed
        before can be sent again by anybody."""
        with self._lock:
            before = self._known.get(published.operator)
            if before is None or before.published.block < published.block:
                self._known[published.operator] = _Kept(time.monotonic(), published, published.ask.to_json())

    def of(self, operator: str) -> Ask | None:
        """What the operator reckons with now; None if it has not said so for a while."""
        kept = self._fresh(operator)
        return kept and kept.published.ask

    def listed(self, operator: str) -> Mapping[str, Any] | None:
        """The same as JSON."""
        kept = self._fresh(operator)
        return kept and kept.listed

    def _fresh(self, operator: str) -> _Kept | None:
        with self._lock:
            kept = self._known.get(operator)
        return kept if kept is not None and time.monotonic() - kept.since < FRESH else None
