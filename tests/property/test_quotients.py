"""Quotients and remainders of indices by sums of variables, against every value that is possible."""

from itertools import product
from typing import Any

from hypothesis import given, reject, settings
from hypothesis import strategies as st

from eigentensor.lowering.indices import divided
from eigentensor.lowering.kernel import add, fresh_axis, index, scaled
from eigentensor.program.expression import Named, Node, binary, counter, node, walk
from eigentensor.program.model import Bounds
from eigentensor.program.ops import DType, Op

DIVISIONS = (Op.FLOORDIV, Op.FLOORMOD)


def variable(name: str, low: int, high: int) -> Node:
    return node(Op.VAR, DType.INDEX, arg=Named(name, Bounds(low, high)))


def value(of: Node, at: dict[Node, int]) -> int:
    """What an index is where counters and variables have these values."""
    known: dict[Node, int] = dict(at)
    for n in walk(of):
        if n not in known:
            a, b = ([known[s] for s in n.src] + [0, 0])[:2]
            known[n] = int(n.arg) if n.op is Op.CONST else {Op.ADD: a + b, Op.SUB: a - b, Op.MUL: a * b}[n.op]
    return known[of]


@st.composite
def divisions(draw: st.DrawFn) -> tuple[Node, Node, dict[Node, Node], list[tuple[Node, int, int]]]:
    """(dividend, divisor, extents of counters, variables with their bounds), sums of few products each."""
    small = st.integers(-3, 3)
    names = [(name, low := draw(st.integers(0, 3)), low + draw(st.integers(0, 2))) for name in ("n", "m")]
    bounded = [(variable(*name), *name[1:]) for name in names]
    n, m = (of for of, *_ in bounded)
    by = add(scaled(n, draw(st.integers(1, 3))), index(draw(st.integers(0, 3))))
    i, j = (counter(fresh_axis(extent)) for extent in (3, 20))
    extents = {i: index(3), j: add(by, index(draw(st.sampled_from((0, 0, 0, -1, 1)))))}
    atoms = [i, j, n, m, index(1), binary(Op.MUL, i, n), binary(Op.MUL, m, n), binary(Op.MUL, i, m)]
    whole = binary(Op.MUL, draw(st.sampled_from([i, m, binary(Op.MUL, i, m), index(2)])), by)
    of = add(whole, draw(st.sampled_from([j, index(0), binary(Op.SUB, add(by, index(-1)), j)])))
    for atom in draw(st.lists(st.sampled_from(atoms), max_size=2)):
        of = add(of, scaled(atom, draw(small)))
    return of, by, extents, bounded


@settings(max_examples=50)
@given(divisions())
def test_what_is_found_is_quotient_and_remainder_everywhere(of: Any) -> None:
    dividend, by, extents, variables = of
    parts = divided(dividend, by, extents)
    if parts is None:
        reject()
    assert not any(n.op in DIVISIONS for part in parts for n in walk(part))
    for bound in product(*(range(low, high + 1) for _, low, high in variables)):
        known = {n: v for (n, *_), v in zip(variables, bound, strict=True)}
        for at in product(*(range(value(extent, known)) for extent in extents.values())):
            here = known | dict(zip(extents, at, strict=True))
            assert tuple(value(part, here) for part in parts) == divmod(value(dividend, here), value(by, here))


def test_indices_of_reshaped_scores_are_divided() -> None:
    position, head, place = variable("position", 0, 1023), counter(fresh_axis(8)), counter(fresh_axis(1024))
    length = add(position, index(1))
    element = add(add(binary(Op.MUL, head, position), head), place)  # multiplied out, as tinygrad does
    extents = {head: index(8), place: length}
    assert divided(element, length, extents) == (head, place)
    assert divided(add(element, index(1)), length, extents) is None
    assert divided(element, position, extents) is None
