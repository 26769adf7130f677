"""Rules of simplification for arithmetic: operations that change no bit go, those of constants are done now."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.graph.lower import elementwise
from eigentensor.graph.node import Form, Node, constant, node
from eigentensor.graph.rules import rule
from eigentensor.lowering import functions
from eigentensor.lowering.constants import argument
from eigentensor.numerics.conversion import bitcast, cast
from eigentensor.numerics.floats import canonical, patterns
from eigentensor.numerics.operations import OPERATIONS, from_pattern, identity
from eigentensor.program import expression
from eigentensor.program.ops import ARITY, REDUCTIONS, DType, Op

_ELEMENTWISE = tuple(op for op in Op if op not in REDUCTIONS and ARITY.get(op, 0) and op is not Op.LOAD)
#: Operations that a constant on the right leaves without effect: the constant of integers and bools.
_NEUTRAL = {
    Op.ADD: 0, Op.SUB: 0, Op.MUL: 1, Op.FLOORDIV: 1, Op.CDIV: 1, Op.OR: 0, Op.XOR: 0, Op.SHL: 0, Op.SHR: 0, Op.AND: -1,
}  # fmt: skip
_COMMUTATIVE = (Op.ADD, Op.MUL, Op.OR, Op.XOR, Op.AND, Op.MAX, Op.MIN)
_SAME = (Op.MAX, Op.MIN, Op.AND, Op.OR)


def _constant(n: Node) -> int | None:
    """The bits or the integer that all elements are."""
    return n.arg if n.op is Op.CONST else None


def _pattern(dtype: DType, value: float) -> int:
    return int(patterns(dtype, cast(DType.FLOAT32, dtype, np.array(value, np.float32))))


def _neutral(op: Op, dtype: DType) -> int | None:
    """The constant c with x op c = x, for every x."""
    if op in (Op.MAX, Op.MIN):
        return _as_argument(dtype, identity(op.name, dtype))
    if dtype.is_float:
        # x + 0 is no x where x is -0
        zeros = {Op.ADD: -0.0, Op.SUB: 0.0}
        value = zeros.get(op, 1.0 if op in (Op.MUL, Op.DIV) else None)
        return None if value is None else _pattern(dtype, value)
    if op is Op.AND and not dtype.is_signed:
        return 1 if dtype is DType.BOOL else (1 << 8 * dtype.size) - 1
    return None if dtype is DType.BOOL and op in (Op.ADD, Op.SUB) else _NEUTRAL.get(op)


@rule(*_NEUTRAL, Op.DIV, Op.MAX, Op.MIN)
def neutral_operand(n: Node) -> Node | None:
    """x + 0, x · 1 and their like are x, for every bit of x: of floats only with the zero that keeps −0."""
    neutral = _neutral(n.op, n.dtype)  # type: ignore[arg-type]
    if neutral is None:
        return None
    a, b = n.src
    if _constant(b) == neutral:
        return a
    return b if n.op in _COMMUTATIVE and _constant(a) == neutral else None


@rule(Op.MUL, Op.AND)
def product_with_zero(n: Node) -> Node | None:
    """Of floats it may be -0, or NaN."""
    if n.dtype.is_float:
        return None
    return constant(n.dtype, 0, n.shape) if 0 in map(_constant, n.src) else None


@rule(Op.MUL)
def negative_of_negative(n: Node) -> Node | None:
    """−(−x) is x: of floats each changes the sign alone, and integers wrap back."""
    minus = _pattern(n.dtype, -1) if n.dtype.is_float else -1
    x, factor = n.src
    is_twice = x.op is Op.MUL and _constant(factor) == minus and _constant(x.src[1]) == minus
    return x.src[0] if is_twice and n.dtype is not DType.BOOL else None


@rule(Op.ADD, Op.MUL)
def constants_of_integers(n: Node) -> Node | None:
    """x + 1 + 2 is x + 3: integers wrap, so the order is free."""
    x, last = n.src
    if not n.dtype.is_integer or x.op is not n.op or last.op is not Op.CONST or x.src[1].op is not Op.CONST:
        return None
    return node(n.op, x.src[0], node(n.op, x.src[1], last))


@rule(Op.CMPNE)
def negated_comparison(n: Node) -> Node | None:
    """Not unequal is equal, of NaN too."""
    x, true = n.src
    # CMPLT is not here: neither x < y nor y ≤ x holds of NaN
    opposite = {Op.CMPNE: Op.CMPEQ, Op.CMPEQ: Op.CMPNE}.get(x.op)  # type: ignore[arg-type]
    return node(opposite, *x.src) if opposite and true.op is Op.CONST and true.arg == 1 else None


@rule(*_SAME)
def same_operands(n: Node) -> Node | None:
    """The larger of x and x, and their like, is x."""
    return n.src[0] if n.src[0] is n.src[1] else None


@rule(Op.WHERE)
def choice_of_same(n: Node) -> Node | None:
    """x, whatever the condition says."""
    return n.src[1] if n.src[1] is n.src[2] else None


@rule(Op.WHERE)
def choice_by_constant(n: Node) -> Node | None:
    """The branch that a condition known now takes."""
    return n.src[1 if n.src[0].arg else 2] if n.src[0].op is Op.CONST else None


@rule(Op.CAST, Op.BITCAST)
def cast_to_own_type(n: Node) -> Node | None:
    """Gone: no bit changes."""
    return n.src[0] if n.dtype is n.src[0].dtype else None


@rule(Op.CAST)
def cast_there_and_back(n: Node) -> Node | None:
    """Through a type that holds every value of the first."""
    (x,) = n.src
    if x.op is not Op.CAST or x.src[0].dtype is not n.dtype:
        return None
    return x.src[0] if _holds(x.dtype, n.dtype) else None


def _holds(wide: DType, narrow: DType) -> bool:
    if narrow is DType.BOOL:
        return True
    if narrow.is_float:
        return wide is DType.FLOAT32
    return wide.is_integer and wide.size >= narrow.size


@rule(Op.BITCAST)
def bits_there_and_back(n: Node) -> Node | None:
    """Of a float; an integer may come back as the one pattern of NaN."""
    (x,) = n.src
    return x.src[0] if x.op is Op.BITCAST and x.src[0].dtype is n.dtype and n.dtype.is_float else None


@rule(Op.REDUCE_MAX, Op.REDUCE_MIN)
def extreme_of_constant(n: Node) -> Node | None:
    """The largest of equal elements is one of them, if there are any."""
    (x,) = n.src
    return constant(n.dtype, x.arg, n.shape) if x.op is Op.CONST and x.elements else None


@rule(Op.REDUCE_ADD)
def sum_of_constant(n: Node) -> Node | None:
    """Of integers, which wrap."""
    (x,) = n.src
    if x.op is not Op.CONST or not n.dtype.is_integer or not n.elements:
        return None
    return constant(n.dtype, argument(n.dtype, x.arg * (x.elements // n.elements)), n.shape)


@rule(*_ELEMENTWISE, Form.FUNCTION)
def arithmetic_of_constants(n: Node) -> Node | None:
    """Done with the numerics of the format."""
    if any(s.op is not Op.CONST for s in n.src) or not n.elements:
        return None
    values = [expression.const(s.dtype, s.arg) for s in n.src]
    if isinstance(n.op, Form):
        value = getattr(functions, n.arg)(*values)
    else:
        value = elementwise(n.op, n.dtype, values)
    return constant(n.dtype, _evaluated(value), n.shape)


def _evaluated(value: expression.Node) -> int:
    """What an expression without loads and loops is, as the argument of a constant."""
    known: dict[expression.Node, NDArray[Any]] = {}
    for n in expression.walk(value):
        operands = [known[s] for s in n.src]
        if n.op is Op.CONST:
            known[n] = from_pattern(n.dtype, n.arg & (1 << 8 * n.dtype.size) - 1)
        elif n.op in (Op.CAST, Op.BITCAST):
            known[n] = (cast if n.op is Op.CAST else bitcast)(n.src[0].dtype, n.dtype, *operands)
        else:
            known[n] = np.asarray(OPERATIONS[n.op.name](n.src[-1].dtype, *operands))
    return _as_argument(value.dtype, known[value])


def _as_argument(dtype: DType, value: NDArray[Any]) -> int:
    return int(patterns(dtype, canonical(dtype, value))) if dtype.is_float else int(value)
