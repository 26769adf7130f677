"""A tree over leaf hashes that is opened from its root downwards, many children at a time."""

from dataclasses import dataclass
from functools import cached_property

from eigentensor.merkle import NOTHING, Opening, node, parents

_SIZE = 32


@dataclass(frozen=True)
class Hashes:
    """The leaf hashes of a tensor, or of a trace: tensor roots of all executed calls, then the outputs root.

    All levels are kept once they are asked for, so each node is hashed once: 64 bytes for each leaf.
    """

    leaves: tuple[bytes, ...]

    @cached_property
    def root(self) -> bytes:
        return self._levels[-1]

    @property
    def depth(self) -> int:
        """Levels between the root and the leaves; the root stands at this level, leaves at level 0."""
        return max(0, len(self.leaves) - 1).bit_length()

    def opening(self, index: int) -> Opening:
        """Where a leaf stands. Raises IndexError if there is no such leaf; padding has none."""
        if not 0 <= index < len(self.leaves):
            raise IndexError(f"leaf {index} of {len(self.leaves)}")
        return Opening(index, tuple(self.node(level, (index >> level) ^ 1) for level in range(self.depth)))

    def node(self, level: int, index: int) -> bytes:
        """The node that covers the leaves from index · 2^level on, those of the padding included."""
        if not (0 <= level <= self.depth and 0 <= index < 1 << self.depth - level):
            raise IndexError(f"node {index} of level {level} in a tree of {self.depth} levels")
        found = self._levels[level][index * _SIZE : (index + 1) * _SIZE]
        return found or self._padding[level]

    def children(self, level: int, index: int, width: int) -> tuple[bytes, ...]:
        """The nodes log2(width) levels below one, or its leaves if these are nearer; their `tree_root` is the node.

        `width` is a power of two. The first of them is node (index · their number) of its level.
        """
        below = max(0, level - (width.bit_length() - 1))
        number = 1 << level - below
        return tuple(self.node(below, index * number + i) for i in range(number))

    @cached_property
    def _padding(self) -> list[bytes]:
        """The node of each level that covers padding alone."""
        found = [NOTHING]
        for _ in range(self.depth):
            found.append(node(found[-1], found[-1]))
        return found

    @cached_property
    def _levels(self) -> list[bytes]:
        """The nodes of each level one after the other, without those of padding alone."""
        found = [b"".join(self.leaves) or NOTHING]
        for level in range(self.depth):
            found.append(parents(found[-1], self._padding[level]))
        return found
