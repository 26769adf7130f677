"""A program for people to read: what goes in, every body instruction by instruction, the calls, what comes out."""

from collections.abc import Iterator

import numpy as np

from eigentensor.numerics.storage import STORAGE
from eigentensor.program.bounds import steps_of
from eigentensor.program.model import Body, Buffer, Instruction, Kind, Program, Role
from eigentensor.program.ops import NO_GUARD, REDUCTIONS, DType, Op
from eigentensor.program.structure import extents_of

#: Elements of a constant that are shown.
SHOWN = 8
_REDUCED = {
    Op.REDUCE_MULACC: "sum of products", Op.REDUCE_ADD: "sum", Op.REDUCE_MUL: "product", Op.REDUCE_MAX: "maximum",
    Op.REDUCE_MIN: "minimum",
}  # fmt: skip


def listing(program: Program) -> str:
    """Text of a valid program. Buffers are %n, in bodies values are the numbers of their lines."""
    return "\n".join(_lines(program)) + "\n"


def body_listing(body: Body) -> list[str]:
    """A valid body's signature and its instructions, a line each."""
    lines = [f"  {n:4}  {i.dtype.name.lower():8}  {_instruction(body, i)}" for n, i in enumerate(body.instructions)]
    return [_body(body), *lines]


def summary(body: Body) -> str:
    """What a valid body computes, in a few words, and its extents."""
    reduced = [_REDUCED[i.op] for i in body.instructions if i.op in REDUCTIONS]
    words = ", ".join(dict.fromkeys(reduced)) or f"{len(body.instructions)} instructions"
    return f"{words} {shape(body)}"


def shape(body: Body) -> str:
    """The extents of a valid body: of the result, and the most steps of its reductions."""
    outputs = "×".join(map(str, body.output_ranges)) or "1"
    steps = ", ".join(map(str, steps_of(body)))
    return f"{outputs} Σ {steps}" if steps else outputs


def _lines(program: Program) -> Iterator[str]:
    for v in program.variables:
        yield f"variable {v.name}: {v.minimum}…{v.maximum}, {v.stride:+} in each iteration"
    for n, b in enumerate(program.buffers):
        yield f"%{n} = {b.role.name.lower()} {_tensor(b)}"
    for n, body in enumerate(program.bodies):
        first, *rest = body_listing(body)
        yield f"body {n}: {first}"
        yield from rest
    for n, call in enumerate(program.calls):
        operands = [f"%{argument}" for argument in call.arguments] + [program.variables[v].name for v in call.variables]
        yield f"%{len(program.buffers) + n} = body {call.body} of {', '.join(operands) or 'nothing'}"
    for r in program.results:
        kind = "output" if r.kind is Kind.OUTPUT else "new state"
        yield f"{kind} {r.name} = %{r.buffer} as {_shape(r.shape)}"


def _tensor(b: Buffer) -> str:
    kind = f"{b.dtype.name.lower()} {_shape(b.shape)}"
    if b.role is not Role.CONSTANT:
        return f"{b.name}: {kind}"
    elements = np.frombuffer(b.data, STORAGE[b.dtype].newbyteorder("<"))
    values = ", ".join(map(str, elements[:SHOWN].tolist())) + (", …" if len(elements) > SHOWN else "")
    return f"{kind}: {values}"


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) if shape else "scalar"


def _body(body: Body) -> str:
    result, *parameters = (f"{p.dtype.name.lower()}[{p.elements}]" for p in body.parameters)
    loops = ", ".join(f"r{n} < {extent}" for n, extent in enumerate(body.output_ranges))
    operands = ", ".join(f"p{n} {kind}" for n, kind in enumerate(parameters, 1))
    operands += "".join(f", v{n} {least}…{most}" for n, (least, most) in enumerate(body.variables))
    return f"{result} of {operands or 'nothing'}" + (f"; for {loops}" if loops else "")


def _instruction(body: Body, i: Instruction) -> str:
    if i.op is Op.CONST:
        return f"CONST {_constant(i)}"
    if i.op is Op.RANGE:
        return f"RANGE r{i.a}"
    if i.op is Op.VAR:
        return f"VAR v{i.a}"
    if i.op is Op.LOAD:
        return f"LOAD p{i.a}[{i.b}]" + (f" if {i.c}" if i.c != NO_GUARD else "")
    operands = ", ".join(map(str, i.values))
    if i.op in REDUCTIONS:
        first = len(body.output_ranges) + next(n for n, r in enumerate(body.reduce_ranges) if r.reduction == i.c)
        operands += "; for " + ", ".join(f"r{n} < value {x}" for n, x in enumerate(extents_of(body, i.c), first))
    return f"{i.op.name} {operands}"


def _constant(i: Instruction) -> str:
    if i.dtype is DType.BFLOAT16:
        return str(np.array(i.immediate << 16, "<u4").view("<f4"))
    if i.dtype is DType.INDEX or i.dtype.size == 8:
        return str(i.integer)
    return str(np.array(i.immediate, f"<u{max(i.dtype.size, 1)}").view(STORAGE[i.dtype]))
