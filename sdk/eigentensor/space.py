"""Bytes of one piece of memory, taken and given back: where things lie over those that nobody needs any more."""

from bisect import insort


class Space:
    """Bytes from 0 on, `size` of them, of which some are free: (start, end), by start, never touching."""

    def __init__(self) -> None:
        self.free: list[tuple[int, int]] = []
        self.size = 0

    def take(self, need: int) -> int:
        """Where so many bytes were free: in the smallest hole, or at the end."""
        hole = min((h for h in self.free if h[1] - h[0] >= need), key=lambda h: h[1] - h[0], default=None)
        if hole is None:
            # a hole at the end is made longer, not left behind
            start = self.free.pop()[0] if self.free and self.free[-1][1] == self.size else self.size
            self.size = start + need
            return start
        self.free.remove(hole)
        if hole[1] - hole[0] > need:
            insort(self.free, (hole[0] + need, hole[1]))
        return hole[0]

    def has(self, need: int, most: int) -> bool:
        """Whether so many bytes can be taken, and `size` is at most so much then."""
        at_end = self.free and self.free[-1][1] == self.size
        end = self.free[-1][0] if at_end else self.size
        return end + need <= most or any(hole[1] - hole[0] >= need for hole in self.free)

    def release(self, start: int, end: int) -> None:
        """Gives bytes back that were taken."""
        for hole in [h for h in self.free if h[1] == start or h[0] == end]:
            self.free.remove(hole)
            start, end = min(start, hole[0]), max(end, hole[1])
        insort(self.free, (start, end))
