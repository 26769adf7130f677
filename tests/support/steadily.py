"""Something that goes on beside a test."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def steadily(act: Callable[[], object], pause: float, *refused: type[Exception]) -> Iterator[None]:
    """Does it again and again in a thread, with pauses of so many seconds, as long as the block runs; what is `refused`
    by one of these errors is tried the next time."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(pause):
            with suppress(*refused):
                act()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
