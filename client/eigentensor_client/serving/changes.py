"""From threads in which something happens to requests that wait for it."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Changes:
    """Says that something has changed, not what: whoever waits looks again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    @contextmanager
    def watched(self) -> Iterator[asyncio.Event]:
        """An event that is set at the first change after this; look once more before you wait for it."""
        mine = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._waiting.add(mine)
        try:
            yield mine[1]
        finally:
            with self._lock:
                self._waiting.discard(mine)

    def tell(self) -> None:
        """From any thread."""
        with self._lock:
            waiting, self._waiting = self._waiting, set()
        for loop, event in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)
