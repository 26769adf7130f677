"""Moves about trees: the trace from its root to the roots of calls, a tensor from its root to a leaf.

`Moves` does the same in Solidity. Everything raises IllegalMove for what the contract refuses.
"""

from dataclasses import replace

from eigentensor import merkle
from eigentensor.dispute.moves import Descend, Descent, PickNode, Publish
from eigentensor.dispute.position import Phase, Position, claim_hash
from eigentensor.errors import IllegalMove
from eigentensor.merkle import LEAF
from eigentensor.numerics.dtypes import DType
from eigentensor.program.codec import HEADER
from eigentensor.tracing import Opened
from eigentensor.tracing.hashes import padding

#: Levels that one move opens at least, where there are as many, and at most.
LEAST, MOST = 5, 11
#: Levels that an executor opens at most if it can choose: more rounds cost less than more hashes.
COMFORTABLE = 7


def descend_levels(level: int) -> int:
    """Levels that an executor opens at once: as few rounds as possible, then as few hashes."""
    rounds = -(-level // COMFORTABLE)
    return max(min(LEAST, level), -(-level // rounds)) if level else 0


def publish(position: Position, move: Publish) -> Position:
    """The position after the executor publishes the trace of its claim.

    Raises IllegalMove if program, outputs and trace disagree.
    """
    claim = move.claim
    if merkle.program_root_of(move.header, move.records_root) != claim.program:
        raise IllegalMove("the records are not those of the task's program")
    calls = HEADER.unpack(move.header)[5] * claim.repeat
    begun = replace(position, elements=calls + 1, level=calls.bit_length())
    opened = _opened(begun, max(0, len(move.children) - 1).bit_length(), move.children)
    if _last(claim.outputs, calls, opened.bottom, move.path) != opened.nodes[-1]:
        raise IllegalMove("the outputs root is not the last leaf")
    if opened.root != claim.trace:
        raise IllegalMove("the claim is not that of this trace")
    return replace(begun, phase=Phase.CALL, claim=claim_hash(claim), node=opened.root, opened=opened.levels)


def descend(position: Position, move: Descend) -> Position:
    """The position after the executor opens levels below the current node.

    Raises IllegalMove unless they lead to it.
    """
    check_node(position, _opened(position, move.levels, move.children).root)
    phase = Phase.CALL if position.phase is Phase.TRACE else Phase.NODE
    return replace(position, phase=phase, opened=move.levels)


def pick_node(position: Position, move: PickNode) -> Position:
    """The position after the challenger picks one of the nodes that were opened; a call is picked by `PickCall`."""
    picked = below(position, move.descent, position.opened)
    if position.phase is not Phase.CALL:
        return picked
    if not picked.level:
        raise IllegalMove("a leaf of the trace is picked as a call")
    return replace(picked, phase=Phase.TRACE)


def check_node(position: Position, root: bytes) -> None:
    """Raises IllegalMove unless the position's node commits to a root: a tensor's, with dtype and elements."""
    committed = merkle.tensor_root_of(DType(position.dtype), position.elements, root) if position.rooted else root
    if committed != position.node:
        raise IllegalMove("what is shown does not lead to the node")


def below(position: Position, descent: Descent, least: int) -> Position:
    """The position at a node below, at least so many levels."""
    level = position.level - len(descent.path)
    if len(descent.path) < least or level < 0 or descent.index >> len(descent.path) != position.index:
        raise IllegalMove(f"node {descent.index} lies elsewhere")
    check_node(position, merkle.climb(descent.child, descent.index, descent.path))
    if descent.index << level >= _leaves(position):
        raise IllegalMove("a node of padding alone")
    phase = Phase.TREE if level else Phase.LEAF
    return replace(position, phase=phase, node=descent.child, rooted=False, level=level, opened=0, index=descent.index)


def _opened(position: Position, levels: int, children: tuple[bytes, ...]) -> Opened:
    """The nodes so many levels below the current one, as they are opened."""
    bottom = position.level - levels
    if not min(LEAST, position.level) <= levels <= min(MOST, position.level):
        raise IllegalMove(f"{levels} levels below a node at level {position.level}")
    there = min(1 << levels, ((_leaves(position) - 1) >> bottom) + 1 - (position.index << levels))
    if len(children) != there:
        raise IllegalMove(f"{len(children)} nodes where there are {there}")
    return Opened(bottom, levels, position.index, children)


def _last(leaf: bytes, index: int, levels: int, path: tuple[bytes, ...]) -> bytes:
    """The node so many levels above a tree's last leaf, by its siblings on the left."""
    lefts = iter(path)
    for level in range(levels):
        if index >> level & 1:
            leaf = merkle.node(next(lefts, b""), leaf)
        else:
            leaf = merkle.node(leaf, padding(level))
    if next(lefts, None) is not None:
        raise IllegalMove("a sibling is left over")
    return leaf


def _leaves(position: Position) -> int:
    """Of the trace, until a call is picked; then of its tensor."""
    if not position.dtype:
        return position.elements
    return -(-position.elements * DType(position.dtype).size // LEAF)


def depth_of(dtype: DType, elements: int) -> int:
    """Levels of the tree over a tensor's leaves of 1,024 bytes: 0 for a single leaf."""
    return (-(-elements * dtype.size // LEAF) - 1).bit_length()
