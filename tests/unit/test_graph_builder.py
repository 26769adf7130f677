"""Tensors of a graph do what NumPy's arrays do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eigentensor.errors import CaptureError
from eigentensor.graph import GraphBuilder, Tensor, arange, concat, full, maximum, stack, tensor, where
from eigentensor.program.model import Role
from eigentensor.program.ops import DType
from eigentensor.reference import execute
from support.programs import captured as captured_graphs

_random = np.random.default_rng(3)
A = _random.standard_normal((3, 4)).astype(np.float32)
B = _random.standard_normal((4, 5)).astype(np.float32)
C = _random.standard_normal((2, 3, 4)).astype(np.float32)
I = _random.integers(-9, 9, (3, 4)).astype(np.int32)  # noqa: E741
N = np.array([[0, 2], [3, -1]], np.int32)

#: Expressions that give the same bits with tensors and with NumPy's arrays.
SAME: dict[str, Callable[..., Any]] = {
    "sum of three": lambda a, b, c, i, n: a + c + a,
    "numbers take the type": lambda a, b, c, i, n: 2 - a * 3 + 0.5,
    "a row beside a matrix": lambda a, b, c, i, n: a + np.array([1, 2, 3, 4], np.float32),
    "an array first": lambda a, b, c, i, n: np.array([[1], [2], [3]], np.float32) - a,
    "quotient": lambda a, b, c, i, n: 1 / a / c,
    "integers divided": lambda a, b, c, i, n: i // 3 + i % 4 - (i >> 1) + (i & 5 | 2 ^ i) + (i << 2),
    "comparisons": lambda a, b, c, i, n: (a < 0) | (a >= 0.5) & ~(i == 3) | (i != 2) & (i <= 4) | (i < 2),
    "negative": lambda a, b, c, i, n: -a + abs(i - (-i)).astype(np.float32),
    "squares": lambda a, b, c, i, n: a**2 + (i**3).astype(np.float32),
    "moved": lambda a, b, c, i, n: c.transpose(2, 0, 1).reshape(4, -1).T,
    "swapped": lambda a, b, c, i, n: c.swapaxes(0, -1)[:, None],
    "first": lambda a, b, c, i, n: c[0, ..., -1],
    "slices": lambda a, b, c, i, n: c[:, 1:, ::-1][..., 1:3],
    "steps": lambda a, b, c, i, n: c[::-1, ::2, -1:0:-2],
    "new axes": lambda a, b, c, i, n: a[:, None, :, None] * a[None, :, None],
    "nothing left": lambda a, b, c, i, n: a[3:, :],
    "rows by number": lambda a, b, c, i, n: b[n],
    "columns by number": lambda a, b, c, i, n: c[:, :, n],
    "extremes": lambda a, b, c, i, n: c.max(1) + c.min(axis=(0, 1)) + c.max(),
    "kept axes": lambda a, b, c, i, n: i.sum(0, keepdims=True) + i.sum(1, keepdims=True),
    "product": lambda a, b, c, i, n: i.prod(1),
    "places": lambda a, b, c, i, n: c.argmax(1) + c.argmin(1) + c.argmax(),
    "any and all": lambda a, b, c, i, n: (a > 1).any(1) | (a > -2).all(axis=1),
    "casts": lambda a, b, c, i, n: (a * 20).astype(np.int8).astype(np.float16) + i.astype(bool),
    "repeated": lambda a, b, c, i, n: c.repeat(3, axis=1),
    "repeated flat": lambda a, b, c, i, n: i.repeat(2),
    "repeated never": lambda a, b, c, i, n: a.repeat(0, 0),
    "bits": lambda a, b, c, i, n: a.view(np.int32) + i.view(np.uint32).astype(np.int32),
    "small counts": lambda a, b, c, i, n: (a > 0).sum() + (i > 0).sum(0),
    "iterated": lambda a, b, c, i, n: sum(row for row in i),
    "length": lambda a, b, c, i, n: i * len(c) * c.ndim * c.size,
}  # fmt: skip
SPECIAL = np.array([[np.nan, np.inf, -0.0], [1, -np.inf, 2], [np.nan, -0.0, 3], [4, 5, np.nan]], np.float32)
#: Functions of NumPy that are methods here.
METHODS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Any], Any]]] = {
    "tiles": (lambda x: x.tile(2, 3), lambda x: np.tile(x, (2, 3))),
    "tiles of new axes": (lambda x: x.tile((2, 1, 2)), lambda x: np.tile(x, (2, 1, 2))),
    "tiles of the last axis": (lambda x: x.tile(2), lambda x: np.tile(x, 2)),
    "no tiles": (lambda x: x.tile(0, 1), lambda x: np.tile(x, (0, 1))),
    "upper": (lambda x: x.triu(), np.triu),
    "lower": (lambda x: x.tril(), np.tril),
    "upper from the next": (lambda x: x.triu(1), lambda x: np.triu(x, 1)),
    "lower with the last": (lambda x: x.tril(-1), lambda x: np.tril(x, -1)),
    "nothing above": (lambda x: x.triu(-9), lambda x: np.triu(x, -9)),
    "filled": (lambda x: x.fill(1), np.ones_like),
}
#: Expressions that round otherwise than NumPy does.
NEAR: dict[str, Callable[..., Any]] = {
    "matrix product": lambda a, b, c, i, n: a @ b,
    "batched product": lambda a, b, c, i, n: c @ b - a @ b,
    "vectors": lambda a, b, c, i, n: a[0] @ a[1] + (a[:, 0] @ a) @ b,
    "matrix and vector": lambda a, b, c, i, n: c @ a[0],
    "mean": lambda a, b, c, i, n: c.mean((0, 2)) + c.var((0, 2)) + i.mean(1),
    "powers": lambda a, b, c, i, n: a**-2 + abs(a) ** 0.5 + abs(a) ** 1.7 + 2.0**a,
    "floats divided": lambda a, b, c, i, n: a // 0.3 + a % 0.3,
    "half": lambda a, b, c, i, n: (a.astype(np.float16) * 3).mean(0) + a.astype(np.float16).mean(),
}  # fmt: skip


def evaluated(function: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    builder = GraphBuilder()
    names = "abcin"[: len(arrays)]
    inputs = [builder.input(name, array.shape, array.dtype) for name, array in zip(names, arrays, strict=True)]
    graph = builder.compile(function(*inputs), fingerprint=False)
    tensors = {
        name: array for name, array in zip(names, arrays, strict=True) if name in graph.program.named(Role.INPUT)
    }
    return np.asarray(execute(graph.program, tensors).outputs["output"])


@pytest.mark.parametrize("name", SAME)
def test_an_expression_gives_what_numpy_gives(name: str) -> None:
    ours, theirs = evaluated(SAME[name], A, B, C, I, N), np.asarray(SAME[name](A, B, C, I, N))
    assert ours.shape == theirs.shape
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("name", NEAR)
def test_an_expression_gives_nearly_what_numpy_gives(name: str) -> None:
    ours, theirs = evaluated(NEAR[name], A, B, C, I, N), np.asarray(NEAR[name](A, B, C, I, N))
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, 4e-3 if ours.dtype == np.float16 else 1e-4)


def test_functions_are_those_of_mathematics() -> None:
    for name in ("exp", "exp2", "expm1", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sqrt", "floor", "ceil"):
        ours = evaluated(lambda a, name=name: getattr(abs(a), name)(), A)
        np.testing.assert_allclose(ours, getattr(np, name)(np.abs(A)), 1e-6)


def test_tensors_are_joined_padded_and_chosen() -> None:
    joined = evaluated(lambda a: concat([a, a[:1] * 2, tensor([[0.0, 1.0, 2.0, -0.0]])]), A)
    assert joined.tobytes() == np.concatenate([A, A[:1] * 2, np.array([[0, 1, 2, -0.0]], np.float32)]).tobytes()
    assert evaluated(lambda a: stack([a, -a], axis=1), A).tolist() == np.stack([A, -A], axis=1).tolist()
    padded = evaluated(lambda a: a.pad([(1, 0), (0, 2)], value=7), A)
    assert padded.tolist() == np.pad(A, [(1, 0), (0, 2)], constant_values=7).tolist()
    chosen = evaluated(lambda a: where(a > 0, a, full(4, 2.5)).clip(-1, 2), A)
    assert chosen.tolist() == np.clip(np.where(A > 0, A, np.float32(2.5)), -1, 2).tolist()
    assert evaluated(lambda a: maximum(arange(2, 10, 2), a), A).tolist() == np.maximum(A, [2, 4, 6, 8]).tolist()


def test_windows_are_those_of_a_sliding_view() -> None:
    ours = evaluated(lambda c: c.windows(2, stride=2, axis=-1), C)
    assert ours.tolist() == np.lib.stride_tricks.sliding_window_view(C, 2, axis=-1)[..., ::2, :].tolist()


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.swapaxes(-1, -2) * (1 / 8**0.5)
    at = arange(scores.shape[-1])
    mask = where(at[None, :] < at[:, None] + 1, 0.0, float("-inf"))
    return (scores + mask).softmax() @ v


def convolution(x: Tensor, w: Tensor) -> Tensor:
    padded = x.pad([(0, 0), (0, 0), (1, 1), (1, 1)])
    spans = padded.windows(3, stride=2, axis=2).windows(3, stride=2, axis=3)
    return (spans[:, None] * w[None, :, :, None, None]).sum((2, 5, 6))


#: Graphs that capture makes too: the function, and how many calls more than there this program has. None: equal bytes.
CAPTURED: dict[str, tuple[Callable[..., Tensor], int | None]] = {
    "matmul": (lambda a, b: a @ b, None),
    "matmul of half": (lambda a, b: a @ b, None),
    "matmul of integers": (lambda a, b: a @ b, None),
    "matmul of wide integers": (lambda a, b: a @ b, None),
    "gelu mlp": (lambda x, up, down: (x @ up).gelu_tanh() @ down, None),
    "long sum": (lambda x: x.sum(), None),
    "wide integers": (lambda x: (x * 3_000_000_019) // 7 - (x >> 40), 0),
    "softmax": (lambda x: x.softmax(), 0),
    "layernorm": (lambda x: x.layernorm(), 0),
    "argmax": (lambda x: x.argmax(-1), 0),
    "embedding": (lambda tokens, weight: weight.take(tokens), 0),
    "convolution": (convolution, 0),
    "attention": (attention, 1),  # the softmax is stored, and not computed again for each column of values
}


@pytest.mark.parametrize("name", CAPTURED)
def test_a_graph_has_the_bits_of_the_captured_function(name: str) -> None:
    function, more = CAPTURED[name]
    example = captured_graphs.graphs()[name]
    captured = example.captured()
    builder = GraphBuilder()
    tensors = {n: builder.input(n, b.shape, b.dtype) for n, b in captured.program.named(Role.INPUT).items()}
    tensors |= {n: builder.weight(n, values) for n, values in captured.weights.items()}
    graph = builder.compile(function(**tensors))
    if more is None:
        assert graph.to_bytes() == captured.to_bytes()
        return
    assert len(graph.program.calls) == len(captured.program.calls) + more
    ours, theirs = (execute(of.program, example.bound(of)).outputs["output"] for of in (graph, captured))
    assert ours.shape == theirs.shape
    assert ours.tobytes() == theirs.tobytes()


def test_a_state_is_a_chain_of_values() -> None:
    builder = GraphBuilder()
    cache, new = builder.state("cache", np.zeros((4, 2), np.float32)), builder.input("new", 2)
    position = builder.variable("position", 0, 3, 1)
    builder.assign("cache", where((arange(4) == position)[:, None], new, cache))
    graph = builder.compile({"total": cache.sum(0)}, fingerprint=False)
    tensors = {"new": np.array([1, 2], np.float32), **graph.states}
    results = execute(graph.program, tensors, {"position": 1})
    assert results.states["cache"].tolist() == [[0, 0], [1, 2], [0, 0], [0, 0]]
    assert results.outputs["total"].tolist() == [0, 0]


def test_a_state_that_nobody_assigns_stays_as_it_is() -> None:
    builder = GraphBuilder()
    kept = builder.state("kept", [1.0, -0.0])
    graph = builder.compile(kept.sum())
    assert execute(graph.program, graph.states).states["kept"].tobytes() == np.array([1, -0.0], np.float32).tobytes()


MISTAKES: dict[str, tuple[Callable[[GraphBuilder, Tensor, Tensor], object], str]] = {
    "shapes": (lambda g, a, i: a + a.T, "broadcast"),
    "matrices": (lambda g, a, i: a @ a, "4 columns, 3 rows"),
    "reshape": (lambda g, a, i: a.reshape(5, -1), "reshaped"),
    "axis": (lambda g, a, i: a.sum(2), "axis 2 of 2"),
    "index": (lambda g, a, i: a[3], "outside"),
    "too many": (lambda g, a, i: a[0, 0, 0], "3 indices"),
    "a float as an index": (lambda g, a, i: a[a], "an integer"),
    "condition": (lambda g, a, i: where(i, a, a), "condition of int32"),
    "truth": (lambda g, a, i: 1 if a > 0 else 0, "not known"),
    "bits of floats": (lambda g, a, i: a & 1, "and is not defined on float32"),
    "a number too large": (lambda g, a, i: i.astype("uint8") + 256, "no uint8"),
    "float64": (lambda g, a, i: a + np.zeros(3), "float64"),
    "complex": (lambda g, a, i: a.astype(complex), "no type"),
    "large literal": (lambda g, a, i: a.sum() + np.zeros(999, np.float32), "no name"),
    "two names": (lambda g, a, i: g.input("a", 3), "two tensors named 'a'"),
    "state": (lambda g, a, i: g.assign("a", a), "no state 'a'"),
    "output": (lambda g, a, i: g.compile({"x": 3}), "is a int"),  # type: ignore[dict-item]
    "no output": (lambda g, a, i: g.compile(), "no output"),
    "mean of nothing": (lambda g, a, i: a[:0].mean(), "no elements"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_with_the_line_and_what_to_do(name: str) -> None:
    function, message = MISTAKES[name]
    builder = GraphBuilder()
    with pytest.raises(CaptureError, match=message) as raised:
        function(builder, builder.input("a", (3, 4)), builder.input("i", (3, 4), DType.INT32))
    assert "test_graph_builder.py:" in raised.value.line
    assert raised.value.fix


def test_what_is_stored_makes_what_is_computed_from_it_cheap_again() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (8, 64))
    w = [builder.weight(f"w{i}", np.ones((64, 64), np.float32)) for i in range(6)]
    for i in range(6):
        x = x + x.layernorm() @ w[i]
    calls = builder.compile(x, fingerprint=False).program.calls
    assert len(calls) == 6 * 4  # mean, deviation, what is multiplied, the product with the sum


def test_a_chain_of_whole_layers_is_not_cut_where_nothing_is_large() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (4, 8))
    for i in range(30):
        x = (x @ builder.weight(f"w{i}", np.ones((8, 8), np.float32))).gelu()
    assert len(builder.compile(x, fingerprint=False).program.calls) == 30


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    "values",
    [SPECIAL, I, SPECIAL > 1, SPECIAL.reshape(2, 2, 3)[:, :1]],
    ids=["floats", "integers", "bools", "batches"],
)
def test_a_method_gives_what_the_function_of_numpy_gives(name: str, values: np.ndarray[Any, Any]) -> None:
    ours, theirs = METHODS[name]
    builder = GraphBuilder()
    result = ours(builder.input("x", values.shape, values.dtype))
    expected = np.asarray(theirs(values))
    graph = builder.compile(result, fingerprint=False)
    output = execute(graph.program, {"x": values} if graph.program.named(Role.INPUT) else {}).outputs["output"]
    assert (output.shape, output.dtype) == (expected.shape, expected.dtype)
    assert output.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "wrong",
    [lambda x: x.repeat(-1, 0), lambda x: x.tile(2, -1), lambda x: x.triu().sum(0).tril(), lambda x: x[0].triu()],
)
def test_what_cannot_be_repeated_or_has_no_diagonals_is_refused(wrong: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(CaptureError):
        wrong(GraphBuilder().input("x", (3, 4)))
