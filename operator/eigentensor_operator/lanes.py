"""A fixed number of threads for each kind of work, which end with the process whatever they are doing."""

import threading
from collections.abc import Callable
from queue import SimpleQueue


class Lane:
    """Runs jobs in order on `width` threads. A thread that waits for a node or a gateway never keeps the process alive:
    what it was doing is in the journals."""

    def __init__(self, name: str, width: int) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        for number in range(width):
            threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True).start()

    def put(self, job: Callable[[], None]) -> None:
        """Jobs must not raise."""
        self._jobs.put(job)

    def _run(self) -> None:
        while True:
            self._jobs.get()()
