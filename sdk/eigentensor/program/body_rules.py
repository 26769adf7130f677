"""The validity rules of one body, in the order in which they are checked."""

from collections.abc import Iterator
from functools import lru_cache
from math import prod

from eigentensor.errors import RuleError
from eigentensor.numerics.dtypes import CANONICAL_NAN
from eigentensor.program import bounds, cost, limits
from eigentensor.program.model import Body, Instruction
from eigentensor.program.ops import ARITY, NO_GUARD, REDUCTIONS, DType, Op
from eigentensor.program.rules import Breach, Rule, rule
from eigentensor.program.signatures import mismatch
from eigentensor.program.structure import below, extents_of, finishing_order, open_reductions, reductions

BODY_RULES: list[Rule[Body]] = []


def check_body(body: Body, where: str) -> None:
    """Raise RuleError if a rule is broken. A body that was admitted lately is not looked at again."""
    if breach := _first_breach(body):
        name, place, what, fix = breach
        raise RuleError(name, f"{where} {place}".strip(), what, fix=fix)


@lru_cache(maxsize=256)
def _first_breach(body: Body) -> tuple[str, str, str, str] | None:
    for name, _, fix, breaches in BODY_RULES:
        for place, what in breaches(body):
            return name, place, what, fix
    return None


def _at(body: Body, number: int) -> str:
    return f"instruction {number} ({body.instructions[number].op.name})"


@rule(
    BODY_RULES,
    "limits",
    "Nothing is larger than the table of limits allows.",
    "Store a part of the expression in a buffer of its own.",
)
def _limits(body: Body) -> Iterator[Breach]:
    for what, number, most in (
        ("instructions", len(body.instructions), limits.INSTRUCTIONS),
        ("parameters", len(body.parameters), limits.PARAMETERS),
        ("variables", len(body.variables), limits.BODY_VARIABLES),
        ("output ranges", len(body.output_ranges), limits.OUTPUT_RANGES),
        ("reduce ranges", len(body.reduce_ranges), limits.REDUCE_RANGES),
        ("reductions", body.reductions, limits.REDUCTIONS),
        ("bytes", cost.record_bytes(body), limits.RECORD_BYTES),
    ):
        if number > most:
            yield "", f"{number} {what}, at most {most} are allowed"
    for n, parameter in enumerate(body.parameters):
        if not 0 <= parameter.elements <= limits.ELEMENTS:
            yield f"parameter {n}", f"{parameter.elements} elements, at most {limits.ELEMENTS} are allowed"
    for n, extent in enumerate(body.output_ranges):
        if not 0 <= extent < 1 << 32:
            yield f"output range {n}", f"extent {extent} does not fit 32 bits"
    if limits.volume(body.output_ranges) > limits.ELEMENTS:
        yield "", f"output ranges {body.output_ranges} exceed {limits.ELEMENTS} without their zeros"


@rule(BODY_RULES, "operands", "An instruction takes values of instructions before it, and names only what there is.")
def _operands(body: Body) -> Iterator[Breach]:
    if not body.instructions or not body.parameters:
        yield "", "a body has at least one instruction and one parameter"
    ranges = len(body.output_ranges) + len(body.reduce_ranges)
    for n, i in enumerate(body.instructions):
        op, a, b, c = i.op, i.a, i.b, i.c
        if op is Op.CONST:
            good = a == 0 and 0 <= b <= 0xFFFF and 0 <= c <= 0xFFFF
        elif op is Op.RANGE:
            good = 0 <= a < ranges and b == c == 0
        elif op is Op.VAR:
            good = 0 <= a < len(body.variables) and b == c == 0
        elif op is Op.LOAD:
            good = 1 <= a < len(body.parameters) and 0 <= b < n and (c == NO_GUARD or 0 <= c < n)
        elif op in REDUCTIONS:
            fits = all(0 <= extent < n for extent in extents_of(body, c))
            good = 0 <= a < n and (0 <= b < n if ARITY[op] == 2 else b == 0) and c < body.reductions and fits
        else:
            used = ARITY[op]
            good = all(0 <= x < n for x in (a, b, c)[:used]) and not any((a, b, c)[used:])
        if not good:
            yield _at(body, n), f"operands {a}, {b}, {c}"


@rule(
    BODY_RULES,
    "types",
    "Operands have the types that the operation is defined on; buffers never hold an index.",
    "Cast operands to one type first; store an index as an integer.",
)
def _types(body: Body) -> Iterator[Breach]:
    for n, parameter in enumerate(body.parameters):
        if parameter.dtype is DType.INDEX:
            yield f"parameter {n}", "an index is never stored"
    instructions = body.instructions
    for n, i in enumerate(instructions):
        if complaint := mismatch(i.op, i.dtype, [instructions[value].dtype for value in i.values]):
            yield _at(body, n), complaint
        if i.op is Op.LOAD and i.dtype is not body.parameters[i.a].dtype:
            yield _at(body, n), f"loads {i.dtype.name.lower()} from {body.parameters[i.a].dtype.name.lower()}"
    for r in body.reduce_ranges:
        if not 0 <= r.extent < len(instructions) or instructions[r.extent].dtype is not DType.INDEX:
            yield f"reduction {r.reduction}", "the extent of a range is an index value"
    if instructions[-1].dtype is not body.parameters[0].dtype:
        stored, kept = instructions[-1].dtype.name.lower(), body.parameters[0].dtype.name.lower()
        yield _at(body, len(instructions) - 1), f"stores {stored} where {kept} is kept"


@rule(
    BODY_RULES,
    "constants",
    "A constant has one pattern: one NaN, no bits beyond its type.",
    "Use the one NaN of the type, and no bits beyond it.",
)
def _constants(body: Body) -> Iterator[Breach]:
    for n, i in enumerate(body.instructions):
        if i.op is Op.CONST and not _canonical_constant(i):
            yield _at(body, n), f"{i.immediate:#x} is not a canonical {i.dtype.name.lower()}"


def _canonical_constant(i: Instruction) -> bool:
    if i.dtype is DType.BOOL:
        return i.immediate <= 1
    if i.immediate >> 8 * min(4, i.dtype.size):
        return False
    if not i.dtype.is_float:
        return True
    infinity = {DType.FLOAT16: 0x7C00, DType.BFLOAT16: 0x7F80, DType.FLOAT32: 0x7F800000}[i.dtype]
    magnitude = i.immediate & (1 << 8 * i.dtype.size - 1) - 1
    return magnitude <= infinity or i.immediate == CANONICAL_NAN[i.dtype]


@rule(
    BODY_RULES,
    "store",
    "Output ranges cover the result: every element is written exactly once.",
    "Give the result as many elements as the output ranges count.",
)
def _store(body: Body) -> Iterator[Breach]:
    written, there = prod(body.output_ranges), body.parameters[0].elements
    if written != there:
        yield "", f"the output ranges write {written} elements of {there}"


@rule(BODY_RULES, "distinct", "No two instructions of a body are equal.", "Compute the value once and use it twice.")
def _distinct(body: Body) -> Iterator[Breach]:
    if len(set(body.instructions)) != len(body.instructions):
        seen: set[Instruction] = set()
        for n, i in enumerate(body.instructions):
            if i in seen:
                yield _at(body, n), "stands here a second time"
            seen.add(i)


@rule(BODY_RULES, "order", "Instructions stand in the order in which a walk from the stored value finishes them.")
def _order(body: Body) -> Iterator[Breach]:
    position = -1
    for position, number in enumerate(finishing_order(body)):
        if position != number:
            yield _at(body, position), f"the walk finishes instruction {number} here"
            return
    if position + 1 != len(body.instructions):
        yield "", "the stored value does not depend on every instruction"


@rule(BODY_RULES, "numbering", "Parameters, variables and reductions are numbered by first use; none is unused.")
def _numbering(body: Body) -> Iterator[Breach]:
    first = {Op.LOAD: (1, len(body.parameters), "parameter"), Op.VAR: (0, len(body.variables), "variable")}
    for op, (start, end, what) in first.items():
        used = dict.fromkeys(i.a for i in body.instructions if i.op is op)
        if list(used) != list(range(start, end)):
            yield "", f"{what}s are used in the order {list(used)}, not {list(range(start, end))}"
    named = [i.c for i in body.instructions if i.op in REDUCTIONS]
    if named != list(range(body.reductions)):
        yield "", f"reductions are used in the order {named}, not {list(range(body.reductions))}"
    owners = [r.reduction for r in body.reduce_ranges]
    if owners != sorted(owners) or set(owners) != set(named):
        yield "", f"reduce ranges belong to reductions {owners}; each has at least one, and they are grouped"
    for n, v in enumerate(body.variables):
        if not -(1 << 31) <= v.minimum <= v.maximum < 1 << 31:
            yield f"variable {n}", f"{v.minimum}…{v.maximum} is no interval of int32"


@rule(
    BODY_RULES,
    "nesting",
    "No reduction stands inside a reduction, and its ranges are counted only inside it.",
    "Store the inner reduction's result in a buffer of its own.",
)
def _nesting(body: Body) -> Iterator[Breach]:
    open_ = open_reductions(body)
    for n in reductions(body):
        if open_[n]:
            yield _at(body, n), f"depends on a range of reduction {open_[n].bit_length() - 1}"
    if open_[-1]:
        yield _at(body, len(open_) - 1), f"depends on a range of reduction {open_[-1].bit_length() - 1}, and is stored"


@rule(
    BODY_RULES,
    "extents",
    "The extent of a reduce range is made of constants and variables, and never negative.",
    "Loop to the largest extent, and choose the identity beyond the actual one.",
)
def _extents(body: Body) -> Iterator[Breach]:
    for r in dict.fromkeys(body.reduce_ranges):
        for n in below(body, r.extent):
            if body.instructions[n].op in (Op.RANGE, Op.LOAD) or body.instructions[n].op in REDUCTIONS:
                yield f"reduction {r.reduction}", f"its extent depends on {_at(body, n)}"
                return
    proof = bounds.prove(body)
    for r, (least, _) in zip(body.reduce_ranges, proof.extents, strict=True):
        if least < 0 and not proof.overflow:
            yield f"reduction {r.reduction}", f"its extent may be {least}"


@rule(BODY_RULES, "single-steps", "A loop of one step is not a loop.", "Use the constant 0, or the operation itself.")
def _single_steps(body: Body) -> Iterator[Breach]:
    outputs = len(body.output_ranges)
    one = [extent == 1 for extent in body.output_ranges]
    one += [_is_one(body.instructions[r.extent]) for r in body.reduce_ranges]
    for n, i in enumerate(body.instructions):
        if i.op is Op.RANGE and one[i.a]:
            yield _at(body, n), "counts a range of one step"
    for k in range(body.reductions):
        if all(one[outputs + n] for n, r in enumerate(body.reduce_ranges) if r.reduction == k):
            yield f"reduction {k}", "takes one step"


def _is_one(i: Instruction) -> bool:
    return i.op is Op.CONST and i.immediate == 1


@rule(
    BODY_RULES,
    "index",
    "Every index value is proven to lie within ±2⁶², for all ranges and variables.",
    "Bound the value first, with MIN and MAX or with a remainder.",
)
def _index(body: Body) -> Iterator[Breach]:
    if overflow := bounds.prove(body).overflow:
        number, (low, high) = overflow
        yield _at(body, number), f"may lie anywhere in {low}…{high}"


@rule(
    BODY_RULES,
    "bounds",
    "Every load is proven to stay inside its parameter wherever its guard holds.",
    "Guard the load with CMPLT(-1, element) and CMPLT(element, elements).",
)
def _bounds(body: Body) -> Iterator[Breach]:
    if outside := bounds.prove(body).outside:
        number, (low, high) = outside
        elements = body.parameters[body.instructions[number].a].elements
        yield _at(body, number), f"the element may lie anywhere in {low}…{high}, of {elements}"


@rule(
    BODY_RULES,
    "judgeable",
    "Judging one step, or one final expression, stays under the bounds on witness and gas.",
    "Store a part of the expression in a buffer of its own.",
)
def _judgeable(body: Body) -> Iterator[Breach]:
    for step in cost.body_cost(body).steps:
        if step.witness > limits.WITNESS or step.gas > limits.GAS:
            where = "final expression" if step.reduction is None else f"reduction {step.reduction}"
            yield (
                where,
                f"a witness of {step.witness} bytes and {step.gas} gas, at most {limits.WITNESS} and {limits.GAS}",
            )
