"""Each rule of simplification fires where it should, and not where it would change a bit."""

import pytest

from eigentensor.graph.lower import lower
from eigentensor.graph.node import Form, Graph, Node, constant, counter, data, leaf, node, walk
from eigentensor.graph.rules import RULES
from eigentensor.graph.simplify import simplified
from eigentensor.lowering.constants import float_pattern
from eigentensor.program.ops import DType, Op

F32, I32, BOOL = DType.FLOAT32, DType.INT32, DType.BOOL
X, ROW = leaf(Form.INPUT, "x", F32, (2, 3)), leaf(Form.INPUT, "row", F32, (1, 3))
K, B, H = (leaf(Form.INPUT, name, dtype, (2, 3)) for name, dtype in (("k", I32), ("b", BOOL), ("h", DType.FLOAT16)))


def real(value: float, shape: tuple[int, ...] = (2, 3)) -> Node:
    return constant(F32, float_pattern(F32, value), shape)


def whole(value: int, shape: tuple[int, ...] = (2, 3)) -> Node:
    return constant(I32, value, shape)


def reshape(x: Node, *shape: int) -> Node:
    return node(Form.RESHAPE, x, arg=shape)


ROWS = node(Form.EXPAND, ROW, arg=(2, 3))


def counted(count: int, value: int, dtype: DType = I32) -> Node:
    """value, 2·value, …: the sums of all spans of a padded constant, as tinygrad writes them."""
    number = float_pattern(dtype, value) if dtype.is_float else value
    padded = node(Form.PAD, constant(dtype, number, (count,)), arg=((count - 1, 0),))
    size = 2 * count - 1
    again = reshape(node(Form.EXPAND, reshape(padded, 1, size), arg=(count + 1, size)), (count + 1) * size)
    spans = reshape(node(Form.SHRINK, again, arg=((0, count * (size + 1)),)), count, size + 1)
    return node(Op.REDUCE_ADD, node(Form.SHRINK, spans, arg=((0, count), (0, count))), arg=(1,))


def arithmetic(count: int, value: int) -> Node:
    numbers = node(Op.ADD, counter((count,), 0), whole(1, (count,)))
    return node(Op.MUL, numbers, whole(value, (count,)))


#: For each rule a node that it simplifies, and what that becomes.
CASES: dict[str, list[tuple[Node, Node]]] = {
    "reshape_of_reshape": [(reshape(reshape(X, 6), 3, 2), reshape(X, 3, 2))],
    "permute_of_permute": [
        (
            node(Form.PERMUTE, node(Form.PERMUTE, reshape(X, 1, 2, 3), arg=(2, 0, 1)), arg=(2, 1, 0)),
            node(Form.PERMUTE, reshape(X, 1, 2, 3), arg=(1, 0, 2)),
        )
    ],
    "expand_of_expand": [
        (
            node(Form.EXPAND, node(Form.EXPAND, reshape(ROW, 1, 1, 3), arg=(1, 4, 3)), arg=(5, 4, 3)),
            node(Form.EXPAND, reshape(ROW, 1, 1, 3), arg=(5, 4, 3)),
        )
    ],
    "shrink_of_shrink": [
        (
            node(Form.SHRINK, node(Form.SHRINK, X, arg=((0, 2), (1, 3))), arg=((1, 2), (1, 2))),
            node(Form.SHRINK, X, arg=((1, 2), (2, 3))),
        )
    ],
    "pad_of_pad": [
        (
            node(Form.PAD, node(Form.PAD, X, arg=((1, 0), (0, 2))), arg=((0, 3), (1, 0))),
            node(Form.PAD, X, arg=((1, 3), (1, 2))),
        )
    ],
    "flip_of_flip": [(node(Form.FLIP, node(Form.FLIP, X, arg=(0, 1)), arg=(1,)), node(Form.FLIP, X, arg=(0,)))],
    "move_of_nothing": [
        (reshape(X, 2, 3), X),
        (node(Form.PERMUTE, X, arg=(0, 1)), X),
        (node(Form.FLIP, ROW, arg=(0,)), ROW),
        (node(Form.PAD, X, arg=((0, 0), (0, 0))), X),
        (node(Form.SHRINK, X, arg=((0, 2), (0, 3))), X),
        (node(Form.EXPAND, X, arg=(2, 3)), X),
    ],
    "shrink_of_pad": [
        (node(Form.SHRINK, node(Form.PAD, X, arg=((1, 1), (2, 0))), arg=((1, 3), (2, 5))), X),
        (
            node(Form.SHRINK, node(Form.PAD, X, arg=((1, 1), (2, 0))), arg=((0, 2), (3, 5))),
            node(Form.PAD, node(Form.SHRINK, X, arg=((0, 1), (1, 3))), arg=((1, 0), (0, 0))),
        ),
    ],
    "shrink_of_expand": [
        (
            node(Form.SHRINK, node(Form.EXPAND, ROW, arg=(4, 3)), arg=((1, 3), (1, 2))),
            node(Form.EXPAND, node(Form.SHRINK, ROW, arg=((0, 1), (1, 2))), arg=(2, 1)),
        )
    ],
    "move_of_constant": [
        (node(Form.FLIP, reshape(real(2.0), 6), arg=(0,)), real(2.0, (6,))),
        (node(Form.PAD, real(0.0), arg=((1, 0), (0, 0))), real(0.0, (3, 3))),
    ],
    "reshape_of_data": [(reshape(data(DType.UINT8, (4,), b"1234"), 2, 2), data(DType.UINT8, (2, 2), b"1234"))],
    "move_of_counter": [
        (node(Form.EXPAND, reshape(counter((3,), 0), 1, 3), arg=(2, 3)), counter((2, 3), 1)),
        (node(Form.PERMUTE, counter((2, 3), 1), arg=(1, 0)), counter((3, 2), 0)),
        (
            node(Form.SHRINK, counter((4,), 0), arg=((1, 3),)),
            node(Op.ADD, counter((2,), 0), whole(1, (2,))),
        ),
    ],
    "counter_of_one": [(counter((1, 3), 0), whole(0, (1, 3)))],
    "gather_of_known_rows": [
        (node(Form.GATHER, X, counter((1,), 0)), node(Form.SHRINK, X, arg=((0, 1), (0, 3)))),
        (node(Form.GATHER, X, counter((2,), 0)), X),
        (node(Form.GATHER, X, whole(2, (5,))), real(0.0, (5, 3))),
        (
            node(Form.GATHER, X, whole(1, (5,))),
            node(Form.EXPAND, node(Form.SHRINK, X, arg=((1, 2), (0, 3))), arg=(5, 3)),
        ),
    ],
    "copy_of_stored": [
        (node(Form.CONTIGUOUS, X), X),
        (node(Form.CONTIGUOUS, node(Form.CONTIGUOUS, node(Op.SQRT, X))), node(Form.CONTIGUOUS, node(Op.SQRT, X))),
    ],
    "rounding_of_rounded": [
        (node(Form.ROUNDED, X), X),
        (node(Form.ROUNDED, node(Form.ROUNDED, node(Op.SQRT, X))), node(Form.ROUNDED, node(Op.SQRT, X))),
    ],
    "reduction_of_one_step": [(node(Op.REDUCE_ADD, ROW, arg=(0,)), reshape(ROW, 3))],
    "reduction_of_reduction": [
        (node(Op.REDUCE_MAX, node(Op.REDUCE_MAX, X, arg=(0,)), arg=(0,)), node(Op.REDUCE_MAX, X, arg=(0, 1))),
        (node(Op.REDUCE_ADD, node(Op.REDUCE_ADD, K, arg=(1,)), arg=(0,)), node(Op.REDUCE_ADD, K, arg=(0, 1))),
    ],
    "neutral_operand": [
        (node(Op.MUL, X, real(1.0)), X),
        (node(Op.ADD, real(-0.0), X), X),
        (node(Op.SUB, X, real(0.0)), X),
        (node(Op.DIV, X, real(1.0)), X),
        (node(Op.MAX, X, real(float("-inf"))), X),
        (node(Op.ADD, K, whole(0)), K),
        (node(Op.AND, K, whole(-1)), K),
        (node(Op.SHL, K, whole(0)), K),
        (node(Op.OR, B, constant(BOOL, 0, (2, 3))), B),
        (node(Op.AND, constant(BOOL, 1, (2, 3)), B), B),
    ],
    "product_with_zero": [(node(Op.MUL, whole(0), K), whole(0))],
    "negative_of_negative": [(node(Op.MUL, node(Op.MUL, X, real(-1.0)), real(-1.0)), X)],
    "same_operands": [(node(Op.MAX, X, X), X), (node(Op.AND, K, K), K)],
    "choice_of_same": [(node(Op.WHERE, B, X, X), X)],
    "choice_by_constant": [(node(Op.WHERE, constant(BOOL, 0, (2, 3)), real(1.0), X), X)],
    "cast_to_own_type": [(node(Op.CAST, X, arg=F32), X), (node(Op.BITCAST, K, arg=I32), K)],
    "cast_there_and_back": [
        (node(Op.CAST, node(Op.CAST, H, arg=F32), arg=DType.FLOAT16), H),
        (node(Op.CAST, node(Op.CAST, K, arg=DType.INT64), arg=I32), K),
    ],
    "bits_there_and_back": [(node(Op.BITCAST, node(Op.BITCAST, X, arg=I32), arg=F32), X)],
    "constants_of_integers": [(node(Op.ADD, node(Op.ADD, K, whole(3)), whole(-1)), node(Op.ADD, K, whole(2)))],
    "negated_comparison": [
        (node(Op.CMPNE, node(Op.CMPNE, X, ROWS), constant(BOOL, 1, (2, 3))), node(Op.CMPEQ, X, ROWS)),
        (node(Op.CMPNE, node(Op.CMPEQ, X, ROWS), constant(BOOL, 1, (2, 3))), node(Op.CMPNE, X, ROWS)),
    ],
    "sum_of_constant": [(node(Op.REDUCE_ADD, whole(1 << 30), arg=(1,)), whole(-(1 << 30), (2,)))],
    "sum_of_padded_constant": [
        (counted(50, 2), arithmetic(50, 2)),
        (counted(7, 3, F32), node(Op.CAST, arithmetic(7, 3), arg=F32)),
        (counted(300, 3, DType.UINT32), node(Op.CAST, arithmetic(300, 3), arg=DType.UINT32)),
    ],
    "extreme_of_constant": [(node(Op.REDUCE_MAX, real(2.0), arg=(0, 1)), real(2.0, ()))],
    "arithmetic_of_constants": [
        (node(Op.ADD, real(0.1), real(0.2)), constant(F32, 0x3E99999A, (2, 3))),
        (node(Op.FLOORDIV, whole(-7), whole(0)), whole(0)),
        (node(Op.CAST, real(1e20), arg=I32), whole((1 << 31) - 1)),
        (node(Op.SQRT, real(-1.0)), constant(F32, 0x7FC00000, (2, 3))),
        (node(Form.FUNCTION, real(0.0), arg="exp"), real(1.0)),
    ],
}  # fmt: skip


def test_every_rule_has_a_case() -> None:
    assert {function.__name__ for rules in RULES.values() for function in rules} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_rule_fires(name: str) -> None:
    for before, after in CASES[name]:
        fired = {function.__name__ for n in walk(before) for function in RULES.get(n.op, ()) if function(n) is not None}
        assert name in fired
        assert simplified(Graph({"y": before})).outputs["y"] is after


KEPT = {
    "x + 0 where x may be -0": node(Op.ADD, X, real(0.0)),
    "x · 0, which may be NaN": node(Op.MUL, X, real(0.0)),
    "x - x": node(Op.SUB, X, X),
    "a cast that rounds": node(Op.CAST, node(Op.CAST, X, arg=DType.FLOAT16), arg=F32),
    "bits that may be another NaN": node(Op.BITCAST, node(Op.BITCAST, K, arg=F32), arg=I32),
    "a sum of sums of floats": node(Op.REDUCE_ADD, node(Op.REDUCE_ADD, X, arg=(0,)), arg=(0,)),
    "a product with one in a sum": node(Op.REDUCE_ADD, node(Op.MUL, node(Op.MUL, X, X), real(1.0)), arg=(1,)),
    "a constant product in a sum": node(Op.REDUCE_ADD, node(Op.MUL, real(0.1), real(0.3)), arg=(1,)),
    "what was rounded on purpose": node(Op.REDUCE_ADD, node(Form.ROUNDED, node(Op.MUL, X, X)), arg=(1,)),
    "what was stored on purpose": node(Op.REDUCE_ADD, node(Form.CONTIGUOUS, node(Op.MUL, X, X)), arg=(1,)),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_might_change_a_bit_stays(name: str) -> None:
    assert simplified(Graph({"y": KEPT[name]})).outputs["y"] is KEPT[name]


def test_what_is_the_same_is_computed_once_and_what_nobody_needs_never() -> None:
    def twice() -> Node:
        return node(Op.MUL, node(Form.FUNCTION, X, arg="exp"), node(Form.FUNCTION, X, arg="exp"))

    node(Form.FUNCTION, X, arg="tanh")  # nobody needs it
    graph = Graph({"a": twice(), "b": twice()})
    assert [n.op for n in walk(*graph.roots)] == [Form.INPUT, Form.FUNCTION, Op.MUL]
    assert len(lower(graph, fingerprint=False).program.calls) == 1
