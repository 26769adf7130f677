"""What a move makes of a position: the contract in Python, step for step, its referee included.

`DisputeGame` does the same to hashes and bytes; where it reverts, this raises IllegalMove or WitnessError.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from eigentensor import merkle
from eigentensor.dispute.encoding import kernel_hash, unpacked
from eigentensor.dispute.entries import Shown, elements_of, read_entry, reduction_types
from eigentensor.dispute.moves import (
    AskOutputs,
    ClaimBorders,
    Collect,
    Descend,
    Entry,
    JudgeCall,
    JudgeFinal,
    JudgeResult,
    JudgeSpan,
    Move,
    PickCall,
    PickNode,
    PickReduction,
    PickSpan,
    Publish,
    ShowLeaf,
    ShowOutputs,
    Verdict,
)
from eigentensor.dispute.position import FINAL, Outcome, Phase, Position, Reason, Side, check_claim, deadline_of
from eigentensor.dispute.results import ask_outputs, judge_result, show_outputs
from eigentensor.dispute.trees import below, check_node, depth_of, descend, pick_node, publish
from eigentensor.errors import DisputeError, IllegalMove
from eigentensor.keccak import keccak
from eigentensor.merkle import NOTHING
from eigentensor.numerics.dtypes import DType
from eigentensor.program.codec import read_record
from eigentensor.program.model import Body
from eigentensor.tracing import Point, check_call, check_witness, collected, evaluate_step
from eigentensor.tracing.step import identity_of, is_canonical, length_of, reduction_dtypes

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


def borders_of(position: Position) -> range:
    """The numbers of steps between the spans that the disputed one is cut into."""
    stride = -(-(position.high - position.low) // SPANS)
    return range(position.low + stride, position.high, stride)


def _pick_call(position: Position, move: PickCall) -> Position | Outcome:
    check_claim(position, move.claim)
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
        level=depth_of(dtype, elements),
        opened=0,
        index=0,
        dtype=int(dtype),
        elements=elements,
        reductions=int.from_bytes(bytes(reduction_dtypes(body)), "little"),
        kernel=kernel_hash(move.proof.kernel),
    )
    if move.descent.path:
        return below(picked, move.descent, 1)
    return replace(picked, phase=Phase.TREE if picked.level else Phase.LEAF)


def _collect(position: Position, move: Collect) -> Outcome:
    check_claim(position, move.claim)
    return Outcome(collected(move.proof, move.claim) != move.claim.outputs, Reason.COLLECT)


def _judge_call(position: Position, move: JudgeCall) -> Outcome:
    picked = _pick_call(position, PickCall(move.claim, move.proof, move.descent))
    if isinstance(picked, Outcome) or picked.phase is not Phase.LEAF:
        raise IllegalMove("no leaf is picked")
    _show_leaf(picked, ShowLeaf(move.leaf, b""))
    if move.element not in elements_of(picked):
        raise IllegalMove(f"element {move.element} is not in leaf {picked.index}")
    stored = Shown(picked, move.leaf, b"").pattern(move.element)
    return _verdict(at_final(picked, move.element, stored, b"", FINAL), Verdict(move.claim, b"", move.witness))


def _show_leaf(position: Position, move: ShowLeaf) -> Position:
    shown = Shown(position, move.leaf, move.results)
    (leaf,) = merkle.leaf_hashes(move.leaf)
    check_node(position, leaf)
    used = len(shown.elements) * DType(position.dtype).size
    if any(move.leaf[used:]):
        raise IllegalMove("bytes beyond the tensor are not zero")
    return replace(position, phase=Phase.ELEMENT, node=shown.root, rooted=False)


def _pick_reduction(position: Position, move: PickReduction) -> Position | Outcome:
    picked, results = picked_element(position, move.entry, move.reduction)
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


def picked_element(position: Position, entry: Entry, reduction: int) -> tuple[Position, bytes]:
    """With an element of the leaf, and its results. The stored pattern is what the final expression is held to."""
    stored, results = read_entry(position, entry)
    return at_final(position, entry.element, stored, results, reduction), results


def at_final(position: Position, element: int, stored: int, results: bytes, reduction: int) -> Position:
    """The position whose verdict is about an element: about its final expression, unless a reduction is named."""
    return replace(
        position,
        phase=Phase.VERDICT,
        element=element,
        results=keccak(results),
        reduction=reduction,
        low=0,
        high=0,
        low_value=0,
        high_value=stored,
    )


def _claim_borders(position: Position, move: ClaimBorders) -> Position:
    dtype = reduction_types(position)[position.reduction]
    if not all(is_canonical(dtype, p) for p in unpacked([dtype] * len(borders_of(position)), move.values)):
        raise IllegalMove("a border is no value's pattern")
    return replace(position, phase=Phase.SPAN, borders=keccak(move.values))


def pick_span(position: Position, move: PickSpan | JudgeSpan) -> Position:
    """The position after the challenger picks one of the spans that were claimed. Raises IllegalMove for others."""
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
    check_claim(position, move.claim)
    if keccak(move.results) != position.results or move.witness.number != position.number:
        raise IllegalMove("the witness is of other results, or of another call")
    if kernel_hash(move.witness.kernel) != position.kernel or move.witness.point != point_of(position, move.results):
        raise IllegalMove("the witness is of another step")
    check_witness(move.witness, move.claim)
    return Outcome(evaluate_step(move.witness) != position.high_value, Reason.VERDICT)


def _judge_final(position: Position, move: JudgeFinal) -> Outcome:
    picked, results = picked_element(position, move.entry, FINAL)
    return _verdict(picked, Verdict(move.claim, results, move.witness))


def _judge_span(position: Position, move: JudgeSpan) -> Outcome:
    picked = pick_span(position, move)
    if picked.phase is not Phase.VERDICT:
        raise IllegalMove("the span is not one step")
    return _verdict(picked, Verdict(move.claim, move.results, move.witness))


def point_of(position: Position, results: bytes) -> Point:
    """What the verdict in a position is about."""
    claimed = unpacked(reduction_types(position), results)
    if position.reduction == FINAL:
        return Point(position.element, claimed)
    return Point(position.element, claimed, position.reduction, position.low, position.low_value)


_MOVES: dict[type, tuple[tuple[Phase, ...], Callable[[Position, Any], Position | Outcome]]] = {
    Publish: ((Phase.PUBLISH,), publish),
    PickCall: ((Phase.CALL,), _pick_call),
    Collect: ((Phase.CALL,), _collect),
    AskOutputs: ((Phase.CALL,), ask_outputs),
    ShowOutputs: ((Phase.OUTPUTS,), show_outputs),
    JudgeResult: ((Phase.RESULT,), judge_result),
    JudgeCall: ((Phase.CALL,), _judge_call),
    Descend: ((Phase.TRACE, Phase.TREE), descend),
    PickNode: ((Phase.CALL, Phase.NODE), pick_node),
    ShowLeaf: ((Phase.LEAF,), _show_leaf),
    PickReduction: ((Phase.ELEMENT,), _pick_reduction),
    JudgeFinal: ((Phase.ELEMENT,), _judge_final),
    ClaimBorders: ((Phase.BORDERS,), _claim_borders),
    PickSpan: ((Phase.SPAN,), pick_span),
    JudgeSpan: ((Phase.SPAN,), _judge_span),
    Verdict: ((Phase.VERDICT,), _verdict),
}
