"""A program for several calls of another one at once: inputs, states and results have one more axis, the calls.

Each element is the expression that it was, of the inputs of its own call: so its bits are those of the call alone. What
depends on no input is computed once for all.
"""

from eigentensor.program.assemble import assemble
from eigentensor.program.expression import (
    Array,
    Axis,
    Lowered,
    Named,
    Node,
    binary,
    const,
    counter,
    load,
    nodes_of,
    rewrite,
    to_body,
)
from eigentensor.program.model import Bounds, Call, Program, Role
from eigentensor.program.ops import DType, Op

_CALLS = -1  # the name of the axis: a body's own are numbered from zero


def widened(program: Program, count: int) -> Program:
    """A valid program for `count` calls, two or more, with variables and repeat in common; weights are as they were.

    Raises RuleError where what it comes to is not admitted, as a load that cannot be proven to stay inside.
    """
    first = len(program.buffers)
    named = {result.buffer for result in program.results}
    own = {n for n, buffer in enumerate(program.buffers) if buffer.role in (Role.INPUT, Role.STATE)}
    calls: list[tuple[int, Lowered]] = []
    for number, call in enumerate(program.calls):
        if first + number in named or own.intersection(call.arguments):
            own.add(first + number)
        calls.append((first + number, _lowered(program, call, own, count if first + number in own else 1)))
    externals = {
        n: buffer._replace(shape=(count, *buffer.shape)) if n in own else buffer
        for n, buffer in enumerate(program.buffers)
    }
    results = {(r.kind, r.name): (r.buffer, (count, *r.shape)) for r in program.results}
    return assemble(calls, externals, results, program.variables, program.max_repeat)


def _lowered(program: Program, call: Call, own: set[int], count: int) -> Lowered:
    """A call over one more axis, of `count` steps, along which lie the buffers that are each call's `own`."""
    body = program.bodies[call.body]
    arrays = {argument: Array(argument, *program.parameter(argument)) for argument in call.arguments}
    names = [Named(program.variables[v].name, Bounds(*program.variables[v][1:3])) for v in call.variables]
    old = Lowered(body, tuple(arrays[argument] for argument in call.arguments), tuple(names))
    calls = Axis(_CALLS, count)

    def moved(node: Node) -> Node:
        if node.op is not Op.LOAD or node.arg.key not in own or not node.arg.elements:
            return node
        array: Array = node.arg
        begin = binary(Op.MUL, counter(calls), const(DType.INDEX, array.elements))
        return load(array._replace(elements=count * array.elements), binary(Op.ADD, begin, node.src[0]), *node.src[1:])

    axes = tuple(Axis(n, extent) for n, extent in enumerate(body.output_ranges))
    return to_body(rewrite(nodes_of(old)[-1], moved), (calls, *axes) if count > 1 else axes)
