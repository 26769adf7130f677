"""Blocks that come with time, on a chain of which a test can stop the time."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from eigentensor_local.anvil import Anvil
from support.steadily import steadily

BEAT = 0.4  # seconds


class Clock:
    """Makes a block every `beat` seconds, unless it is stopped."""

    def __init__(self, anvil: Anvil, beat: float = BEAT) -> None:
        self._anvil = anvil
        self._goes = threading.Event()
        self._goes.set()
        self._ticks = steadily(self._tick, beat)

    def __enter__(self) -> Self:
        self._ticks.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._ticks.__exit__(None, None, None)

    def _tick(self) -> None:
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
