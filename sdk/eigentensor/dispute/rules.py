"""What a move makes of a position: the contract in Python, step for step, its referee included.

`DisputeGame` does the same to hashes and bytes; where it reverts, this raises IllegalMove or WitnessError.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from eth_utils.crypto import keccak

from eigentensor import merkle
from eigentensor.dispute.encoding import kernel_hash, unpacked
from eigentensor.dispute.entries import Shown, read_entry, reduction_types
from eigentensor.dispute.moves import (
    ClaimBorders,
    Collect,
    Descend,
    Descent,
    Entry,
    JudgeFinal,
    JudgeSpan,
    Move,
    PickCall,
    PickNode,
    PickReduction,
    PickSpan,
    Publish,
    ShowLeaf,
    Verdict,
)
from eigentensor.dispute.position import FINAL, Outcome, Phase, Position, Reason, Side, claim_hash, deadline_of
from eigentensor.errors import DisputeError, IllegalMove
from eigentensor.merkle import LEAF, NOTHING
from eigentensor.numerics.dtypes import DType
from eigentensor.program.codec import HEADER, read_record
from eigentensor.program.model import Body
from eigentensor.tracing import Claim, Opened, Point, check_call, check_witness, collected, evaluate_step
from eigentensor.tracing.hashes import padding
from eigentensor.tracing.step import identity_of, is_canonical, length_of, reduction_dtypes

#: Levels that one move opens at least, where there are as many, and at most.
LEAST, MOST = 5, 11
#: Spans that one move cuts into.
SPANS = 64


def apply(position: Position, move: Move, block: int) -> Position | Outcome:
    """The next position, or how the game ends, if the side to move makes this move in a block."""
    if block > deadline_of(position):
        raise IllegalMove(f"the clock was over after block {deadline_of(position)}")
    phases, made = _MOVES[type(move)]
    if position.phase not in phases:
        raise IllegalMove(f"{move.function} in phase {position.phase.name.lower()}")
    left = position.left - (block - position.since)
    if position.phase.side is Side.EXECUTOR:
        timed = replace(position, since=block, executor_left=left)
    else:
        timed = replace(position, since=block, challenger_left=left)
    try:
        return made(timed, move)
    except IllegalMove:
        raise
    except DisputeError as error:
        raise IllegalMove(str(error)) from None


def descend_levels(level: int) -> int:
    """Levels that an executor opens at once: as few rounds as possible, then as few hashes."""
    rounds = -(-level // _COMFORTABLE)
    return max(min(LEAST, level), -(-level // rounds)) if level else 0


def borders_of(position: Position) -> range:
    """The numbers of steps between the spans that the disputed one is cut into."""
    stride = -(-(position.high - position.low) // SPANS)
    return range(position.low + stride, position.high, stride)


def _publish(position: Position, move: Publish) -> Position:
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


def _pick_call(position: Position, move: PickCall) -> Position | Outcome:
    _claimed(position, move.claim)
    check_call(move.proof, move.claim)
    body: Body = read_record("body", move.proof.kernel.body)
    dtype, elements = body.parameters[0]
    if not elements:
        if move.proof.root == merkle.tensor_root_of(dtype, 0, NOTHING):
            raise IllegalMove("a tensor without elements is what it must be")
        return Outcome(True, Reason.DETERMINED)
    picked = replace(
        position,
        phase=Phase.TREE,
        number=move.proof.number,
        node=move.proof.root,
        rooted=True,
        level=_depth(dtype, elements),
        opened=0,
        index=0,
        dtype=int(dtype),
        elements=elements,
        reductions=int.from_bytes(bytes(reduction_dtypes(body)), "little"),
        kernel=kernel_hash(move.proof.kernel),
    )
    if move.descent.path:
        return _below(picked, move.descent, 1)
    return replace(picked, phase=Phase.TREE if picked.level else Phase.LEAF)


def _collect(position: Position, move: Collect) -> Outcome:
    _claimed(position, move.claim)
    return Outcome(collected(move.proof, move.claim) != move.claim.outputs, Reason.COLLECT)


def _descend(position: Position, move: Descend) -> Position:
    _is_node(position, _opened(position, move.levels, move.children).root)
    phase = Phase.CALL if position.phase is Phase.TRACE else Phase.NODE
    return replace(position, phase=phase, opened=move.levels)


def _pick_node(position: Position, move: PickNode) -> Position:
    below = _below(position, move.descent, position.opened)
    if position.phase is not Phase.CALL:
        return below
    if not below.level:
        raise IllegalMove("a leaf of the trace is picked as a call")
    return replace(below, phase=Phase.TRACE)


def _show_leaf(position: Position, move: ShowLeaf) -> Position:
    shown = Shown(position, move.leaf, move.results)
    (leaf,) = merkle.leaf_hashes(move.leaf)
    _is_node(position, leaf)
    used = len(shown.elements) * DType(position.dtype).size
    if any(move.leaf[used:]):
        raise IllegalMove("bytes beyond the tensor are not zero")
    return replace(position, phase=Phase.ELEMENT, node=shown.root, rooted=False)


def _pick_reduction(position: Position, move: PickReduction) -> Position | Outcome:
    picked, results = _picked(position, move.entry, move.reduction)
    if move.kernel is None:
        if move.reduction != FINAL:
            raise IllegalMove("a reduction without its kernel")
        return picked
    body: Body = read_record("body", move.kernel.body)
    types, k = reduction_types(position), move.reduction
    if kernel_hash(move.kernel) != position.kernel or not 0 <= k < len(types):
        raise IllegalMove("the kernel is another, or has no such reduction")
    length, identity = length_of(body, move.kernel.variables, k), identity_of(body, k)
    value = unpacked(types, results)[k]
    if not is_canonical(types[k], value):
        return Outcome(True, Reason.DETERMINED)
    if not length:
        if value == identity:
            raise IllegalMove("a reduction of no steps is what it must be")
        return Outcome(True, Reason.DETERMINED)
    phase = Phase.VERDICT if length == 1 else Phase.BORDERS
    return replace(picked, phase=phase, high=length, low_value=identity, high_value=value)


def _picked(position: Position, entry: Entry, reduction: int) -> tuple[Position, bytes]:
    """With an element of the leaf, and its results. The stored pattern is what the final expression is held to."""
    stored, results = read_entry(position, entry)
    picked = replace(
        position,
        phase=Phase.VERDICT,
        element=entry.element,
        results=keccak(results),
        reduction=reduction,
        low=0,
        high=0,
        low_value=0,
        high_value=stored,
    )
    return picked, results


def _claim_borders(position: Position, move: ClaimBorders) -> Position:
    dtype = reduction_types(position)[position.reduction]
    if not all(is_canonical(dtype, p) for p in unpacked([dtype] * len(borders_of(position)), move.values)):
        raise IllegalMove("a border is no value's pattern")
    return replace(position, phase=Phase.SPAN, borders=keccak(move.values))


def _pick_span(position: Position, move: PickSpan | JudgeSpan) -> Position:
    dtype, borders = reduction_types(position)[position.reduction], borders_of(position)
    if keccak(move.values) != position.borders or not 0 <= move.span <= len(borders):
        raise IllegalMove("the borders are others, or have no such span")
    steps = [position.low, *borders, position.high]
    values = [position.low_value, *unpacked([dtype] * len(borders), move.values), position.high_value]
    low, high = steps[move.span], steps[move.span + 1]
    return replace(
        position,
        phase=Phase.VERDICT if high - low == 1 else Phase.BORDERS,
        low=low,
        high=high,
        low_value=values[move.span],
        high_value=values[move.span + 1],
    )


def _verdict(position: Position, move: Verdict) -> Outcome:
    _claimed(position, move.claim)
    if keccak(move.results) != position.results or move.witness.number != position.number:
        raise IllegalMove("the witness is of other results, or of another call")
    if kernel_hash(move.witness.kernel) != position.kernel or move.witness.point != point_of(position, move.results):
        raise IllegalMove("the witness is of another step")
    check_witness(move.witness, move.claim)
    return Outcome(evaluate_step(move.witness) != position.high_value, Reason.VERDICT)


def _judge_final(position: Position, move: JudgeFinal) -> Outcome:
    picked, results = _picked(position, move.entry, FINAL)
    return _verdict(picked, Verdict(move.claim, results, move.witness))


def _judge_span(position: Position, move: JudgeSpan) -> Outcome:
    picked = _pick_span(position, move)
    if picked.phase is not Phase.VERDICT:
        raise IllegalMove("the span is not one step")
    return _verdict(picked, Verdict(move.claim, move.results, move.witness))


def point_of(position: Position, results: bytes) -> Point:
    """What the verdict in a position is about."""
    claimed = unpacked(reduction_types(position), results)
    if position.reduction == FINAL:
        return Point(position.element, claimed)
    return Point(position.element, claimed, position.reduction, position.low, position.low_value)


def _claimed(position: Position, claim: Claim) -> None:
    if claim_hash(claim) != position.claim:
        raise IllegalMove("the claim is another one")


def _is_node(position: Position, root: bytes) -> None:
    given = merkle.tensor_root_of(DType(position.dtype), position.elements, root) if position.rooted else root
    if given != position.node:
        raise IllegalMove("what is shown does not lead to the node")


def _below(position: Position, descent: Descent, least: int) -> Position:
    """The position at a node below, at least so many levels."""
    level = position.level - len(descent.path)
    if len(descent.path) < least or level < 0 or descent.index >> len(descent.path) != position.index:
        raise IllegalMove(f"node {descent.index} lies elsewhere")
    _is_node(position, merkle.climb(descent.child, descent.index, descent.path))
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


def _depth(dtype: DType, elements: int) -> int:
    return (-(-elements * dtype.size // LEAF) - 1).bit_length()


_COMFORTABLE = 7
_MOVES: dict[type, tuple[tuple[Phase, ...], Callable[[Position, Any], Position | Outcome]]] = {
    Publish: ((Phase.PUBLISH,), _publish),
    PickCall: ((Phase.CALL,), _pick_call),
    Collect: ((Phase.CALL,), _collect),
    Descend: ((Phase.TRACE, Phase.TREE), _descend),
    PickNode: ((Phase.CALL, Phase.NODE), _pick_node),
    ShowLeaf: ((Phase.LEAF,), _show_leaf),
    PickReduction: ((Phase.ELEMENT,), _pick_reduction),
    JudgeFinal: ((Phase.ELEMENT,), _judge_final),
    ClaimBorders: ((Phase.BORDERS,), _claim_borders),
    PickSpan: ((Phase.SPAN,), _pick_span),
    JudgeSpan: ((Phase.SPAN,), _judge_span),
    Verdict: ((Phase.VERDICT,), _verdict),
}
