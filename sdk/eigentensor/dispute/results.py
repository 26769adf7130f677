"""The results of a program, one by one: what the outputs root is made of, and what it must be made of."""

from collections.abc import Sequence
from dataclasses import replace

from eigentensor import merkle
from eigentensor.dispute.moves import AskOutputs, Descent, JudgeResult, ShowOutputs
from eigentensor.dispute.position import Outcome, Phase, Position, Reason, check_claim
from eigentensor.errors import IllegalMove
from eigentensor.program.codec import HEADER
from eigentensor.program.model import Kind
from eigentensor.tracing import Execution, Hashes, implied

#: Leaves of the trees over results by name: of the outputs, and of the states.
Shown = tuple[tuple[bytes, ...], tuple[bytes, ...]]


def ask_outputs(position: Position, move: AskOutputs) -> Position:
    """The position after the challenger asks how the results make the outputs root."""
    return replace(position, phase=Phase.OUTPUTS)


def show_outputs(position: Position, move: ShowOutputs) -> Position:
    """The position after the executor shows the leaves of outputs and states.

    Raises IllegalMove unless they give its root.
    """
    check_claim(position, move.claim)
    if merkle.outputs_root(*(bindings_of(leaves) for leaves in (move.outputs, move.states))) != move.claim.outputs:
        raise IllegalMove("these results do not give the outputs root")
    return replace(position, phase=Phase.RESULT, low=len(move.outputs), high=len(move.states))


def judge_result(position: Position, move: JudgeResult) -> Outcome:
    """The outcome of one shown result against the call that wrote it.

    Raises IllegalMove if what is shown is of another place.
    """
    check_claim(position, move.claim)
    results, kind, leaf = implied(move.proof, move.claim)
    if move.proof.record.opening.number != _first_result(move.proof.header) + move.shown.index:
        raise IllegalMove("the record is of another result")
    is_state = kind is Kind.STATE
    if results != position.low + position.high or is_state != (move.shown.index >= position.low):
        return Outcome(True, Reason.COLLECT)
    first, count = (position.low, position.high) if is_state else (0, position.low)
    if len(move.shown.path) != (count - 1).bit_length():
        raise IllegalMove("the shown leaf lies elsewhere")
    tree = merkle.climb(move.shown.child, move.shown.index - first, move.shown.path)
    both = (move.other, merkle.bindings_root_of(count, tree))
    if merkle.outputs_root(*(both if is_state else both[::-1])) != move.claim.outputs:
        raise IllegalMove("the leaf is another than was shown")
    return Outcome(move.shown.child != leaf, Reason.COLLECT)


def bindings_of(leaves: Sequence[bytes]) -> bytes:
    """The bindings root over leaves."""
    return merkle.bindings_root_of(len(leaves), merkle.tree_root(leaves))


def _first_result(header: bytes) -> int:
    return sum(HEADER.unpack(header)[2:6])


def leaves_of(account: Execution) -> Shown:
    """What an account makes of the results."""
    program, calls = account.program, account.calls
    last = len(calls) - len(program.calls) - len(program.buffers)
    leaves = [(r.kind, merkle.binding_hash(r.name, calls[last + r.buffer])) for r in program.results]
    outputs, states = (tuple(leaf for of, leaf in leaves if of is kind) for kind in (Kind.OUTPUT, Kind.STATE))
    return outputs, states


def first_wrong(own: Shown, shown: Shown) -> int | None:
    """The number of the first result that is another, or of another kind; any, if there are more or fewer."""
    if sum(map(len, own)) != sum(map(len, shown)):
        return 0
    pairs = enumerate(zip((*own[0], *own[1]), (*shown[0], *shown[1]), strict=True))
    return next((n for n, (a, b) in pairs if a != b or (n < len(own[0])) != (n < len(shown[0]))), None)


def opened_result(shown: Shown, number: int) -> tuple[Descent, bytes]:
    """A result as it was shown, if it was, and the bindings root of those of the other kind."""
    kind = int(number >= len(shown[0]))
    place, leaves = number - kind * len(shown[0]), shown[kind]
    other = bindings_of(shown[1 - kind])
    if place >= len(leaves):
        return Descent(number), other
    return Descent(number, leaves[place], Hashes(leaves).opening(place).path), other
