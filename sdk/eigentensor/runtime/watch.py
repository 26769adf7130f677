"""Observing calls of a run: it pauses after each of them, before anything is written over what the call wrote."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray


class Watch(NamedTuple):
    """`observe` is given the number (iteration · calls + call) and the flat result of executed calls, in order.

    These are all, or those of `only`, which ascend. The array is good until `observe` returns.
    """

    observe: Callable[[int, NDArray[Any]], None]
    calls: int
    only: Sequence[int] | None = None

    def pauses(self, iteration: int) -> Iterator[tuple[int, int]]:
        """The calls after which an iteration pauses, each with its number."""
        numbers = range(iteration * self.calls, (iteration + 1) * self.calls)
        if self.only is None:
            return enumerate(numbers)
        some = self.only[bisect_left(self.only, numbers.start) : bisect_left(self.only, numbers.stop)]
        return ((number - numbers.start, number) for number in some)


#: Observes nothing.
UNWATCHED = Watch(lambda number, result: None, 0, ())
