"""A program as JSON, for whoever would rather not read bytes: the same content, one text for each program.

{"eigentensor.program": 1, "max_repeat": 1, "variables": [[name, minimum, maximum, stride]],
 "buffers": [{"role": "input", "dtype": "float32", "shape": [2, 3], "name": "x"}], constants with "data" in base64,
 "bodies": [{"parameters": [[dtype, elements]], "variables": [[minimum, maximum]], "output_ranges": [extent],
             "reduce_ranges": [[instruction, reduction]], "instructions": [[op, dtype, a, b, c]]}],
 "calls": [{"body": 0, "variables": [number], "arguments": [buffer]}],
 "results": [{"kind": "output", "name": "y", "buffer": 3, "shape": [2]}]}

Numbers are those of the records (sdk/README.md): CONST has its pattern in b (low half) and c.
"""

import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

from eigentensor.errors import FormatError
from eigentensor.program import limits
from eigentensor.program.codec import SEMANTICS, decode, to_bytes
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

MARK = "eigentensor.program"
BYTES = 8 * limits.PROGRAM_BYTES  #: of a text
VALUES = limits.PROGRAM_BYTES  #: in a text: no record has more numbers than bytes
_FIX = "Write it anew with `to_json`."
_PARTS = ("variables", "buffers", "bodies", "calls", "results")

E = TypeVar("E", bound=IntEnum)
T = TypeVar("T")


def to_json(program: Program) -> str:
    """The text of a valid program, ended by a line break. Raises RuleError if it is not valid."""
    check(program)
    fields = {
        MARK: program.semantics,
        "max_repeat": program.max_repeat,
        "variables": program.variables,
        "buffers": [_buffer(b) for b in program.buffers],
        "bodies": [_body(b) for b in program.bodies],
        "calls": [{"body": c.body, "variables": c.variables, "arguments": c.arguments} for c in program.calls],
        "results": [
            {"kind": _word(r.kind), "name": r.name, "buffer": r.buffer, "shape": r.shape} for r in program.results
        ],
    }
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False) + "\n"


def from_json(text: str | bytes) -> Program:
    """The program of a text: `from_json(to_json(p)) == p`. Line breaks and spaces between values do not matter.

    Raises FormatError or RuleError with the name of the rule that is broken, as `decode` does for its bytes.
    """
    data = text.encode(errors="replace") if isinstance(text, str) else text
    if len(data) > BYTES or sum(map(data.count, b",[{")) > VALUES:
        raise _refused("limits", "", f"more than {BYTES} bytes or {VALUES} values")
    try:
        fields = json.loads(data, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _refused("header", "", f"this is no JSON: {error}") from None
    if not isinstance(fields, dict) or fields.get(MARK) != SEMANTICS or type(fields[MARK]) is not int:
        raise _refused("header", "", f"{MARK!r} is not {SEMANTICS}")
    _fields(fields, "", MARK, "max_repeat", *_PARTS)
    program = Program(
        variables=_each(fields, "variables", _read_variable),
        buffers=_each(fields, "buffers", _read_buffer),
        bodies=_each(fields, "bodies", _read_body),
        calls=_each(fields, "calls", _read_call),
        results=_each(fields, "results", _read_result),
        max_repeat=_number(fields["max_repeat"], "max_repeat"),
    )
    try:
        encoded = to_bytes(program)
    except UnicodeEncodeError as error:
        raise _refused("names", "", f"a name is not UTF-8: {error}") from None
    except struct.error as error:
        raise _refused("limits", "", f"a number does not fit its field: {error}") from None
    return decode(encoded)


def _word(code: IntEnum) -> str:
    return code.name.lower()


def _buffer(b: Buffer) -> dict[str, Any]:
    fields = {"role": _word(b.role), "dtype": _word(b.dtype), "shape": b.shape}
    return fields | ({"data": b64encode(b.data).decode()} if b.role is Role.CONSTANT else {"name": b.name})


def _body(b: Body) -> dict[str, Any]:
    return {
        "parameters": [(_word(p.dtype), p.elements) for p in b.parameters],
        "variables": b.variables,
        "output_ranges": b.output_ranges,
        "reduce_ranges": b.reduce_ranges,
        "instructions": [(i.op.name, _word(i.dtype), i.a, i.b, i.c) for i in b.instructions],
    }


def _read_variable(entry: list[Any], at: str) -> Variable:
    name, minimum, maximum, stride = entry
    return Variable(_text(name, at), *_numbers([minimum, maximum, stride], at))


def _read_buffer(entry: dict[str, Any], at: str) -> Buffer:
    role = _code(Role, entry.get("role"), at)
    _fields(entry, at, "role", "dtype", "shape", "data" if role is Role.CONSTANT else "name")
    dtype, shape = _code(DType, entry["dtype"], at), _numbers(entry["shape"], at)
    if role is Role.CONSTANT:
        return Buffer(role, dtype, shape, data=b64decode(_text(entry["data"], at), validate=True))
    return Buffer(role, dtype, shape, _text(entry["name"], at))


def _read_body(entry: dict[str, Any], at: str) -> Body:
    _fields(entry, at, "parameters", "variables", "output_ranges", "reduce_ranges", "instructions")
    instructions = entry["instructions"]
    if not isinstance(instructions, list) or len(instructions) > limits.INSTRUCTIONS:
        raise _refused("limits", at, f"no list of at most {limits.INSTRUCTIONS} instructions")
    return Body(
        tuple(Parameter(_code(DType, d, at), _number(n, at)) for d, n in entry["parameters"]),
        tuple(
            Instruction(_code(Op, op, at, str.upper), _code(DType, dtype, at), *_numbers([a, b, c], at))
            for op, dtype, a, b, c in instructions
        ),
        _numbers(entry["output_ranges"], at),
        tuple(ReduceRange(*_numbers([extent, owner], at)) for extent, owner in entry["reduce_ranges"]),
        tuple(Bounds(*_numbers([low, high], at)) for low, high in entry["variables"]),
    )


def _read_call(entry: dict[str, Any], at: str) -> Call:
    _fields(entry, at, "body", "variables", "arguments")
    return Call(_number(entry["body"], at), _numbers(entry["arguments"], at), _numbers(entry["variables"], at))


def _read_result(entry: dict[str, Any], at: str) -> Result:
    _fields(entry, at, "kind", "name", "buffer", "shape")
    kind, shape = _code(Kind, entry["kind"], at), _numbers(entry["shape"], at)
    return Result(kind, _text(entry["name"], at), _number(entry["buffer"], at), shape)


def _each(fields: dict[str, Any], part: str, read: Callable[[Any, str], T]) -> tuple[T, ...]:
    """The entries of one part, in order; whatever is no such entry is refused."""
    if not isinstance(fields[part], list):
        raise _refused("length", part, "is no list")
    entries = []
    for number, entry in enumerate(fields[part]):
        at = f"{part} {number}"
        try:
            entries.append(read(entry, at))
        except (TypeError, ValueError, KeyError, IndexError, AttributeError):
            raise _refused("length", at, f"is not as it has to be: {str(entry)[:80]}") from None
    return tuple(entries)


def _fields(entry: dict[str, Any], at: str, *names: str) -> None:
    if set(entry) != set(names):
        raise _refused("length", at, f"has the fields {', '.join(sorted(entry))}, not {', '.join(sorted(names))}")


def _code(kind: type[E], word: Any, at: str, case: Callable[[str], str] = str.lower) -> E:
    if isinstance(word, str) and word == case(word) and word.upper() in kind.__members__:
        return kind[word.upper()]
    raise _refused("codes", at, f"{word!r} is no {kind.__name__.lower()} of version {SEMANTICS}")


def _numbers(values: Any, at: str) -> tuple[int, ...]:
    if not isinstance(values, list):
        raise TypeError
    return tuple(_number(value, at) for value in values)


def _number(value: Any, at: str) -> int:
    if type(value) is not int:
        raise _refused("length", at, f"{value!r} is no whole number")
    return value


def _text(value: Any, at: str) -> str:
    if not isinstance(value, str):
        raise _refused("names", at, f"{value!r} is no name")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a name occurs twice")
    return values


def _refused(rule: str, where: str, what: str) -> FormatError:
    return FormatError(rule, where, what, fix=_FIX)
