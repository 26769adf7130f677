"""A program as bytes: the one encoding of sdk/README.md. Nothing is made from a count before the bytes are there."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from struct import Struct, pack
from typing import Any

from eigentensor.errors import FormatError
from eigentensor.program import limits
from eigentensor.program.model import (
    Body,
    Bounds,
    Buffer,
    Call,
    Instruction,
    Kind,
    Parameter,
    Program,
    ReduceRange,
    Result,
    Role,
    Variable,
)
from eigentensor.program.ops import DType, Op
from eigentensor.program.validity import check

HEADER = Struct("<4sHHIIIIII")
MAGIC = b"EIGT"
SEMANTICS = 1

_NOT_ENCODED = "Fetch the program again: `encode` made other bytes."
_LENGTH = Struct("<I")
_VARIABLE = Struct("<iiiB")
_BUFFER = Struct("<BBBB")
_BODY = Struct("<HBBBBBB")
_PARAMETER = Struct("<BBBBQ")
_BOUNDS = Struct("<ii")
_EXTENT = Struct("<I")
_REDUCE = Struct("<HBB")
_INSTRUCTION = Struct("<BBHHH")
_RESULT = Struct("<BBBBI")

_Bodies = Sequence[Body] | Mapping[int, Body]

_OPS = {int(op): op for op in Op}
_DTYPES = {int(dtype): dtype for dtype in DType}
_ROLES = {int(role): role for role in Role}
_KINDS = {int(kind): kind for kind in Kind}
_ORDER = ("variable", "buffer", "body", "call", "result")


def encode(program: Program) -> bytes:
    """The bytes of a valid program. Raises RuleError if it is not valid."""
    check(program)
    return to_bytes(program)


def decode(data: bytes | bytearray | memoryview) -> Program:
    """The program that these bytes are; every rule of `validity` holds for it, and `encode` gives the bytes back.

    Raises FormatError or RuleError with the name of the rule that is broken. Nothing in the bytes is executed.
    """
    program = _parse(bytes(data))
    check(program)
    return program


def to_bytes(program: Program) -> bytes:
    """The bytes of a program whose numbers fit their fields, valid or not."""
    groups = (
        [_variable(v) for v in program.variables],
        [_buffer(b) for b in program.buffers],
        [body_record(b) for b in program.bodies],
        [pack(f"<I{len(c.variables)}H{len(c.arguments)}I", c.body, *c.variables, *c.arguments) for c in program.calls],
        [_result(r) for r in program.results],
    )
    records = b"".join(_LENGTH.pack(len(record)) + record for group in groups for record in group)
    counts = [len(group) for group in groups]
    return HEADER.pack(MAGIC, program.semantics, *counts, program.max_repeat, len(records)) + records


def split(data: bytes) -> tuple[bytes, list[bytes]]:
    """Header and records of an encoded program; checks lengths and counts alone."""
    counts, _ = _counts(data)
    records, position, end = [], HEADER.size, len(data)
    for number in range(sum(counts)):
        if position + 4 > end:
            raise _format_error("length", f"record {number}", f"the bytes end {position + 4 - end} bytes too early")
        (size,) = _LENGTH.unpack_from(data, position)
        position += 4 + size
        if size > limits.RECORD_BYTES:
            raise _format_error(
                "limits", f"record {number}", f"{size} bytes, at most {limits.RECORD_BYTES} are allowed"
            )
        if position > end:
            raise _format_error("length", f"record {number}", f"the bytes end {position - end} bytes too early")
        records.append(data[position - size : position])
    if position != end:
        raise _format_error("length", "program", f"{end - position} bytes follow the last record")
    return data[: HEADER.size], records


def read_record(kind: str, record: bytes, bodies: _Bodies = ()) -> Any:
    """The part of a program that a record alone is, read but not checked; a call needs the body that it names.

    `kind` is variable, buffer, body, call or result. Raises FormatError.
    """
    reader = _Reader(record, kind)
    part = _READ[kind](reader, bodies)
    reader.end()
    return part


def _counts(data: bytes) -> tuple[list[int], int]:
    """Numbers of records by kind, and the largest repeat; they are bounded before anything is made from them."""
    if data[:4] != MAGIC[: len(data)]:
        raise _format_error("header", "", f"begins with {data[:4].hex()}, a program with {MAGIC.hex()} (EIGT)")
    if len(data) < HEADER.size:
        raise _format_error("length", "header", f"{len(data)} bytes, a header has {HEADER.size}")
    if len(data) > limits.PROGRAM_BYTES:
        raise _format_error("limits", "program", f"{len(data)} bytes, at most {limits.PROGRAM_BYTES} are allowed")
    _, semantics, *counts, repeat, size = HEADER.unpack_from(data)
    if semantics != SEMANTICS:
        raise _format_error("header", "", f"semantics version {semantics}, known is {SEMANTICS}")
    if size != len(data) - HEADER.size:
        raise _format_error(
            "length", "header", f"announces {size} bytes of records, {len(data) - HEADER.size} are there"
        )
    most = (limits.VARIABLES, limits.BUFFERS, limits.BODIES, limits.CALLS, limits.RESULTS)
    for kind, number, bound in zip(_ORDER, counts, most, strict=True):
        if number > bound:
            raise _format_error("limits", "header", f"{number} {kind} records, at most {bound} are allowed")
    if sum(counts) * 5 > size:
        raise _format_error("length", "header", f"{sum(counts)} records cannot lie in {size} bytes")
    return counts, repeat


def _parse(data: bytes) -> Program:
    counts, repeat = _counts(data)
    _, records = split(data)
    parts: dict[str, list[Any]] = {kind: [] for kind in _ORDER}
    remaining = iter(records)
    for kind, number in zip(_ORDER, counts, strict=True):
        read = _READ[kind]
        for i in range(number):
            reader = _Reader(next(remaining), f"{kind} {i}")
            parts[kind].append(read(reader, parts["body"]))
            reader.end()
    return Program(
        tuple(parts["variable"]),
        tuple(parts["buffer"]),
        tuple(parts["body"]),
        tuple(parts["call"]),
        tuple(parts["result"]),
        repeat,
    )


def _format_error(rule: str, where: str, what: str) -> FormatError:
    return FormatError(rule, where, what, fix=_NOT_ENCODED)


class _Reader:
    """Takes fields from one record, and knows its name for the error."""

    def __init__(self, data: bytes, where: str) -> None:
        self.data, self.where, self.position = data, where, 0

    def take(self, layout: Struct) -> tuple[Any, ...]:
        return layout.unpack(self.raw(layout.size))

    def many(self, layout: Struct, number: int) -> list[tuple[Any, ...]]:
        return list(layout.iter_unpack(self.raw(layout.size * number)))

    def raw(self, size: int) -> bytes:
        self.position += size
        if self.position > len(self.data):
            missing = self.position - len(self.data)
            raise _format_error("length", self.where, f"the record ends {missing} bytes too early")
        return self.data[self.position - size : self.position]

    def rest(self) -> bytes:
        return self.raw(len(self.data) - self.position)

    def name(self, size: int) -> str:
        raw = self.raw(size)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise _format_error("names", self.where, f"the name {raw.hex()} is not UTF-8") from None

    def code(self, table: dict[int, Any], what: str, code: int) -> Any:
        try:
            return table[code]
        except KeyError:
            raise _format_error("codes", self.where, f"{code} is no {what} of version {SEMANTICS}") from None

    def zero(self, *reserved: int) -> None:
        if any(reserved):
            raise _format_error("reserved", self.where, "a reserved byte is not zero")

    def end(self) -> None:
        if self.position != len(self.data):
            extra = len(self.data) - self.position
            raise _format_error("length", self.where, f"{extra} bytes follow the end of the record")


def _variable(v: Variable) -> bytes:
    name = v.name.encode()
    return _VARIABLE.pack(v.minimum, v.maximum, v.stride, len(name)) + name


def _read_variable(reader: _Reader, _: _Bodies) -> Variable:
    minimum, maximum, stride, size = reader.take(_VARIABLE)
    return Variable(reader.name(size), minimum, maximum, stride)


def _buffer(b: Buffer) -> bytes:
    name = b.name.encode()
    return _BUFFER.pack(b.role, b.dtype, len(b.shape), len(name)) + pack(f"<{len(b.shape)}I", *b.shape) + name + b.data


def _read_buffer(reader: _Reader, _: _Bodies) -> Buffer:
    role, dtype, dimensions, size = reader.take(_BUFFER)
    shape = tuple(extent for (extent,) in reader.many(_EXTENT, dimensions))
    name = reader.name(size)
    return Buffer(reader.code(_ROLES, "role", role), reader.code(_DTYPES, "dtype", dtype), shape, name, reader.rest())


def body_record(b: Body) -> bytes:
    """The bytes of a body's record, without the length before it."""
    counts = (len(b.parameters), len(b.variables), len(b.output_ranges), len(b.reduce_ranges), b.reductions, 0)
    return b"".join(
        (
            _BODY.pack(len(b.instructions), *counts),
            *(_PARAMETER.pack(p.dtype, 0, 0, 0, p.elements) for p in b.parameters),
            *(_BOUNDS.pack(*v) for v in b.variables),
            *(_EXTENT.pack(extent) for extent in b.output_ranges),
            *(_REDUCE.pack(*r, 0) for r in b.reduce_ranges),
            *(_INSTRUCTION.pack(*i) for i in b.instructions),
        )
    )


def _read_body(reader: _Reader, _: _Bodies) -> Body:
    """The same record is the same object, so that what is known of the body is found at once."""
    try:
        body = _known_body(reader.data)
    except FormatError:  # once more, for an error that says where
        return _new_body(reader)
    reader.rest()
    return body


@lru_cache(maxsize=256)
def _known_body(record: bytes) -> Body:
    reader = _Reader(record, "body")
    body = _new_body(reader)
    reader.end()
    return body


def _new_body(reader: _Reader) -> Body:
    instructions, parameters, variables, output_ranges, reduce_ranges, reductions, zero = reader.take(_BODY)
    reader.zero(zero)
    read_parameters = []
    for dtype, *reserved, elements in reader.many(_PARAMETER, parameters):
        reader.zero(*reserved)
        read_parameters.append(Parameter(reader.code(_DTYPES, "dtype", dtype), elements))
    bounds = tuple(Bounds(*pair) for pair in reader.many(_BOUNDS, variables))
    extents = tuple(extent for (extent,) in reader.many(_EXTENT, output_ranges))
    owned = []
    for extent, reduction, reserved_byte in reader.many(_REDUCE, reduce_ranges):
        reader.zero(reserved_byte)
        owned.append(ReduceRange(extent, reduction))
    code, rows = reader.code, reader.many(_INSTRUCTION, instructions)
    read = tuple(Instruction(code(_OPS, "op", o), code(_DTYPES, "dtype", d), a, b, c) for o, d, a, b, c in rows)
    body = Body(tuple(read_parameters), read, extents, tuple(owned), bounds)
    if body.reductions != reductions:
        raise _format_error("length", reader.where, f"announces {reductions} reductions, ranges name {body.reductions}")
    return body


def _read_call(reader: _Reader, bodies: _Bodies) -> Call:
    (number,) = reader.take(_EXTENT)
    try:
        body = bodies[number]
    except LookupError:
        raise _format_error("codes", reader.where, f"calls body {number} of {len(bodies)}") from None
    variables, arguments = len(body.variables), max(0, len(body.parameters) - 1)
    fields = reader.take(_call_layout(variables, arguments))
    return Call(number, fields[variables:], fields[:variables])


def _call_layout(variables: int, arguments: int) -> Struct:
    layout = _LAYOUTS.get((variables, arguments))
    if layout is None:
        layout = _LAYOUTS[variables, arguments] = Struct(f"<{variables}H{arguments}I")
    return layout


_LAYOUTS: dict[tuple[int, int], Struct] = {}


def _result(r: Result) -> bytes:
    name = r.name.encode()
    return _RESULT.pack(r.kind, len(r.shape), len(name), 0, r.buffer) + pack(f"<{len(r.shape)}I", *r.shape) + name


def _read_result(reader: _Reader, _: _Bodies) -> Result:
    kind, dimensions, size, zero, buffer = reader.take(_RESULT)
    reader.zero(zero)
    shape = tuple(extent for (extent,) in reader.many(_EXTENT, dimensions))
    return Result(reader.code(_KINDS, "kind of result", kind), reader.name(size), buffer, shape)


_READ = {
    "variable": _read_variable,
    "buffer": _read_buffer,
    "body": _read_body,
    "call": _read_call,
    "result": _read_result,
}
