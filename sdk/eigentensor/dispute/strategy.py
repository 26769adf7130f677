"""Position → next move, for both sides: a pure function of what was published and of a side's own account.

An executor answers what its account says, whatever it is asked. A challenger compares what the executor published with
its own account and picks the first difference, so that all that stands before it is common ground.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from eigentensor.dispute.encoding import packed, unpacked
from eigentensor.dispute.entries import Shown, elements_of, reduction_types
from eigentensor.dispute.moves import (
    ClaimBorders,
    Collect,
    Descend,
    Descent,
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
from eigentensor.dispute.position import Phase, Position, Side
from eigentensor.dispute.published import Published
from eigentensor.dispute.rules import borders_of, descend_levels, point_of
from eigentensor.tracing import (
    Claim,
    Claimed,
    Element,
    Execution,
    Flat,
    Hashes,
    Opened,
    Point,
    evaluate_step,
    kernel_of,
    outputs_of,
    prove_call,
    prove_outputs,
    witness_of,
)
from eigentensor.tracing.step import element_of, results_of


@dataclass(frozen=True)
class Knowledge:
    """What a side knows: the roots of the task with the revealed outputs root, the order, and its own account.

    `claim.trace` is left out: it follows from what is published. `claimed` are tensors of executed calls that the
    executor is known to have, because they are public: with them a challenger finds the leaf alone.
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
    if position.phase not in (Phase.PUBLISH, Phase.CALL, Phase.TRACE):
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
    number = _first_other(opened, own)
    if number is None:
        if outputs_of(turn.account.program, turn.account.calls) != turn.knowledge.claim.outputs:
            return Collect(turn.claim, prove_outputs(turn.account, turn.trace))
        return None
    if opened.bottom:
        return _pick(opened, number)
    public = turn.knowledge.claimed.get(number)
    if public is None or public.root != opened.node(0, number):
        return PickCall(turn.claim, prove_call(turn.account, number, turn.trace))
    if number not in turn.account.kept:
        return Keep(turn.account.needs(number) | {number})
    descent = _way(public.leaves, turn.account.written(number).leaves)
    return PickCall(turn.claim, prove_call(turn.account, number, turn.trace), descent)


def _first_other(opened: Opened, own: Hashes) -> int | None:
    """The number within its level of the first opened node that is another one than one's own."""
    mine = own.below(opened.bottom + opened.levels, opened.index, opened.levels)
    pairs = enumerate(zip(opened.nodes, mine, strict=True), opened.first)
    return next((number for number, (claimed, node) in pairs if claimed != node), None)


def _pick(opened: Opened, number: int) -> Move:
    return PickNode(Descent(number, opened.node(opened.bottom, number), opened.path(number)))


def _way(claimed: Hashes, own: Hashes) -> Descent:
    """To the first leaf that differs."""
    leaf = next(n for n, (a, b) in enumerate(zip(claimed.leaves, own.leaves, strict=True)) if a != b)
    return Descent(leaf, claimed.leaves[leaf], claimed.opening(leaf).path)


def _trace(turn: _Turn) -> Move:
    return _descend(turn.position, turn.knowledge.trace)


def _tree(turn: _Turn) -> Move:
    return _descend(turn.position, turn.own.leaves)


def _descend(position: Position, own: Hashes) -> Move:
    levels = descend_levels(position.level)
    return Descend(levels, own.below(position.level, position.index, levels))


def _node(turn: _Turn) -> Move | None:
    opened = turn.published.children
    number = _first_other(opened, turn.own.leaves) if opened else None
    return _pick(opened, number) if opened and number is not None else None


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
    found = turn.element.accumulators(turn.position.reduction, borders)
    return ClaimBorders(packed([dtype] * len(borders), [found[steps] for steps in borders]))


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


_STRATEGIES: dict[Phase, Callable[[_Turn], Move | Keep | None]] = {
    Phase.PUBLISH: _publish,
    Phase.CALL: _call,
    Phase.TRACE: _trace,
    Phase.TREE: _tree,
    Phase.NODE: _node,
    Phase.LEAF: _leaf,
    Phase.ELEMENT: _element,
    Phase.BORDERS: _borders,
    Phase.SPAN: _span,
    Phase.VERDICT: _verdict,
}
