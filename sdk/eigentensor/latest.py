"""What was used last, of what is too much to keep: for programs and plans that can be had again."""

from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Latest(OrderedDict[K, V]):
    """A dictionary of at most `most` entries: beyond, the one goes that was set or used longest ago.

    Of two that are used alike, the larger one has all that the smaller one has.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self.most:
            self.popitem(last=False)

    def use(self, key: K) -> V | None:
        """The value of a key, which counts as used; None if there is none."""
        value = self.get(key)
        if value is not None:
            self.move_to_end(key)
        return value

    def forget(self, which: Callable[[K], bool]) -> None:
        """Forgets the entries of these keys."""
        for key in list(filter(which, self)):
            del self[key]
