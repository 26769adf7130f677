"""Which programs take the time of a cluster: how often each was executed, what that took, made and moved. Pure."""

from collections import OrderedDict
from heapq import nlargest

from eigentensor_cluster.schemas import SegmentStatus

KNOWN = 1024  #: programs that are counted; of more, those that were not executed for longest are forgotten
SHOWN = 10  #: of them, those that took most


class Segments:
    """Counts runs by the program's root."""

    def __init__(self) -> None:
        self._counted: OrderedDict[bytes, SegmentStatus] = OrderedDict()

    def count(self, root: bytes, seconds: float, made: int, moved: int) -> None:
        """A run that took so many seconds of slots, made so many bytes of results, and moved so many of boxes."""
        before = self._counted.pop(root, None) or SegmentStatus(root.hex(), 0, 0.0, 0, 0)
        self._counted[root] = SegmentStatus(
            before.program, before.runs + 1, before.seconds + seconds, before.made + made, before.moved + moved
        )
        if len(self._counted) > KNOWN:
            self._counted.popitem(last=False)

    @property
    def hottest(self) -> tuple[SegmentStatus, ...]:
        """Those that took most seconds, the first one most."""
        return tuple(nlargest(SHOWN, self._counted.values(), key=lambda one: one.seconds))
