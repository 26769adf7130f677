"""Trees over leaf hashes that are opened from their roots downwards, many nodes at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from eigentensor.merkle import NOTHING, Opening, node, parents

_SIZE = 32


class Nodes(Protocol):
    """A tree of which what is asked for is known; the leaves stand at level 0, the root at level `depth`."""

    @property
    def depth(self) -> int:
        """Levels between a leaf and the root."""

    def node(self, level: int, index: int) -> bytes:
        """The hash of a node: at level 0 a leaf's, at level `depth` the root, numbered from the left."""

    @property
    def root(self) -> bytes:
        """The root, before a length is bound to it."""
        return self.node(self.depth, 0)

    def opening(self, index: int) -> Opening:
        """Where a leaf stands."""
        return Opening(index, tuple(self.node(level, (index >> level) ^ 1) for level in range(self.depth)))


@dataclass(frozen=True)
class Hashes(Nodes):
    """The leaf hashes of a tensor, or of a trace: tensor roots of all executed calls, then the outputs root.

    All levels are kept once they are asked for, so each node is hashed once: 64 bytes for each leaf.
    """

    leaves: Sequence[bytes]

    @property
    def depth(self) -> int:
        return max(0, len(self.leaves) - 1).bit_length()

    def opening(self, index: int) -> Opening:
        """Where a leaf stands. Raises IndexError if there is no such leaf; padding has none."""
        if not 0 <= index < len(self.leaves):
            raise IndexError(f"leaf {index} of {len(self.leaves)}")
        return super().opening(index)

    def node(self, level: int, index: int) -> bytes:
        """The node that covers the leaves from index · 2^level on, those of the padding included."""
        if not (0 <= level <= self.depth and 0 <= index < 1 << self.depth - level):
            raise IndexError(f"node {index} of level {level} in a tree of {self.depth} levels")
        digest = self._levels[level][index * _SIZE : (index + 1) * _SIZE]
        return digest or padding(level)

    def below(self, level: int, index: int, levels: int) -> tuple[bytes, ...]:
        """The nodes `levels` below one, as it is opened: without those that stand for padding alone."""
        there = self._levels[level - levels][(index << levels) * _SIZE : (index + 1 << levels) * _SIZE]
        return tuple(there[i : i + _SIZE] for i in range(0, len(there), _SIZE))

    @cached_property
    def _levels(self) -> list[bytes]:
        """The nodes of each level one after the other, without those of padding alone."""
        return levels_above(self.leaves, self.depth, 0)


@dataclass(frozen=True)
class Opened:
    """The nodes `levels` below node `index` of a tree, as they are opened; they stand at level `bottom`."""

    bottom: int
    levels: int
    index: int
    nodes: tuple[bytes, ...]

    @property
    def root(self) -> bytes:
        """The opened node."""
        return self.node(self.bottom + self.levels, self.index)

    @property
    def first(self) -> int:
        """The number of the first of the nodes within its level."""
        return self.index << self.levels

    def covers(self, level: int, index: int) -> bool:
        """Whether a node of the tree is the opened one, one of those below, or between."""
        above = self.bottom + self.levels - level
        return 0 <= above <= self.levels and index >> above == self.index

    def node(self, level: int, index: int) -> bytes:
        """A node that is covered."""
        place = index - (self.index << self.bottom + self.levels - level)
        return self._levels[level - self.bottom][place * _SIZE : (place + 1) * _SIZE] or padding(level)

    def path(self, index: int) -> tuple[bytes, ...]:
        """The siblings of one of the nodes, by its number within its level, up to the opened one."""
        return tuple(self.node(self.bottom + level, (index >> level) ^ 1) for level in range(self.levels))

    @cached_property
    def _levels(self) -> list[bytes]:
        return levels_above(self.nodes, self.levels, self.bottom)


@dataclass(frozen=True)
class Claimed(Nodes):
    """A tree that somebody else opens, each time below one of the nodes before: own hashes where it has said nothing.

    What is asked for lies left of the last opened nodes, or is covered by those that were opened.
    """

    own: Hashes
    opened: tuple[Opened, ...]

    @property
    def depth(self) -> int:
        return self.own.depth

    def node(self, level: int, index: int) -> bytes:
        """As it is claimed, as far as it is."""
        claimed = (opened.node(level, index) for opened in reversed(self.opened) if opened.covers(level, index))
        return next(claimed, None) or self.own.node(level, index)


def padding(level: int) -> bytes:
    """The node of a level that stands for padding alone."""
    digest = NOTHING
    for _ in range(level):
        digest = node(digest, digest)
    return digest


def levels_above(nodes: Sequence[bytes], levels: int, bottom: int) -> list[bytes]:
    """The nodes of a level `bottom` and of so many above it, right of which there is padding alone."""
    result, zero = [b"".join(nodes)], padding(bottom)
    result[0] = result[0] or zero
    for _ in range(levels):
        result.append(parents(result[-1], zero))
        zero = node(zero, zero)
    return result
