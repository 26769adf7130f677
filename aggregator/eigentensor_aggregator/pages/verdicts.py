"""The scalar operation that a referee computed: its operands, what is claimed, what comes out, and their bits. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from eigentensor.chain.transcript import Value, typed
from eigentensor.dispute.judged import Judged
from eigentensor.dispute.position import FINAL
from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Body, Instruction
from eigentensor.program.ops import REDUCTIONS, Op
from eigentensor.program.structure import reductions
from eigentensor.program.text import body_listing

MOST = 48  #: instructions that are shown
#: Bits of sign, exponent and fraction.
_FIELDS = {DType.FLOAT16: (1, 5, 10), DType.BFLOAT16: (1, 8, 7), DType.FLOAT32: (1, 8, 23)}
_SCALAR = {
    Op.REDUCE_MULACC: "accumulator + {} · {}, rounded once",
    Op.REDUCE_ADD: "accumulator + {}",
    Op.REDUCE_MUL: "accumulator · {}",
    Op.REDUCE_MAX: "the larger of accumulator and {}",
    Op.REDUCE_MIN: "the smaller of accumulator and {}",
}
_SIGNS = {
    Op.ADD: "{} + {}", Op.SUB: "{} − {}", Op.MUL: "{} · {}", Op.DIV: "{} ÷ {}", Op.MULACC: "{} · {} + {}, rounded once",
    Op.LOAD: "the element at {}", Op.CMPLT: "{} < {}", Op.WHERE: "where {} then {} else {}",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Bit:
    """A binary digit, and whether the two values differ there."""

    digit: str
    differs: bool


@dataclass(frozen=True, slots=True)
class Side:
    """One of two values: its bits in the groups that its type has, the highest first."""

    value: Value
    fields: tuple[tuple[Bit, ...], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """An instruction that was evaluated: its number, its text, and what it comes to."""

    number: int
    text: str
    value: Value


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a referee found. `operation` is the last one in words, `operands` are values that it takes; `lines` are the
    instructions that lead to it, the last `MOST` of those that compute no index; `hidden` others are left out."""

    call: int
    where: str
    operation: str
    operands: tuple[tuple[str, Value], ...]
    claimed: Side
    computed: Side
    lines: tuple[Line, ...]
    hidden: int

    @property
    def is_wrong(self) -> bool:
        """Whether the claim is another one than what is computed."""
        return self.claimed.value["bits"] != self.computed.value["bits"]

    @property
    def differing(self) -> int:
        """In how many bits they differ."""
        return sum(bit.differs for field in self.claimed.fields for bit in field)


def verdict(judged: Judged) -> Verdict:
    """What a step came to, for people."""
    p, body, dtype = judged.position, judged.body, judged.dtype
    lines = [line for line in _lines(body, judged) if line.value["dtype"] != "index"][-MOST:]
    operation, operands = _final(body, judged) if p.reduction == FINAL else _step(body, judged)
    step = "the final expression" if p.reduction == FINAL else f"reduction {p.reduction}, step {p.low:,}"
    return Verdict(
        p.number,
        f"call {p.number:,}, element {p.element:,}, {step}",
        operation,
        operands,
        _side(dtype, p.high_value, judged.computed),
        _side(dtype, judged.computed, p.high_value),
        tuple(lines),
        len(judged.values) - len(lines),
    )


def _step(body: Body, judged: Judged) -> tuple[str, tuple[tuple[str, Value], ...]]:
    p = judged.position
    reduction = body.instructions[reductions(body)[p.reduction]]
    words = _SCALAR[reduction.op].format(*(f"value {n}" for n in reduction.values))
    before = f"accumulator after {p.low:,} steps", typed(judged.dtype, p.low_value)
    return words, (before, *((f"value {n}", _value(body, judged, n)) for n in reduction.values))


def _final(body: Body, judged: Judged) -> tuple[str, tuple[tuple[str, Value], ...]]:
    last = body.instructions[-1]
    return _name(last), tuple((f"value {n}", _value(body, judged, n)) for n in _operands(last) if n in judged.values)


def _operands(i: Instruction) -> tuple[int, ...]:
    return () if i.op in REDUCTIONS else i.values


def _name(i: Instruction) -> str:
    """What an instruction does with the values that it takes."""
    if i.op in REDUCTIONS:
        return "the result of a reduction, as it is"
    words = [f"value {n}" for n in _operands(i)]
    if i.op in _SIGNS:
        return _SIGNS[i.op].format(*words)
    return f"{i.op.name.lower()} of {', '.join(words)}" if words else i.op.name.lower()


def _lines(body: Body, judged: Judged) -> Iterator[Line]:
    _, *texts = body_listing(body)
    for number in sorted(judged.values):
        yield Line(number, texts[number].split(maxsplit=2)[2], _value(body, judged, number))


def _value(body: Body, judged: Judged, number: int) -> Value:
    return typed(body.instructions[number].dtype, judged.values[number])


def _side(dtype: DType, pattern: int, other: int) -> Side:
    digits, others = (f"{value:0{8 * dtype.size}b}" for value in (pattern, other))
    bits = [Bit(digit, digit != against) for digit, against in zip(digits, others, strict=True)]
    fields, start = list[tuple[Bit, ...]](), 0
    for width in _FIELDS.get(dtype, (8,) * dtype.size):
        fields.append(tuple(bits[start : start + width]))
        start += width
    return Side(typed(dtype, pattern), tuple(fields))
