"""Bodies for some elements of a result: the same expression for each, over shorter loops that begin at variables."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

from eigentensor.program.bounds import prove
from eigentensor.program.cost import body_cost
from eigentensor.program.expression import (
    Array,
    Axis,
    Lowered,
    Named,
    Node,
    binary,
    const,
    counter,
    factors,
    node,
    nodes_of,
    to_body,
)
from eigentensor.program.model import Body, Bounds, Buffer, Call, Kind, Program, Result, Role, Variable
from eigentensor.program.ops import DType, Op
from eigentensor.program.structure import below, reductions

STEPS = "steps"


class Restricted(NamedTuple):
    """A program of one call, whose result is `output`, or of several calls of one body. It is valid, if its loads can
    still be proven to stay inside.

    Its inputs are what `parameters` of the body that was restricted are called with. Its variables are, in order, those
    of that body by number, or where a loop begins: -1 - loop. `evaluations` are those of instructions.
    """

    program: Program
    parameters: tuple[int, ...]
    variables: tuple[int, ...]
    evaluations: int


@lru_cache(maxsize=4096)
def restrict(body: Body, extents: tuple[int, ...]) -> Restricted:
    """The elements of a valid body's result in a box of these extents, wherever it begins."""
    loops = [Loop(number, *sizes) for number, sizes in enumerate(zip(extents, body.output_ranges, strict=True))]
    value = body_nodes(body, {number: loop.counter for number, loop in enumerate(loops)})[-1]
    return alone(to_body(value, tuple(loop.axis for loop in loops)))


@lru_cache(maxsize=1024)
def reduced(body: Body, reduction: int, extents: tuple[int, ...]) -> Restricted:
    """What a reduction of a valid body gives for the elements in a box of these extents, wherever it begins."""
    loops = [Loop(number, *sizes) for number, sizes in enumerate(zip(extents, body.output_ranges, strict=True))]
    nodes = body_nodes(body, {number: loop.counter for number, loop in enumerate(loops)})
    return alone(to_body(nodes[reductions(body)[reduction]], tuple(loop.axis for loop in loops)))


@lru_cache(maxsize=1024)
def prefixes(body: Body, reduction: int, trips: tuple[int, ...], count: int) -> Restricted:
    """The accumulators of a reduction of a valid body for one element, after up to 56 different numbers of steps.

    Its loops make so many `trips`, at least one each. Output `00`, `01`, … is what it is after as many steps as the
    program's variable `steps00`, `steps01`, … says.
    """
    outputs, length = len(body.output_ranges), prod(trips)
    own = [outputs + n for n, r in enumerate(body.reduce_ranges) if r.reduction == reduction]
    flat = Axis(own[0], length, is_reduce=True)
    counters = {number: Loop(number, 1, whole).counter for number, whole in enumerate(body.output_ranges)}
    rest, inner = counter(flat), length
    for number, extent in zip(own, trips, strict=True):
        inner //= extent
        counters[number] = binary(Op.FLOORDIV, rest, const(DType.INDEX, inner)) if inner > 1 else rest
        rest = binary(Op.FLOORMOD, rest, const(DType.INDEX, inner)) if inner > 1 else const(DType.INDEX, 0)
    value = body_nodes(body, counters)[reductions(body)[reduction]]
    steps = node(Op.VAR, DType.INDEX, arg=Named(STEPS, Bounds(0, length)))
    return alone(to_body(node(value.op, value.dtype, steps, *factors(value), arg=(flat,)), ()), count)


def loops_of(body: Body) -> dict[int, int]:
    """The ranges over which a body that stores a reduction takes its steps, in order, and their largest extents."""
    outputs = len(body.output_ranges)
    own = (outputs + n for n, r in enumerate(body.reduce_ranges) if r.reduction == body.instructions[-1].c)
    extents = (*body.output_ranges, *(high for _, high in prove(body).extents))
    return {number: extents[number] for number in (*range(outputs), *own)}


@lru_cache(maxsize=1024)
def zeros(body: Body, factor: int, extents: tuple[int, ...]) -> Restricted:
    """Where a factor of the sum of products that a body stores is a zero, as bools, in a box of its `loops_of`.

    The result has one element along loops that the factor does not depend on.
    """
    used = {body.instructions[n].a for n in below(body, factor) if body.instructions[n].op is Op.RANGE}
    loops = {
        number: Loop(place, extent if number in used else 1, whole)
        for place, ((number, whole), extent) in enumerate(zip(loops_of(body).items(), extents, strict=True))
    }
    value = body_nodes(body, {number: loop.counter for number, loop in loops.items()})[factor]
    is_zero = binary(Op.CMPEQ, value, const(value.dtype, 0))
    return alone(to_body(is_zero, tuple(loop.axis for loop in loops.values())))


class Loop:
    """A loop over a part of another one, and what the other would count."""

    def __init__(self, number: int, extent: int, whole: int) -> None:
        self.axis = Axis(number, extent)
        self.counter = counter(self.axis)
        if extent != whole:
            start = node(Op.VAR, DType.INDEX, arg=Named(f"{-1 - number}", Bounds(0, whole - extent)))
            self.counter = binary(Op.ADD, self.counter, start)


def body_nodes(
    body: Body, counters: Mapping[int, Node], loads: Mapping[int, Callable[[Sequence[Node]], Node]] | None = None
) -> list[Node]:
    """A node for each instruction of a body, whose parameters and variables are named by their numbers.

    `counters` stand for its ranges, `loads` make what stands for its LOADs, as `nodes_of` takes them.
    """
    arrays = tuple(Array(n, *parameter) for n, parameter in enumerate(body.parameters) if n)
    variables = tuple(Named(f"{n}", bounds) for n, bounds in enumerate(body.variables))
    return nodes_of(Lowered(body, arrays, variables), counters, loads)


def alone(lowered: Lowered, copies: int | None = None) -> Restricted:
    """One call of a body; or so many, each of which has the variable `steps` for itself."""
    body, of = lowered.body, lowered.variables
    buffers = tuple(Buffer(Role.INPUT, a.dtype, (a.elements,), f"{n:02}") for n, a in enumerate(lowered.arrays))
    shared = [v for v in of if v.name != STEPS]
    variables = [Variable(f"{n:02}", *v.bounds) for n, v in enumerate(shared)]
    variables += [Variable(f"{STEPS}{n:02}", *v.bounds) for n in range(copies or 0) for v in of if v.name == STEPS]
    numbers = [[shared.index(v) if v.name != STEPS else len(shared) + n for v in of] for n in range(copies or 1)]
    calls = tuple(Call(0, tuple(range(len(buffers))), tuple(bound)) for bound in numbers)
    names = ["output"] if copies is None else [f"{n:02}" for n in range(copies)]
    results = tuple(Result(Kind.OUTPUT, name, len(buffers) + n, body.output_ranges) for n, name in enumerate(names))
    program = Program(tuple(variables), buffers, (body,), calls, results)
    parameters = tuple(int(str(array.key)) for array in lowered.arrays)
    evaluations = len(calls) * body_cost(body).evaluations
    return Restricted(program, parameters, tuple(int(v.name) for v in shared), evaluations)
