"""Variables, states and random numbers in graphs of tinygrad functions: they have the bits of capture's programs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor, UOp

from eigentensor.capture import capture, capture_graph
from eigentensor.errors import CaptureError
from eigentensor.graph.codec import decode, encode
from eigentensor.graph.lower import lower
from eigentensor.graph.node import Form, walk
from eigentensor.planner.oracle import max_relative_error, oracle
from eigentensor.reference import execute
from support.programs import captured as captured_graphs
from support.programs.captured import normal

X, Y = normal(5, 6), normal(3, 6)
LIMITS = (1, 4)


def held(*shape: int) -> Tensor:
    return Tensor(normal(*shape)).realize()


def assigning(write: Callable[[Tensor, Tensor, Any], object]) -> Callable[[], Callable[..., Tensor]]:
    """A function with a state, made anew for each capture."""

    def make() -> Callable[..., Tensor]:
        state = Tensor(np.arange(30, dtype=np.float32).reshape(5, 6)).realize()

        def function(x: Tensor, n: UOp) -> Tensor:
            write(state, x, n)
            return (state * x).sum(0)

        return function

    return make


def in_column(state: Tensor, x: Tensor, n: UOp) -> None:
    state.transpose()[n : n + 1, 1:3].assign(x[2:4, 1:2].transpose())


def twice(state: Tensor, x: Tensor, n: UOp) -> None:
    before = (state * 2).contiguous()
    state[n : n + 1].assign(x[:1] + before[1:2])
    state[1:3].assign(x[n : n + 1].expand(2, 6) + state[n : n + 1])


def whole(state: Tensor, x: Tensor, n: UOp) -> None:
    state.assign(state + x * n)
    state.assign(state.flip(1) * 2)


CASES: dict[str, Callable[[], Callable[..., Any]]] = {
    "sum of the first": lambda: lambda x, n: x[:n].sum(0),
    "mean and softmax": lambda: lambda x, n: (x[:n] @ x.transpose())[:, 2:].softmax(0).sum(0) + x[:n].mean(),
    "sum of products": lambda: lambda x, n: x[:, :n] @ x[:, :n].transpose(),
    "largest": lambda: lambda x, n: x[:, :n].max(1),
    "product": lambda: lambda x, n: x[:, :n].prod(1),
    "two at once": lambda: lambda x, n: x[:n, :n].exp().sum(),
    "a window": lambda: lambda x, n: x[n : n + 1].reshape(6) * x[:, n : n + 2].sum(1).sum(),
    "reversed": lambda: lambda x, n: (x[:n].flip(0) * x[:n]).sum(0),
    "padded": lambda: lambda x, n: x[:n].pad(((0, 5 - n), (1, 0))) * 2,
    "padded before": lambda: lambda x, n: x[:2].pad(((n, 4 - n), None)) - 1,
    "one after the other": lambda: lambda x, n: x[:n].cat(x[:2], dim=0).sum(0),
    "arithmetic": lambda: lambda x, n: x * n + (x + n * 2) / (x - n),
    "stack": lambda: lambda x, n: Tensor.stack(x[n : n + 1], x[:1] * 2, dim=1),
    "append": assigning(lambda state, x, n: state[n : n + 1].assign(x[:1] + state[n : n + 1])),
    "in a column": assigning(in_column),
    "assigned twice": assigning(twice),
    "the whole": assigning(whole),
}


@pytest.mark.parametrize("name", CASES)
def test_variables_and_states_have_the_bits_of_the_captured_program(name: str) -> None:
    variables = {"n": LIMITS}
    graph = capture_graph(CASES[name](), {"x": X}, variables=variables)
    assert encode(decode(encode(graph))) == encode(graph)
    ours, theirs = lower(graph), capture(CASES[name](), {"x": X}, variables=variables)
    assert ours.states.keys() == theirs.states.keys()
    for n in range(LIMITS[0], LIMITS[1] + 1):
        actual, expected = (execute(of.program, {"x": X, **of.states}, {"n": n}) for of in (ours, theirs))
        assert actual.outputs["output"].tobytes() == expected.outputs["output"].tobytes()
        assert {k: v.tobytes() for k, v in actual.states.items()} == {
            k: v.tobytes() for k, v in expected.states.items()
        }
        exact = oracle(graph, {"x": X}, {"n": n})
        results = [*actual.outputs.values(), *actual.states.values()]
        for root, result, values in zip(graph.roots, results, exact, strict=False):
            assert max_relative_error(root.dtype, result, values) < 1e-5


@pytest.mark.parametrize("name", ["decoder step", "random numbers"])
def test_a_step_of_a_decoder_and_random_numbers_have_the_bits_of_the_captured_program(name: str) -> None:
    example = captured_graphs.graphs()[name]
    graph = capture_graph(example.function, example.inputs, variables=example.variables)
    ours, theirs = lower(graph), example.captured()
    last = {name: limits[1] for name, limits in example.variables.items()}
    actual, expected = (execute(of.program, example.bound(of), last) for of in (ours, theirs))
    for name, tensor in {**expected.outputs, **expected.states}.items():
        assert {**actual.outputs, **actual.states}[name].tobytes() == tensor.tobytes()


def test_a_step_of_training_is_near_what_the_scheduler_makes_of_it() -> None:
    example = captured_graphs.graphs()["training step with Adam"]
    graph = capture_graph(example.function, example.inputs)
    ours, theirs = lower(graph), example.captured()
    assert ours.states.keys() == theirs.states.keys()
    actual, expected = (execute(of.program, example.bound(of)) for of in (ours, theirs))
    for name, tensor in {**expected.outputs, **expected.states}.items():
        if name != "fingerprint":
            np.testing.assert_allclose({**actual.outputs, **actual.states}[name], tensor, 1e-3, 1e-5)


@pytest.mark.parametrize("realized", [False, True])
def test_what_was_read_before_an_assignment_to_a_part_is_what_was_there(realized: bool) -> None:
    def make() -> Callable[..., Tensor]:
        state, other = held(3, 2), held(3, 2)

        def function(x: Tensor) -> Tensor:
            twice = state * 2 + x
            total = twice.sum(0)
            if realized:
                total.realize()
            other.assign(state + 1)
            state[1:2].assign(twice[:1] + total)
            return total * 3

        return function

    for made in (capture(make(), {"x": X[0, :2]}), lower(capture_graph(make(), {"x": X[0, :2]}))):
        results = execute(made.program, {"x": X[0, :2], **made.states})
        state = made.states["state"]
        twice = state * 2 + X[0, :2]
        np.testing.assert_allclose(results.outputs["output"], twice.sum(0) * 3, 1e-5)
        np.testing.assert_array_equal(results.states["other"], state + 1)
        np.testing.assert_allclose(results.states["state"], [state[0], twice[0] + twice.sum(0), state[2]], 1e-5)


def test_what_is_realized_on_the_way_is_stored() -> None:
    def function(x: Tensor) -> Tensor:
        y = (x * 3).realize()
        return y.sum(0)

    graph = capture_graph(function, {"x": X})
    assert any(n.op is Form.CONTIGUOUS for n in walk(*graph.roots))
    ours, theirs = lower(graph), capture(function, {"x": X})
    actual, expected = (execute(of.program, {"x": X}).outputs["output"] for of in (ours, theirs))
    assert actual.tobytes() == expected.tobytes()


def test_an_extent_that_depends_on_a_variable_stays_an_axis() -> None:
    with pytest.raises(CaptureError, match="merges an extent that depends on a variable") as refusal:
        capture_graph(lambda x, n: x[:n].reshape(n * 6).sum(), {"x": X}, variables={"n": LIMITS})
    assert refusal.value.fix
    with pytest.raises(CaptureError, match="depends on a variable"):
        capture_graph(lambda x, n: x[:n], {"x": X}, variables={"n": LIMITS})
