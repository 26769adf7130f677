"""Conditions as conjunctions of facts: what a guard says about the integers that it compares."""

from collections.abc import Iterable, Sequence

from eigentensor.program.forms import Fact, Form, at_most
from eigentensor.program.model import Instruction
from eigentensor.program.ops import COMPARISONS, DType, Op

#: Of a condition's facts so many are used, the first ones.
FACTS = 64


def facts_of(
    instructions: Sequence[Instruction], forms: Sequence[Form[int]], condition: int, holds: bool
) -> list[Fact]:
    """What is known where a bool value is true (or false)."""
    facts: list[Fact] = []
    stack = [(condition, holds)]
    for _ in range(8 * FACTS):
        if not stack or len(facts) >= FACTS:
            break
        n, true = stack.pop()
        i = instructions[n]
        if i.op in ((Op.AND, Op.MUL, Op.MIN) if true else (Op.OR, Op.ADD, Op.MAX)):
            stack.extend((value, true) for value in reversed(i.values))
        elif i.op is Op.XOR or i.op in COMPARISONS:
            if instructions[i.a].dtype is DType.BOOL:
                stack.extend(_negation(instructions, i, true))
            elif not instructions[i.a].dtype.is_float:
                facts += _comparison(i.op, forms[i.a], forms[i.b], true)
    return facts


def _comparison(op: Op, a: Form[int], b: Form[int], true: bool) -> list[Fact]:
    if op is Op.CMPLT:
        return at_most(a.plus(b, -1), -1) if true else at_most(b.plus(a, -1), 0)
    if op is (Op.CMPEQ if true else Op.CMPNE):
        return at_most(a.plus(b, -1), 0) + at_most(b.plus(a, -1), 0)
    return []


def _negation(instructions: Sequence[Instruction], i: Instruction, true: bool) -> Iterable[tuple[int, bool]]:
    """A comparison of a bool with a constant says that the bool holds, or that it does not."""
    for constant, other in ((i.a, i.b), (i.b, i.a)):
        if instructions[constant].op is Op.CONST:
            value = instructions[constant].immediate
            if i.op is Op.CMPLT:  # false < x: x holds; x < true: it does not
                return [(other, not value)] if true and constant == (i.b if value else i.a) else []
            return [(other, true == (bool(value) == (i.op is Op.CMPEQ)))]
    return []
