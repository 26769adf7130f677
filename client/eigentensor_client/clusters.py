"""A process's sessions at clusters: functions that are computed there, with weights that are put once."""

import atexit
import os
from collections import OrderedDict
from itertools import count
from threading import Lock

from eigentensor.capture.signatures import Captured, Use
from eigentensor.capture.values import Values
from eigentensor.cluster.address import named
from eigentensor.cluster.remote import RemoteSession
from eigentensor.cluster.resident import Resident, check_workers
from eigentensor.errors import ClusterError
from eigentensor.program.binding import Results
from eigentensor.system import held_over_forks

KEPT = 64  #: programs whose weights stay at a cluster: those that were called last


class AtCluster:
    """A session that the functions of a process share. Safe for several threads, which take turns."""

    def __init__(self, address: str, token: str | None = None) -> None:
        """Raises ConfigError, ConnectionLost, NotAdmitted, and WorkerLost where nothing executes."""
        self._session, self._numbers, self._lock = RemoteSession(address, token), count(1), Lock()
        self.is_over = False  #: it is lost, or was interrupted
        self._kept: OrderedDict[Captured, tuple[Values, Resident]] = OrderedDict()
        check_workers(self._session)

    def executed(self, use: Use) -> Results:
        """What a call gives. Weights that did not change since the last one are there already. Raises what the
        execution raises, and ClusterError."""
        with self._lock:
            try:
                resident = self._resident(use.captured)
                return resident.run({**use.inputs, **use.states}, use.variables).results
            except (ClusterError, KeyboardInterrupt):  # what was asked may still be answered: nothing goes on here
                self.is_over = True
                self._session.close()
                raise

    def close(self) -> None:
        """Ends the session, and all that stays there."""
        self._session.close()

    def _resident(self, captured: Captured) -> Resident:
        weights, known = self._kept.pop(captured, (None, None))
        if known is not None and weights is not captured.weights:
            known.leave()
            known = None
        resident = known or Resident(self._session, captured.graph.program, captured.weights, self._numbers)
        self._kept[captured] = captured.weights, resident
        if len(self._kept) > KEPT:
            _, (_, oldest) = self._kept.popitem(last=False)
            oldest.leave()
        return resident


#: By process too: what a process has opened is not for those that it forks.
_open: dict[tuple[int, str, str | None], AtCluster] = {}
_lock = Lock()
held_over_forks(_lock)


def executed(use: Use, address: str | None, token: str | None) -> Results:
    """What a call gives at the cluster of an address, in this process's session there; one that is lost, or was
    interrupted, is begun anew by the next call. Raises what `AtCluster` raises."""
    key = os.getpid(), str(named(address)), token
    with _lock:
        if key not in _open:
            _open[key] = AtCluster(*key[1:])
        there = _open[key]
    try:
        return there.executed(use)
    finally:
        if there.is_over:
            with _lock:
                if _open.get(key) is there:
                    del _open[key]


@atexit.register
def _close() -> None:
    """Ends what this process has begun."""
    for (process, *_), there in _open.items():
        if process == os.getpid():
            there.close()
