"""Random valid programs with everything in them, and tensors to run them on: `generate(seed)`, the same for ever."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Lowered
from eigentensor.program.model import Buffer, Kind, Program, Role, Variable
from eigentensor.program.ops import DType
from support.generated.expressions import TYPES, Expressions, tensor

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

SHAPES = ((), (1,), (7,), (12,), (3, 5), (4, 4), (2, 3, 4), (1, 6), (33,))


@dataclass(frozen=True)
class Example:
    """A program and what it needs to run. Tensors are inputs, weights and states in storage dtypes."""

    program: Program
    tensors: dict[str, np.ndarray[Any, Any]]
    variables: dict[str, int]
    repeat: int


def examples() -> "SearchStrategy[Example]":
    """The generator as a hypothesis strategy; needs hypothesis."""
    from hypothesis import strategies

    return strategies.integers(0, (1 << 32) - 1).map(generate)


def generate(seed: int) -> Example:
    """One to five calls over all types and operations; the same example for the same seed."""
    return _Generator(Random(seed)).example()


@dataclass
class _Generator:
    random: Random
    arrays: list[Array] = field(default_factory=list)
    externals: dict[Hashable, Buffer] = field(default_factory=dict)
    tensors: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    calls: list[tuple[Hashable, Lowered]] = field(default_factory=list)
    shapes: dict[Hashable, tuple[int, ...]] = field(default_factory=dict)

    def example(self) -> Example:
        random = self.random
        repeat = random.choice((1, 1, 1, 2, 3))
        variables = [self._variable(name, repeat) for name in ("n", "pos")[: random.randrange(3)]]
        for role, most in ((Role.INPUT, 3), (Role.WEIGHT, 2), (Role.STATE, 1), (Role.CONSTANT, 1)):
            for number in range(random.randrange(role is Role.INPUT, most + 1)):
                self._external(role, f"{role.name.lower()}{number}")
        bodies = Expressions(random, self.arrays, variables)
        for _ in range(random.randrange(1, 5)):
            if self.calls and random.random() < 0.2:
                self._again()
            else:
                shape = random.choice(SHAPES)
                self._add(bodies.body(shape, random.choice(TYPES)), shape)
        results: dict[tuple[Kind, str], tuple[Hashable, tuple[int, ...]]] = {}
        for b in [*self.externals.values()]:
            if b.role is Role.STATE:
                results[Kind.STATE, b.name] = (self._add(bodies.body(b.shape, b.dtype), b.shape), b.shape)
        outputs = [key for key, _ in self.calls[:-1] if random.random() < 0.3] + [self.calls[-1][0]]
        for number, key in enumerate(outputs):
            results[Kind.OUTPUT, f"output_{number}"] = (key, self.shapes[key])
        bound = {v.name: random.randint(v.minimum, v.maximum - (repeat - 1) * v.stride) for v in variables}
        program = assemble(self.calls, self.externals, results, variables, repeat)
        kept = {b.name for b in program.buffers}
        return Example(program, {name: t for name, t in self.tensors.items() if name in kept}, bound, repeat)

    def _variable(self, name: str, repeat: int) -> Variable:
        low, stride = self.random.choice((0, 1, -3)), self.random.randrange(2)
        return Variable(name, low, low + repeat * stride + self.random.randrange(6), stride)

    def _external(self, role: Role, name: str) -> None:
        shape = (0,) if self.random.random() < 0.03 else self.random.choice(SHAPES)
        dtype = self.random.choice((*TYPES, DType.FLOAT32, DType.INT32))
        data = tensor(self.random, dtype, shape)
        if role is Role.CONSTANT:
            self.externals[name] = Buffer(role, dtype, shape, data=data.tobytes())
        else:
            self.externals[name] = Buffer(role, dtype, shape, name)
            self.tensors[name] = data
        self.arrays.append(Array(name, dtype, prod(shape)))

    def _again(self) -> None:
        """A call of an earlier body on other buffers."""
        _, lowered = self.random.choice(self.calls)
        fitting = [[a for a in self.arrays if a[1:] == wanted[1:]] for wanted in lowered.arrays]
        chosen = tuple(self.random.choice(arrays) for arrays in fitting)
        self._add(lowered._replace(arrays=chosen), (lowered.body.parameters[0].elements,))

    def _add(self, lowered: Lowered, shape: tuple[int, ...]) -> str:
        key = f"call{len(self.calls)}"
        self.calls.append((key, lowered))
        self.shapes[key] = shape
        self.arrays.append(Array(key, lowered.body.parameters[0].dtype, prod(shape)))
        return key
