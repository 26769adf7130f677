"""What operators reckon with when they make prices, as they say it: in memory, for as long as they say it again."""

import threading
import time

from eigentensor.chain import PublishedAsk
from eigentensor.economics.pricing import Ask

FRESH = 60.0  #: seconds after which an ask that is not repeated counts no more: operators repeat theirs every 15


class Asks:
    """The last ask of each operator; for any threads."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, PublishedAsk]] = {}
        self._lock = threading.Lock()

    def keep(self, published: PublishedAsk) -> None:
        """Keeps an operator's ask, unless it has published one as of the same block or a later one: what it signed
        before can be sent again by anybody."""
        with self._lock:
            before = self._known.get(published.operator)
            if before is None or before[1].block < published.block:
                self._known[published.operator] = time.monotonic(), published

    def of(self, operator: str) -> Ask | None:
        """What the operator reckons with now; None if it has not said so for a while."""
        with self._lock:
            kept, published = self._known.get(operator, (0.0, None))
        return published.ask if published is not None and time.monotonic() - kept < FRESH else None
