"""Games in Python alone, `apply` in place of the contract; and players that are not honest."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

from eigentensor import merkle
from eigentensor.dispute import (
    FINAL,
    AskOutputs,
    ClaimBorders,
    Collect,
    Descend,
    Descent,
    Entry,
    JudgeCall,
    JudgeFinal,
    JudgeResult,
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
    ShowLeaf,
    ShowOutputs,
    Side,
    Verdict,
    apply,
    next_move,
)
from eigentensor.dispute.encoding import packed, unpacked
from eigentensor.dispute.entries import Shown, elements_of, reduction_types
from eigentensor.dispute.moves import ExecutorMove
from eigentensor.dispute.rules import borders_of, point_of
from eigentensor.tracing import (
    Claim,
    Claimed,
    Element,
    Execution,
    Flat,
    Hashes,
    Opened,
    Point,
    Witness,
    claim_of,
    kernel_of,
    outputs_of,
    prove_call,
    prove_outputs,
    prove_result,
    retrace,
    witness_of,
)
from eigentensor.tracing.step import is_canonical
from support.generated.programs import Example

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


def informed(public: Mapping[int, Flat]) -> Strategy:
    """An honest challenger that takes some tensors of executed calls for the executor's."""

    def next_of(position: Position, published: Published, knowledge: Knowledge) -> Move | Keep | None:
        return next_move(Side.CHALLENGER, position, published, replace(knowledge, claimed=public))

    return next_of


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
            published = published.after(after, move.published())
        played.positions.append(after)


def spoiled(move: Move) -> list[Move]:
    """Moves of the same kind that cannot be made in its place."""

    def cut(data: bytes) -> bytes:
        return data[:-1]

    def other(data: bytes) -> bytes:
        return bytes((data[0] ^ 1, *data[1:])) if data else b"\0"

    match move:
        case Descend(levels, children):
            others = (other(children[0]), *children[1:])
            few = Hashes(children).below(Hashes(children).depth, 0, max(0, Hashes(children).depth - 1))
            wrong = [children[:-1], others, (*children, bytes(32)), ()]
            return [*(Descend(levels, nodes) for nodes in wrong), Descend(levels - 1, few), Descend(12, children)]
        case PickNode(descent):
            path = descent.path
            return [
                PickNode(replace(descent, index=descent.index ^ 1)),
                PickNode(replace(descent, index=descent.index + (1 << len(path)))),
                PickNode(replace(descent, child=other(descent.child))),
                PickNode(replace(descent, path=path[:-1])),
                PickNode(replace(descent, path=(*path, bytes(32)))),
                PickNode(Descent(0, descent.child, ())),
            ]
        case ShowLeaf(leaf, results):
            shown: list[Move] = [
                ShowLeaf(cut(leaf), results),
                ShowLeaf(other(leaf), results),
                ShowLeaf(leaf, results + b"\0"),
            ]
            return [*shown, ShowLeaf(leaf, cut(results))] if results else shown
        case ClaimBorders(values):
            return [ClaimBorders(cut(values)), ClaimBorders(values + values[:1])]
        case PickReduction(entry, reduction, _):
            entries = [*_spoiled(entry)]
            return [*(replace(move, entry=e) for e in entries), replace(move, reduction=reduction + 8)]
        case PickSpan(span, values):
            return [PickSpan(span + 64, values), PickSpan(span, other(values)), PickSpan(span, cut(values))]
        case JudgeFinal(entry, claim, _):
            spoiled = [replace(move, entry=e) for e in _spoiled(entry)]
            return [*spoiled, replace(move, claim=replace(claim, trace=other(claim.trace))), *_unproven(move)]
        case JudgeSpan(span, values, claim, results, _):
            return [
                replace(move, span=span + 64),
                replace(move, values=other(values)),
                replace(move, results=other(results)),
                replace(move, claim=replace(claim, outputs=other(claim.outputs))),
                *_unproven(move),
            ]
        case Verdict(claim, results, _):
            return [replace(move, results=other(results)), *_unproven(move)]
        case Collect(claim, proof):
            return [Collect(replace(claim, repeat=claim.repeat + 1), proof), Collect(claim, replace(proof, roots=()))]
        case ShowOutputs(claim, outputs, states):
            pairs = [(outputs[::-1], states), (states, outputs), (outputs[1:], states), (outputs, (*states, bytes(32)))]
            return [ShowOutputs(claim, *both) for both in pairs if both != (outputs, states)]
        case JudgeResult(claim, descent, other_root, proof):
            return [
                replace(move, claim=replace(claim, trace=other_root)),
                replace(move, shown=replace(descent, index=descent.index + (1 << 20))),
                replace(move, proof=replace(proof, root=bytes(32))),
                replace(move, proof=replace(proof, header=bytes(32))),
            ]
        case JudgeCall(claim, proof, descent, leaf, element, _):
            ways = [replace(descent, index=descent.index ^ 1)] if descent.path else []
            return [
                *(replace(move, descent=way) for way in ways),
                replace(move, leaf=other(leaf)),
                replace(move, element=element + 1024),
                replace(move, proof=replace(proof, number=proof.number + 1)),
                replace(move, claim=replace(claim, outputs=other(claim.outputs))),
                *_unproven(move),
            ]
        case PickCall(claim, proof, _):
            return [
                PickCall(replace(claim, inputs=other(claim.inputs)), proof),
                PickCall(claim, replace(proof, root=other(proof.root))),
                PickCall(claim, replace(proof, number=proof.number + 1)),
                PickCall(claim, proof, Descent(0, proof.root, (bytes(32),))),
            ]
    return []


def _spoiled(entry: Entry) -> Iterator[Entry]:
    yield replace(entry, element=entry.element ^ (1 << 20))
    yield replace(entry, word=entry.word[:-1])
    yield replace(entry, path=(bytes(32), *entry.path[1:]))


def _unproven(move: Any) -> Iterator[Move]:
    """With a witness that lacks something, or shows something else."""
    witness: Witness = move.witness
    if witness.operands:
        operand = witness.operands[0]
        yield replace(move, witness=replace(witness, operands=witness.operands[1:]))
        yield replace(move, witness=replace(witness, operands=(operand, *witness.operands)))
        wrong = replace(operand, leaf=bytes(1024)) if any(operand.leaf) else replace(operand, leaf=b"\1" * 1024)
        yield replace(move, witness=replace(witness, operands=(wrong, *witness.operands[1:])))
    if witness.tensors:
        yield replace(move, witness=replace(witness, tensors=witness.tensors[1:]))
    call = bytes((witness.kernel.call[0] ^ 1, *witness.kernel.call[1:]))
    yield replace(move, witness=replace(witness, kernel=replace(witness.kernel, call=call)))


def reckless(random: Random) -> Strategy:
    """A challenger that objects to anything that can be objected to."""
    return lambda position, published, knowledge: _Reckless(random, position, published, knowledge).move()


def fabulist(true: Execution, random: Random) -> tuple[Execution, Strategy]:
    """An account that is wrong in any number of places and contradicts itself, and an executor that tells it."""
    program = true.program
    kept, calls = dict(true.kept), list(true.calls)
    numbers = [number for number, tensor in kept.items() if tensor.size]
    for number in random.sample(numbers, random.randint(0, len(numbers))):
        tensor = kept[number] = kept[number].copy()
        for _ in range(random.choice((1, 1, 2, 9))):
            tensor.view(np.uint8)[random.randrange(tensor.nbytes)] ^= np.uint8(1 << random.randrange(8))
        dtype = program.parameter(len(program.buffers) + number % len(program.calls)).dtype
        calls[number] = Flat(dtype, tensor).root
    implied = outputs_of(program, calls)
    outputs = random.choice((implied, implied, true.outputs, random.randbytes(32)))
    story = replace(true, kept=kept, calls=tuple(calls), outputs=outputs)

    def strategy(position: Position, published: Published, knowledge: Knowledge) -> Move | Keep | None:
        move = next_move(Side.EXECUTOR, position, published, replace(knowledge, account=story))
        if isinstance(move, ShowLeaf) and random.random() < 0.5:
            return replace(move, results=_mutated(move.results, random))
        if isinstance(move, ClaimBorders):
            dtype = reduction_types(position)[position.reduction]
            values = unpacked([dtype] * len(borders_of(position)), _mutated(move.values, random))
            return ClaimBorders(packed([dtype] * len(values), (v if is_canonical(dtype, v) else 0 for v in values)))
        return move

    return story, strategy


def _mutated(data: bytes, random: Random) -> bytes:
    """With some bytes that are others, or all."""
    some = random.choice((0.02, 0.2, 1.0))
    return bytes(random.randrange(256) if random.random() < some else byte for byte in data)


@dataclass(frozen=True)
class _Reckless:
    random: Random
    position: Position
    published: Published
    knowledge: Knowledge

    def move(self) -> Move | None:
        return {
            Phase.CALL: self.call,
            Phase.RESULT: self.result,
            Phase.NODE: self.node,
            Phase.ELEMENT: self.element,
            Phase.SPAN: self.span,
            Phase.VERDICT: self.verdict,
        }[self.position.phase]()

    @property
    def account(self) -> Execution:
        return self.knowledge.account

    @property
    def trace(self) -> Claimed:
        return self.published.trace(self.knowledge.trace)

    @property
    def claim(self) -> Claim:
        return replace(self.knowledge.claim, trace=self.trace.root)

    def call(self) -> Move:
        opened = self.published.nodes[-1]
        if opened.bottom and self.random.random() < 0.7:
            return self.pick(opened)
        numbers = [number for number, tensor in self.account.kept.items() if tensor.size]
        if not numbers or self.random.random() < 0.1:
            asked = self.random.random() < 0.3
            return AskOutputs() if asked else Collect(self.claim, prove_outputs(self.account, self.trace))
        number = self.random.choice(numbers)
        proof = prove_call(self.account, number, self.trace)
        if self.account.body(number).reductions or self.random.random() < 0.5:
            return PickCall(self.claim, proof)
        flat = self.account.written(number)
        chosen = self.random.randrange(self.account.kept[number].size)
        leaf = chosen * flat.dtype.size // 1024
        way = Descent(leaf, flat.leaves.leaves[leaf], flat.leaves.opening(leaf).path)
        witness = witness_of(self.account, Element(self.account, number, chosen), Point(chosen), self.trace)
        return JudgeCall(self.claim, proof, way, flat.leaf(leaf), chosen, witness)

    def result(self) -> Move:
        kinds = (self.published.outputs, self.published.states)
        number = self.random.randrange(len(kinds[0]) + len(kinds[1]))
        kind = int(number >= len(kinds[0]))
        place = number - kind * len(kinds[0])
        shown = Descent(number, kinds[kind][place], Hashes(kinds[kind]).opening(place).path)
        other = merkle.bindings_root_of(len(kinds[1 - kind]), merkle.tree_root(kinds[1 - kind]))
        return JudgeResult(self.claim, shown, other, prove_result(self.account, number, self.trace))

    def node(self) -> Move:
        assert self.published.children is not None
        return self.pick(self.published.children)

    def pick(self, opened: Opened) -> Move:
        number = opened.first + self.random.randrange(len(opened.nodes))
        return PickNode(Descent(number, opened.node(opened.bottom, number), opened.path(number)))

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
