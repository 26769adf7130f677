"""Random functions of integers, written once for tinygrad and once for NumPy, mean the same when captured."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tinygrad import Tensor

from eigentensor import reference
from eigentensor.capture import GraphProgram, TensorContext

Ints = NDArray[np.int32]
Move = tuple[Callable[[Tensor], Tensor], Callable[[Ints], Ints]]
SHAPE = (3, 4, 2)


def assigned(target: Tensor, row: int, value: int) -> Tensor:
    new = target.clone()
    new[row] = value
    return new


def with_row(array: Ints, row: int, value: int) -> Ints:
    new = array.copy()
    new[row] = value
    return new


def hits(axis: int) -> Callable[[Ints], Ints]:
    return lambda x: (x.max(axis, keepdims=True) == x) + np.int32(x.argmax(axis).sum())


def same(function: Callable[[Any], Any]) -> Move:
    """For what both write alike."""
    return function, function


@st.composite
def moves(draw: st.DrawFn) -> Callable[[tuple[int, ...]], Move]:
    """A step for tensors of any shape, decided by the drawn numbers alone."""
    kind, k, c = draw(st.integers(0, 17)), draw(st.integers(0, 7)), draw(st.integers(-5, 5))

    def step(shape: tuple[int, ...]) -> Move:
        axis = k % len(shape)
        order = tuple(np.roll(range(len(shape)), k))
        width = [(0, 0)] * axis + [(k % 3, 1)] + [(0, 0)] * (len(shape) - axis - 1)
        table = [
            same(lambda x: x * c + 3),
            same(lambda x: x // 3 - (x & 5)),
            (lambda x: (x < c).where(x, x * x), lambda x: np.where(x < c, x, x * x)),
            (lambda x: x.flip(axis), lambda x: np.flip(x, axis)),
            (lambda x: x.permute(order), lambda x: np.transpose(x, order)),
            (lambda x: x.reshape(-1, shape[0]), lambda x: x.reshape(-1, shape[0])),
            (lambda x: x.pad(tuple(width)), lambda x: np.pad(x, width)),
            same(lambda x: x[k % shape[0] :]),
            same(lambda x: x[:: 1 + k % 2]),
            (lambda x: x.cumsum(axis), lambda x: np.cumsum(x, axis, dtype=np.int32)),
            (lambda x: x.sum(axis, keepdim=True) + x, lambda x: x.sum(axis, keepdims=True, dtype=np.int32) + x),
            (lambda x: x.max(axis, keepdim=True) - x, lambda x: x.max(axis, keepdims=True) - x),
            (lambda x: x.roll(k, axis), lambda x: np.roll(x, k, axis)),
            (lambda x: assigned(x, k % shape[0], c), lambda x: with_row(x, k % shape[0], c)),
            (lambda x: x.cat(x * c, dim=axis)[1:], lambda x: np.concatenate([x, x * c], axis)[1:]),
            (lambda x: (x.long() * x * c >> 3).int(), lambda x: (x.astype(np.int64) * x * c >> 3).astype(np.int32)),
            same(lambda x: x[x.flatten()[: 1 + k] % shape[0]]),
            (lambda x: x.max(axis, keepdim=True).eq(x).int() + x.argmax(axis).sum(), hits(axis)),
        ]
        return table[kind]

    return step


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(moves(), min_size=1, max_size=6), st.booleans())
def test_a_captured_function_is_the_function(steps: list[Callable[[tuple[int, ...]], Move]], realized: bool) -> None:
    context = TensorContext()
    tensor = context.add_graph_input("x", SHAPE, "int32")
    x = np.random.default_rng(len(steps)).integers(-99, 99, SHAPE).astype(np.int32)
    expected = x
    for number, step in enumerate(steps):
        if not expected.size:
            break  # nothing is left to choose from
        ours, theirs = step(expected.shape)
        tensor, expected = ours(tensor), np.asarray(theirs(expected), np.int32)
        if realized and number % 2:
            tensor = tensor.contiguous()
    program = GraphProgram.from_bytes(context.compile_to_graph(tensor).to_bytes()).program
    output = reference.execute(program, {"x": x}).outputs["output"]
    assert output.shape == expected.shape
    assert np.array_equal(output, expected)
