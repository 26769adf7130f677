"""Games in Python alone, `apply` in place of the contract; and players that are not honest."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from eigentensor import merkle
from eigentensor.dispute import (
    FINAL,
    Collect,
    Descent,
    JudgeFinal,
    JudgeSpan,
    Keep,
    Knowledge,
    Move,
    Outcome,
    Phase,
    PickCall,
    PickNode,
    PickReduction,
    PickSpan,
    Position,
    Published,
    Side,
    Verdict,
    apply,
    next_move,
)
from eigentensor.dispute.encoding import unpacked
from eigentensor.dispute.entries import Shown, elements_of, reduction_types
from eigentensor.dispute.moves import ExecutorMove
from eigentensor.dispute.rules import borders_of, point_of
from eigentensor.testing.programs import Example
from eigentensor.tracing import (
    Claim,
    Element,
    Execution,
    Hashes,
    Point,
    Witness,
    claim_of,
    kernel_of,
    prove_call,
    prove_outputs,
    retrace,
    witness_of,
)

EXECUTOR, CHALLENGER = "0x" + "11" * 20, "0x" + "22" * 20
CLOCK = 70

Strategy = Callable[[Position, Published, Knowledge], Move | Keep | None]


@dataclass(frozen=True)
class Played:
    """`outcome` is None where a side had nothing to say: it loses by its clock. `positions` are all that there were."""

    outcome: Outcome | None
    moves: list[Move]
    positions: list[Position]

    @property
    def last(self) -> Position:
        return self.positions[-1]


def account_of(example: Example) -> Execution:
    """A true account with all tensors."""
    calls = len(example.program.calls) * example.repeat
    return retrace(example.program, example.tensors, example.variables, example.repeat, keep=range(calls))


def opened(block: int = 100) -> Position:
    return Position(b"\1" * 32, EXECUTOR, CHALLENGER, Phase.PUBLISH, block, CLOCK, CLOCK)


def claimed(true: Execution, outputs: bytes) -> Claim:
    """A task's roots and a revealed outputs root."""
    return replace(claim_of(true), outputs=outputs, trace=merkle.NOTHING)


def honest(side: Side) -> Strategy:
    return lambda position, published, knowledge: next_move(side, position, published, knowledge)


def play(true: Execution, outputs: bytes, executor: Strategy, challenger: Strategy) -> Played:
    """A game about a revealed outputs root, each move a block after the one before."""
    knowledge = Knowledge(claimed(true, outputs), (), true)
    played, published = Played(None, [], [opened()]), Published()
    while True:
        position = played.last
        move = (executor, challenger)[position.phase.side](position, published, knowledge)
        if move is None:
            return played
        assert not isinstance(move, Keep)
        played.moves.append(move)
        after = apply(position, move, position.since + 1)
        if isinstance(after, Outcome):
            return replace(played, outcome=after)
        if isinstance(move, ExecutorMove):
            published = published.after(after.phase, move.published())
        played.positions.append(after)


def reckless(random: Random) -> Strategy:
    """A challenger that objects to anything that can be objected to."""
    return lambda position, published, knowledge: _Reckless(random, position, published, knowledge).move()


@dataclass(frozen=True)
class _Reckless:
    random: Random
    position: Position
    published: Published
    knowledge: Knowledge

    def move(self) -> Move | None:
        return {
            Phase.CALL: self.call,
            Phase.NODE: self.node,
            Phase.ELEMENT: self.element,
            Phase.SPAN: self.span,
            Phase.VERDICT: self.verdict,
        }[self.position.phase]()

    @property
    def account(self) -> Execution:
        return self.knowledge.account

    @property
    def trace(self) -> Hashes:
        return self.published.trace(self.knowledge.claim.outputs)

    @property
    def claim(self) -> Claim:
        return replace(self.knowledge.claim, trace=self.trace.root)

    def call(self) -> Move:
        numbers = [number for number, tensor in self.account.kept.items() if tensor.size]
        if not numbers or self.random.random() < 0.1:
            return Collect(self.claim, prove_outputs(self.account, self.trace))
        return PickCall(self.claim, prove_call(self.account, self.random.choice(numbers), self.trace))

    def node(self) -> Move | None:
        position, children = self.position, self.published.children
        leaves = len(self.account.written(position.number).leaves.leaves)
        places = range(len(children))
        if position.opened == position.level:
            places = range(min(len(children), leaves - (position.index << position.opened)))
        if not places:
            return None
        place = self.random.choice(places)
        path = Hashes(children).opening(place).path
        return PickNode(Descent((position.index << position.opened) + place, children[place], path))

    def element(self) -> Move:
        position, number = self.position, self.position.number
        shown = Shown(position, self.published.leaf, self.published.results)
        chosen = self.random.choice(elements_of(position))
        element, entry = Element(self.account, number, chosen), shown.entry(chosen)
        steps = [k for k in range(len(element.results)) if element.length(k)]
        reduction = self.random.choice([FINAL, FINAL, *steps])
        if reduction != FINAL:
            return PickReduction(entry, reduction, kernel_of(self.account, number))
        if self.random.random() < 0.5:
            return PickReduction(entry, FINAL, None)
        point = Point(chosen, unpacked(reduction_types(position), shown.results_of(chosen)))
        return JudgeFinal(entry, self.claim, witness_of(self.account, element, point, self.trace))

    def span(self) -> Move:
        position, borders, values = self.position, borders_of(self.position), self.published.borders
        dtype, span = (
            reduction_types(position)[position.reduction],
            self.random.randrange(len(borders_of(position)) + 1),
        )
        steps = (position.low, *borders, position.high)
        if steps[span + 1] - steps[span] > 1 or self.random.random() < 0.5:
            return PickSpan(span, values)
        befores = (position.low_value, *unpacked([dtype] * len(borders), values))
        picked = replace(position, low=steps[span], low_value=befores[span])
        return JudgeSpan(span, values, self.claim, self.results, self.witness(picked))

    def verdict(self) -> Move:
        return Verdict(self.claim, self.results, self.witness(self.position))

    @property
    def results(self) -> bytes:
        return Shown(self.position, self.published.leaf, self.published.results).results_of(self.position.element)

    def witness(self, position: Position) -> Witness:
        element = Element(self.account, position.number, position.element)
        return witness_of(self.account, element, point_of(position, self.results), self.trace)
