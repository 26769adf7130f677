"""Sums of four products of bytes: an instruction here, several there, the same int32 with each."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from eigentensor.cache import Cache
from eigentensor.numerics.dtypes import DType
from eigentensor.program.expression import Array, Axis, Node, binary, const, counter, load, node, reduction
from eigentensor.program.model import Program
from eigentensor.program.ops import Op
from eigentensor.runtime import devices
from eigentensor.runtime.bodies.part import Quads
from eigentensor.runtime.bodies.quads import join_in_quads
from eigentensor.runtime.cpu import toolchain
from eigentensor.runtime.cpu.schedule import Schedule
from eigentensor.runtime.gpu import nvrtc
from eigentensor.runtime.gpu.gridded import Gridded, Queue, simple
from support.campaigns.device_cases import AnyGrid, on_devices, other, usable
from support.oracles.agreement import disagreements
from support.oracles.chosen import Chosen
from support.programs.blocks import by_integers as blocks_by_integers
from support.programs.tiles import F32, INDEX, program, tensors

ROWS, LANES, STEPS = 13, 19, 5
PAIRS = [(DType.INT8, DType.INT8), (DType.INT8, DType.UINT8), (DType.UINT8, DType.UINT8)]
#: What other processors lack: sums of four, wide vectors, and sums of two.
FLAGS = [
    (), ("-mno-avx2",),
    pytest.param(("-mno-avx512vnni",), marks=pytest.mark.slow),
    pytest.param(("-mno-avx2", "-U__SSE2__"), marks=pytest.mark.slow),
]  # fmt: skip


def compiler(architecture: str) -> Gridded:
    def none() -> Queue:
        raise AssertionError("only text is compiled")

    return nvrtc.toolchain(architecture, 432, none)


def dots(left: DType, right: DType, *, alone: bool = False) -> Program:
    """output[row, lane] = Σ over steps of the sum of four products of x[row], shifted where it has no sign, and y; and
    of x by itself, if `alone`."""
    row, lane, step = Axis(0, ROWS), Axis(1, LANES), Axis(2, STEPS, True)
    sizes = {"x": ROWS * STEPS * LANES * 4, "y": STEPS * LANES * 4}
    at = binary(Op.ADD, binary(Op.MUL, counter(step), const(INDEX, LANES)), counter(lane))
    place = binary(Op.MUL, at, const(INDEX, 4))
    line = binary(Op.ADD, binary(Op.MUL, counter(row), const(INDEX, STEPS * LANES * 4)), place)

    def byte(name: str, dtype: DType, first: Node, n: int) -> Node:
        value = load(Array(name, dtype, sizes[name]), binary(Op.ADD, first, const(INDEX, n)))
        far = node(Op.CAST, DType.UINT8, counter(step))
        return binary(Op.SHR, value, far) if dtype is DType.UINT8 else value

    def term(n: int) -> Node:
        pair = byte("y", right, place, n), byte("x", left, line, n)
        return binary(Op.MUL, *(node(Op.CAST, DType.INT32, value) for value in pair))

    total = term(0)
    for n in range(1, 4):
        total = binary(Op.ADD, total, term(n))
    value = node(Op.CAST, F32, total)
    if alone:
        value = binary(Op.ADD, value, node(Op.CAST, F32, byte("x", left, line, 0)))
    return program(reduction(Op.REDUCE_ADD, (step,), value), (row, lane), x=(left, sizes["x"]), y=(right, sizes["y"]))


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_sums_of_four_products_are_exact_with_every_instruction(flags: Sequence[str], tmp_path: Path) -> None:
    """Each sign with each, all lanes and none, in stripes, and rows that no tile divides."""
    here = toolchain.local()
    command = (*here.command[:-3], *flags, *here.command[-3:])
    for left, right in PAIRS:
        of = dots(left, right)
        assert isinstance(join_in_quads(of.bodies[0], ()), Quads)
        arrays = tensors(of)
        for array in arrays.values():
            array[::3], array[1::3] = np.iinfo(array.dtype).min, np.iinfo(array.dtype).max
        stripes = (Schedule(vector=1, lanes=n, row=0, rows=4, stripes=1, columns=-(-LANES // n)) for n in (16, 8, 4))
        schedules = (*stripes, Schedule(vector=0, lanes=8), Schedule())
        for schedule in schedules:
            kind = Chosen(f"{here.identity} {flags}", here.target, command, schedule)
            assert disagreements(of, arrays, cache=Cache(tmp_path), toolchain=kind) == [], schedule


def test_bytes_that_are_needed_one_by_one_too_stay_so(tmp_path: Path) -> None:
    of = dots(DType.UINT8, DType.INT8, alone=True)
    assert not isinstance(join_in_quads(of.bodies[0], ()), Quads)
    assert disagreements(of, tensors(of), cache=Cache(tmp_path)) == []


@pytest.mark.parametrize("rows", [5, 13])
def test_rows_of_stripes_that_do_not_divide_the_axis_are_all_written(rows: int, tmp_path: Path) -> None:
    here, of = toolchain.local(), dots(DType.INT8, DType.INT8)
    schedule = Schedule(vector=1, lanes=8, columns=3, row=0, rows=rows, stripes=1)
    kind = Chosen(here.identity, here.target, here.command, schedule)
    assert disagreements(of, tensors(of), cache=Cache(tmp_path), toolchain=kind) == []


@pytest.mark.parametrize(("device", "pair"), on_devices(PAIRS, PAIRS[1:2]))
def test_sums_of_four_products_are_exact_on_devices_with_work_items(
    device: str, pair: tuple[DType, DType], tmp_path: Path
) -> None:
    """With every grid: words that are read, and values that a group keeps together."""
    of, here = dots(*pair), devices.of(usable(device))
    assert isinstance(here, Gridded)
    assert isinstance(simple(of.bodies[0]), Quads)
    arrays = tensors(of)
    for array in arrays.values():
        array[::3], array[1::3] = np.iinfo(array.dtype).min, np.iinfo(array.dtype).max
    for kind in (here, *(other(AnyGrid, here, seed) for seed in range(2))):
        assert disagreements(of, arrays, device=device, toolchain=kind, cache=Cache(tmp_path)) == []


@pytest.mark.parametrize(("device", "kind"), on_devices(("Q8_0", "Q4_0", "Q5_K", "Q6_K"), ["Q6_K"]))
def test_blocks_are_words_on_devices_with_work_items(device: str, kind: str, tmp_path: Path) -> None:
    """Bits are shifted, masked, multiplied and added four bytes at a time."""
    graph, inputs = blocks_by_integers(kind)
    assert disagreements(graph.program, {**graph.weights, **inputs}, device=usable(device), cache=Cache(tmp_path)) == []


def test_text_for_gpus_has_an_instruction_for_four_products() -> None:
    """Of what lies in words; an old GPU has none, and computes the same by hand."""
    graph, _ = blocks_by_integers("Q4_K")
    body = max(graph.program.bodies, key=lambda body: len(body.instructions))
    ptx = {name: nvrtc.compiled(name, compiler(name).source(body)).ptx for name in ("sm_50", "sm_80")}
    assert "dp4a.u32.s32" in ptx["sm_80"]
    assert "dp4a" not in ptx["sm_50"]
    assert "word_u8(" in compiler("sm_80").source(body).rpartition("KERNEL(")[2]
