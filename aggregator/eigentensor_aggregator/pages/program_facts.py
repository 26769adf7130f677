"""What a program takes, gives and costs, and each of its calls, for a page. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eigentensor.dispute.length import most_moves
from eigentensor.economics.pricing import Ask
from eigentensor.program.codec import to_bytes
from eigentensor.program.cost import Cost, body_cost, costs, needs_of
from eigentensor.program.model import Kind, Program
from eigentensor.program.text import body_listing, summary

LINES = 400  #: of a body that are shown


class Tensor(NamedTuple):
    """A tensor by name that goes in or out."""

    role: str
    name: str
    dtype: str
    shape: str


@dataclass(frozen=True, slots=True)
class Facts:
    """A whole program. `moves` are those of the longest game about a result of it."""

    bytes: int
    semantics: int
    max_repeat: int
    bodies: int
    tensors: tuple[Tensor, ...]
    variables: tuple[str, ...]
    cost: Cost
    moves: int


@dataclass(frozen=True, slots=True)
class CallFacts:
    """A call: what it computes as text, what it evaluates and writes, and the dearest step of it that may be judged."""

    number: int
    body: int
    words: str
    reads: tuple[str, ...]
    results: tuple[str, ...]
    evaluations: int
    share: float
    written: int
    gas: int
    witness: int
    lines: tuple[str, ...]
    hidden: int


@dataclass(frozen=True, slots=True)
class Time:
    """How long one execution takes on an operator's machine, by the speed that it publishes."""

    operator: str
    seconds: float
    speed: float


def facts(program: Program) -> Facts:
    """Of a valid program."""
    given = [
        Tensor(b.role.name.lower(), b.name, b.dtype.name.lower(), _shape(b.shape)) for b in program.buffers if b.name
    ]
    taken = [
        Tensor(
            "new state" if r.kind is Kind.STATE else "output",
            r.name,
            program.parameter(r.buffer).dtype.name.lower(),
            _shape(r.shape),
        )
        for r in program.results
    ]
    variables = tuple(f"{v.name}: {v.minimum:,} to {v.maximum:,}" for v in program.variables)
    return Facts(
        len(to_bytes(program)),
        program.semantics,
        program.max_repeat,
        len(program.bodies),
        (*given, *taken),
        variables,
        costs(program),
        most_moves(program),
    )


def call_facts(program: Program, number: int, whole: int) -> CallFacts:
    """Of a call of a valid program, from 0 on, all of whose calls make `whole` evaluations."""
    call, buffers = program.calls[number], len(program.buffers)
    body = program.bodies[call.body]
    cost = body_cost(body)
    dtype, elements = body.parameters[0]
    lines = body_listing(body)
    return CallFacts(
        number,
        call.body,
        summary(body),
        tuple(_name(program, argument) for argument in call.arguments),
        tuple(r.name for r in program.results if r.buffer == buffers + number),
        cost.evaluations,
        cost.evaluations / whole if whole else 0.0,
        elements * dtype.size,
        max(step.gas for step in cost.steps),
        max(step.witness for step in cost.steps),
        tuple(lines[:LINES]),
        max(0, len(lines) - LINES),
    )


def times(program: Program, asks: Mapping[str, Ask]) -> Sequence[Time]:
    """On the machines of operators that say how fast they are, the fastest first."""
    needs = needs_of(program, 1)
    found = [
        Time(operator, ask.speed.seconds(needs.operations, needs.memory), ask.speed.operations_per_second)
        for operator, ask in asks.items()
    ]
    return sorted(found, key=lambda time: time.seconds)


def _name(program: Program, buffer: int) -> str:
    if buffer >= len(program.buffers):
        return f"call {buffer - len(program.buffers):,}"
    named = program.buffers[buffer]
    return named.name or f"constant {buffer:,}"


def _shape(shape: Sequence[int]) -> str:
    return " × ".join(f"{extent:,}" for extent in shape) if shape else "scalar"
