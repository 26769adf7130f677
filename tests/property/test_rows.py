"""Rows that keep apart, held to what happens: a row has the same bits whatever the other rows are."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tinygrad import Tensor

from eigentensor import reference
from eigentensor.capture import capture
from eigentensor.errors import BindingError
from eigentensor.program import Program
from eigentensor.regions.rows import rows_of

Arrays = dict[str, np.ndarray[Any, Any]]
X = np.random.default_rng(0).standard_normal((6, 8), dtype=np.float32)
W = Tensor(np.random.default_rng(1).standard_normal((8, 3), dtype=np.float32), device="CPU").realize()
SQUARE = Tensor(np.random.default_rng(2).standard_normal((8, 8), dtype=np.float32), device="CPU").realize()
WIDE = Tensor(np.random.default_rng(3).standard_normal((8, 99), dtype=np.float32), device="CPU").realize()
KEPT: dict[str, Callable[[Tensor], Any]] = {
    "product": lambda x: x @ W,
    "elements": lambda x: x * 2 + 1,
    "softmax": lambda x: (x @ W).softmax(),
    "norm": lambda x: x.layernorm(),
    "sorted": lambda x: x.sort(1)[0],
    "running": lambda x: x.cumsum(1),
    "largest": lambda x: x.argmax(1),
    "looked up": lambda x: W[(x[:, 0] * 9).cast("int32").clamp(0, 7)],
    "transposed between": lambda x: (x.T * 2).contiguous().T @ W,
    "padded along another axis": lambda x: x.pad(((0, 0), (2, 1))).shrink(((0, 6), (1, 9))),
    "and another output": lambda x: (x @ W, W + 1),
}
MIXED: dict[str, Callable[[Tensor], Any]] = {
    "mean": lambda x: x.mean(0),
    "centred": lambda x: x - x.mean(0),
    "softmax along rows": lambda x: x.softmax(0),
    "running along rows": lambda x: x.cumsum(0),
    "the other way": lambda x: x.flip(0),
    "shifted": lambda x: x.pad(((1, 0), (0, 0))).shrink(((0, 6), (0, 8))),
    "product of rows": lambda x: x @ x.T,
    "one row for all": lambda x: x + x[:1],
    "chosen by a row": lambda x: (x[:1] > 0).where(x, 0),
    "looked up in a row that data name": lambda x: x[(x[:, 0].abs()).cast("int32").clamp(0, 5)],
    "halves": lambda x: x[:3] + x[3:],
    "along another axis": lambda x: x.T.contiguous(),
    "merged": lambda x: (x * 2).reshape(48),
}


def outputs(program: Program, tensors: Arrays) -> Arrays:
    return reference.execute(program, tensors).outputs


@pytest.mark.parametrize("name", KEPT)
def test_rows_that_keep_apart_are_known_to(name: str) -> None:
    graph = capture(KEPT[name], {"x": X})
    count, kept = rows_of(graph.program, ["x"])
    assert (count, len(kept)) == (6, 1)
    random, weights = np.random.default_rng(2), dict(graph.weights)
    whole = outputs(graph.program, {"x": X, **weights})
    for row in range(6):
        other = random.standard_normal(X.shape, dtype=np.float32) * 1e3
        other[row] = X[row]
        other[row - 1] = np.nan
        alone = outputs(graph.program, {"x": other, **weights})
        assert all(alone[key][row].tobytes() == whole[key][row].tobytes() for key in kept)
        rest = whole.keys() - {*kept, "fingerprint"}
        assert all(alone[key].tobytes() == whole[key].tobytes() for key in rest)


@pytest.mark.parametrize("name", MIXED)
def test_rows_that_are_mixed_are_refused(name: str) -> None:
    with pytest.raises(BindingError, match="rows of x do not keep apart"):
        rows_of(capture(MIXED[name], {"x": X}).program, ["x"])


def test_the_checksum_of_all_that_is_computed_is_no_rows_matter() -> None:
    graph = capture(lambda x: (x @ WIDE).exp() @ WIDE.T, {"x": X})
    assert "fingerprint" in graph.program.outputs
    assert rows_of(graph.program, ["x"]) == (6, ("output",))


def test_what_has_no_rows_is_refused() -> None:
    def added(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        return x + y[:1] + z

    y, one = np.zeros((5, 8), np.float32), np.float32(1)
    program = capture(added, {"x": X, "y": y, "z": one}).program
    assert rows_of(program, ["x"]) == (6, ("output",))
    for names, says in (
        (["a"], "no input 'a'"),
        (["x", "y"], "the same first extent"),
        (["z"], "the same first extent"),
    ):
        with pytest.raises(BindingError, match=says):
            rows_of(program, names)
    with pytest.raises(BindingError, match="two or more"):
        rows_of(capture(lambda x: x + 1, {"x": X[:1]}).program, ["x"])
    with pytest.raises(BindingError, match="no output depends on x"):
        rows_of(capture(lambda x: W + 1, {"x": X}).program, ["x"])
    state = Tensor.zeros(8, device="CPU").contiguous().realize()

    def counted(x: Tensor) -> Tensor:
        state.assign(state + 1)
        return x + state

    with pytest.raises(BindingError, match="with states"):
        rows_of(capture(counted, {"x": X}).program, ["x"])


#: From (6, 8) to (6, 8).
STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "product": lambda x: x @ SQUARE,
    "by itself": lambda x: x * (x @ SQUARE).sigmoid(),
    "flipped": lambda x: x.flip(1),
    "regrouped": lambda x: x.reshape(6, 2, 4).permute(0, 2, 1).contiguous().reshape(6, 8),
    **{name: KEPT[name] for name in ("elements", "norm", "sorted", "running", "padded along another axis")},
    **{name: MIXED[name] for name in ("centred", "softmax along rows", "the other way", "shifted", "chosen by a row")},
}


@settings(max_examples=30)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4), st.integers(0, 1 << 32))
def test_rows_that_are_said_to_keep_apart_do(names: list[str], seed: int) -> None:
    graph = capture(lambda x: reduce(lambda value, name: STEPS[name](value), names, x), {"x": X})
    try:
        _, kept = rows_of(graph.program, ["x"])
    except BindingError:
        assert MIXED.keys() & set(names)
        return
    random = np.random.default_rng(seed)
    row, other = random.integers(6), random.permutation(X)
    other[row] = X[row]
    whole, alone = (outputs(graph.program, {"x": x, **graph.weights}) for x in (X, other))
    assert kept == ("output",) and alone["output"][row].tobytes() == whole["output"][row].tobytes()
