"""Whatever a function of tinygrad is, it becomes a valid program or is refused as CaptureError, with its line."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tinygrad import Tensor, UOp

from eigentensor.capture import GraphProgram, TensorContext, capture, capture_graph
from eigentensor.errors import CaptureError
from eigentensor.graph.lower import lower
from eigentensor.graph.node import Graph
from eigentensor.program.validity import check

X = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
NUMBERS = [0, 1, -1, 2, 0.5, -0.0, 1e-45, 1e-7, 1e-30, 3.4e38, 1e300, 10**30, -(10**400), 2**31, True, np.pi / 2]
NUMBERS += [float("inf"), float("-inf"), float("nan"), 1.4426950408889634, 0.6931471805599453]
ONE = (
    "exp exp2 log log2 log10 sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid "
    "silu gelu quick_gelu relu relu6 elu celu selu mish softplus logsigmoid hardswish hardsigmoid hardtanh softsign "
    "erf leaky_relu abs neg sign floor ceil round trunc square isnan isinf isfinite logical_not softmax log_softmax "
    "logsumexp cumsum cummax logcumsumexp sum mean max min prod std var argmax argmin normalize layernorm flatten "
    "contiguous detach triu tril half bfloat16 int bool float long sort"
)
TWO = "add sub mul div maximum minimum pow fmod __lt__ __eq__ __floordiv__ __mod__ __xor__ __lshift__ where cat"


@st.composite
def functions(draw: st.DrawFn, depth: int = 4) -> Callable[[Tensor], Tensor]:
    kind = draw(st.integers(0, 9)) if depth else 0
    if kind == 0:
        return lambda x: x
    f = draw(functions(depth - 1))
    if kind < 5:
        method = draw(st.sampled_from(ONE.split()))
        return lambda x: getattr(f(x), method)()
    if kind == 5:
        return lambda x: f(x).gradient(x)[0]
    method, number = draw(st.sampled_from(TWO.split())), draw(st.sampled_from(NUMBERS))
    g: Callable[[Tensor], Any] = draw(functions(depth - 1)) if kind < 8 else lambda x: number
    if method == "where":
        return lambda x: (f(x) < number).where(f(x), g(x))
    return lambda x: getattr(f(x), method)(g(x))


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(functions())
@example(lambda x: NotImplemented)
def test_every_function_is_captured_or_refused(function: Callable[[Tensor], Tensor]) -> None:
    ways: tuple[Callable[..., GraphProgram | Graph], ...] = capture, capture_graph
    for way in ways:
        try:
            made = way(function, [X])
        except CaptureError as error:
            assert error.fix and __file__ in error.line
        else:
            if isinstance(made, GraphProgram):
                check(made.program)


def unbound(x: Tensor) -> Tensor:
    return x + Tensor(UOp.variable("n", 0, 3))


def twice(x: Tensor) -> Tensor:
    return x[Tensor([0, 1]), Tensor([0, 1, 2])]


def deep(x: Tensor) -> Tensor:
    return deep(x + 1)


@pytest.mark.parametrize("way", [capture, capture_graph])
@pytest.mark.parametrize(
    ("function", "inputs", "options"),
    [
        (unbound, [X], {}),
        (twice, [X], {}),
        (deep, [X], {}),
        (5, [X], {}),
        (lambda x: x, 5, {}),
        (lambda x: x, [X, X], {}),
        (lambda x: x, [object()], {}),
        (lambda x: x, [X.astype(str)], {}),
        (lambda x: x, {"y": X}, {}),
        (lambda x, n: x + n, [X], {"variables": {"n": (3, 1)}}),
        (lambda x, n: x + n, [X], {"variables": {"n": (0, 1 << 40)}}),
        (lambda x, n: x + n, [X], {"variables": {"n": (0,)}}),
        (lambda x, n: x + n, [X], {"variables": {"n": ("a", "b")}}),
        (lambda x: {1: x}, [X], {}),
        (lambda x: {"": x}, [X], {}),
        (lambda x: [x, [x]], [X], {}),
        (lambda x: None, [X], {}),
    ],
)
def test_wrong_usage_is_refused(
    way: Callable[..., Any], function: Any, inputs: Sequence[Any] | Mapping[str, Any], options: Mapping[str, Any]
) -> None:
    with pytest.raises(CaptureError) as refused:
        made = way(function, inputs, **options)
        lower(made)  # a graph's names and variables are held to the format when it becomes a program
    assert refused.value.fix


def test_wrong_usage_of_a_context_is_refused() -> None:
    context = TensorContext()
    wrong: list[Callable[[], Any]] = [
        lambda: context.add_graph_input("x", (-1,)),
        lambda: context.add_graph_input("y", (2,), "no such type"),
        lambda: context.add_graph_input("z", "ab"),  # type: ignore[arg-type]
        lambda: context.add_weight("w", 5),
        lambda: context.add_state("s", (2,), initial=[1, 2]),
        lambda: context.variable("n", 3, 1),
        lambda: context.compile_to_graph(),
        lambda: context.compile_to_graph(5),
    ]
    for use in wrong:
        with pytest.raises(CaptureError) as refused:
            use()
        assert refused.value.fix
