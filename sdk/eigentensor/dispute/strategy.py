"""Position → next move, for both sides: a pure function of what was published and of a side's own account.

An executor answers what its account says, whatever it is asked. A challenger compares what the executor published with
its own account and picks the first difference, so that all that stands before it is common ground.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from eigentensor import merkle
from eigentensor.dispute.differences import explained, first_element, first_other, pick, way_to
from eigentensor.dispute.encoding import call_bytes, collect_bytes, packed, unpacked, witness_bytes
from eigentensor.dispute.entries import Shown, elements_of, reduction_types
from eigentensor.dispute.moves import (
    AskOutputs,
    ClaimBorders,
    Collect,
    Descend,
    JudgeCall,
    JudgeFinal,
    JudgeResult,
    JudgeSpan,
    Move,
    PickCall,
    PickReduction,
    PickSpan,
    Publish,
    ShowLeaf,
    ShowOutputs,
    Verdict,
)
from eigentensor.dispute.position import Phase, Position, Side
from eigentensor.dispute.published import Published
from eigentensor.dispute.results import bindings_of, first_wrong, leaves_of, opened_result
from eigentensor.dispute.rules import borders_of, point_of
from eigentensor.dispute.trees import descend_levels
from eigentensor.program.limits import WITNESS
from eigentensor.tracing import (
    Claim,
    Claimed,
    Element,
    Execution,
    Flat,
    Hashes,
    Point,
    evaluate_step,
    kernel_of,
    outputs_of,
    prove_call,
    prove_outputs,
    prove_result,
    witness_of,
)
from eigentensor.tracing.step import element_of, results_of


@dataclass(frozen=True)
class Knowledge:
    """What a side knows: the roots of the task with the revealed outputs root, the order, and its own account.

    `claim.trace` is left out: it follows from what is published. `claimed` are tensors of executed calls that the
    executor is known to have, because they are public: with them a challenger finds the leaf alone, and the call where
    they are all that is wrong below a node of the trace.
    """

    claim: Claim
    order: tuple[Any, ...]
    account: Execution
    claimed: Mapping[int, Flat] = field(default_factory=dict)

    @cached_property
    def trace(self) -> Hashes:
        """The tree over the own roots of all executed calls, and the revealed outputs root."""
        account = self.account
        return account.trace if account.outputs == self.claim.outputs else Hashes((*account.calls, self.claim.outputs))


@dataclass(frozen=True, slots=True)
class Keep:
    """The account lacks the results of these executed calls: trace again, and keep them."""

    calls: frozenset[int]


def next_move(side: Side, position: Position, published: Published, knowledge: Knowledge) -> Move | Keep | None:
    """What a side does in a position. None: it is not its turn, or a challenger has nothing to object to."""
    if position.phase.side is not side:
        return None
    if position.phase not in _WITHOUT_TENSORS:
        needed = knowledge.account.needs(position.number) | {position.number}
        if not needed <= knowledge.account.kept.keys():
            return Keep(needed)
    return _STRATEGIES[position.phase](_Turn(position, published, knowledge))


@dataclass(frozen=True)
class _Turn:
    position: Position
    published: Published
    knowledge: Knowledge

    @property
    def account(self) -> Execution:
        return self.knowledge.account

    @cached_property
    def trace(self) -> Claimed:
        """The executor's trace."""
        return self.published.trace(self.knowledge.trace)

    @property
    def claim(self) -> Claim:
        return replace(self.knowledge.claim, trace=self.trace.root)

    @property
    def own(self) -> Flat:
        """The disputed tensor in the side's own account."""
        return self.account.written(self.position.number)

    @cached_property
    def element(self) -> Element:
        return element_of(self.account, self.position.number, self.position.element)

    @property
    def shown(self) -> Shown:
        return Shown(self.position, self.published.leaf, self.published.results)

    @property
    def results(self) -> bytes:
        """The results that the executor claimed for the disputed element."""
        return self.shown.results_of(self.position.element)


def _publish(turn: _Turn) -> Move:
    account, trace, last = turn.account, turn.knowledge.trace, len(turn.account.calls)
    levels = descend_levels(trace.depth)
    left = [level for level in range(trace.depth - levels) if last >> level & 1]
    return Publish(
        turn.knowledge.order,
        replace(turn.knowledge.claim, trace=trace.root),
        account.encoded[0],
        account.records.root,
        trace.below(trace.depth, 0, levels),
        tuple(trace.node(level, (last >> level) - 1) for level in left),
    )


def _call(turn: _Turn) -> Move | Keep | None:
    opened, own = turn.published.nodes[-1], turn.knowledge.trace
    number = first_other(opened, own)
    if number is None:
        return _collect(turn)
    if opened.bottom:
        roots = {call: tensor.root for call, tensor in turn.knowledge.claimed.items()}
        below = explained(opened, number, own, roots)
        if below is None:
            return pick(opened, number)
        return _call(replace(turn, published=replace(turn.published, nodes=(*turn.published.nodes, below))))
    public, proof = turn.knowledge.claimed.get(number), prove_call(turn.account, number, turn.trace)
    if public is None or public.root != proof.root:
        return PickCall(turn.claim, proof)
    needed = turn.account.needs(number) | {number}
    if not needed <= turn.account.kept.keys():
        return Keep(needed)
    descent = way_to(public.leaves, turn.account.written(number).leaves)
    if turn.account.body(number).reductions:
        return PickCall(turn.claim, proof, descent)
    element, leaf = first_element(public, turn.account.written(number), descent.index), public.leaf(descent.index)
    witness = witness_of(turn.account, element_of(turn.account, number, element), Point(element), turn.trace)
    if len(call_bytes(proof)) + len(witness_bytes(witness)) > MOST:
        return PickCall(turn.claim, proof, descent)
    return JudgeCall(turn.claim, proof, descent, leaf, element, witness)


def _collect(turn: _Turn) -> Move | None:
    if outputs_of(turn.account.program, turn.account.calls) == turn.knowledge.claim.outputs:
        return None
    proof = prove_outputs(turn.account, turn.trace)
    return Collect(turn.claim, proof) if len(collect_bytes(proof)) <= WITNESS else AskOutputs()


def _outputs(turn: _Turn) -> Move | None:
    outputs, states = leaves_of(turn.account)
    if merkle.outputs_root(bindings_of(outputs), bindings_of(states)) != turn.knowledge.claim.outputs:
        return None
    return ShowOutputs(turn.claim, outputs, states)


def _result(turn: _Turn) -> Move | None:
    shown = turn.published.outputs, turn.published.states
    number = first_wrong(leaves_of(turn.account), shown)
    if number is None:
        return None
    return JudgeResult(turn.claim, *opened_result(shown, number), prove_result(turn.account, number, turn.trace))


def _trace(turn: _Turn) -> Move:
    return _descend(turn.position, turn.knowledge.trace)


def _tree(turn: _Turn) -> Move:
    return _descend(turn.position, turn.own.leaves)


def _descend(position: Position, own: Hashes) -> Move:
    levels = descend_levels(position.level)
    return Descend(levels, own.below(position.level, position.index, levels))


def _node(turn: _Turn) -> Move | None:
    opened = turn.published.children
    number = first_other(opened, turn.own.leaves) if opened else None
    return pick(opened, number) if opened and number is not None else None


def _leaf(turn: _Turn) -> Move:
    position, types = turn.position, reduction_types(turn.position)
    results = results_of(turn.account, position.number, elements_of(position))
    return ShowLeaf(turn.own.leaf(position.index), b"".join(packed(types, r) for r in results))


def _element(turn: _Turn) -> Move | None:
    own = replace(turn.shown, leaf=turn.own.leaf(turn.position.index))
    chosen = next((e for e in own.elements if own.pattern(e) != turn.shown.pattern(e)), None)
    if chosen is None:
        return None
    element, entry = element_of(turn.account, turn.position.number, chosen), turn.shown.entry(chosen)
    claimed = unpacked(reduction_types(turn.position), turn.shown.results_of(chosen))
    wrong = next((k for k, (a, b) in enumerate(zip(claimed, element.results, strict=True)) if a != b), None)
    if wrong is not None:
        return PickReduction(entry, wrong, kernel_of(turn.account, turn.position.number))
    witness = witness_of(turn.account, element, Point(chosen, claimed), turn.trace)
    return JudgeFinal(entry, turn.claim, witness)


def _borders(turn: _Turn) -> Move:
    borders, dtype = borders_of(turn.position), reduction_types(turn.position)[turn.position.reduction]
    accumulators = turn.element.accumulators(turn.position.reduction, borders)
    return ClaimBorders(packed([dtype] * len(borders), [accumulators[steps] for steps in borders]))


def _span(turn: _Turn) -> Move | None:
    position, values = turn.position, turn.published.borders
    borders, dtype = borders_of(position), reduction_types(position)[position.reduction]
    claimed = (position.low_value, *unpacked([dtype] * len(borders), values), position.high_value)
    steps = (position.low, *borders, position.high)
    own = turn.element.accumulators(position.reduction, steps)
    span = next((n for n in range(len(borders) + 1) if claimed[n + 1] != own[steps[n + 1]]), None)
    if span is None:
        return None
    if steps[span + 1] - steps[span] > 1:
        return PickSpan(span, values)
    picked = replace(position, low=steps[span], low_value=claimed[span])
    witness = witness_of(turn.account, turn.element, point_of(picked, turn.results), turn.trace)
    return JudgeSpan(span, values, turn.claim, turn.results, witness)


def _verdict(turn: _Turn) -> Move | None:
    witness = witness_of(turn.account, turn.element, point_of(turn.position, turn.results), turn.trace)
    if evaluate_step(witness) == turn.position.high_value:
        return None
    return Verdict(turn.claim, turn.results, witness)


#: Bytes of calldata that one transaction carries beside what is small.
MOST = 110_000
_WITHOUT_TENSORS = (Phase.PUBLISH, Phase.CALL, Phase.TRACE, Phase.OUTPUTS, Phase.RESULT)
_STRATEGIES: dict[Phase, Callable[[_Turn], Move | Keep | None]] = {
    Phase.PUBLISH: _publish,
    Phase.CALL: _call,
    Phase.TRACE: _trace,
    Phase.OUTPUTS: _outputs,
    Phase.RESULT: _result,
    Phase.TREE: _tree,
    Phase.NODE: _node,
    Phase.LEAF: _leaf,
    Phase.ELEMENT: _element,
    Phase.BORDERS: _borders,
    Phase.SPAN: _span,
    Phase.VERDICT: _verdict,
}
