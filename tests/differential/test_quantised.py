"""Blocks of integers: elements are gguf's bit for bit, products those of the floats, or of integers as specified."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tinygrad import Tensor

from eigentensor.capture import GraphProgram, capture
from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.bodies.part import Quads
from eigentensor.runtime.bodies.quads import join_in_quads
from eigentensor.runtime.cpu.choice import choose
from eigentensor.runtime.cpu.schedule import Target
from eigentensor.runtime.cpu.source import write
from eigentensor_models.blocks import LANES
from eigentensor_models.matrices import Floats, Matrix, matrix_of
from eigentensor_models.quantised import KINDS, Quantised
from support.oracles.agreement import disagreements
from support.vectors.gguf_blocks import PATH, ROWS, blocks
from support.vectors.gguf_models import digest

COLUMNS = 512
X = np.random.default_rng(1).standard_normal((1, 1, COLUMNS)).astype(np.float32)
X[..., 64:96], X[..., 96] = 0, 1e-42  # nothing in a group, and a group of subnormal numbers


def quantised(kind: str, rows: int) -> Quantised:
    return KINDS[kind].split(blocks(kind, rows, COLUMNS).reshape(-1), (rows, COLUMNS))


def blocks_of(kept: Quantised, *, integer: bool) -> tuple[Matrix, dict[str, Tensor]]:
    kept = replace(kept, beside=integer)
    fields = {name: Tensor(part.array) for name, part in kept.parts("it").items()}
    return matrix_of("it", kept, fields), fields


def product(matrix: Matrix, weights: dict[str, Tensor]) -> GraphProgram:
    return capture(lambda x: matrix.product(x), {"x": X}, weights, fingerprint=False)


def run(graph: GraphProgram) -> npt.NDArray[Any]:
    return CompiledGraph(graph.program, graph.weights).run({"x": X}).outputs["output"]


def elements(kept: Quantised, *, integer: bool = False) -> npt.NDArray[Any]:
    matrix, fields = blocks_of(kept, integer=integer)
    graph = capture(
        lambda first: matrix.rows(Tensor.arange(kept.shape[0]) + first),
        {"first": np.zeros(1, np.int32)}, fields, fingerprint=False,
    )  # fmt: skip
    return CompiledGraph(graph.program, graph.weights).run({"first": np.zeros(1, np.int32)}).outputs["output"]


@pytest.mark.parametrize("kind", KINDS)
def test_elements_are_those_of_the_library_bit_for_bit(kind: str) -> None:
    for integer in (False, True):  # as rows lie side by side, too
        assert digest(elements(quantised(kind, ROWS), integer=integer)) == json.loads(PATH.read_text())[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_products_have_the_bits_of_a_model_of_floats(kind: str) -> None:
    kept = quantised(kind, 61)
    whole = {"whole": Tensor(elements(kept))}
    assert (
        run(product(*blocks_of(kept, integer=False))).tobytes() == run(product(Floats(whole["whole"]), whole)).tobytes()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_products_of_integers_are_as_specified(kind: str) -> None:
    """The reference's bits; and but for rounding the sums of elements times x, as its groups of 32 are quantised."""
    kept = quantised(kind, 61)
    graph = product(*blocks_of(kept, integer=True))
    assert disagreements(graph.program, {**graph.weights, "x": X}) == []
    assert any(isinstance(join_in_quads(body, ()), Quads) for body in graph.program.bodies)
    groups = X.reshape(-1, 32)
    largest = np.abs(groups).max(-1, keepdims=True)
    with np.errstate(all="ignore"):
        scaled = groups * np.where(largest > 0, np.float32(127) / largest, np.float32(0))
    integers = np.clip(np.trunc(scaled + np.where(scaled < 0, np.float32(-0.5), np.float32(0.5))), -128, 127)
    meant = (integers.astype(np.float64) * (largest / np.float32(127))).reshape(-1)
    wanted = elements(kept).astype(np.float64) @ meant
    assert np.abs(run(graph).reshape(-1) - wanted).max() <= 1e-5 * np.sqrt(np.square(wanted).mean())


def test_several_rows_are_multiplied_as_one_is() -> None:
    matrix, fields = blocks_of(quantised("Q4_K", 7), integer=True)
    x = np.random.default_rng(2).standard_normal((3, COLUMNS)).astype(np.float32)
    together = capture(lambda x: matrix.product(x), {"x": x}, fields, fingerprint=False)
    rows = CompiledGraph(together.program, together.weights).run({"x": x}).outputs["output"]
    alone = capture(lambda x: matrix.product(x), {"x": x[:1]}, fields, fingerprint=False)
    execute = CompiledGraph(alone.program, alone.weights)
    for row, one in zip(rows, x, strict=True):
        assert execute.run({"x": one[None]}).outputs["output"].tobytes() == row.tobytes()


@pytest.mark.parametrize(
    ("integer", "target"), [(False, Target(16, 32)), (True, Target(16, 32)), (True, Target(8, 16))]
)
@pytest.mark.parametrize("kind", KINDS)
def test_matrices_are_read_once_as_they_lie(kind: str, integer: bool, target: Target) -> None:
    """Long rows, each a stream, or one stream of all rows side by side: no lane is read alone, no square is turned."""
    few = blocks(kind, 64, COLUMNS).reshape(-1)
    graph = product(*blocks_of(KINDS[kind].split(np.tile(few, 32), (2048, COLUMNS)), integer=integer))
    body = max(graph.program.bodies, key=lambda body: sum(p.elements * p.dtype.size for p in body.parameters[1:]))
    schedule = choose(body, target)
    assert schedule.rows == LANES and not schedule.stripes if integer else schedule.stripes
    text = write(body, schedule)
    assert not any(word in text for word in ("gather_", "stride_", "turn_"))
