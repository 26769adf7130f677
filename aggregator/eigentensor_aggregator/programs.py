"""Programs among the blobs, read and checked, to be shown. They come from strangers: their sizes are bounded."""

import threading
from collections import OrderedDict

from eigentensor.errors import LimitError
from eigentensor.program.codec import decode
from eigentensor.program.model import Program
from eigentensor_aggregator.blobs import Blobs

MOST = 2 << 20  #: bytes of a program that is shown
_KEPT = 8  #: those that were asked for last


class Programs:
    """For any threads, one of which reads a program at a time."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._known: OrderedDict[str, Program] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, root: str) -> Program:
        """The program of a root. Raises BlobNotFound; FormatError or RuleError for what is none; LimitError for one
        that is too large to be shown."""
        with self._lock:
            if root not in self._known:
                self._known[root] = self._read(root)
            self._known.move_to_end(root)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
            return self._known[root]

    def _read(self, root: str) -> Program:
        names, _ = self._blobs.find(root)
        if names.size > MOST:
            raise LimitError(
                f"this program has {names.size:,} bytes; pages show programs of at most {MOST:,}",
                fix=f"Fetch it from /v1/blobs/{root}, and look at it with `eigentensor program show`.",
            )
        return decode(b"".join(self._blobs.read(names.blob, 0, names.size)))
