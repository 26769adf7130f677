"""The committed steps: fresh, and judged in Python as the second reading says."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eigentensor.merkle import LEAF
from eigentensor.program.codec import read_record
from eigentensor.program.model import Body
from eigentensor.tracing.step import Point, evaluate_point

TESTS = Path(__file__).parents[1]
VECTORS = TESTS / "vectors" / "referee.json"
CELLS: list[dict[str, Any]] = json.loads(VECTORS.read_text())["cells"]


def test_the_steps_are_those_of_the_second_reading() -> None:
    assert VECTORS.read_text() == runpy.run_path(str(TESTS / "support/vectors/referee.py"))["text"]()


def test_the_steps_are_of_every_kind() -> None:
    bodies = [read_record("body", _bytes(cell["record"])) for cell in CELLS]
    assert {i.op for body in bodies for i in body.instructions} > {4, 8, 9, 10, 11, 12, 20, 43, 44, 45}
    assert any(len(path) > 2 + 3 * 64 for cell in CELLS for path in cell["paths"])
    assert any(len(constant) > 2 for cell in CELLS for constant in cell["constants"])


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell['name']} {cell['reduction'][:4]}")
def test_a_step_is_judged_from_its_witness_as_committed(cell: dict[str, Any]) -> None:
    body: Body = read_record("body", _bytes(cell["record"]))
    reduction = int(cell["reduction"], 16)
    point = Point(
        cell["element"],
        tuple(int(result, 16) for result in cell["results"]),
        None if reduction > body.reductions else reduction,
        cell["step"],
        int(cell["accumulator"], 16),
    )
    assert evaluate_point(body, point, cell["variables"], _reader(body, cell)) == int(cell["expected"], 16)


def _reader(body: Body, cell: dict[str, Any]) -> Callable[[int, int], int]:
    leaves = iter(cell["leaves"])

    def read(parameter: int, element: int) -> int:
        size = body.parameters[parameter].dtype.size
        constant, start = _bytes(cell["constants"][parameter - 1]), element * size
        data = read_record("buffer", constant).data if constant else _bytes(next(leaves)).ljust(LEAF, b"\0")
        start %= len(data) if constant else LEAF
        return int.from_bytes(data[start : start + size], "little")

    return read


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text[2:])
