"""What a program costs: to store, to execute, and to judge one step of it (sdk/README.md, "Judging one step")."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from eigentensor.numerics.dtypes import DType
from eigentensor.program.bounds import steps_of
from eigentensor.program.model import Body, Instruction, Parameter, Program, Role
from eigentensor.program.ops import Op
from eigentensor.program.structure import cone, extents_of, reductions
from eigentensor.wire import Object, Size

LEAF = 1024
#: How many times a player computes an element from the start, to know its accumulators at 64 borders.
BORDERS = 33
#: What evaluations of some instructions are worth, in ordinary ones: processors do them lane by lane, or wait for them.
DIVISION, ROOT, HALF, GATHER = 8, 2, 4, 128
#: Bytes of a tensor that a core's own cache holds: elements of a larger one are waited for where others say which.
NEAR = 1 << 20
DIVISIONS = frozenset({Op.CDIV, Op.CMOD, Op.FLOORDIV, Op.FLOORMOD})
HALVES, WIDE = frozenset({DType.FLOAT16, DType.BFLOAT16}), frozenset({DType.INT64, DType.UINT64})
#: Seconds of one processor that compile a body, each of its instructions, and one on halves, which become many.
COMPILE_BODY, COMPILE_INSTRUCTION, COMPILE_HALF = 0.15, 0.004, 0.04
#: Levels charged for opening a record under the program root.
RECORD_LEVELS = 24


class StepCost(NamedTuple):
    """One verdict at worst: over a step of `reduction`, or over the final expression (None)."""

    reduction: int | None
    instructions: int
    witness: int
    gas: int


@dataclass(frozen=True, slots=True)
class BodyCost:
    """`evaluations`: instructions evaluated to compute the whole result, at the largest values of the variables.

    `work` are the same in ordinary instructions.
    """

    steps: tuple[StepCost, ...]
    evaluations: int
    work: int


@dataclass(frozen=True, slots=True)
class Cost(Object):
    """What one iteration takes. Bytes of buffers are counted once each."""

    calls: int
    """Kernel calls."""
    evaluations: int
    """Evaluated operations: the work."""
    input_bytes: Size
    """Bytes of the inputs."""
    weight_bytes: Size
    """Bytes of the weights."""
    state_bytes: Size
    """Bytes of the states."""
    result_bytes: Size
    """Bytes of outputs and new states."""
    all_bytes: Size
    """Bytes of all buffers, what calls write for others included."""
    largest_witness: Size
    """Bytes of the longest step that a referee could have to see."""
    largest_gas: int
    """The gas of the dearest step that a referee could have to compute."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What one execution of a task takes: ordinary instruction evaluations and bytes of memory, repeats included.

    And what a game about its result takes: evaluations that a player makes beside executing it again, bytes that its
    calls write.
    """

    operations: int
    memory: int
    game: int = 0
    written: int = 0


def needs_of(program: Program, repeat: int) -> Needs:
    """What an order takes that repeats an admitted program so often."""
    written = sum(_bytes(program.bodies[call.body].parameters[0]) for call in program.calls)
    return Needs(work(program) * repeat, costs(program).all_bytes, game_work(program), written * repeat)


def compile_seconds(program: Program) -> float:
    """How long one processor is expected to compile a program of which nothing is in the cache."""
    instructions = (i for body in program.bodies for i in body.instructions)
    each = sum(COMPILE_HALF if i.dtype in HALVES else COMPILE_INSTRUCTION for i in instructions)
    return COMPILE_BODY * len(program.bodies) + each


def work(program: Program) -> int:
    """The evaluations of one iteration in ordinary instructions."""
    return sum(body_cost(program.bodies[call.body]).work for call in program.calls)


def game_work(program: Program) -> int:
    """What a player evaluates for one game at most, in ordinary instructions: the reductions of the elements of a leaf,
    and the accumulators of one of them."""
    return max((_shown(body) for body in program.bodies if body.reductions), default=0)


def _shown(body: Body) -> int:
    dtype, elements = body.parameters[0]
    return body_cost(body).work // max(1, elements) * (min(elements, LEAF // dtype.size) + BORDERS)


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
    most = steps_of(body)
    steps, evaluations, worth, weights = [], 0, 0, _weights(body)
    for k, values in roots:
        step = _judge(body, k, values)
        count = 1 if k is None else most[k]
        steps.append(step)
        evaluations += count * step.instructions
        worth += count * (step.instructions + sum(weights[n] - 1 for n in cone(body, values)))
    elements = body.parameters[0].elements
    return BodyCost(tuple(steps), elements * evaluations, elements * worth)


def _weights(body: Body) -> list[int]:
    """What an evaluation of each instruction is worth."""
    chosen, weights = list[bool](), list[int]()  # whether a value depends on what was loaded
    for i in body.instructions:
        chosen.append(i.op is Op.LOAD or any(chosen[v] for v in i.values))
        weights.append(_weight(body, i, chosen))
    return weights


def _weight(body: Body, i: Instruction, chosen: list[bool]) -> int:
    if i.op in DIVISIONS:
        return 1 if body.instructions[i.b].op is Op.CONST else DIVISION
    if i.op is Op.LOAD:
        return GATHER if chosen[i.b] and _bytes(body.parameters[i.a]) > NEAR else 1
    if i.op is Op.CAST:
        types = body.instructions[i.a].dtype, i.dtype
        if DType.BFLOAT16 in types and WIDE & set(types):
            return DIVISION
        return HALF if HALVES & set(types) and not all(dtype.is_float for dtype in types) else 1
    if i.op in (Op.MAX, Op.MIN):
        return HALF if i.dtype in HALVES else 1
    return ROOT if i.op is Op.SQRT else 1


def _judge(body: Body, reduction: int | None, roots: tuple[int, ...]) -> StepCost:
    numbers = cone(body, roots)
    instructions = len(numbers) + (reduction is not None)
    loaded = [body.parameters[body.instructions[n].a] for n in numbers if body.instructions[n].op is Op.LOAD]
    witness = record_bytes(body) + 32 * RECORD_LEVELS + 2048
    witness += sum(LEAF + 32 * depth(parameter.elements, parameter.dtype.size) for parameter in loaded)
    gas = 100_000 + 40 * witness + 2_500 * instructions + 15_000 * len(loaded)
    return StepCost(reduction, instructions, witness, gas)


def _bytes(parameter: Parameter) -> int:
    return parameter.elements * parameter.dtype.size
