"""Equal graphs have equal normal forms: random graphs, written in random orders."""

from collections.abc import Callable
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from eigentensor.graph.node import Form, Node, leaf, node, rewrite, walk
from eigentensor.numerics.dtypes import DType
from eigentensor.planner.normal import COMMUTATIVE, chain, digest, normal_form, terms
from eigentensor.program.ops import Op

SHAPE = (2, 3)
BINARY = (Op.ADD, Op.MUL, Op.ADD, Op.MUL, Op.MAX, Op.MIN, Op.SUB, Op.DIV)
A = leaf(Form.INPUT, "a", DType.FLOAT32, SHAPE)
UNARY: tuple[Op | Form, ...] = (Form.FUNCTION, Op.SQRT)


@st.composite
def graphs(draw: st.DrawFn) -> Node:
    """Elementwise graphs with much sharing."""
    pool = [leaf(Form.INPUT, name, DType.FLOAT32, SHAPE) for name in "abcd"]
    for _ in range(draw(st.integers(1, 14))):
        some = st.sampled_from(pool)
        if draw(st.integers(0, 5)) == 0:
            op = draw(st.sampled_from(UNARY))
            made = node(op, draw(some), arg="tanh" if op is Form.FUNCTION else None)
        else:
            made = node(draw(st.sampled_from(BINARY)), draw(some), draw(some))
        pool.append(made)
    return pool[-1]


def written_otherwise(root: Node, choose: Callable[[int], int]) -> Node:
    """The same graph with operands commuted and sums and products re-associated as `choose(n)` < n says."""

    def change(n: Node) -> Node:
        if n.op in (Op.ADD, Op.MUL, Op.MAX, Op.MIN) and sum((of := terms(n)).values()) <= 12:
            assert isinstance(n.op, Op)
            parts = list(of.elements())
            while len(parts) > 1:
                a = parts.pop(choose(len(parts)))
                b = parts.pop(choose(len(parts)))
                parts.append(node(n.op, a, b))
            return parts[0]
        if n.op in COMMUTATIVE and choose(2):
            return node(n.op, *n.src[::-1])
        return n

    return rewrite((root,), change)[0]


@settings(max_examples=80)
@given(graphs(), st.randoms(use_true_random=False))
def test_commuted_and_reassociated_graphs_have_one_normal_form(root: Node, random: Random) -> None:
    other = written_otherwise(root, random.randrange)
    assert normal_form((root,)) == normal_form((other,))


@settings(max_examples=30)
@example(node(Op.MUL, A, node(Op.MAX, node(Op.MUL, A, A), node(Op.MUL, A, A))))  # whose maximum is a product
@given(graphs())
def test_a_normal_form_is_its_own(root: Node) -> None:
    (once,) = normal_form((root,))
    assert normal_form((once,)) == (once,)


def test_different_graphs_have_different_normal_forms() -> None:
    a, b, c = (leaf(Form.INPUT, name, DType.FLOAT32, SHAPE) for name in "abc")
    different = [
        node(Op.SUB, a, b), node(Op.SUB, b, a), node(Op.ADD, a, b), node(Op.ADD, a, node(Op.ADD, a, b)),
        node(Op.MUL, a, node(Op.ADD, b, c)), node(Op.ADD, node(Op.MUL, a, b), node(Op.MUL, a, c)),
        node(Op.MAX, a, b), node(Op.ADD, a, c),
    ]  # fmt: skip
    assert len({normal_form((n,)) for n in different}) == len(different)


def test_a_sum_that_doubles_itself_sixty_times_is_no_work() -> None:
    a, b = (leaf(Form.INPUT, name, DType.FLOAT32, SHAPE) for name in "ab")
    total = node(Op.ADD, a, b)
    for _ in range(60):
        total = node(Op.ADD, total, total)
    (form,) = normal_form((total,))
    assert terms(form) == {a: 2**60, b: 2**60}
    assert len(list(walk(form))) < 200


def test_names_of_weights_count_only_with_names() -> None:
    a, b = (leaf(Form.WEIGHT, name, DType.FLOAT32, SHAPE) for name in "ab")
    assert digest(node(Op.SQRT, a)) != digest(node(Op.SQRT, b))
    assert digest(node(Op.SQRT, a), names=False) == digest(node(Op.SQRT, b), names=False)
    assert chain(Op.ADD, terms(node(Op.ADD, a, b))) is chain(Op.ADD, terms(node(Op.ADD, b, a)))
