"""The author's side: what a graph means, how it is named, which rules rewrite it, and that none changes its meaning."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eigentensor import reference
from eigentensor.errors import BindingError
from eigentensor.graph.lower import lower
from eigentensor.graph.node import Form, Graph, Node, constant, leaf, node, rewrite, variable, walk
from eigentensor.graph.node import data as data_leaf
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.planner.algebra import add, function, multiply, number
from eigentensor.planner.decompositions import DECOMPOSITIONS, fused
from eigentensor.planner.oracle import max_relative_error, oracle
from eigentensor.planner.paths import ALL_RULES, paths
from eigentensor.planner.sample import sample_of
from eigentensor.planner.storage import LOSSY
from eigentensor.program.model import Role, Variable
from eigentensor.program.ops import Op

F32 = DType.FLOAT32
Values = NDArray[Any]


def tensor(name: str, *shape: int, form: Form = Form.INPUT, dtype: DType = F32) -> Node:
    return leaf(form, name, dtype, shape)


def expanded(x: Node, *shape: int) -> Node:
    small = (1,) * (len(shape) - len(x.shape)) + x.shape
    return node(Form.EXPAND, node(Form.RESHAPE, x, arg=small), arg=shape)


def matmul(a: Node, b: Node) -> Node:
    (n, k), (_, m) = a.shape, b.shape
    left = node(Form.EXPAND, node(Form.RESHAPE, a, arg=(n, 1, k)), arg=(n, m, k))
    right = node(Form.RESHAPE, node(Form.PERMUTE, b, arg=(1, 0)), arg=(1, m, k))
    return node(Op.REDUCE_ADD, multiply(left, node(Form.EXPAND, right, arg=(n, m, k))), arg=(2,))


def total(x: Node, axis: int) -> Node:
    return node(Op.REDUCE_ADD, x, arg=(axis,))


def column(x: Node, *shape: int) -> Node:
    """One number for each row, repeated along it."""
    return node(Form.EXPAND, node(Form.RESHAPE, x, arg=(*x.shape, 1)), arg=shape)


def seed_example() -> Graph:
    return Graph({"out": function("tanh", add(tensor("x", 8, 16), tensor("y", 8, 16)))})


def values(graph: Graph, seed: int = 0) -> dict[str, Values]:
    """Random values for all leaves that have no data, positive and within every function's domain."""
    random, arrays = np.random.default_rng(seed), {}
    for n in walk(*graph.roots):
        if n.op in (Form.INPUT, Form.WEIGHT, Form.STATE) and n.arg not in graph.data:
            arrays[n.arg] = random.uniform(0.05, 0.9, n.shape).astype(STORAGE[n.dtype])
    return arrays


def of_f32(result: Any) -> Values:
    return np.asarray(result, np.float32)


def test_the_oracle_does_not_round_between_operations() -> None:
    x = tensor("x", 3)
    graph = Graph({"out": node(Op.SUB, add(x, 2.0**25), number(x, 2.0**25))})
    array = of_f32([0.5, 2**-9, -7])
    (result,) = oracle(graph, {"x": array})
    np.testing.assert_array_equal(result, array.astype(np.float64))


def test_the_oracle_sums_products_without_making_them() -> None:
    n = 600
    a, b = np.random.default_rng(0).standard_normal((2, n, n)).astype(np.float32)
    graph = Graph({"out": matmul(tensor("a", n, n), tensor("b", n, n))})
    (result,) = oracle(graph, {"a": a, "b": b})
    np.testing.assert_allclose(result, a.astype(np.float64) @ b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kept", ["both", "left", "none"])
def test_sums_of_products_are_right_where_operands_repeat_themselves(kept: str) -> None:
    x, y = np.arange(12.0, dtype=np.float32).reshape(3, 4), np.arange(4.0, dtype=np.float32)
    left = tensor("x", 3, 4) if kept != "none" else expanded(tensor("y", 4), 3, 4)
    right = expanded(tensor("y", 4), 3, 4) if kept != "both" else tensor("x", 3, 4)
    plain = (x if kept != "none" else np.broadcast_to(y, (3, 4))) * (
        np.broadcast_to(y, (3, 4)) if kept != "both" else x
    )
    for axes in ((0,), (1,), (0, 1)):
        graph = Graph({"out": node(Op.REDUCE_ADD, multiply(left, right), arg=axes)})
        np.testing.assert_array_equal(oracle(graph, {"x": x, "y": y})[0], plain.sum(axes))


def test_integers_in_the_oracle_wrap_as_the_format_says() -> None:
    x = tensor("x", 2, dtype=DType.INT8)
    graph = Graph({"out": node(Op.ADD, x, x), "sum": node(Op.REDUCE_ADD, x, arg=(0,))})
    doubled, summed = oracle(graph, {"x": np.array([100, 60], np.int8)})
    assert (doubled.tolist(), int(summed)) == ([-56, 120], -96)


def test_movements_of_the_oracle_are_those_of_numpy() -> None:
    x, rows = tensor("x", 3, 4), tensor("rows", 2, dtype=DType.INT32)
    outputs = {
        "flip": node(Form.FLIP, x, arg=(1,)), "pad": node(Form.PAD, x, arg=((1, 0), (0, 2))),
        "shrink": node(Form.SHRINK, x, arg=((1, 3), (0, 2))), "gather": node(Form.GATHER, x, rows),
    }  # fmt: skip
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    flip, pad, shrink, gather = oracle(Graph(outputs), {"x": a, "rows": np.array([2, 7], np.int32)})
    np.testing.assert_array_equal(flip, a[:, ::-1])
    np.testing.assert_array_equal(pad, np.pad(a, ((1, 0), (0, 2))))
    np.testing.assert_array_equal(shrink, a[1:3, :2])
    np.testing.assert_array_equal(gather, [a[2], np.zeros(4)])


def test_the_oracle_knows_data_and_powers() -> None:
    data = np.array([1.5, -2], np.float32)
    two = data_leaf(F32, (2,), data.tobytes())
    graph = Graph({"data": two, "power": node(Form.FUNCTION, two, number(two, 3), arg="power")})
    assert [v.tolist() for v in oracle(graph, {})] == [[1.5, -2], [3.375, -8]]


def test_the_oracle_says_which_tensor_is_missing_or_does_not_fit() -> None:
    graph = Graph({"out": tensor("x", 2)})
    with pytest.raises(BindingError, match="'x' has no values"):
        oracle(graph, {})
    with pytest.raises(BindingError, match="expected float32 of shape"):
        oracle(graph, {"x": np.zeros(2)})


def test_the_error_depends_neither_on_scale_nor_on_size() -> None:
    exact = np.random.default_rng(0).standard_normal(4096)
    result = (exact * (1 + 1e-4)).astype(np.float32)
    one = max_relative_error(F32, result, exact)
    assert 0.9e-4 < one < 1.1e-4
    assert max_relative_error(F32, result * np.float32(1024), exact * 1024) == one
    assert max_relative_error(F32, np.tile(result, 9), np.tile(exact, 9)) == pytest.approx(one, rel=1e-12)


def test_the_error_of_an_element_near_zero_counts_in_units_of_the_tensor() -> None:
    assert max_relative_error(F32, of_f32([1, 1e-6]), np.array([1.0, 0.0])) == pytest.approx(2**0.5 * 1e-6, rel=1e-3)


@pytest.mark.parametrize(
    ("result", "exact", "error"),
    [
        ([1, np.nan], [1, np.nan], 0), ([1, np.nan], [1, 2], np.inf), ([np.inf, 1], [np.inf, 1], 0),
        ([-np.inf, 1], [np.inf, 1], np.inf), ([np.inf], [1e300], np.inf), ([0, 0], [0, 0], 0), ([1], [0], np.inf),
        ([], [], 0), ([5], [np.nan], np.inf),
    ],
)  # fmt: skip
def test_the_error_is_total(result: list[float], exact: list[float], error: float) -> None:
    assert max_relative_error(F32, of_f32(result), np.array(exact, np.float64)) == error


def test_integers_are_right_or_infinitely_wrong() -> None:
    assert max_relative_error(DType.INT32, np.array([1, 2]), np.array([1, 2])) == 0
    assert max_relative_error(DType.INT32, np.array([1, 2]), np.array([1, 3])) == np.inf


def test_samples_are_what_a_graph_can_be_given_and_the_same_each_time() -> None:
    rows, flags = tensor("rows", 50, dtype=DType.INT32), tensor("flags", 50, dtype=DType.BOOL)
    table = tensor("table", 7, 2, form=Form.WEIGHT)
    graph = Graph({"rows": node(Form.GATHER, table, rows), "flags": flags, "at": variable(Variable("at", 0, 8))})
    one, two = sample_of(graph), sample_of(graph)
    assert set(one.tensors) == {"rows", "flags", "table"} and one.variables == {"at": 4}
    assert set(one.tensors["rows"]) == set(range(7)) and one.tensors["flags"].dtype == np.bool_
    assert one.digest == two.digest != sample_of(graph, seed=1).digest
    own = sample_of(Graph(graph.outputs, data={"table": np.ones((7, 2), np.float32)}))
    assert own.tensors["table"].all() and own.digest != one.digest


def test_no_decomposition_contains_itself() -> None:
    def expand(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"{' → '.join((*above, name))}"
        for make in DECOMPOSITIONS.get(name, {}).values():
            used = {n.arg for n in walk(make(tensor("x", 4))) if n.op is Form.FUNCTION}
            for other in used:
                expand(other, (*above, name))

    for name in DECOMPOSITIONS:
        expand(name, ())


def norm(x: Node) -> Node:
    mean = node(Op.DIV, total(x, 1), number(total(x, 1), x.shape[1]))
    centred = node(Op.SUB, x, column(mean, *x.shape))
    variance = multiply(total(multiply(centred, centred), 1), 1 / x.shape[1])
    return multiply(centred, column(node(Op.RECIPROCAL, node(Op.SQRT, add(variance, 1e-5))), *x.shape))


def softmax(x: Node) -> Node:
    top = node(Op.REDUCE_MAX, x, arg=(1,))
    e = function("exp", node(Op.SUB, x, column(top, *x.shape)))
    return node(Op.DIV, e, column(total(e, 1), *x.shape))


def samples() -> Iterator[tuple[str, Node]]:
    """Tensors in which every rule finds something to do."""
    x, y, z = (tensor(name, 4, 64) for name in "xyz")
    s, t = expanded(tensor("s", 64), 4, 64), expanded(tensor("t", 64), 4, 64)
    wide = tensor("wide", 32, 64)
    for name in DECOMPOSITIONS:
        yield name, function(name, x)
    yield "exp - 1", node(Op.SUB, function("exp", x), number(x, 1))
    yield "log(1 + x)", function("log", add(x, 1))
    yield "x⁻³", node(Form.FUNCTION, x, number(x, -3), arg="power")
    yield "√x", node(Form.FUNCTION, x, number(x, 0.5), arg="power")
    yield "a(b+c)", multiply(x, add(y, z))
    yield "ab-ac", node(Op.SUB, multiply(x, y), multiply(z, x))
    yield "fused", node(Op.MULACC, x, y, z)
    yield "x⁵", multiply(multiply(multiply(multiply(x, x), x), x), x)
    yield "small terms", add(add(x, s), t)
    yield "repeated", multiply(x, add(s, t))
    yield "times 1/y", multiply(x, node(Op.RECIPROCAL, y))
    yield "root", node(Op.SQRT, node(Op.RECIPROCAL, x))
    yield "norm", norm(x)
    yield "softmax", softmax(x)
    yield "scaled sum", total(multiply(x, column(tensor("r", 4), 4, 64)), 1)
    yield "scaled product", multiply(matmul(wide, tensor("b", 64, 8)), 0.125)
    yield "thin product", matmul(matmul(tensor("a", 16, 16), tensor("b", 16, 16)), tensor("c", 16, 2))
    yield "x·sigmoid(x)", multiply(function("sigmoid", x), x)
    yield "stored", add(node(Form.CONTIGUOUS, function("exp", x)), y)
    yield "weights", matmul(wide, tensor("w", 64, 32, form=Form.WEIGHT))


def halves(values_of: dict[str, Values]) -> dict[str, Values]:
    """Values that both half types hold exactly."""
    return {name: np.round(array * 64).astype(np.float32) / 64 for name, array in values_of.items()}


@pytest.mark.parametrize("sample", list(samples()), ids=lambda sample: sample[0])
def test_every_path_of_three_rules_means_the_same(sample: tuple[str, Node]) -> None:
    arrays = halves(values(Graph({"out": sample[1]})))
    graph = Graph({"out": sample[1]}, data={"w": arrays["w"]} if "w" in arrays else {})
    (exact,) = oracle(graph, arrays)
    for path in paths(graph, 60):
        (result,) = oracle(path.graph, arrays)
        assert max_relative_error(F32, result.astype(np.float32), exact) < 3e-7 * (1 + len(path.rules)), path.rules


@pytest.mark.slow
@pytest.mark.parametrize("sample", list(samples()), ids=lambda sample: sample[0])
def test_every_program_of_a_path_is_near_the_oracle(sample: tuple[str, Node]) -> None:
    arrays = values(Graph({"out": sample[1]}))
    graph = Graph({"out": sample[1]}, data={"w": arrays["w"]} if "w" in arrays else {})
    (exact,) = oracle(graph, arrays)
    for path in paths(graph, 24):
        made = lower(path.graph, fingerprint=False)
        inputs = {name: array for name, array in arrays.items() if name in made.program.named(Role.INPUT)}
        result = reference.execute(made.program, {**inputs, **made.weights}).outputs["out"]
        most = 0.02 if LOSSY.keys() & set(path.rules) else 2e-5
        assert max_relative_error(F32, result, exact) < most, path.rules


def test_every_rule_has_something_to_do_in_the_samples() -> None:
    data = {"w": np.zeros((64, 32), np.float32)}
    used = {rule for _, n in samples() for path in paths(Graph({"o": n}, data=data), 50) for rule in path.rules}
    assert used == set(ALL_RULES)


@pytest.mark.parametrize("x", [-np.inf, -200.0, -1e-20, 0.0, 1e-20, 200.0, np.inf])
@pytest.mark.parametrize("name", ["tanh", "sigmoid", "softplus", "gelu", "sinh", "cosh"])
def test_functions_of_large_and_tiny_numbers_survive_every_decomposition(name: str, x: float) -> None:
    graph = Graph({"out": function(name, tensor("x", 1))})
    arrays = {"x": of_f32([x])}
    (exact,) = oracle(graph, arrays)
    for path in paths(graph, 12):
        (result,) = oracle(path.graph, arrays)
        if np.isinf(x) and name == "gelu":  # 0·∞ in its definition
            continue
        np.testing.assert_allclose(result, exact, rtol=1e-5, atol=1e-7, err_msg=str(path.rules))


def test_tanh_of_a_sum_has_three_paths_and_more() -> None:
    candidates = list(paths(seed_example(), 40))
    ways = {path.rules[0] for path in candidates if path.rules}
    assert ways >= {"tanh by exp", "tanh by expm1", "tanh by sigmoid"}
    assert len({path.key for path in candidates}) == len(candidates) == 40
    assert candidates[0].rules == () and candidates[0].graph.roots == seed_example().roots


def test_paths_come_lazily_those_of_few_rules_first() -> None:
    candidates = list(islice(paths(seed_example()), 30))
    lengths = [len(path.rules) for path in candidates]
    assert lengths == sorted(lengths)


def test_a_weight_is_rounded_only_where_the_author_gave_it() -> None:
    product = matmul(tensor("a", 8, 64), tensor("w", 64, 32, form=Form.WEIGHT))
    assert not [p for p in paths(Graph({"out": product}), 40) if any("weight in" in rule for rule in p.rules)]
    data = {"w": np.ones((64, 32), np.float32)}
    rounded = [
        p
        for p in paths(Graph({"out": product}, data=data), 40)
        if p.rules in {("weight in float16",), ("weight in bfloat16",)}
    ]
    assert [set(p.graph.data) - {"w"} for p in rounded] == [{"w.float16"}, {"w.bfloat16"}]


def test_a_weight_that_is_in_halves_already_keeps_nothing_from_being_planned() -> None:
    weight = tensor("w", 64, 32, form=Form.WEIGHT, dtype=DType.FLOAT16)
    graph = Graph({"out": function("tanh", matmul(tensor("a", 8, 64), node(Op.CAST, weight, arg=F32)))})
    assert len(list(paths(graph, 6))) == 6


@pytest.mark.parametrize(("name", "make"), [(n, make) for n, ways in DECOMPOSITIONS.items() for make in ways.values()])
def test_a_function_is_found_again_in_every_decomposition_of_it(name: str, make: Any) -> None:
    x = add(tensor("x", 4), tensor("y", 4))
    assert function(name, x) in set(fused(make(x)))
    mixed = rewrite((make(x),), lambda n: tensor("z", 4) if n is x else n)[0]
    assert function(name, tensor("z", 4)) in set(fused(mixed))


def test_what_only_looks_like_a_function_is_none() -> None:
    x, y = tensor("x", 4), tensor("y", 4)
    assert list(fused(multiply(x, function("sigmoid", y)))) == []
    assert list(fused(add(function("exp", x), 1))) == []


def products(n: Node) -> int:
    return sum(s.src[0].elements for s in walk(n) if s.op is Op.REDUCE_ADD)


@pytest.mark.parametrize("shapes", [((2, 16), (16, 16), (16, 16)), ((16, 16), (16, 16), (16, 2))])
def test_the_product_that_makes_less_work_may_come_first(shapes: tuple[tuple[int, int], ...]) -> None:
    a, b, c = (tensor(name, *shape) for name, shape in zip("abc", shapes, strict=True))
    for root, better in ((matmul(matmul(a, b), c), shapes[2][1] == 2), (matmul(a, matmul(b, c)), shapes[0][0] == 2)):
        graph = Graph({"out": root})
        arrays = values(graph)
        reordered = [p for p in paths(graph, 60) if p.rules == ("other product first",)]
        assert bool(reordered) is better
        for path in reordered:
            assert products(path.graph.outputs["out"]) == 2 * 16 * 16 * 2 < products(root)
            np.testing.assert_allclose(oracle(path.graph, arrays)[0], oracle(graph, arrays)[0], rtol=1e-12)


def test_a_constant_is_no_name() -> None:
    """Two different constants of a shape are two tensors."""
    x = tensor("x", 3)
    one, hundred = (add(x, constant(F32, pattern, (3,))) for pattern in (0x3F800000, 0x42C80000))
    results = oracle(Graph({"a": one, "b": hundred}), {"x": np.zeros(3, np.float32)})
    assert [v.tolist() for v in results] == [[1, 1, 1], [100, 100, 100]]
