"""What tasks add up to, kept in memory until something happens to them: lists are asked for more often than that."""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from threading import Lock

from eigentensor.task import Life

MOST = 1024  #: tasks; those that were asked for last


class Known:
    """For any threads. Whoever reads the database notes `version` before and says it when keeping what was read: what
    was read before a change is not kept after it."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._tasks: OrderedDict[str, Life] = OrderedDict()
        self._lock = Lock()
        self.version = 0

    def of(self, tasks: Iterable[str]) -> dict[str, Life]:
        """Those that are known."""
        with self._lock:
            found = {task: life for task in tasks if (life := self._tasks.get(task)) is not None}
            for task in found:
                self._tasks.move_to_end(task)
        return found

    def keep(self, lives: Mapping[str, Life], version: int) -> None:
        with self._lock:
            if version != self.version:
                return
            self._tasks.update(lives)
            while len(self._tasks) > self._most:
                self._tasks.popitem(last=False)

    def forget(self, changed: Collection[str]) -> None:
        """Called when a change of these tasks, or of operators, is committed."""
        with self._lock:
            self.version += bool(changed)
            for subject in changed:
                self._tasks.pop(subject, None)
