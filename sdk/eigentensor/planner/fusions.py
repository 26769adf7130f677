"""Functions found again in what they are made of: any decomposition, matched against a graph."""

from collections.abc import Iterator
from functools import lru_cache

from eigentensor.graph.node import Form, Node, Shape, leaf, node
from eigentensor.numerics.dtypes import DType
from eigentensor.planner.decompositions import DECOMPOSITIONS
from eigentensor.planner.normal import COMMUTATIVE
from eigentensor.program.ops import Op

_X = "what the function is of"


def fused(n: Node) -> Iterator[Node]:
    """x·sigmoid(x) → silu(x), and so on"""
    if n.dtype.is_float:
        for name, pattern in _patterns(n.op, n.dtype, n.shape):
            x = _matched(pattern, n)
            if x is not None:
                yield node(Form.FUNCTION, x, arg=name)


@lru_cache(maxsize=1024)
def _patterns(op: Op | Form, dtype: DType, shape: Shape) -> list[tuple[str, Node]]:
    """The decompositions that end in an operation."""
    x = leaf(Form.INPUT, _X, dtype, shape)
    made = [(name, make(x)) for name, ways in DECOMPOSITIONS.items() for make in ways.values()]
    return [(name, pattern) for name, pattern in made if pattern.op is op]


def _matched(pattern: Node, n: Node) -> Node | None:
    """What stands in a tensor where x stands in the pattern; None if the two are not alike."""
    return next((x for x in _bindings(pattern, n, None) if x is not None), None)


def _bindings(pattern: Node, n: Node, x: Node | None) -> Iterator[Node | None]:
    """All that x can be if the pattern is to be the tensor, or None if it does not occur; nothing if it cannot be."""
    if pattern.op is Form.INPUT:
        if x is None or x is n:
            yield n
    elif (pattern.op, pattern.arg, pattern.dtype, len(pattern.src)) == (n.op, n.arg, n.dtype, len(n.src)):
        if not pattern.src:
            yield x
        orders = [n.src, n.src[::-1]] if n.op in COMMUTATIVE else [n.src]
        for src in orders if pattern.src else ():
            yield from _all_bindings(pattern.src, src, x)


def _all_bindings(patterns: tuple[Node, ...], src: tuple[Node, ...], x: Node | None) -> Iterator[Node | None]:
    if not patterns:
        yield x
    else:
        for found in _bindings(patterns[0], src[0], x):
            yield from _all_bindings(patterns[1:], src[1:], found)
