"""Programs that must be refused, and by which rule: the register that tests/hostile goes through."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from eigentensor.program import Body, Buffer, Call, Kind, Program, Result, Role, Variable
from eigentensor.program.codec import to_bytes
from eigentensor.program.expression import Axis, Node, to_body

#: Rule, what is wrong, and the bytes.
EXAMPLES: list[tuple[str, str, Callable[[], bytes]]] = []


def example(rule: str, because: str, data: bytes | Program | Callable[[], bytes]) -> None:
    """Register bytes, or a program whose bytes are meant."""
    if isinstance(data, Program):
        data = to_bytes(data)
    EXAMPLES.append((rule, because, (lambda: data) if isinstance(data, bytes) else data))


def of_body(body: Body) -> Program:
    """One call of a body on inputs that fit it."""
    inputs = tuple(
        Buffer(Role.INPUT, p.dtype, shape(p.elements), f"x{n:02}") for n, p in enumerate(body.parameters[1:])
    )
    variables = tuple(Variable(f"v{n}", *bounds) for n, bounds in enumerate(body.variables))
    call = Call(0, tuple(range(len(inputs))), tuple(range(len(variables))))
    result = Result(Kind.OUTPUT, "output", len(inputs), shape(body.parameters[0].elements))
    return Program(variables, inputs, (body,), (call,), (result,))


def shape(elements: int) -> tuple[int, ...]:
    """A shape whose extents fit 32 bits."""
    return (elements,) if elements < 1 << 32 else (1 << 16, elements >> 16)


def of_value(value: Node, *axes: Axis) -> Program:
    return of_body(to_body(value, axes).body)


def with_body(program: Program, number: int, **changes: Any) -> Program:
    """The program with one body changed; a program of one body is made anew around it."""
    bodies = list(program.bodies)
    bodies[number] = replace(bodies[number], **changes)
    return of_body(bodies[0]) if len(bodies) == 1 else replace(program, bodies=tuple(bodies))


def with_instruction(program: Program, number: int, **changes: Any) -> Program:
    instructions = list(program.bodies[0].instructions)
    instructions[number] = instructions[number]._replace(**changes)
    return with_body(program, 0, instructions=tuple(instructions))


def with_item(program: Program, field: str, number: int, **changes: Any) -> Program:
    """The program with one variable, buffer, call or result changed."""
    items = list(getattr(program, field))
    items[number] = items[number]._replace(**changes)
    fields: dict[str, Any] = {field: tuple(items)}
    return replace(program, **fields)
