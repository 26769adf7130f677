"""The validity of programs: a list of rules. A program is admitted if and only if all of them hold."""

import unicodedata
from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import prod
from typing import Any

from eigentensor.program import limits
from eigentensor.program.body_rules import BODY_RULES, check_body
from eigentensor.program.cost import costs
from eigentensor.program.model import Buffer, Kind, Parameter, Program, Role
from eigentensor.program.ops import DType
from eigentensor.program.rules import Breach, Rule, enforce, rule

#: Rules of the encoding, which `codec` checks while it reads.
FORMAT_RULES = {
    "header": "A program begins with EIGT and a known semantics version.",
    "length": "Every length and count agrees with the bytes that are there; none is missing, none left over.",
    "codes": "Every op, dtype, role, kind and body number is one that there is.",
    "reserved": "Reserved bytes are zero.",
}
_BEFORE: list[Rule[Program]] = []
_AFTER: list[Rule[Program]] = []

_UNICODE = unicodedata.ucd_3_2_0  # the same in every Python, so that all agree on what a name is


def check(program: Program) -> None:
    """Raise RuleError with the name of the first rule that the program breaks."""
    enforce(_BEFORE, program)
    for number, body in enumerate(program.bodies):
        check_body(body, f"body {number}")
    enforce(_AFTER, program)


def sentences() -> dict[str, str]:
    """What each rule says, by name; where several parts of a program share a name, they share what it says."""
    of_programs = {r.name: r.sentence for r in _BEFORE + _AFTER}
    return FORMAT_RULES | of_programs | {r.name: r.sentence for r in BODY_RULES}


@rule(_BEFORE, "limits", "Nothing is larger than the table of limits allows.", "Split the program into several tasks.")
def _limits(program: Program) -> Iterator[Breach]:
    for what, number, most in (
        ("variables", len(program.variables), limits.VARIABLES),
        ("buffers", len(program.buffers), limits.BUFFERS),
        ("bodies", len(program.bodies), limits.BODIES),
        ("calls", len(program.calls), limits.CALLS),
        ("results", len(program.results), limits.RESULTS),
        ("as largest repeat", program.max_repeat, limits.REPEAT),
        ("calls, all repeats executed", len(program.calls) * program.max_repeat, limits.EXECUTED_CALLS),
    ):
        if number > most:
            yield "", f"{number} {what}, at most {most} are allowed"
    if program.max_repeat < 1:
        yield "", "the largest repeat is at least 1"
    shapes = [(f"buffer {n}", b.shape) for n, b in enumerate(program.buffers)]
    shapes += [(f"result {n}", r.shape) for n, r in enumerate(program.results)]
    for where, shape in shapes:
        if len(shape) > limits.DIMENSIONS:
            yield where, f"{len(shape)} dimensions, at most {limits.DIMENSIONS} are allowed"
        if not all(0 <= extent < 1 << 32 for extent in shape) or limits.volume(shape) > limits.ELEMENTS:
            yield where, f"shape {shape}: an extent beyond 32 bits, or {limits.ELEMENTS} exceeded without its zeros"
    for n, b in enumerate(program.buffers):
        size = 4 + 4 * len(b.shape) + len(b.name.encode("utf-8", "replace")) + len(b.data)
        if size > limits.RECORD_BYTES:
            yield f"buffer {n}", f"a record of {size} bytes, at most {limits.RECORD_BYTES} are allowed"


@rule(
    _BEFORE,
    "names",
    "Names are printable UTF-8 in normal form C (Unicode 3.2), not empty, short, without '/'.",
    "Rename it.",
)
def _names(program: Program) -> Iterator[Breach]:
    kinds: tuple[tuple[str, Iterable[str]], ...] = (
        ("variable", (v.name for v in program.variables)),
        ("buffer", (b.name for b in program.buffers if b.role is not Role.CONSTANT)),
        ("result", (r.name for r in program.results)),
    )
    for kind, names in kinds:
        for n, name in enumerate(names):
            if not is_name(name):
                yield f"{kind} {n}", f"{name!r} is no name"


def is_name(name: str) -> bool:
    """Whether a text may name a variable, a buffer or a result."""
    if name.isascii():
        plain = name.isprintable()
    else:
        plain = not any(_UNICODE.category(c)[0] in "CZ" and c != " " for c in name)
        plain = plain and _UNICODE.normalize("NFC", name) == name
    return plain and "/" not in name and 0 < len(name.encode()) <= limits.NAME_BYTES


@rule(
    _BEFORE, "variables", "Program variables are sorted by name, unique, and run from a minimum to a maximum of int32."
)
def _variables(program: Program) -> Iterator[Breach]:
    yield from _unsorted("variable", [v.name for v in program.variables])
    for n, v in enumerate(program.variables):
        if not -(1 << 31) <= v.minimum <= v.maximum < 1 << 31 or not -(1 << 31) <= v.stride < 1 << 31:
            yield f"variable {n}", f"{v.minimum}…{v.maximum} by {v.stride} is no interval of int32 with a stride"


@rule(
    _BEFORE, "buffers", "Inputs, weights and states stand sorted, each name once; a constant has its elements, no name."
)
def _buffers(program: Program) -> Iterator[Breach]:
    yield from _unsorted(
        "buffer", [(b.role, "" if b.role is Role.CONSTANT else b.name) for b in program.buffers], False
    )
    names: set[str] = set()
    constants: set[Buffer] = set()
    for n, b in enumerate(program.buffers):
        if b.dtype is DType.INDEX:
            yield f"buffer {n}", "an index is never stored"
        if b.role is not Role.CONSTANT:
            if b.name in names or b.data:
                yield f"buffer {n}", f"{b.name!r} names another buffer too" if b.name in names else "has data"
            names.add(b.name)
        elif b.name or len(b.data) != b.elements * b.dtype.size:
            yield f"buffer {n}", f"{len(b.data)} bytes for shape {b.shape} of {b.dtype.name.lower()}, named {b.name!r}"
        elif b.dtype is DType.BOOL and b.data.translate(None, b"\0\1"):
            yield f"buffer {n}", "a bool is 0 or 1"
        elif b in constants:
            yield f"buffer {n}", "is equal to another constant"
        else:
            constants.add(b)


def _unsorted(kind: str, keys: list[Any], strictly: bool = True) -> Iterator[Breach]:
    for n, (a, b) in enumerate(pairwise(keys), 1):
        if a > b or (strictly and a == b):
            yield f"{kind} {n}", f"{b!r} stands after {a!r}"


@rule(_BEFORE, "calls", "A call names a body and gives it as many variables and buffers as it has, all of which exist.")
def _calls(program: Program) -> Iterator[Breach]:
    for n, call in enumerate(program.calls):
        if not 0 <= call.body < len(program.bodies):
            yield f"call {n}", f"there is no body {call.body}"
            continue
        body = program.bodies[call.body]
        if len(call.arguments) != len(body.parameters) - 1 or len(call.variables) != len(body.variables):
            yield f"call {n}", f"gives {len(call.arguments)} buffers and {len(call.variables)} variables to {call.body}"
        if not all(0 <= v < len(program.variables) for v in call.variables):
            yield f"call {n}", f"variables {call.variables} of {len(program.variables)}"


@rule(
    _AFTER,
    "before",
    "A call reads only what was there before it: buffers with a smaller number than its own result.",
    "Order the calls so that each stands after those whose results it reads.",
)
def _before(program: Program) -> Iterator[Breach]:
    external = len(program.buffers)
    for n, call in enumerate(program.calls):
        if any(not 0 <= argument < external + n for argument in call.arguments):
            yield f"call {n}", f"reads {call.arguments}, writes {external + n}"


@rule(_AFTER, "arguments", "A call gives each parameter a buffer of its dtype and elements, each variable its bounds.")
def _arguments(program: Program) -> Iterator[Breach]:
    buffers = [Parameter(b.dtype, b.elements) for b in program.buffers]
    for n, call in enumerate(program.calls):
        body = program.bodies[call.body]
        for k, (parameter, argument) in enumerate(zip(body.parameters[1:], call.arguments, strict=True), 1):
            if buffers[argument] != parameter:
                yield f"call {n}", f"buffer {argument} for parameter {k}: {buffers[argument]}, expected {parameter}"
        for k, (bounds, number) in enumerate(zip(body.variables, call.variables, strict=True)):
            if tuple(bounds) != program.variables[number][1:3]:
                yield f"call {n}", f"variable {number} for variable {k}: other bounds than {tuple(bounds)}"
        buffers.append(body.parameters[0])


@rule(
    _AFTER,
    "results",
    "Results are sorted, unique, at least one; each is written by a call and has its elements.",
    "Let a call write each output; an input that goes out is copied by one.",
)
def _results(program: Program) -> Iterator[Breach]:
    if not program.results:
        yield "", "a program without results does nothing"
    yield from _unsorted("result", [(r.kind, r.name) for r in program.results])
    end = len(program.buffers) + len(program.calls)
    for n, r in enumerate(program.results):
        if not len(program.buffers) <= r.buffer < end:
            yield f"result {n}", f"no call writes buffer {r.buffer}"
        elif program.parameter(r.buffer).elements != prod(r.shape):
            yield f"result {n}", f"shape {r.shape} for {program.parameter(r.buffer).elements} elements"


@rule(
    _AFTER,
    "states",
    "Every state has one new state with its name, dtype and shape, and every new state is of a state.",
    "Give every state one new state of its name, dtype and shape.",
)
def _states(program: Program) -> Iterator[Breach]:
    states = {name: (b.dtype, b.shape) for name, b in program.named(Role.STATE).items()}
    new = {r.name: (program.parameter(r.buffer).dtype, r.shape) for r in program.results if r.kind is Kind.STATE}
    for name in states | new:
        if states.get(name) != new.get(name):
            yield f"state {name!r}", f"goes in as {states.get(name)}, comes out as {new.get(name)}"


@rule(_AFTER, "used", "All is used: bodies and constants in the order of first use, weights, the results of calls.")
def _used(program: Program) -> Iterator[Breach]:
    called = list(dict.fromkeys(call.body for call in program.calls))
    if called != list(range(len(program.bodies))):
        yield "", f"bodies are called in the order {called}, there are {len(program.bodies)}"
    if len(set(program.bodies)) != len(program.bodies):
        yield "", "two bodies are equal"
    read = dict.fromkeys(argument for call in program.calls for argument in call.arguments)
    named = {r.buffer for r in program.results}
    for n, b in enumerate(program.buffers):
        if n not in read and b.role in (Role.WEIGHT, Role.CONSTANT):
            yield f"buffer {n}", "no call reads it"
    constants = [n for n in read if n < len(program.buffers) and program.buffers[n].role is Role.CONSTANT]
    if constants != sorted(constants):
        yield "", f"constants are read in the order {constants}"
    for n in range(len(program.buffers), len(program.buffers) + len(program.calls)):
        if n not in read and n not in named:
            yield f"call {n - len(program.buffers)}", "no call and no result reads what it writes"


@rule(
    _AFTER,
    "work",
    "All buffers together, and one iteration's evaluations, are bounded.",
    "Split the program into several tasks.",
)
def _work(program: Program) -> Iterator[Breach]:
    elements = sum(b.elements for b in program.buffers)
    elements += sum(program.bodies[call.body].parameters[0].elements for call in program.calls)
    if elements > limits.ALL_ELEMENTS:
        yield "", f"{elements} elements, at most {limits.ALL_ELEMENTS} are allowed"
    evaluations = costs(program).evaluations
    if evaluations > limits.EVALUATIONS:
        yield "", f"{evaluations} evaluations of instructions, at most {limits.EVALUATIONS} are allowed"
