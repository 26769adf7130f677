"""Rules about what lies in memory: what is stored before it is used, and in which type."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from eigentensor.graph.node import Form, Node, leaf, node, walk
from eigentensor.numerics.conversion import cast
from eigentensor.numerics.dtypes import DType
from eigentensor.planner.algebra import substituted, unmoved
from eigentensor.program.ops import Op

HALVES = (DType.FLOAT16, DType.BFLOAT16)
LARGE = 1024  #: elements of a tensor that is worth storing in halves


def store(n: Node) -> Iterator[Node]:
    """A function, a quotient or a sum is computed and stored by itself, apart from all that use it"""
    if n.op in (Form.FUNCTION, Op.DIV, Op.REDUCE_ADD):
        yield node(Form.CONTIGUOUS, n)


def compute_again(n: Node) -> Iterator[Node]:
    """What is stored is computed where it is used instead"""
    if n.op is Form.CONTIGUOUS:
        yield n.src[0]


def _weight_in(half: DType) -> Callable[[Node], Iterator[Node]]:
    """A weight is rounded to a half type beforehand, and computed with in float32"""

    def rule(n: Node) -> Iterator[Node]:
        if n.op is Form.WEIGHT and n.dtype is DType.FLOAT32 and n.elements >= LARGE:
            yield node(Op.CAST, leaf(Form.WEIGHT, half_name(n.arg, half), half, n.shape), arg=DType.FLOAT32)

    return rule


def _factor_in(half: DType) -> Callable[[Node], Iterator[Node]]:
    """A factor of a sum of products is stored in a half type; products and sum stay float32"""

    def rule(n: Node) -> Iterator[Node]:
        if n.op is not Op.REDUCE_ADD or n.dtype is not DType.FLOAT32 or n.src[0].op is not Op.MUL:
            return
        for number, factor in enumerate(factors := n.src[0].src):
            x = unmoved(factor)
            if x.op not in (Op.CAST, Op.CONST, Form.WEIGHT) and x.elements >= LARGE:
                stored = node(Form.CONTIGUOUS, node(Op.CAST, x, arg=half))
                narrow = substituted(factor, x, node(Op.CAST, stored, arg=DType.FLOAT32))
                pair = (narrow, factors[1]) if number == 0 else (factors[0], narrow)
                yield node(Op.REDUCE_ADD, node(Op.MUL, *pair), *n.src[1:], arg=n.arg)

    return rule


def half_name(name: str, half: DType) -> str:
    """The name of a weight's copy in a half type."""
    return f"{name}.{half.name.lower()}"


def rounded_weights(roots: tuple[Node, ...], data: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]] | None:
    """The data with those weights in halves that the roots have; None if the author did not give what they are of."""
    arrays = dict(data)
    for n in walk(*roots):
        if n.op is Form.WEIGHT and n.arg not in arrays and n.dtype in HALVES:
            of = n.arg.removesuffix(half_name("", n.dtype))
            if of == n.arg:  # no copy: it is in halves itself
                continue
            if of not in arrays:
                return None
            arrays[n.arg] = cast(DType.FLOAT32, n.dtype, arrays[of])
    return arrays


#: Rules that round what others keep exact, with the type that they round to.
LOSSY = {
    **{f"weight in {half.name.lower()}": _weight_in(half) for half in HALVES},
    **{f"factor in {half.name.lower()}": _factor_in(half) for half in HALVES},
}
STORAGE_RULES = {"store": store, "compute again": compute_again, **LOSSY}
