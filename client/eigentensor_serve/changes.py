"""From threads in which something happens to requests that wait for it."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Changes:
    """Says that a task has changed, not how: whoever waits for it looks again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = {}

    @contextmanager
    def watched(self, task: str) -> Iterator[asyncio.Event]:
        """An event that is set at a task's first change after this; look once more before you wait for it."""
        mine = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._waiting.setdefault(task, set()).add(mine)
        try:
            yield mine[1]
        finally:
            with self._lock:
                left = self._waiting.pop(task, set()) - {mine}
                if left:
                    self._waiting[task] = left

    def tell(self, task: str) -> None:
        """From any thread."""
        with self._lock:
            waiting = self._waiting.pop(task, set())
        for loop, event in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)
