"""Functions that tinygrad composes of several are recognised, and only these: what is captured has their accuracy."""

from collections.abc import Callable

import numpy as np
import pytest
from tinygrad import Tensor

from eigentensor import reference
from eigentensor.capture import capture
from support.oracles.accuracy import EXACT, by_float64, program_of

X = np.random.default_rng(8).standard_normal((4, 6)).astype(np.float32)
BIAS = np.random.default_rng(9).standard_normal(6).astype(np.float32)
#: Where the formulas of tinygrad, in float32, have lost all digits.
TAILS = np.array([-87, -20, -9, -7, -5.5, -1e-4, -1e-9, 1e-9, 1e-4, 0.3, 9, 87], np.float32)
METHODS: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": lambda x: x.sigmoid(), "silu": lambda x: x.silu(), "softplus": lambda x: x.softplus(),
    "gelu_tanh": lambda x: x.gelu(), "gelu": lambda x: x.gelu(approximate="none"), "erf": lambda x: x.erf(),
    "mish": lambda x: x.mish(), "tan": lambda x: x.tan(), "asin": lambda x: x.asin(), "acos": lambda x: x.acos(),
    "atan": lambda x: x.atan(), "sinh": lambda x: x.sinh(), "cosh": lambda x: x.cosh(), "asinh": lambda x: x.asinh(),
    "acosh": lambda x: x.acosh(), "atanh": lambda x: x.atanh(), "log10": lambda x: x.log10(),
    "expm1": lambda x: x.exp() - 1, "log1p": lambda x: (1 + x).log(),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_the_function_alone(name: str) -> None:
    graph = capture(METHODS[name], {"x": X.ravel()}, {}, fingerprint=False)
    assert graph.program.bodies == program_of(name, X.size).bodies


@pytest.mark.parametrize("name", METHODS)
def test_a_function_of_an_expression_is_recognised(name: str) -> None:
    """After a layer with a bias, negated, scaled, moved, in a half type, and before other steps."""
    method = METHODS[name]
    longer = program_of(name, X.size).bodies[0].instructions
    around: list[Callable[[Tensor], Tensor]] = [
        lambda x: method(x @ Tensor(X.T) + Tensor(X[:, 0].copy())),
        lambda x: method(-x),
        lambda x: method(x * 0.3) * 0.7,
        lambda x: method(x - 0.1),
        lambda x: method(x.half()),
        lambda x: method(x + Tensor(BIAS)) * 2 + 1,
        lambda x: method(x).relu(),
        lambda x: method(x + x.sum(1, keepdim=True)),
    ]
    for function in around:
        bodies = capture(function, {"x": X}, {}, fingerprint=False).program.bodies
        assert max(len(body.instructions) for body in bodies) <= len(longer) + 12


@pytest.mark.parametrize("name", METHODS)
def test_a_recognised_function_keeps_its_relative_accuracy_in_the_tails(name: str) -> None:
    graph = capture(lambda x: METHODS[name](x * 1), {"x": TAILS}, {}, fingerprint=False)
    output = reference.execute(graph.program, {"x": TAILS}).outputs["output"]
    np.testing.assert_allclose(output, by_float64(name, TAILS), rtol=3e-7, atol=1e-44)


@pytest.mark.parametrize(
    ("function", "scale", "slope"),
    [
        (lambda x: x.elu(), 1, 1),
        (lambda x: x.elu(0.7), 0.7, 1),
        (lambda x: x.celu(1.3), 1.3, 1 / 1.3),
        (lambda x: x.selu() / 1.0507, 1.67326, 1),
    ],
)
def test_exponentials_less_one_keep_their_relative_accuracy(
    function: Callable[[Tensor], Tensor], scale: float, slope: float
) -> None:
    graph = capture(function, {"x": TAILS}, {}, fingerprint=False)
    output = reference.execute(graph.program, {"x": TAILS}).outputs["output"]
    exact = np.where(TAILS > 0, TAILS, scale * np.expm1(TAILS.astype(np.float64) * slope))
    np.testing.assert_allclose(output, exact, rtol=4e-7)


@pytest.mark.parametrize("name", ["tan", "asin", "sinh", "asinh", "atan", "expm1"])
def test_a_function_keeps_its_relative_accuracy_beside_a_zero_that_was_moved(name: str) -> None:
    x = np.float32(0.1) + TAILS[(TAILS > -0.3) & (TAILS < 0.4)]
    graph = capture(lambda x: METHODS[name](x - 0.1), {"x": x}, {}, fingerprint=False)
    output = reference.execute(graph.program, {"x": x}).outputs["output"]
    np.testing.assert_allclose(output, by_float64(name, x - np.float32(0.1)), rtol=3e-7)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x < -3).where(0, x * x.sigmoid()),
        lambda x: (x * 1.7).gelu() * x,
        lambda x: 0.5 * x * (1 + (0.8 * (x + 0.05 * x * x * x)).tanh()),
        lambda x: (x.gelu() - x.silu()).maximum(-0.1),
        lambda x: x * (x + 0.01).sigmoid(),
        lambda x: (x.exp() + 1.001).log(),
        lambda x: (x.abs() + 1.0000005).log() * 1e6,
        lambda x: (x.exp() - 1.0000005) * 1e6,
    ],
)
def test_what_is_almost_such_a_function_stays_itself(function: Callable[[Tensor], Tensor]) -> None:
    x = np.concatenate([X.ravel(), TAILS[2:-2]])
    graph = capture(function, {"x": x}, {}, fingerprint=False)
    output = reference.execute(graph.program, {"x": x}).outputs["output"]
    np.testing.assert_allclose(output, function(Tensor(x)).numpy(), rtol=1e-5, atol=2e-6)


def test_gradients_go_through_recognised_functions() -> None:
    def gradients(x: Tensor) -> Tensor:
        y = x.gelu() + x.silu() + x.softplus() + x.erf() + x.sigmoid()
        return y.sum().gradient(x)[0]

    x = np.linspace(-6, 6, 48, dtype=np.float32)  # without zero, where tinygrad's erf has no slope
    output = reference.execute(capture(gradients, {"x": x}, {}).program, {"x": x}).outputs["output"]
    h = 1e-4
    names = ("gelu_tanh", "silu", "softplus", "erf", "sigmoid")
    up, down = (sum(EXACT[name](x.astype(np.float64) + d) for name in names) for d in (h, -h))
    np.testing.assert_allclose(output, (up - down) / (2 * h), atol=5e-6)


def test_binary_cross_entropy_is_captured_and_right() -> None:
    def difference(x: Tensor) -> Tensor:
        return x.sigmoid().log() - (1 - x.sigmoid()).log()

    x = np.linspace(-60, 8, 69, dtype=np.float32)
    output = reference.execute(capture(difference, [x]).program, {"x": x}).outputs["output"]
    np.testing.assert_allclose(output, x, rtol=1e-6, atol=1e-3)  # 1 - sigmoid cancels above zero
    np.testing.assert_allclose(output[:61], x[:61], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 0.0, 2.0])
@pytest.mark.parametrize("step", ["exp", "log", "sin", "sqrt"])
def test_numbers_without_a_neighbour_stay_what_they_are(step: str, number: float) -> None:
    def around(x: Tensor) -> Tensor:
        y = getattr(x * number + 1, step)()
        return (y * number + 1) / (y - number)

    x = np.array([-2, -0.5, 0.25, 3], np.float32)
    output = reference.execute(capture(around, [x], fingerprint=False).program, {"x": x}).outputs["output"]
    with np.errstate(all="ignore"):
        c = np.float32(number)
        y = getattr(np, step)(x * c + np.float32(1))
        expected = (y * c + 1) / (y - c)
    np.testing.assert_allclose(output, expected, rtol=1e-5)
