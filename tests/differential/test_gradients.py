"""Gradients at extreme values: those of PyTorch, or, where tinygrad has others, tinygrad's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tinygrad import Tensor

from eigentensor import reference
from eigentensor.capture import capture
from eigentensor.capture.raising import capture_graph
from eigentensor.graph.lower import lower
from eigentensor.lowering.graph_program import GraphProgram
from eigentensor.program.model import Role
from support.programs.extreme_gradients import CASES, ELSEWHERE, INPUTS, Case
from support.programs.tensor_methods import EXAMPLES
from support.vectors.gradients import close, gradient_of, gradients

KNOWN = gradients()
#: 1.44·3·10³⁸ overflows: tinygrad has taken 1/log 2 out of its reciprocal, and multiplies by it last.
APART = {"atanh": [48]}


@pytest.mark.parametrize("name", CASES)
def test_a_captured_gradient_is_what_pytorch_or_tinygrad_says(name: str) -> None:
    case = CASES[name]
    differences = wrong(name, capture(gradient_of(case), inputs_of(case), {}, fingerprint=False))
    assert [place for place, *_ in differences] == APART.get(name, []), differences


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "silu", "gelu", "quick_gelu", "by hand", "div"])
def test_so_is_that_of_a_graph(name: str) -> None:
    case = CASES[name]
    assert wrong(name, lower(capture_graph(gradient_of(case), inputs_of(case), {}), fingerprint=False)) == []


def test_every_method_has_a_case_or_a_reason() -> None:
    reasons = [name for names in ELSEWHERE.values() for name in names]
    assert len(set(reasons)) == len(reasons)
    assert {*EXAMPLES} - {*reasons} <= {*CASES}
    assert not {*reasons} & {*CASES} and {*reasons} <= {*EXAMPLES}


@st.composite
def nested(draw: st.DrawFn, names: list[str]) -> str:
    """A product of these, in some order and nesting."""
    parts = draw(st.permutations(names))
    while len(parts) > 1:
        place = draw(st.integers(0, len(parts) - 2))
        parts = [*parts[:place], f"({parts[place]} * {parts[place + 1]})", *parts[place + 2 :]]
    return parts[0]


@given(nested(["e", "r", "r", "x", "y"]), st.sampled_from(["r", "s"]))
def test_infinities_meet_no_zeros_however_a_product_is_nested(product: str, sigmoid: str) -> None:
    """e, which is infinite, beside two 1/(1 + e), of which some are a sigmoid that somebody else wrote."""
    code = compile(product, "<product>", "eval")

    def function(x: Tensor, y: Tensor) -> Tensor:
        e = (-x).exp() if sigmoid == "r" else y * y
        return eval(code, {"e": e, "r": (1 + e).reciprocal(), "x": x, "y": y})

    inputs = {"x": np.array([-100, -90, -3], np.float32), "y": np.array([3e30, 1e19, 0.5], np.float32)}
    values = reference.execute(capture(function, inputs, {}, fingerprint=False).program, inputs).outputs["output"]
    assert np.isfinite(values).all()
    e = np.exp(3.0) if sigmoid == "r" else 0.25
    np.testing.assert_allclose(values[2], -3 * 0.5 * e / (1 + e) ** 2, rtol=1e-6)


def inputs_of(case: Case) -> dict[str, np.ndarray]:
    return {name: INPUTS[name] for name in case.takes}


def wrong(name: str, graph: GraphProgram) -> list[tuple[float, ...]]:
    """Place, gradient, and what PyTorch and tinygrad say, where it is neither, nor nearer to PyTorch than tinygrad is.

    Where PyTorch has none, any will do.
    """
    tensors = {key: INPUTS[key] for key in graph.program.named(Role.INPUT)}
    ours = reference.execute(graph.program, {**tensors, **graph.weights}).outputs["output"]
    torch, tinygrad = KNOWN[name]
    fine = close(ours, torch, also=tinygrad) | np.isnan(torch) | (close(ours, tinygrad) & ~close(tinygrad, torch))
    return [(int(i), float(ours[i]), float(torch[i]), float(tinygrad[i])) for i in np.flatnonzero(~fine)]
