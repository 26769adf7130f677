"""A shown leaf: its 32 words, each with the results of the reductions of the elements in it, under one root."""

from dataclasses import dataclass

from eigentensor.dispute.moves import Entry
from eigentensor.dispute.position import Position
from eigentensor.errors import DisputeError
from eigentensor.keccak import keccak
from eigentensor.merkle import LEAF
from eigentensor.numerics.dtypes import DType

WORD = 32
WORDS = LEAF // WORD


def reduction_types(position: Position) -> tuple[DType, ...]:
    """The dtypes of the reductions of the disputed tensor's elements."""
    codes = position.reductions.to_bytes(8, "little").rstrip(b"\0")
    return tuple(DType(code) for code in codes)


@dataclass(frozen=True, slots=True)
class Shown:
    """The leaf that a position is about, as its executor shows it. Raises DisputeError if the lengths do not fit."""

    position: Position
    leaf: bytes
    results: bytes

    def __post_init__(self) -> None:
        if len(self.leaf) != LEAF or len(self.results) != len(self.elements) * self._width:
            raise DisputeError(f"a leaf of {len(self.leaf)} bytes with {len(self.results)} bytes of results")

    @property
    def elements(self) -> range:
        """The numbers of the elements whose bytes the leaf holds."""
        return elements_of(self.position)

    @property
    def _width(self) -> int:
        """Bytes of the results of one element."""
        return sum(dtype.size for dtype in reduction_types(self.position))

    def pattern(self, element: int) -> int:
        """What the leaf stores of an element."""
        size = DType(self.position.dtype).size
        return int.from_bytes(self.leaf[element * size % LEAF :][:size], "little")

    def results_of(self, element: int) -> bytes:
        """The packed results of an element."""
        start = (element - self.elements.start) * self._width
        return self.results[start : start + self._width]

    def entry(self, element: int) -> Entry:
        """An element with its word under the root."""
        level, index, path = [keccak(self._word(w)) for w in range(WORDS)], self._word_of(element), []
        while len(level) > 1:
            path.append(level[index ^ 1])
            level, index = _above(level), index // 2
        return Entry(element, self._word(self._word_of(element)), tuple(path))

    @property
    def root(self) -> bytes:
        """What a position keeps of a shown leaf."""
        level = [keccak(self._word(w)) for w in range(WORDS)]
        while len(level) > 1:
            level = _above(level)
        return level[0]

    def _word_of(self, element: int) -> int:
        return element * DType(self.position.dtype).size % LEAF // WORD

    def _word(self, number: int) -> bytes:
        each = WORD // DType(self.position.dtype).size * self._width
        return self.leaf[number * WORD : (number + 1) * WORD] + self.results[number * each : (number + 1) * each]


def elements_of(position: Position) -> range:
    """The elements in the leaf that a position is about."""
    each = LEAF // DType(position.dtype).size
    first = position.index * each
    return range(first, min(first + each, position.elements))


def read_entry(position: Position, entry: Entry) -> tuple[int, bytes]:
    """An element's stored pattern, and its packed results. Raises DisputeError for a false entry."""
    size, elements = DType(position.dtype).size, elements_of(position)
    width = sum(dtype.size for dtype in reduction_types(position))
    if entry.element not in elements or len(entry.path) != WORDS.bit_length() - 1:
        raise DisputeError(f"element {entry.element} is not in leaf {position.index}")
    word, each = entry.element * size % LEAF // WORD, WORD // size
    root = keccak(entry.word)
    for level, sibling in enumerate(entry.path):
        root = keccak(sibling + root if word >> level & 1 else root + sibling)
    if root != position.node:
        raise DisputeError(f"the word of element {entry.element} is not what was shown")
    at = entry.element % each
    stored = int.from_bytes(entry.word[at * size : (at + 1) * size], "little")
    return stored, entry.word[WORD + at * width :][:width]


def _above(level: list[bytes]) -> list[bytes]:
    return [keccak(level[i] + level[i + 1]) for i in range(0, len(level), 2)]
