"""Programs and bodies with less in their indices: values for variables, loops that indices divide cut in two. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from eigentensor.errors import CaptureError
from eigentensor.lowering.indices import simplify
from eigentensor.program.bounds import prove
from eigentensor.program.expression import Axis, Node, binary, const, counter, factors, node, rewrite, to_body
from eigentensor.program.model import Body, Call, Program
from eigentensor.program.ops import REDUCTIONS, DType, Op
from eigentensor.program.restriction import body_nodes


class Cut(NamedTuple):
    """A body, and into which extents each of the ranges was cut that it was made of, outermost first."""

    body: Body
    extents: tuple[tuple[int, ...], ...]


def settled(program: Program) -> Program:
    """A valid program whose variables have their greatest values: it has none. It is valid, too, but for limits."""
    if not program.variables:
        return program
    made: dict[tuple[int, tuple[int, ...]], int] = {}
    bodies, calls = list[Body](), list[Call]()
    for call in program.calls:
        values = tuple(program.variables[number].maximum for number in call.variables)
        if (call.body, values) not in made:
            made[call.body, values] = len(bodies)
            bodies.append(_with_values(program.bodies[call.body], values))
        calls.append(Call(made[call.body, values], call.arguments))
    return replace(program, variables=(), bodies=tuple(bodies), calls=tuple(calls))


def _with_values(body: Body, values: Sequence[int]) -> Body:
    def change(n: Node) -> Node:
        return const(DType.INDEX, values[int(n.arg.name)]) if n.op is Op.VAR else n

    return _body(simplify(rewrite(body_nodes(body, {})[-1], change)), body.output_ranges)


def _body(value: Node, extents: Sequence[int]) -> Body:
    return to_body(value, tuple(Axis(number, extent) for number, extent in enumerate(extents))).body


def cut(body: Body) -> Cut:
    """A valid body, all of whose sums have a constant number of terms, with its ranges cut where indices divide them:
    a quotient is a range of its own then, as is a remainder. Its elements, and the terms of sums, stay in order."""
    if not any(_divisors(body)):
        return Cut(body, tuple((extent,) for extent in _extents(body)))
    body = _body(body_nodes(body, {})[-1], body.output_ranges)  # the order of its sums is that of their nodes
    outputs, extents = len(body.output_ranges), tuple(map(_parts, _extents(body), _divisors(body)))
    firsts = [sum(map(len, extents[:number])) for number in range(len(extents))]
    axes = [
        tuple(Axis(first + n, extent, number >= outputs) for n, extent in enumerate(parts))
        for number, (first, parts) in enumerate(zip(firsts, extents, strict=True))
    ]

    def change(n: Node) -> Node:
        if n.op not in REDUCTIONS:
            return n
        own = tuple(axis for old in n.arg for axis in axes[old.name])
        return node(n.op, n.dtype, *(const(DType.INDEX, axis.extent) for axis in own), *factors(n), arg=own)

    value = simplify(rewrite(body_nodes(body, dict(enumerate(map(_counted, axes))))[-1], change))
    made = to_body(value, tuple(axis for of in axes[:outputs] for axis in of)).body
    if _extents(made) != tuple(extent for parts in extents for extent in parts):
        raise CaptureError("its sums depend on each other")
    return Cut(made, extents)


def _extents(body: Body) -> tuple[int, ...]:
    return (*body.output_ranges, *(most for _, most in prove(body).extents))


def _counted(axes: Sequence[Axis]) -> Node:
    """What a range counted, by the counters of its parts."""
    total = const(DType.INDEX, 0)
    for n, axis in enumerate(axes):
        inner = prod(later.extent for later in axes[n + 1 :])
        term = counter(axis) if inner == 1 else binary(Op.MUL, counter(axis), const(DType.INDEX, inner))
        total = term if n == 0 else binary(Op.ADD, total, term)
    return total


def _parts(extent: int, divisors: set[int]) -> tuple[int, ...]:
    """The extents of a range that is cut at multiples of these, as far as each divides the next."""
    whole, parts = extent, list[int]()
    for divisor in sorted(divisors, reverse=True):
        if 1 < divisor < whole and whole % divisor == 0:
            parts.append(whole // divisor)
            whole = divisor
    return (*parts, whole)


def _divisors(body: Body) -> list[set[int]]:
    """By which numbers each range is divided. A quotient of a quotient is divided by both."""
    found: list[set[int]] = [set() for _ in (*body.output_ranges, *body.reduce_ranges)]
    scaled: dict[int, tuple[int, int]] = {}  # a value that is a range over a number, or a remainder of it
    for number, i in enumerate(body.instructions):
        if i.op is Op.RANGE:
            scaled[number] = i.a, 1
        elif i.op in (Op.FLOORDIV, Op.FLOORMOD) and i.a in scaled:
            by, (of, scale) = body.instructions[i.b], scaled[i.a]
            if by.op is Op.CONST and by.integer > 0:
                found[of].add(scale * by.integer)
                scaled[number] = of, scale * by.integer if i.op is Op.FLOORDIV else scale
    return found
