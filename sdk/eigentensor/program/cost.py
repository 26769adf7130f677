"""What a program costs: to store, to execute, and to judge one step of it (sdk/README.md, "Judging one step")."""

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import NamedTuple

from eigentensor.program.bounds import prove
from eigentensor.program.model import Body, Parameter, Program, Role
from eigentensor.program.ops import Op
from eigentensor.program.structure import cone, extents_of, reductions

LEAF = 1024
#: Levels charged for opening a record under the program root.
RECORD_LEVELS = 24


class Step(NamedTuple):
    """One verdict at worst: over a step of `reduction`, or over the final expression (None)."""

    reduction: int | None
    instructions: int
    witness: int
    gas: int


@dataclass(frozen=True, slots=True)
class BodyCost:
    """`evaluations`: instructions evaluated to compute the whole result, at the largest values of the variables."""

    steps: tuple[Step, ...]
    evaluations: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one iteration. Bytes of buffers are counted once each, results of calls included."""

    calls: int
    evaluations: int
    input_bytes: int
    weight_bytes: int
    state_bytes: int
    result_bytes: int
    all_bytes: int
    largest_witness: int
    largest_gas: int


@dataclass(frozen=True, slots=True)
class Needs:
    """What one execution of a task takes: instruction evaluations and bytes of memory, repeats included."""

    operations: int
    memory: int


def needs_of(program: Program, repeat: int) -> Needs:
    cost = costs(program)
    return Needs(cost.evaluations * repeat, cost.all_bytes)


def costs(program: Program) -> Cost:
    """What one iteration of a valid program needs."""
    bodies = [body_cost(body) for body in program.bodies]
    steps = [step for body in bodies for step in body.steps]
    external = [(b.role, b.elements * b.dtype.size) for b in program.buffers]

    def total(role: Role) -> int:
        return sum(size for of, size in external if of is role)

    written = sum(_bytes(program.bodies[call.body].parameters[0]) for call in program.calls)
    return Cost(
        calls=len(program.calls),
        evaluations=sum(bodies[call.body].evaluations for call in program.calls),
        input_bytes=total(Role.INPUT),
        weight_bytes=total(Role.WEIGHT),
        state_bytes=total(Role.STATE),
        result_bytes=sum(_bytes(program.parameter(r.buffer)) for r in program.results),
        all_bytes=sum(size for _, size in external) + written,
        largest_witness=max((step.witness for step in steps), default=0),
        largest_gas=max((step.gas for step in steps), default=0),
    )


def record_bytes(body: Body) -> int:
    """Size of a body's record."""
    ranges = len(body.output_ranges) + len(body.reduce_ranges)
    return 8 + 12 * len(body.parameters) + 8 * len(body.variables) + 4 * ranges + 8 * len(body.instructions)


def depth(elements: int, size: int) -> int:
    """Levels of the tree over a tensor's leaves."""
    leaves = max(1, -(-elements * size // LEAF))
    return (leaves - 1).bit_length()


@lru_cache(maxsize=256)
def body_cost(body: Body) -> BodyCost:
    """Of a body whose bounds are proven."""
    roots: list[tuple[int | None, tuple[int, ...]]] = [(None, (len(body.instructions) - 1,))]
    for reduction, number in enumerate(reductions(body)):
        roots.append((reduction, (*extents_of(body, reduction), *body.instructions[number].values)))
    most: dict[int, list[int]] = {}
    for r, (_, largest) in zip(body.reduce_ranges, prove(body).extents, strict=True):
        most.setdefault(r.reduction, []).append(largest)
    steps, evaluations = [], 0
    for k, values in roots:
        step = _judge(body, k, values)
        count = 1 if k is None else prod(most[k])
        steps.append(step)
        evaluations += count * step.instructions
    return BodyCost(tuple(steps), body.parameters[0].elements * evaluations)


def _judge(body: Body, reduction: int | None, roots: tuple[int, ...]) -> Step:
    numbers = cone(body, roots)
    instructions = len(numbers) + (reduction is not None)
    loaded = [body.parameters[body.instructions[n].a] for n in numbers if body.instructions[n].op is Op.LOAD]
    witness = record_bytes(body) + 32 * RECORD_LEVELS + 2048
    witness += sum(LEAF + 32 * depth(parameter.elements, parameter.dtype.size) for parameter in loaded)
    gas = 100_000 + 40 * witness + 2_500 * instructions + 15_000 * len(loaded)
    return Step(reduction, instructions, witness, gas)


def _bytes(parameter: Parameter) -> int:
    return parameter.elements * parameter.dtype.size
