"""A failing example made small: one iteration, few calls, few instructions, few elements, few values that matter."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor import reference
from eigentensor.errors import RuleError
from eigentensor.program.assemble import assemble
from eigentensor.program.binding import bind
from eigentensor.program.expression import (
    Array,
    Axis,
    Lowered,
    Named,
    Node,
    const,
    counter,
    factors,
    load,
    nodes_of,
    reduction,
    rewrite,
    to_body,
    walk,
)
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import REDUCTIONS, DType, Op
from support.generated.programs import Example

Fails = Callable[[Example], bool]
Values = NDArray[Any]
#: Attempts at simplifying, each of which compiles something.
ATTEMPTS = 400


def shrunk(example: Example, fails: Fails) -> Example:
    """The example, or a smaller one that fails too."""
    example = next((e for e in _iterations(example) if fails(e)), example)
    if example.repeat == 1:
        example = _fewer_calls(example, fails)
    if len(example.program.calls) == 1 and example.repeat == 1:
        example = _first_accepted(example, fails, _simpler, ATTEMPTS)
    return _first_accepted(example, fails, _calmer, ATTEMPTS)


def _first_accepted(
    example: Example, fails: Fails, smaller: Callable[[Example], Iterator[Example]], attempts: int
) -> Example:
    """Takes the first smaller example that fails, again and again."""
    while attempts > 0:
        for candidate in smaller(example):
            attempts -= 1
            if fails(candidate):
                example = candidate
                break
            if attempts <= 0:
                break
        else:
            break
    return example


# Iterations


def _iterations(example: Example) -> Iterator[Example]:
    """Each iteration alone, from the states that the reference has there."""
    if example.repeat == 1:
        return
    tensors, variables = dict(example.tensors), dict(example.variables)
    for _ in range(example.repeat):
        yield Example(replace(example.program, max_repeat=1), dict(tensors), dict(variables), 1)
        tensors |= reference.execute(example.program, tensors, variables).states
        variables = {v.name: variables[v.name] + v.stride for v in example.program.variables}


# Calls


def _fewer_calls(example: Example, fails: Fails) -> Example:
    """A call alone if one fails, else without as many as possible; what is left out is given instead."""
    buffers = _all_buffers(example)
    everything = range(len(example.program.calls))
    for j in everything:
        if fails(one := alone(example, buffers, j)):
            return one
    kept = set(everything)
    for j in reversed(everything):
        if len(kept) > 1 and fails(_kept(example, buffers, kept - {j})):
            kept.discard(j)
    return _kept(example, buffers, kept) if len(kept) < len(everything) else example


def alone(example: Example, buffers: Sequence[Values], call: int) -> Example:
    """The program of one call, with what it reads, of flat arrays by number of buffer, as inputs."""
    return _kept(example, buffers, {call})


def _all_buffers(example: Example) -> list[Values]:
    buffers = bind(example.program, example.tensors, example.variables)

    def observe(number: int, values: Values) -> None:
        buffers.append(values)

    reference.execute(example.program, example.tensors, example.variables, observe=observe)
    return buffers


def _kept(example: Example, buffers: Sequence[Values], kept: set[int]) -> Example:
    """The program of some calls, with the results of others, and the states, as inputs."""
    program = example.program
    first = len(program.buffers)
    calls = [(first + j, lowered) for j, lowered in enumerate(lowered_calls(program)) if j in kept]
    read = {array.key for _, lowered in calls for array in lowered.arrays}
    inputs = sorted(b for b in range(len(buffers)) if b in read and b - first not in kept)
    names = {b: program.buffers[b].name if b < first and program.buffers[b].name else f"buffer{b}" for b in inputs}
    externals: dict[Hashable, Buffer] = {
        b: Buffer(Role.INPUT, dtype, (elements,), names[b])
        for b in inputs
        for dtype, elements in [program.parameter(b)]
    }
    out = {r.buffer for r in program.results if r.buffer - first in kept} | {key for key, _ in calls if key not in read}
    results = {(Kind.OUTPUT, f"call{b - first}"): (b, (program.parameter(b).elements,)) for b in sorted(out)}
    used = {named.name for _, lowered in calls for named in lowered.variables}
    variables = [v for v in program.variables if v.name in used]
    made = assemble(calls, externals, results, variables)
    bound = {v.name: example.variables[v.name] for v in variables}
    return Example(made, {names[b]: buffers[b] for b in inputs}, bound, 1)


def lowered_calls(program: Program) -> list[Lowered]:
    """The calls as `assemble` takes them; keys are the numbers of buffers."""
    lowered = []
    for call in program.calls:
        body = program.bodies[call.body]
        arrays = tuple(Array(b, *p) for b, p in zip(call.arguments, body.parameters[1:], strict=True))
        named = tuple(Named(program.variables[v].name, b) for v, b in zip(call.variables, body.variables, strict=True))
        lowered.append(Lowered(body, arrays, named))
    return lowered


# Instructions and loops of the only call


def _simpler(example: Example) -> Iterator[Example]:
    """With a shorter loop, or with an operation replaced by an operand or a constant; the largest changes first."""
    (lowered,) = lowered_calls(example.program)
    value, axes = expression_of(lowered)
    for changed, loops in (*_shorter(value, axes), *((v, axes) for v in _replaced(value))):
        if _size(changed, loops) >= _size(value, axes):
            continue
        try:
            made = _with_body(example.program, to_body(changed, loops))
        except RuleError:
            continue
        tensors = {b.name: example.tensors[b.name] for b in made.buffers}
        yield Example(made, tensors, {v.name: example.variables[v.name] for v in made.variables}, 1)


def _size(value: Node, axes: tuple[Axis, ...]) -> tuple[int, int]:
    nodes = list(walk(value))
    loops = (*axes, *(axis for n in nodes if n.op in REDUCTIONS for axis in n.arg))
    return len(nodes), sum(axis.extent for axis in loops)


def _with_body(program: Program, lowered: Lowered) -> Program:
    read = {array.key for array in lowered.arrays}
    externals: dict[Hashable, Buffer] = {n: b for n, b in enumerate(program.buffers) if n in read}
    used = {named.name for named in lowered.variables}
    name, shape = program.results[0].name, lowered.body.output_ranges
    variables = [v for v in program.variables if v.name in used]
    return assemble([("only", lowered)], externals, {(Kind.OUTPUT, name): ("only", shape)}, variables)


def _replaced(root: Node) -> Iterator[Node]:
    for old in reversed(list(walk(root))):
        for new in _smaller(old):
            yield rewrite(root, lambda n, old=old, new=new: new if n is old else n)  # type: ignore[misc]


def _smaller(n: Node) -> Iterator[Node]:
    """What may stand for a node: operands of its type, then constants."""
    if n.op in REDUCTIONS:
        start = {axis: const(DType.INDEX, 0) for axis in n.arg}
        for term in factors(n):
            yield rewrite(term, lambda x: start.get(x.arg, x) if x.op is Op.RANGE else x)
    elif n.op is not Op.LOAD:
        yield from (s for s in n.src if s.dtype is n.dtype)
    elif len(n.src) == 2:
        yield load(n.arg, n.src[0])
    if n.op is not Op.CONST:
        yield from (const(n.dtype, value) for value in (0, 1))


def _shorter(value: Node, axes: tuple[Axis, ...]) -> Iterator[tuple[Node, tuple[Axis, ...]]]:
    """A loop cut to one step, or to half of its steps."""
    constant = [
        axis
        for n in walk(value)
        if n.op in REDUCTIONS
        for axis, extent in zip(n.arg, n.src, strict=False)
        if extent.op is Op.CONST
    ]
    for axis in dict.fromkeys((*axes, *constant)):
        for extent in dict.fromkeys((1, axis.extent // 2, axis.extent - 1)):
            if 0 < extent < axis.extent:
                change = {axis: axis._replace(extent=extent)}
                yield _cut(value, change), tuple(change.get(a, a) for a in axes)


def _cut(value: Node, change: dict[Axis, Axis]) -> Node:
    def cut(n: Node) -> Node:
        if n.op is Op.RANGE and n.arg in change:
            return counter(change[n.arg])
        if n.op in REDUCTIONS and any(axis in change for axis in n.arg):
            extents = tuple(
                const(DType.INDEX, change[axis].extent) if axis in change else extent
                for axis, extent in zip(n.arg, n.src, strict=False)
            )
            return reduction(n.op, tuple(change.get(a, a) for a in n.arg), *factors(n), extents=extents)
        return n

    return rewrite(value, cut)


def expression_of(lowered: Lowered) -> tuple[Node, tuple[Axis, ...]]:
    """The expression and the output axes of which a body was made: the inverse of `to_body`."""
    axes = tuple(Axis(n, extent) for n, extent in enumerate(lowered.body.output_ranges))
    return nodes_of(lowered)[-1], axes


# Values


def _calmer(example: Example) -> Iterator[Example]:
    """With zeros for all elements of a tensor that are not zero, for a half of them, for a quarter, …"""
    for name, tensor in example.tensors.items():
        places = np.flatnonzero(tensor.reshape(-1).view(f"u{tensor.itemsize}"))
        for parts in (1 << k for k in range(len(places).bit_length())):
            for part in np.array_split(places, parts):
                zeroed = np.array(tensor)
                zeroed.reshape(-1).view(f"u{tensor.itemsize}")[part] = 0
                yield Example(example.program, {**example.tensors, name: zeroed}, example.variables, example.repeat)
