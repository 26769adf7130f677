"""The parts of a program as values. Nothing here is checked: `validity.check` does that, `decode` calls it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from math import prod
from typing import NamedTuple

from eigentensor.program.ops import ARITY, NO_GUARD, DType, Op


class Instruction(NamedTuple):
    """One operation; a, b, c as in the table of sdk/README.md. CONST keeps its 32 bits in b (low half) and c (high)."""

    op: Op
    dtype: DType
    a: int = 0
    b: int = 0
    c: int = 0

    @property
    def immediate(self) -> int:
        """The 32 bits of a CONST, as an unsigned number."""
        return self.b | self.c << 16

    @property
    def integer(self) -> int:
        """What a CONST of an integer, bool or index type stands for."""
        dtype, pattern = self.dtype, self.immediate
        bits = 32 if dtype is DType.INDEX else min(32, 8 * dtype.size)
        return pattern - (pattern >> bits - 1 << bits) if dtype is DType.INDEX or dtype.is_signed else pattern

    @property
    def values(self) -> tuple[int, ...]:
        """Numbers of the instructions whose results this one takes, in order of evaluation."""
        if self.op is Op.LOAD:
            return (self.b,) if self.c == NO_GUARD else (self.b, self.c)
        return (self.a, self.b, self.c)[: ARITY[self.op]]

    def moved(self, places: Mapping[int, int]) -> "Instruction":
        """The same on operands that are elsewhere."""
        if self.op is Op.LOAD:
            guard = self.c if self.c == NO_GUARD else places[self.c]
            return self._replace(b=places[self.b], c=guard)
        new = [places[v] for v in self.values]
        a, b, c = (*new, *self[2 + len(new) :])
        return Instruction(self.op, self.dtype, a, b, c)


class Parameter(NamedTuple):
    dtype: DType
    elements: int


class Bounds(NamedTuple):
    """Smallest and largest value of a variable, both included."""

    minimum: int
    maximum: int


class ReduceRange(NamedTuple):
    """A loop of a reduction; `extent` is the number of the instruction that computes its trip count."""

    extent: int
    reduction: int


@dataclass(frozen=True, slots=True)
class Body:
    """A loop nest over one expression. Ranges are numbered: output ranges first, then reduce ranges."""

    parameters: tuple[Parameter, ...]
    instructions: tuple[Instruction, ...]
    output_ranges: tuple[int, ...] = ()
    reduce_ranges: tuple[ReduceRange, ...] = ()
    variables: tuple[Bounds, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = (self.parameters, self.instructions, self.output_ranges, self.reduce_ranges, self.variables)
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        return self._hash  # computed once: proofs and costs of a body are looked up by it

    @property
    def reductions(self) -> int:
        """How many reductions there are: reduce ranges name all of them, from 0 on."""
        return 1 + max((r.reduction for r in self.reduce_ranges), default=-1)


class Call(NamedTuple):
    """A use of a body. `arguments` are buffers for its parameters 1, 2, …; `variables` are the program's, by number."""

    body: int
    arguments: tuple[int, ...]
    variables: tuple[int, ...] = ()


class Role(IntEnum):
    INPUT = 1
    WEIGHT = 2
    STATE = 3
    CONSTANT = 4


class Kind(IntEnum):
    OUTPUT = 1
    STATE = 2


class Variable(NamedTuple):
    """A number that the order binds; it grows by `stride` in each iteration of a repeat."""

    name: str
    minimum: int
    maximum: int
    stride: int = 0


class Buffer(NamedTuple):
    """A tensor that comes from outside, or a constant with its little-endian elements in `data`."""

    role: Role
    dtype: DType
    shape: tuple[int, ...]
    name: str = ""
    data: bytes = b""

    @property
    def elements(self) -> int:
        """How many elements it has: the product of its extents, one without axes."""
        return prod(self.shape)


class Result(NamedTuple):
    """A named tensor that goes out: an output, or the new value of the state of that name."""

    kind: Kind
    name: str
    buffer: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """A portable, content-addressed computation. Buffers are numbered: `buffers`, then the result of each call."""

    variables: tuple[Variable, ...]
    buffers: tuple[Buffer, ...]
    bodies: tuple[Body, ...]
    calls: tuple[Call, ...]
    results: tuple[Result, ...]
    max_repeat: int = 1
    semantics: int = field(default=1)

    def __repr__(self) -> str:
        calls = "1 call" if len(self.calls) == 1 else f"{len(self.calls):,} calls"
        return f"<Program {_listed(self.named(Role.INPUT))} → {_listed(self.outputs)}, {calls}>"

    def parameter(self, buffer: int) -> Parameter:
        """dtype and number of elements of a buffer."""
        if buffer < len(self.buffers):
            return Parameter(self.buffers[buffer].dtype, self.buffers[buffer].elements)
        return self.bodies[self.calls[buffer - len(self.buffers)].body].parameters[0]

    def named(self, role: Role) -> dict[str, Buffer]:
        """The inputs, weights or states by name, in order."""
        return {b.name: b for b in self.buffers if b.role is role}

    @cached_property
    def outputs(self) -> dict[str, Result]:
        """The results that are outputs, by name."""
        return {r.name: r for r in self.results if r.kind is Kind.OUTPUT}

    @cached_property
    def new_states(self) -> dict[str, Result]:
        """The results that are the states of the next iteration, by name."""
        return {r.name: r for r in self.results if r.kind is Kind.STATE}


def _listed(names: Collection[str]) -> str:
    """A few names, as a line has room for them."""
    few = [name if len(name) <= 20 else f"{name[:19]}…" for name in list(names)[:3]]
    return f"({', '.join([*few, *(['…'] if len(names) > len(few) else [])])})"
