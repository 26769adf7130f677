"""A tree over leaf hashes that is opened from its root downwards, many children at a time."""

from dataclasses import dataclass
from functools import cached_property

from eigentensor.merkle import NOTHING, Opening, path, tree_root

WIDTH = 32  #: children that one move of a dispute opens


@dataclass(frozen=True)
class Hashes:
    """The leaf hashes of a tensor, or of a trace: tensor roots of all executed calls, then the outputs root."""

    leaves: tuple[bytes, ...]

    @cached_property
    def root(self) -> bytes:
        return tree_root(self.leaves)

    @property
    def depth(self) -> int:
        """Levels between the root and the leaves; the root stands at this level, leaves at level 0."""
        return max(0, len(self.leaves) - 1).bit_length()

    def opening(self, index: int) -> Opening:
        """Where a leaf stands. Raises IndexError if there is no such leaf; padding has none."""
        return Opening(index, path(self.leaves, index))

    def node(self, level: int, index: int) -> bytes:
        """The node that covers the leaves from index · 2^level on, those of the padding included."""
        if not (0 <= level <= self.depth and 0 <= index < 1 << self.depth - level):
            raise IndexError(f"node {index} of level {level} in a tree of {self.depth} levels")
        covered = self.leaves[index << level : (index + 1) << level]
        return tree_root([*covered, *[NOTHING] * ((1 << level) - len(covered))])

    def children(self, level: int, index: int, width: int = WIDTH) -> tuple[bytes, ...]:
        """The nodes log2(width) levels below one, or its leaves if these are nearer; their `tree_root` is the node.

        `width` is a power of two. The first of them is node (index · their number) of its level.
        """
        below = max(0, level - (width.bit_length() - 1))
        number = 1 << level - below
        return tuple(self.node(below, index * number + i) for i in range(number))
