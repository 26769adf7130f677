"""Blocks that come with time, on a chain of which a test can stop the time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from eigentensor_local.anvil import Anvil

BEAT = 0.4  # seconds


class Clock:
    """Makes a block every `beat` seconds, unless it is stopped."""

    def __init__(self, anvil: Anvil, beat: float = BEAT) -> None:
        self._anvil, self._beat = anvil, beat
        self._goes, self._over = threading.Event(), threading.Event()
        self._goes.set()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _tick(self) -> None:
        while not self._over.wait(self._beat):
            if self._goes.is_set():
                self._anvil.mine()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Until the block ends only transactions and the test make blocks."""
        self._goes.clear()
        try:
            yield
        finally:
            self._goes.set()
