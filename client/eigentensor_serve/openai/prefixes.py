"""What texts that begin alike go on from: what was kept when their common beginning was read."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

Kept = TypeVar("Kept")


class Beginning(NamedTuple):
    """So many tokens of a text that belongs to an app and a caller."""

    of: Hashable
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Entry(Generic[Kept]):
    kept: Kept
    size: int


class Prefixes(Generic[Kept]):
    """What is kept by the tokens that were read, of sizes that are at most `limit` together: what was used least lately
    goes. A caller finds its own alone, lest the time of an answer tells what others asked. Safe for several threads."""

    def __init__(self, limit: int) -> None:
        self._limit, self._size = limit, 0
        self._entries: OrderedDict[Beginning, _Entry[Kept]] = OrderedDict()
        self._lock = Lock()

    def holds(self, size: int) -> bool:
        """Whether what is so large may be kept at all."""
        return size <= self._limit

    def add(
        self, of: Hashable, tokens: Sequence[int], kept: Kept, size: int = 1, *, does_for_less: bool = False
    ) -> None:
        """Keeps what was left when these tokens were read, unless it is too large; alone, if it does for
        fewer of them as well."""
        with self._lock:
            self._drop(Beginning(of, tuple(tokens)))
            for name in [*self._entries] if does_for_less else ():
                if name.of == of and name.tokens == tuple(tokens[: len(name.tokens)]):
                    self._drop(name)
            if not tokens or size > self._limit:
                return
            while self._size + size > self._limit:
                self._drop(next(iter(self._entries)))
            self._entries[Beginning(of, tuple(tokens))] = _Entry(kept, size)
            self._size += size

    def forget(self, of: Hashable, tokens: Sequence[int]) -> None:
        """What is not there any more."""
        with self._lock:
            self._drop(Beginning(of, tuple(tokens)))

    def longest(self, of: Hashable, tokens: Sequence[int], chunk: int) -> tuple[int, Kept] | None:
        """How many of the tokens were read, a multiple of a chunk, and what was left then."""
        with self._lock:
            for count in range(len(tokens) // chunk * chunk, 0, -chunk):
                name = Beginning(of, tuple(tokens[:count]))
                if (entry := self._entries.get(name)) is not None:
                    self._entries.move_to_end(name)
                    return count, entry.kept
        return None

    def alike(self, of: Hashable, tokens: Sequence[int], chunk: int) -> tuple[int, Kept] | None:
        """The same of what was left later, when more was read that began with them."""
        with self._lock:
            found = max(self._alike(of, tokens, chunk), default=(0, None), key=lambda each: each[0])
            if found[1] is None or not found[0]:
                return None
            self._entries.move_to_end(found[1])
            return found[0], self._entries[found[1]].kept

    def _alike(self, of: Hashable, tokens: Sequence[int], chunk: int) -> Iterator[tuple[int, Beginning]]:
        for name in self._entries:
            if name.of == of:
                pairs = zip(name.tokens, tokens, strict=False)
                common = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(name.tokens), len(tokens)))
                yield common // chunk * chunk, name

    def _drop(self, name: Beginning) -> None:
        if (entry := self._entries.pop(name, None)) is not None:
            self._size -= entry.size
