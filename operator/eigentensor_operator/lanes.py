"""Threads that do what a daemon asks for, the most urgent first."""

import threading
from collections.abc import Callable
from itertools import count
from queue import PriorityQueue

import structlog


class Lane:
    """Runs jobs on `width` threads, the most urgent first. A thread that waits for a node or a gateway never keeps the
    process alive: what it was doing is in the journals."""

    def __init__(self, name: str, width: int) -> None:
        self._jobs: PriorityQueue[tuple[bool, int, int, Callable[[], None]]] = PriorityQueue()
        self._numbers = count()
        for number in range(width):
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True).start()

    def put(self, job: Callable[[], None], by: int = 0, *, behind: bool = False) -> None:
        """The job that is to be done `by` the lowest block goes first, then the oldest; whatever is to stay `behind`
        goes last. One that raises ends alone."""
        self._jobs.put((behind, by, next(self._numbers), job))

    def _run(self) -> None:
        while True:
            *_, job = self._jobs.get()
            try:
                job()
            except Exception:  # a lane has as many threads as it began with, whatever a job met
                structlog.get_logger().exception("unexpected", lane=threading.current_thread().name)
