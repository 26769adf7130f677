"""How long a chain's blocks take: numbers of blocks as times that people read."""

from dataclasses import dataclass

_LOOKS = 8  # at each block
_OFTEN, _SELDOM = 0.5, 2.0  # seconds


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds between two blocks; None where nobody knows them: then times are said in blocks alone."""

    seconds: float | None = None

    def about(self, blocks: int) -> str:
        """About how long so many blocks are, as people say it; empty where that is unknown."""
        if not self.seconds:  # a chain of one block has no pace yet
            return ""
        total = max(0, blocks) * self.seconds
        for size, word in ((86_400, "days"), (3_600, "h"), (60, "min")):
            if total >= 2 * size:
                return f"about {total / size:.0f} {word}"
        return f"about {total:.0f} s"

    def blocks(self, many: int) -> str:
        """So many blocks, and about how long that is."""
        words = "1 block" if many == 1 else f"{max(0, many):,} blocks"
        return f"{words} ({about})" if (about := self.about(many)) else words

    def block(self, number: int, now: int) -> str:
        """A block by its number, and in about how long it comes where it is ahead of block `now`."""
        about = self.about(number - now) if number > now else ""
        return f"block {number} ({about})" if about else f"block {number}"


UNKNOWN = Pace()  #: where nobody asked a chain


def between_looks(block_seconds: float) -> float:
    """Seconds between two looks at a chain whose blocks take so long: few to be in time, few enough for the node."""
    return min(_SELDOM, max(_OFTEN, block_seconds / _LOOKS))
