"""Larger random programs, each with many sets of tensors: `trial(seed)`, the same for ever."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.errors import RuleError
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.assemble import assemble
from eigentensor.program.body_rules import check_body
from eigentensor.program.cost import body_cost
from eigentensor.program.expression import Array, Lowered
from eigentensor.program.model import Buffer, Kind, Program, Role, Variable
from eigentensor.program.ops import DType
from support.generated.expressions import EDGES, TYPES
from support.generated.layers import NARROW, Layers

Tensors = dict[str, NDArray[Any]]
CALLS, SETS = 8, 20
#: Shapes of what goes in, and of results of random expressions.
OUTSIDE = ((7,), (33,), (64,), (130,), (17, 31), (5, 64), (3, 7, 19), (1, 257), (23, 48), (2, 3, 16, 17), (), (1,))
INSIDE = (
    (),
    (1,),
    (7,),
    (33,),
    (8, 48),
    (160,),
    (3, 5),
    (2, 3, 4),
    (65,),
    (17, 9),
    (130,),
    (4, 5, 16),
    (1, 1, 31),
    (19, 3),
    (2, 1, 70),
)
FAVOURED = (DType.FLOAT32,) * 6 + (DType.INT32,) * 2 + (DType.FLOAT16, DType.BFLOAT16)
#: Evaluations of a body for one set of tensors, at most.
EVALUATIONS = 400_000


@dataclass(frozen=True, slots=True)
class Group:
    """Values of the variables, and sets of inputs, weights and states for them."""

    variables: Mapping[str, int]
    sets: tuple[Tensors, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """A program, how often it is repeated, and what it is tried on."""

    seed: int
    program: Program
    repeat: int
    groups: tuple[Group, ...]


def trial(seed: int, sets: int = SETS) -> Trial:
    """A program of at least eight calls over all types and operations, and so many sets of tensors.

    With variables there are four groups of sets: the smallest values, the largest, and two in between.
    """
    generator = _Generator(Random(f"trial {seed}"))
    program, repeat = generator.program()
    bindings = generator.bindings(program, repeat)
    shares = [len(range(n, sets, len(bindings))) for n in range(len(bindings))]
    groups = (
        Group(bound, tuple(generator.tensors(program, n) for n in range(share)))
        for bound, share in zip(bindings, shares, strict=True)
    )
    return Trial(seed, program, repeat, tuple(groups))


def drawn(random: Random, dtype: DType, shape: tuple[int, ...], special: int) -> NDArray[Any]:
    """Elements of which about `special` thirds are borders of the type or any bits; the others are small."""
    words = np.frombuffer(random.randbytes(8 * prod(shape)), "<u8")
    if dtype is DType.BOOL:
        return np.asarray(words & 1, np.bool_).reshape(shape)
    bits = np.dtype(f"<u{dtype.size}")
    edges = np.array(EDGES[dtype], bits)
    wild = np.where(words >> 2 & 1, edges[(words >> 8) % len(edges)], (words >> 8).astype(bits))
    chosen = np.where(words % 3 < special, wild, _small(dtype, words >> np.uint64(40)).astype(bits))
    return chosen.view(STORAGE[dtype].newbyteorder("<")).reshape(shape)


def _small(dtype: DType, numbers: NDArray[np.uint64]) -> NDArray[Any]:
    """Patterns of floats from −4 to 4, of integers from −9 to 9, from numbers of 24 bits."""
    if not dtype.is_float:
        return numbers % 19 - np.uint64(9)
    floats = numbers.astype(np.float32) * np.float32(2**-21) - np.float32(4)
    if dtype is DType.FLOAT16:
        return floats.astype(np.float16).view(np.uint16)
    return floats.view(np.uint32) >> (16 if dtype is DType.BFLOAT16 else 0)


@dataclass
class _Generator:
    random: Random
    arrays: list[Array] = field(default_factory=list)
    externals: dict[Hashable, Buffer] = field(default_factory=dict)
    calls: list[tuple[Hashable, Lowered]] = field(default_factory=list)
    shapes: dict[Hashable, tuple[int, ...]] = field(default_factory=dict)

    def program(self) -> tuple[Program, int]:
        random = self.random
        repeat = random.choice((1, 1, 1, 2, 3))
        variables = [self._variable(name, repeat) for name in ("n", "pos")[: random.randrange(3)]]
        for role, least, most in (
            (Role.INPUT, 2, 4), (Role.WEIGHT, 0, 2), (Role.STATE, 0, 2), (Role.CONSTANT, 0, 1),
        ):  # fmt: skip
            for number in range(random.randint(least, most)):
                self._external(role, f"{role.name.lower()}{number}")
        self._external(Role.INPUT, "numbers", random.choice(NARROW))
        self.bodies = Layers(random, self.arrays, variables)
        states = [key for key, b in self.externals.items() if b.role is Role.STATE]
        wanted = random.randint(CALLS, CALLS + 1) - len(states)
        while len(self.calls) < wanted:
            self._call()
        results = {(Kind.STATE, str(key)): self._new_state(str(key)) for key in states}
        read = {array.key for _, lowered in self.calls for array in lowered.arrays}
        for key, _ in self.calls:
            if key not in read or random.random() < 0.1:
                results[Kind.OUTPUT, f"output_{key}"] = key
        shaped = {name: (key, self.shapes[key]) for name, key in results.items()}
        return assemble(self.calls, self.externals, shaped, variables, repeat), repeat

    def bindings(self, program: Program, repeat: int) -> list[dict[str, int]]:
        """Values of the variables: the smallest, the largest, two others; one without variables."""
        limits = {v.name: (v.minimum, v.maximum - (repeat - 1) * v.stride) for v in program.variables}
        ends = [{name: both[end] for name, both in limits.items()} for end in (0, 1)]
        between = [{name: self.random.randint(*both) for name, both in limits.items()} for _ in range(2)]
        return ends + between if limits else [{}]

    def tensors(self, program: Program, number: int) -> Tensors:
        """A set: some without special values, some with many."""
        special = (0, 1, 0, 2, 3)[number % 5]
        named = [b for b in program.buffers if b.role is not Role.CONSTANT]
        return {b.name: drawn(self.random, b.dtype, b.shape, special) for b in named}

    def _variable(self, name: str, repeat: int) -> Variable:
        low, stride = self.random.choice((0, 1, -3)), self.random.randrange(3)
        return Variable(name, low, low + repeat * stride + self.random.randrange(20), stride)

    def _external(self, role: Role, name: str, dtype: DType | None = None) -> None:
        shape = (0,) if self.random.random() < 0.02 else self.random.choice(OUTSIDE)
        dtype = dtype or self.random.choice((*TYPES, *FAVOURED))
        if role is Role.CONSTANT:
            shape = (self.random.choice((7, 33, 70)),)
            data = drawn(self.random, dtype, shape, 1).tobytes()
            self.externals[name] = Buffer(role, dtype, shape, data=data)
        else:
            self.externals[name] = Buffer(role, dtype, shape, name)
        self.arrays.append(Array(name, dtype, prod(shape)))

    def _call(self) -> None:
        """A call of a new body that keeps the rules and the bounds, or of an earlier one on other buffers."""
        kind = self.random.random()
        shape: tuple[int, ...] = self.random.choice(INSIDE)
        if self.calls and kind < 0.2:
            self._again()
            return
        if kind < 0.5:
            lowered = self.bodies.body(shape, self.random.choice((*TYPES, *FAVOURED)))
        else:
            lowered, shape = self.bodies.layer()
        if _admitted(lowered):
            self._add(lowered, shape)

    def _again(self) -> None:
        key, lowered = self.random.choice(self.calls)
        fitting = [[a for a in self.arrays if a[1:] == wanted[1:]] for wanted in lowered.arrays]
        chosen = tuple(self.random.choice(arrays) for arrays in fitting)
        self._add(lowered._replace(arrays=chosen), self.shapes[key])

    def _new_state(self, name: str) -> Hashable:
        b = self.externals[name]
        while True:
            if self.random.random() < 0.5:
                lowered = self.bodies.body(b.shape, b.dtype)
            else:
                lowered = self.bodies.replaced(Array(name, b.dtype, b.elements), b.shape)
            if _admitted(lowered):
                return self._add(lowered, b.shape)

    def _add(self, lowered: Lowered, shape: tuple[int, ...]) -> Hashable:
        key = f"call{len(self.calls)}"
        self.calls.append((key, lowered))
        self.shapes[key] = shape
        self.arrays.append(Array(key, lowered.body.parameters[0].dtype, prod(shape)))
        return key


def _admitted(lowered: Lowered) -> bool:
    try:
        check_body(lowered.body, "body")
    except RuleError:
        return False
    return body_cost(lowered.body).evaluations <= EVALUATIONS
