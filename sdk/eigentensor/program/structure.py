"""The shape of a body: who is evaluated below which reduction, and in which order instructions stand."""

from collections.abc import Iterable, Iterator

from eigentensor.program.model import Body, Instruction
from eigentensor.program.ops import REDUCTIONS, Op


def extents_of(body: Body, reduction: int) -> tuple[int, ...]:
    """The instructions that compute the trip counts of a reduction's ranges, outermost first."""
    return tuple(r.extent for r in body.reduce_ranges if r.reduction == reduction)


def operands(body: Body, i: Instruction) -> tuple[int, ...]:
    """Instructions that one depends on, in the order in which a walk visits them."""
    return (*extents_of(body, i.c), *i.values) if i.op in REDUCTIONS else i.values


def finishing_order(body: Body) -> Iterator[int]:
    """The instructions that the last one depends on, in the order in which a depth-first walk first finishes them."""
    seen = [False] * len(body.instructions)
    stack = [len(body.instructions) - 1]
    while stack:
        current = stack.pop()
        if current < 0:
            yield ~current
        elif not seen[current]:
            seen[current] = True
            stack.append(~current)
            stack.extend(i for i in reversed(operands(body, body.instructions[current])) if not seen[i])


def open_reductions(body: Body) -> list[int]:
    """For each instruction the set, as bits, of the reductions whose ranges its value depends on.

    A REDUCE closes its own; what it leaves open is a reduction around it.
    """
    outputs = len(body.output_ranges)
    result: list[int] = []
    for i in body.instructions:
        bits = 0
        for value in operands(body, i):
            bits |= result[value]
        if i.op is Op.RANGE and i.a >= outputs:
            bits |= 1 << body.reduce_ranges[i.a - outputs].reduction
        if i.op in REDUCTIONS:
            bits &= ~(1 << i.c)
        result.append(bits)
    return result


def reductions(body: Body) -> list[int]:
    """The REDUCE instructions by the number of their reduction."""
    return [n for n, i in enumerate(body.instructions) if i.op in REDUCTIONS]


def cone(body: Body, roots: Iterable[int]) -> list[int]:
    """What is evaluated for the roots, down to results of other reductions, ascending."""
    numbers: set[int] = set()
    stack = list(roots)
    while stack:
        current = stack.pop()
        if current not in numbers:
            numbers.add(current)
            instruction = body.instructions[current]
            if instruction.op not in REDUCTIONS:
                stack.extend(instruction.values)
    return sorted(numbers)


def below(body: Body, root: int) -> list[int]:
    """The instructions that one depends on, trip counts and the instruction itself included, ascending."""
    numbers, stack = set[int](), [root]
    while stack:
        current = stack.pop()
        if current not in numbers:
            numbers.add(current)
            stack.extend(operands(body, body.instructions[current]))
    return sorted(numbers)
