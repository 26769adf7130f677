"""Functions by others: what each is over the reals, and functions recognised in any of that.

No decomposition leads back to itself: the tests walk them all.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from math import log, log2, log10, pi, sqrt

from eigentensor.graph.node import Form, Node, Shape, leaf, node
from eigentensor.numerics.dtypes import DType
from eigentensor.planner.algebra import add, function, magnitude, multiply, negative, number, with_sign_of
from eigentensor.planner.normal import COMMUTATIVE
from eigentensor.program.ops import Op

_X = "what the function is of"


def _tanh_by_exp(x: Node) -> Node:
    """1 - 2/(e²ˣ + 1), which overflows on neither side"""
    inverse = node(Op.RECIPROCAL, add(function("exp", multiply(x, 2)), 1))
    return node(Op.SUB, number(x, 1), multiply(inverse, 2))


def _tanh_by_expm1(x: Node) -> Node:
    """-t/(t + 2) with t = e⁻²|ˣ| - 1, and the sign of x: exact to the last bits near zero"""
    t = function("expm1", multiply(magnitude(x), -2))
    return with_sign_of(x, node(Op.DIV, negative(t), add(t, 2)))


def _gelu_gate(x: Node) -> Node:
    cube = multiply(multiply(multiply(x, x), x), 0.044715)
    return multiply(add(x, cube), sqrt(2 / pi))


def _half_of_exps(x: Node, op: Op) -> Node:
    return multiply(node(op, function("exp", x), function("exp", negative(x))), 0.5)


def _softplus(x: Node) -> Node:
    """max(x, 0) + log(1 + e⁻|ˣ|)"""
    rest = function("log1p", function("exp", negative(magnitude(x))))
    return add(node(Op.MAX, x, number(x, 0)), rest)


#: By the name of a function, what a decomposition is called, and what it is.
DECOMPOSITIONS: dict[str, dict[str, Callable[[Node], Node]]] = {
    "tanh": {
        "tanh by exp": _tanh_by_exp,
        "tanh by expm1": _tanh_by_expm1,
        "tanh by sigmoid": lambda x: add(multiply(function("sigmoid", multiply(x, 2)), 2), -1),
    },
    "sigmoid": {"sigmoid by exp": lambda x: node(Op.RECIPROCAL, add(function("exp", negative(x)), 1))},
    "silu": {"silu by sigmoid": lambda x: multiply(x, function("sigmoid", x))},
    "gelu": {"gelu by erf": lambda x: multiply(multiply(x, 0.5), add(function("erf", multiply(x, sqrt(0.5))), 1))},
    "gelu_tanh": {
        "gelu by tanh": lambda x: multiply(multiply(x, 0.5), add(function("tanh", _gelu_gate(x)), 1)),
        "gelu by sigmoid": lambda x: multiply(x, function("sigmoid", multiply(_gelu_gate(x), 2))),
    },
    "mish": {"mish by tanh": lambda x: multiply(x, function("tanh", function("softplus", x)))},
    "softplus": {"softplus by log1p": _softplus},
    "expm1": {"expm1 by exp": lambda x: add(function("exp", x), -1)},
    "log1p": {"log1p by log": lambda x: function("log", add(x, 1))},
    "exp": {"exp by exp2": lambda x: function("exp2", multiply(x, log2(2.718281828459045)))},
    "log": {"log by log2": lambda x: multiply(function("log2", x), log(2))},
    "log10": {"log10 by log2": lambda x: multiply(function("log2", x), log10(2))},
    "sinh": {"sinh by exp": lambda x: _half_of_exps(x, Op.SUB)},
    "cosh": {"cosh by exp": lambda x: _half_of_exps(x, Op.ADD)},
    "tan": {"tan by sin and cos": lambda x: node(Op.DIV, function("sin", x), function("cos", x))},
    "atanh": {
        "atanh by log1p": lambda x: multiply(node(Op.SUB, function("log1p", x), function("log1p", negative(x))), 0.5)
    },
}


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
        for binding in _bindings(patterns[0], src[0], x):
            yield from _all_bindings(patterns[1:], src[1:], binding)
