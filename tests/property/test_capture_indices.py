"""What tinygrad writes about places in tensors is integer arithmetic: the same numbers come out of the program."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tinygrad import Context, Tensor, UOp, dtypes

from eigentensor import reference
from eigentensor.capture import capture

LARGEST, COUNT = 6, 5


class Sum(NamedTuple):
    """An expression of a variable n and a counter i, for tinygrad and in Python's integers."""

    of: Callable[[Any, Any], Any]
    number: Callable[[int, int], int]


@st.composite
def sums(draw: st.DrawFn, depth: int = 3) -> Sum:
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        c = draw(st.integers(-9, 9))
        leaves = [Sum(lambda n, i: n, lambda n, i: n), Sum(lambda n, i: i, lambda n, i: i)]
        leaf: Sum = draw(st.sampled_from([*leaves, Sum(lambda n, i: Tensor(c), lambda n, i: c)]))
        return leaf
    a, b, c = draw(sums(depth - 1)), draw(sums(depth - 1)), draw(st.integers(1, 5))
    f, g, x, y = a.of, b.of, a.number, b.number
    table = [
        Sum(lambda n, i: f(n, i) + g(n, i), lambda n, i: x(n, i) + y(n, i)),
        Sum(lambda n, i: f(n, i) - g(n, i), lambda n, i: x(n, i) - y(n, i)),
        Sum(lambda n, i: f(n, i) * g(n, i), lambda n, i: x(n, i) * y(n, i)),
        Sum(lambda n, i: f(n, i) // c, lambda n, i: x(n, i) // c),
        Sum(lambda n, i: f(n, i) % c, lambda n, i: x(n, i) % c),
        Sum(lambda n, i: f(n, i) & g(n, i), lambda n, i: x(n, i) & y(n, i)),
        Sum(lambda n, i: f(n, i) | g(n, i), lambda n, i: x(n, i) | y(n, i)),
        Sum(lambda n, i: f(n, i) ^ g(n, i), lambda n, i: x(n, i) ^ y(n, i)),
        Sum(lambda n, i: f(n, i) << c, lambda n, i: x(n, i) << c),
        Sum(lambda n, i: f(n, i) >> c, lambda n, i: x(n, i) >> c),
        Sum(lambda n, i: f(n, i).maximum(g(n, i)), lambda n, i: max(x(n, i), y(n, i))),
        Sum(lambda n, i: f(n, i).minimum(g(n, i)), lambda n, i: min(x(n, i), y(n, i))),
        Sum(lambda n, i: (f(n, i) < g(n, i)).where(g(n, i), f(n, i)), lambda n, i: max(x(n, i), y(n, i))),
        Sum(lambda n, i: -f(n, i), lambda n, i: -x(n, i)),
        Sum(lambda n, i: ~f(n, i), lambda n, i: ~x(n, i)),
    ]
    made: Sum = draw(st.sampled_from(table))
    return made


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(sums())
def test_an_expression_of_places_is_that_of_integers(expression: Sum) -> None:
    def function(x: Tensor, n: UOp) -> Tensor:
        counter = Tensor.arange(COUNT).cast(dtypes.weakint)
        return x + expression.of(Tensor(n), counter).cast("int32")

    zeros = np.zeros(COUNT, np.int32)
    graph = capture(function, [zeros], variables={"n": (0, LARGEST)}, fingerprint=False)
    for n in range(LARGEST + 1):
        result = reference.execute(graph.program, {"x": zeros}, {"n": n}).outputs["output"]
        assert result.tolist() == [expression.number(n, i) for i in range(COUNT)]


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.tuples(st.integers(2, 3), st.integers(2, 3)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.integers(1, 2),
    st.integers(0, 1),
    st.booleans(),
    st.sampled_from(["avg", "avg of what is there", "max", "max, where"]),
)
def test_a_pool_is_the_pool(
    kernel: tuple[int, int], stride: tuple[int, int], dilation: int, padding: int, ceil_mode: bool, kind: str
) -> None:
    def pool(x: Tensor) -> Tensor:
        if kind.startswith("avg"):
            return x.avg_pool2d(kernel, stride, dilation, padding, ceil_mode, count_include_pad=kind == "avg")
        if kind == "max":
            return x.max_pool2d(kernel, stride, dilation, padding, ceil_mode)
        return x.max_pool2d(kernel, stride, dilation, padding, ceil_mode, return_indices=True)[1]

    x = np.random.default_rng(1).standard_normal((1, 2, 6, 7)).astype(np.float32)
    graph = capture(pool, [x], fingerprint=False)
    with Context(DEV="CPU"):
        expected = pool(Tensor(x)).numpy()
    result = reference.execute(graph.program, {"x": x}).outputs["output"]
    assert result.dtype == expected.dtype and np.allclose(result, expected, rtol=1e-5, atol=1e-6)
