"""Shapes that no tile divides, values packed for all rows, reads along every axis: the same bits for all schedules."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from tinygrad import Tensor, UOp

from eigentensor import reference
from eigentensor.cache import Cache
from eigentensor.capture import capture
from eigentensor.numerics.dtypes import DType
from eigentensor.program.expression import Array, Axis, binary, conjunction, const, counter, load, reduction
from eigentensor.program.model import Body, Program
from eigentensor.program.ops import Op
from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.bodies.analysis import Analysis
from eigentensor.runtime.bodies.rewriting import join, simple_joins
from eigentensor.runtime.cpu import toolchain
from eigentensor.runtime.cpu.choice import candidates, choose
from eigentensor.runtime.cpu.schedule import Schedule, Target
from eigentensor.runtime.cpu.source import write
from eigentensor.runtime.cpu.table import Table
from eigentensor.threads import start
from support.oracles.agreement import disagreements
from support.oracles.chosen import Chosen
from support.programs.models import Values
from support.programs.tiles import CASES, F32, INDEX, LONG, M, N, gradient, index, product, program, tensors


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow if c.startswith(LONG) else []) for c in CASES])
def test_the_widest_schedules_give_the_bits_of_the_reference(case: str, tmp_path: Path) -> None:
    """Of all possible schedules those with the most rows, columns and packed values, for each number of lanes."""
    here, of = toolchain.local(), CASES[case]()
    for target in (Target(16, 32), Target(8, 16), Target(4, 16)):
        possible = candidates(of.bodies[0], target)
        schedules = {max(possible, key=rank) for rank in (_packed, _tile, _last_axis, _inner)}
        for schedule in schedules:
            kind = Chosen(here.identity, target, here.command, schedule)
            assert disagreements(of, tensors(of), cache=Cache(tmp_path), toolchain=kind) == [], schedule


@pytest.mark.parametrize("case", ["product_float32_nn", "product_float32_nt", "product_int8_nn", "convolution"])
@pytest.mark.parametrize(("panel", "blocks"), [(1, 2), (7, 1), (16, 3), (19, 100)])
def test_accumulators_wait_between_panels(case: str, panel: int, blocks: int, tmp_path: Path) -> None:
    """Panels that divide the steps or do not, that are longer than a square or shorter, than the reduction or not."""
    here, of = toolchain.local(), CASES[case]()
    in_panels = (s for s in candidates(of.bodies[0], here.target) if s.packed and s.inner is None)
    schedule = next(in_panels)
    schedule = replace(schedule, panel=panel, block=blocks * schedule.rows)
    kind = Chosen(here.identity, here.target, here.command, only=schedule)
    assert disagreements(of, tensors(of), cache=Cache(tmp_path), toolchain=kind) == [], schedule


@pytest.mark.parametrize(("panel", "blocks"), [(1, 2), (8, 1), (7, 2), (100, 9)])
@pytest.mark.parametrize("case", ["product_float32_nn", "product_int8_nn"])
def test_accumulators_of_the_vectors_axis_wait_between_panels(
    case: str, panel: int, blocks: int, tmp_path: Path
) -> None:
    """Of a tile without rows: the innermost loop is that over columns, in blocks."""
    here, of = toolchain.local(), CASES[case]()
    schedule = Schedule(vector=1, lanes=8, columns=2, panel=panel, block=16 * blocks)
    kind = Chosen(here.identity, here.target, here.command, only=schedule)
    assert disagreements(of, tensors(of), cache=Cache(tmp_path), toolchain=kind) == [], schedule


@pytest.mark.parametrize("number", range(12))
def test_the_first_schedules_that_pack_a_gradient(number: int, tmp_path: Path) -> None:
    here, of = toolchain.local(), gradient()
    schedule = [s for s in candidates(of.bodies[0], here.target) if s.packed][number]
    kind = Chosen(here.identity, here.target, here.command, only=schedule)
    assert disagreements(of, tensors(of), cache=Cache(tmp_path), toolchain=kind) == [], schedule


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_share_the_parts_of_a_call(threads: int, tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    x, y = (random.standard_normal((200, 200), dtype=np.float32) for _ in range(2))
    of = product(F32, False, True, (200, 200, 200))
    together, alone = (
        CompiledGraph(of, {"a": x.reshape(-1), "b": y.reshape(-1)}, threads=n, cache=Cache(tmp_path))
        for n in (threads, 1)
    )
    loaded = together.loaded
    assert isinstance(loaded, Table)
    loaded.table["grain"] = 1
    together.run({})
    loaded.written()[len(of.buffers)].fill(0)
    start(threads)
    loaded.driver.run(loaded.table, threads)
    loaded.driver.run(loaded.table, threads)
    expected = alone.run({}).outputs["output"]
    assert loaded.read(of.outputs["output"]).tobytes() == expected.tobytes()


@pytest.mark.parametrize("case", CASES)
def test_joined_axes_give_the_same_elements(case: str) -> None:
    of = CASES[case]()
    arrays = tensors(of)
    expected = reference.execute(of, arrays).outputs["output"]
    axes = range(1, len(of.bodies[0].output_ranges))
    for joined in (tuple(chosen) for n in range(len(axes) + 1) for chosen in combinations(axes, n)):
        same = replace(of, bodies=(join(of.bodies[0], joined),))
        assert reference.execute(same, arrays).outputs["output"].tobytes() == expected.tobytes(), joined


def test_indices_that_are_taken_apart_are_found_to_be_one() -> None:
    """((f // 9)·3 + f // 3 % 3)·3 + f % 3 is f: read side by side."""
    axes = (Axis(0, M), Axis(1, 3 * N))
    f = counter(axes[1])
    number = {n: const(INDEX, n) for n in (3, 9)}
    high, middle = binary(Op.FLOORDIV, f, number[9]), binary(Op.FLOORDIV, f, number[3])
    parts = (high, 9), (binary(Op.FLOORMOD, middle, number[3]), 3), (binary(Op.FLOORMOD, f, number[3]), 1)
    of = program(load(Array("x", F32, 3 * N + 6), index(*parts)), axes, x=(F32, 3 * N + 6))
    body = join(of.bodies[0], ())
    assert not {Op.FLOORDIV, Op.FLOORMOD}.intersection(i.op for i in body.instructions)
    arrays = tensors(of)
    same = replace(of, bodies=(body,))
    expected = reference.execute(of, arrays).outputs["output"]
    assert reference.execute(same, arrays).outputs["output"].tobytes() == expected.tobytes()


def test_loops_whose_counters_are_divided_become_several(tmp_path: Path) -> None:
    """A convolution that is stored as rows of a group each, and has no quotient or remainder in it any more, guarded
    ones of neighbours neither."""

    def grouped(x: Tensor, w: Tensor) -> Tensor:
        y = x.conv2d(w, padding=1).reshape(2, -1)
        return y - y.mean(1, keepdim=True)

    random = np.random.default_rng(3)
    x, w = (random.standard_normal(shape, dtype=np.float32) for shape in ((1, 3, 5, 6), (4, 3, 3, 3)))
    of = capture(grouped, (x, w)).program
    divided = next(b for b in of.bodies if b.reduce_ranges and b.output_ranges == (2, 60))
    assert any(i.op is Op.FLOORDIV for i in divided.instructions)
    body = join(divided, ())
    assert body.output_ranges == (2, 2, 5, 6)
    assert not {Op.FLOORDIV, Op.FLOORMOD}.intersection(i.op for i in body.instructions)
    same, arrays = replace(of, bodies=tuple(join(b, ()) for b in of.bodies)), {"x": x, "w": w}
    expected = reference.execute(of, arrays).outputs["output"]
    assert reference.execute(same, arrays).outputs["output"].tobytes() == expected.tobytes()
    assert disagreements(of, arrays, cache=Cache(tmp_path)) == []


def test_indices_that_no_constant_of_a_body_can_scale_stay_as_they_are(tmp_path: Path) -> None:
    """i · 2²⁰ · 2²⁰ // 2³⁰ // 2¹⁰ is i, over a number that has no record."""
    axes = (Axis(0, M), Axis(1, N))
    far = [binary(Op.MUL, counter(axis), const(INDEX, 1 << 20)) for axis in axes]
    far = [binary(Op.MUL, place, const(INDEX, 1 << 20)) for place in far]
    i, j = (binary(Op.FLOORDIV, binary(Op.FLOORDIV, p, const(INDEX, 1 << 30)), const(INDEX, 1 << 10)) for p in far)
    of = program(load(Array("x", F32, M * N), index((i, N), (j, 1))), axes, x=(F32, M * N))
    assert disagreements(of, tensors(of), cache=Cache(tmp_path)) == []


def test_a_schedule_is_its_text() -> None:
    for case in CASES.values():
        for schedule in candidates(case().bodies[0], Target(16, 32)):
            assert Schedule.parse(str(schedule)) == schedule
    assert str(Schedule()) == "plain"
    for text in ("", "lanes=1", "lanes=16 vector=1", "vector=1,2", "vector=None", "tiles=3", "plain plain", "rows"):
        with pytest.raises(ValueError, match=r"schedule|unpack|int\(\)"):
            Schedule.parse(text)


def test_products_pack_what_all_rows_use() -> None:
    for dtype, left, right in ((F32, False, False), (F32, False, True), (DType.FLOAT16, False, True)):
        assert toolchain.local().schedule(product(dtype, left, right, (192, 192, 192)).bodies[0]).packed


def test_what_lies_in_far_memory_is_read_in_few_places_at_once() -> None:
    """A matrix times a vector: each lane has a row of its own. A vector times a matrix: each step is in another row."""
    target = Target(16, 32)
    by_lanes = choose(product(F32, False, True, (4000, 1, 1000)).bodies[0], target)
    assert (by_lanes.lanes, by_lanes.columns, by_lanes.rows, by_lanes.panel) == (8, 1, 1, 0)
    by_steps = choose(product(F32, False, False, (1, 4000, 1000)).bodies[0], target)
    assert by_steps.panel == 8 and not by_steps.packed and by_steps.block % (by_steps.lanes * by_steps.columns) == 0
    near = choose(product(F32, False, True, (400, 1, 100)).bodies[0], target)
    assert near.lanes * near.columns > 8
    assert not choose(product(F32, False, False, (1, 400, 100)).bodies[0], target).panel


def test_what_all_rows_read_is_read_for_several_at_once() -> None:
    """Of a product whose left factor is turned: one row after the other, each would read the right one anew."""
    assert choose(product(F32, True, False, (512, 784, 128)).bodies[0], Target(16, 32)).rows > 1


def test_rows_without_sums_are_for_what_is_read_across_the_result() -> None:
    """What is read along the rows alone is one value for each of them: a tile of rows would be the same, and longer."""
    axes, size = (Axis(0, M), Axis(1, N)), {"x": (F32, M), "y": (F32, N)}
    x, y = (load(Array(name, F32, n), counter(axis)) for (name, (_, n)), axis in zip(size.items(), axes, strict=True))
    for body, rows in (
        (CASES["turned"]().bodies[0], True),
        (program(binary(Op.MUL, x, y), axes, **size).bodies[0], False),
    ):
        assert any(s.row is not None for s in candidates(body, Target(4, 32))) is rows


def _packed(schedule: Schedule) -> tuple[int, int, int]:
    return len(schedule.packed), schedule.lanes, schedule.rows * schedule.columns


def _tile(schedule: Schedule) -> tuple[int, int, int]:
    return schedule.rows * schedule.columns, schedule.lanes, len(schedule.packed)


def _inner(schedule: Schedule) -> tuple[bool, int, int]:
    return schedule.inner is not None, len(schedule.packed), schedule.rows * schedule.columns


def _last_axis(schedule: Schedule) -> tuple[int, int, int]:
    return schedule.lanes, -1 if schedule.vector is None else -schedule.vector, schedule.columns


def test_of_a_tile_beyond_what_a_variable_bounds_nothing_is_computed(tmp_path: Path) -> None:
    """Rows of a product that are written so far: the same bits for all schedules, wherever in a tile the bound is."""

    def written(x: Tensor, table: Tensor, position: UOp) -> Tensor:
        return (Tensor.arange(70) < position + 1).where(x @ table, -1)

    arrays = {
        n: np.random.default_rng(7).standard_normal(s, np.float32) for n, s in (("x", (5, 9)), ("table", (9, 70)))
    }
    of = capture(written, arrays, variables={"position": (0, 69)}).program
    (body,) = (body for body in of.bodies if body.reduce_ranges)
    here = toolchain.local()
    for schedule in candidates(body, here.target)[::4]:
        kind = Chosen(here.identity, here.target, here.command, schedule)
        assert "continue;" in kind.source(body)
        compiled = CompiledGraph(of, arrays, cache=Cache(tmp_path), toolchain=kind)
        for position in (0, 14, 15, 16, 63, 69):
            expected = reference.execute(of, arrays, {"position": position})
            assert (
                compiled.run({}, {"position": position}).outputs["output"].tobytes()
                == expected.outputs["output"].tobytes()
            )


def plain(function: Callable[..., Tensor], *shapes: tuple[int, ...]) -> tuple[Program, dict[str, Values]]:
    """A captured function of random tensors, and these."""
    random = np.random.default_rng(4)
    arrays = [random.standard_normal(shape, dtype=np.float32) for shape in shapes]
    of = capture(function, tuple(arrays)).program
    return of, dict(zip(inspect.signature(function).parameters, arrays, strict=True))


def require_the_same(of: Program, arrays: dict[str, Values], cache: Path) -> None:
    """Bodies that are made anew compute what they did, and their kernels, too."""
    same = replace(of, bodies=tuple(join(b, ()) for b in of.bodies))
    expected = reference.execute(of, arrays).outputs["output"]
    assert reference.execute(same, arrays).outputs["output"].tobytes() == expected.tobytes()
    assert disagreements(of, arrays, cache=Cache(cache)) == []


def divisions_of_loops(body: Body) -> list[Op]:
    """The quotients and remainders in a body that change along more than two steps."""
    analysis = Analysis(body)
    divided = (n for n, i in enumerate(body.instructions) if i.op in (Op.FLOORDIV, Op.FLOORMOD))
    return [body.instructions[n].op for n in divided if any(analysis.extents[r] > 2 for r in analysis.depends[n])]


def test_a_remainder_that_a_guard_decides_is_none(tmp_path: Path) -> None:
    """Every second window of an image within a border, where tinygrad reads elements modulo all of them."""
    y, x, i, j = axes = (Axis(0, 8), Axis(1, 8), Axis(2, 3, True), Axis(3, 3, True))
    rows, columns = (binary(Op.ADD, counter(a), counter(b)) for a, b in ((y, i), (x, j)))
    inside = [binary(Op.CMPNE, binary(Op.CMPLT, c, const(INDEX, 1)), const(DType.BOOL, 1)) for c in (rows, columns)]
    whole = index((counter(y), 32), (counter(i), 16), (counter(x), 2), (counter(j), 1), (const(INDEX, 239), 1))
    element = binary(Op.FLOORMOD, whole, const(INDEX, 256))
    windows = reduction(Op.REDUCE_ADD, axes[2:], load(Array("x", F32, 256), element, conjunction(*inside)))
    of = program(windows, axes[:2], x=(F32, 256))
    assert not divisions_of_loops(join(of.bodies[0], ()))
    require_the_same(of, tensors(of), tmp_path)


def test_lanes_of_long_sums_are_read_side_by_side(tmp_path: Path) -> None:
    """What is taken apart are the steps: lanes are less than all that divides them."""

    def squares(x: Tensor) -> Tensor:
        return (x * x).sum((0, 2, 3))

    of, arrays = plain(squares, (8, 2, 8, 32))
    divided = next(b for b in of.bodies if any(i.op is Op.FLOORDIV for i in b.instructions))
    body = join(divided, ())
    lane = len(body.output_ranges) - 1
    elements = [i.b for i in body.instructions if i.op is Op.LOAD]
    assert [Analysis(body).strides(lane)[element] for element in elements] == [1] * len(elements)
    require_the_same(of, arrays, tmp_path)


def test_loops_become_several_where_a_short_one_is_divided_still(tmp_path: Path) -> None:
    """The gradient of a strided convolution, whose odd rows and columns take other steps than the even ones."""

    def gradient_of(x: Tensor, w: Tensor) -> Tensor:
        return x.conv2d(w, padding=1, stride=2).square().sum().gradient(x)[0]

    of, arrays = plain(gradient_of, (2, 3, 8, 8), (4, 3, 3, 3))
    divided = next(b for b in of.bodies if b.output_ranges == (2, 3, 8, 8) and divisions_of_loops(b))
    body = join(divided, ())
    assert body.output_ranges == (2, 3, 4, 2, 4, 2)
    assert not divisions_of_loops(body)
    assert not set(simple_joins(divided)) & {3, 5}
    require_the_same(of, arrays, tmp_path)


def test_no_tile_needs_more_registers_than_there_are() -> None:
    """Beside accumulators the columns of one factor and an element of the other are in registers."""
    (body,) = product(F32, False, False, (64, 64, 64)).bodies
    for target in (Target(16, 32), Target(8, 16), Target(4, 32)):
        tiles = [s for s in candidates(body, target) if s.row is not None and s.vector is not None and s.lanes > 1]
        assert tiles
        assert all(s.rows * s.columns + s.columns + 1 <= target.registers for s in tiles)


def windows_of_products(op: Op) -> Program:
    """For each row and column the sum over three shifts and 20 terms, within columns 2 to 39 of what is shifted."""
    i, j, shift, k = axes = (Axis(0, 9), Axis(1, 70), Axis(2, 3, True), Axis(3, 20, True))
    column = binary(Op.ADD, counter(j), counter(shift))
    inside = conjunction(binary(Op.CMPLT, const(INDEX, 1), column), binary(Op.CMPLT, column, const(INDEX, 40)))
    w = load(Array("w", F32, 180), index((counter(i), 20), (counter(k), 1)), inside)
    x = load(Array("x", F32, 800), index((counter(k), 40), (column, 1)), inside)
    terms = (w, x) if op is Op.REDUCE_MULACC else (w,)
    return program(reduction(op, axes[2:], *terms), axes[:2], w=(F32, 180), x=(F32, 800))


@pytest.mark.parametrize("op", [Op.REDUCE_MULACC, Op.REDUCE_ADD, Op.REDUCE_MUL])
def test_what_guards_leave_out_is_nothing_whatever_stands_there(op: Op, tmp_path: Path) -> None:
    """Of a long loop under a guard: with infinities, NaNs and products that are less than the least number."""
    of, here = windows_of_products(op), toolchain.local()
    random = np.random.default_rng(5)
    values = np.array([np.inf, -np.inf, np.nan, -1e-30, 1e-30, -0.0, 1, -1, 2], np.float32)
    arrays = {
        b.name: random.choice(values, b.shape, p=[0.01] * 3 + [0.2, 0.2] + [0.14, 0.14, 0.14, 0.15]) for b in of.buffers
    }
    possible = candidates(of.bodies[0], Target(8, 16))
    tiles = {(s.vector, s.row, bool(s.packed)): s for s in reversed(possible)}
    texts = [write(of.bodies[0], s) for s in tiles.values()]
    assert any("if (every(" in text for text in texts)
    assert any("some(" in text and " + 1)" in text for text in texts) == (op is not Op.REDUCE_MUL)
    for schedule in tiles.values():
        kind = Chosen(here.identity, Target(8, 16), here.command, schedule)
        assert disagreements(of, arrays, cache=Cache(tmp_path), toolchain=kind) == [], schedule


def test_what_is_packed_for_many_steps_is_for_tall_tiles() -> None:
    """It is read from a core's second cache for each tile: fewer columns, more rows."""
    (body,) = product(F32, False, False, (1024, 1024, 1024)).bodies
    chosen = choose(body, Target(8, 16))
    assert chosen.packed
    assert (chosen.columns, chosen.rows) == (2, 6)
