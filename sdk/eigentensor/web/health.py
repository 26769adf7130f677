"""Whether what a service stands on answers."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

PATIENCE = 3.0  #: seconds in which it answers, or is away


class Health:
    """Looks at databases and folders, of which one that hangs must not hang whoever asks. Safe for several threads."""

    def __init__(self, *looks: Callable[[], bool], patience: float = PATIENCE) -> None:
        """Each look is true if all is well; an error says that it is not."""
        self._looks, self._patience = looks, patience
        self._looking: Future[bool] | None = None
        self._lock = threading.Lock()

    def is_well(self) -> bool:
        """Whether every look says so in time. Who asks while a look goes on waits for the same."""
        with self._lock:
            if self._looking is None or self._looking.done():
                self._looking = Future()
                threading.Thread(target=self._look, args=[self._looking], name="health", daemon=True).start()
            looking = self._looking
        with suppress(TimeoutError):
            return looking.result(self._patience)
        return False

    def _look(self, found: Future[bool]) -> None:
        try:
            found.set_result(all(look() for look in self._looks))
        except Exception:  # of whichever driver
            found.set_result(False)
