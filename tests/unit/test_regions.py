"""Exactly which elements can differ, for bodies of a line each."""

from functools import partial, reduce
from itertools import pairwise

import pytest

from eigentensor.numerics.dtypes import DType
from eigentensor.program import Body, Bounds, Buffer, Kind, Program, Role, Variable, check
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import (
    Array,
    Axis,
    Named,
    Node,
    binary,
    const,
    counter,
    load,
    node,
    reduction,
    to_body,
)
from eigentensor.program.intervals import Interval
from eigentensor.program.ops import NO_GUARD, Op
from eigentensor.program.restriction import zeros
from eigentensor.regions.boxes import Box, Shape, merged, rounded_box, volume, within
from eigentensor.regions.dependence import dirty, shape_of
from eigentensor.regions.needs import is_found, needed
from eigentensor.regions.rebasing import rebased
from eigentensor.runtime.incremental.outline import products

F32, INDEX = DType.FLOAT32, DType.INDEX
ROW, COLUMN, STEP = Axis(0, 6), Axis(1, 5), Axis(2, 4, True)
i, j, k = map(counter, (ROW, COLUMN, STEP))
N = node(Op.VAR, INDEX, arg=Named("n", Bounds(0, 6)))


def number(value: int) -> Node:
    return const(INDEX, value)


def plus(a: Node, b: Node) -> Node:
    return binary(Op.ADD, a, b)


def at(a: Node, stride: int, b: Node) -> Node:
    """a · stride + b"""
    return plus(binary(Op.MUL, a, number(stride)), b)


def choice(condition: Node, a: Node, b: Node) -> Node:
    return node(Op.WHERE, F32, condition, a, b)


def of(name: str, shape: tuple[int, ...], element: Node, guard: Node | None = None, dtype: DType = F32) -> Node:
    BUFFERS[name] = Buffer(Role.INPUT, dtype, shape, name)
    return load(Array(name, dtype, BUFFERS[name].elements), element, guard)


BUFFERS: dict[str, Buffer] = {}


def can_differ(value: Node, axes: tuple[Axis, ...], *box: Interval, n: Interval = (0, 0)) -> tuple[Box, ...]:
    """Where the one result can, when elements in a box of x can, and n goes from one value to another."""
    program = program_of(value, axes)
    (x,) = (number for number, b in enumerate(program.buffers) if b.name == "x")
    return dirty(program, {x: [box] if box else []}, [n] * len(program.variables)).get(len(program.buffers), ())


def program_of(value: Node, axes: tuple[Axis, ...]) -> Program:
    lowered = to_body(value, axes)
    used = {array.key: BUFFERS[str(array.key)] for array in lowered.arrays}
    variables = [Variable("n", 0, 6)] if lowered.variables else []
    shape = tuple(axis.extent for axis in axes)
    return assemble([("y", lowered)], used, {(Kind.OUTPUT, "y"): ("y", shape)}, variables)


def test_a_row_of_a_product_depends_on_that_row_and_a_column_on_that_column() -> None:
    rows = reduction(Op.REDUCE_MULACC, (STEP,), of("x", (6, 4), at(i, 4, k)), of("w", (4, 5), at(k, 5, j)))
    assert can_differ(rows, (ROW, COLUMN), (2, 3), (1, 1)) == (((2, 3), (0, 4)),)
    columns = reduction(Op.REDUCE_MULACC, (STEP,), of("v", (6, 4), at(i, 4, k)), of("x", (4, 5), at(k, 5, j)))
    assert can_differ(columns, (ROW, COLUMN), (0, 3), (4, 4)) == (((0, 5), (4, 4)),)


def test_a_window_moves_with_what_it_reads() -> None:
    wide = of("x", (6, 8), at(i, 8, plus(j, k)))
    assert can_differ(reduction(Op.REDUCE_ADD, (STEP,), wide), (ROW, COLUMN), (1, 1), (4, 4)) == (((1, 1), (1, 4)),)
    assert can_differ(reduction(Op.REDUCE_ADD, (STEP,), wide), (ROW, COLUMN), (1, 1), (0, 0)) == (((1, 1), (0, 0)),)


def test_an_index_that_carries_over_is_followed_along_several_axes_at_once() -> None:
    shifted = of("x", (3, 11), plus(at(i, 5, j), number(1)))
    assert can_differ(shifted, (ROW, COLUMN), (0, 0), (10, 10)) == (((1, 1), (4, 4)),)
    assert can_differ(shifted, (ROW, COLUMN), (0, 0), (0, 0)) == ()
    assert can_differ(shifted, (ROW, COLUMN), (1, 1), (0, 3)) == (((2, 2), (0, 3)),)


def test_padding_reads_nothing() -> None:
    place = plus(j, number(-1))
    inside = binary(Op.CMPLT, number(-1), place)
    padded = of("x", (6, 5), at(i, 5, place), inside)
    assert can_differ(padded, (ROW, COLUMN), (3, 3), (4, 4)) == ()
    assert can_differ(padded, (ROW, COLUMN), (3, 3), (0, 0)) == (((3, 3), (1, 1)),)


def test_a_window_over_padding_is_followed_along_each_axis() -> None:
    step = Axis(3, 3, True)
    row, column = plus(i, k), plus(j, counter(step))
    element = plus(at(row, 5, column), number(-6))
    limits = [(number(0), i), (i, number(5)), (number(0), row), (row, number(7)), (number(0), column)]
    guard = reduce(partial(binary, Op.AND), (binary(Op.CMPLT, a, b) for a, b in [*limits, (column, number(6))]))
    window = reduction(Op.REDUCE_ADD, (STEP, step), of("x", (6, 5), element, guard))
    assert can_differ(window, (ROW, COLUMN), (2, 2), (3, 3)) == (((1, 3), (2, 4)),)
    assert can_differ(window, (ROW, COLUMN), (5, 5), (0, 0)) == (((3, 4), (0, 1)),)


def test_a_remainder_is_a_difference_where_a_guard_leaves_one_quotient() -> None:
    two = Axis(2, 2, True)
    place = plus(at(j, 2, counter(two)), number(8))
    guard = binary(Op.CMPLT, number(0), plus(j, counter(two)))
    strided = of("x", (6, 9), at(i, 9, binary(Op.FLOORMOD, place, number(9))), guard)
    twice = reduction(Op.REDUCE_ADD, (two,), strided)
    assert can_differ(twice, (ROW, COLUMN), (1, 1), (4, 4)) == (((1, 1), (2, 2)),)
    assert can_differ(twice, (ROW, COLUMN), (1, 1), (0, 1)) == (((1, 1), (0, 1)),)


def test_a_quotient_says_where_its_dividend_is() -> None:
    halves = of("x", (3,), binary(Op.FLOORDIV, i, number(2)))
    assert can_differ(halves, (ROW,), (1, 1)) == (((2, 3),),)


def test_a_branch_counts_only_where_it_is_taken() -> None:
    until = binary(Op.CMPLT, j, plus(i, number(1)))
    below = choice(until, of("x", (5,), j), const(F32, 0))
    assert can_differ(below, (ROW, COLUMN), (3, 3)) == (((3, 5), (3, 3)),)
    other = choice(until, const(F32, 0), of("x", (5,), j))
    assert can_differ(other, (ROW, COLUMN), (3, 3)) == (((0, 2), (3, 3)),)
    both = binary(Op.ADD, other, of("x", (5,), j))
    assert can_differ(both, (ROW, COLUMN), (3, 3)) == (((0, 5), (3, 3)),)


def test_what_a_table_gives_for_data_may_be_any_of_it() -> None:
    row = node(Op.CAST, INDEX, of("rows", (6,), i, dtype=DType.INT32))
    inside = binary(Op.CMPLT, number(-1), row), binary(Op.CMPLT, row, number(7))
    table = of("x", (7, 5), at(row, 5, j), binary(Op.AND, *inside))
    assert can_differ(table, (ROW, COLUMN), (2, 2), (1, 1)) == (((0, 5), (1, 1)),)
    row = node(Op.CAST, INDEX, of("x", (6,), i, dtype=DType.INT32))
    inside = binary(Op.CMPLT, number(-1), row), binary(Op.CMPLT, row, number(7))
    table = of("table", (7, 5), at(row, 5, j), binary(Op.AND, *inside))
    assert can_differ(table, (ROW, COLUMN), (2, 3)) == (((2, 3), (0, 4)),)


@pytest.mark.parametrize("before, after", [*pairwise(range(7)), (2, 5)])
def test_a_comparison_with_a_variable_turns_between_its_values(before: int, after: int) -> None:
    until = choice(binary(Op.CMPLT, i, N), of("x", (6,), i), const(F32, 0))
    assert can_differ(until, (ROW,), n=(before, after)) == (((before, after - 1),),)
    beyond = choice(binary(Op.CMPLT, N, plus(i, number(1))), of("x", (6,), i), const(F32, 0))
    assert can_differ(beyond, (ROW,), n=(before, after)) == (((before, after - 1),),)
    there = choice(binary(Op.CMPEQ, N, i), of("x", (6,), i), const(F32, 0))
    assert can_differ(there, (ROW,), n=(before, after)) == (((before, min(after, 5)),),)


def test_an_element_at_a_variable_is_where_the_variable_is() -> None:
    appended = choice(binary(Op.CMPEQ, i, N), of("x", (1,), number(0)), of("old", (6,), i))
    assert can_differ(appended, (ROW,), (0, 0), n=(4, 4)) == (((4, 4),),)


def test_more_steps_of_a_sum_change_all_that_it_is_in() -> None:
    steps = Axis(3, 6, True)
    total = reduction(Op.REDUCE_ADD, (steps,), of("x", (6, 6), at(i, 6, counter(steps))), extents=(N,))
    assert can_differ(total, (ROW,), n=(3, 4)) == (((0, 5),),)
    assert can_differ(total, (ROW,), (2, 2), (1, 1), n=(3, 3)) == (((2, 2),),)


def test_only_sums_of_products_with_a_load_can_hide_behind_zeros() -> None:
    factor = binary(Op.ADD, of("x", (6, 4), at(i, 4, k)), const(F32, 0))
    body = to_body(reduction(Op.REDUCE_MULACC, (STEP,), factor, of("w", (4, 5), at(k, 5, j))), (ROW, COLUMN)).body
    (product,) = products(body)
    assert body.instructions[product.load].op is Op.LOAD
    assert zeros(body, product.factor, (2, 5, 3)).program.results[0].shape == (2, 1, 3)
    square = reduction(Op.REDUCE_MULACC, (STEP,), x := of("x", (6, 4), at(i, 4, k)), x)
    assert products(to_body(square, (ROW,)).body) == ()
    assert products(to_body(reduction(Op.REDUCE_ADD, (STEP,), x), (ROW,)).body) == ()


def test_boxes_become_one_where_that_has_no_more_elements() -> None:
    assert merged([((0, 1), (0, 4)), ((2, 2), (0, 4))]) == (((0, 2), (0, 4)),)
    assert merged([((0, 0), (0, 4)), ((0, 4), (0, 0))]) == (((0, 0), (0, 4)), ((0, 4), (0, 0)))
    assert merged([((n, n),) for n in range(0, 18, 2)], 1) == (((0, 16),),)
    assert volume(((2, 4), (7, 7))) == 3


def test_extents_are_rounded_to_few_inside_the_tensor() -> None:
    assert rounded_box(((9, 11), (3, 5)), (12, 40)) == ((9, 11), (3, 6))
    assert rounded_box(((7, 11), (3, 3)), (12, 40)) == ((6, 11), (3, 3))
    assert rounded_box(((1, 9),), (12,)) == ((0, 11),)
    assert rounded_box(((1, 9), (0, 0)), (20, 1)) == ((1, 12), (0, 0))
    assert within(((3, 9), (4, 4)), ((5, 9), (4, 4))) == ((2, 6), (0, 0))


def over(value: Node, axes: tuple[Axis, ...]) -> tuple[Body, tuple[Shape, ...], list[str]]:
    """The body of the one result, the shapes of what it reads, and their names."""
    program = program_of(value, axes)
    arguments = program.calls[0].arguments
    return (
        program.bodies[0],
        tuple(shape_of(program, a) for a in arguments),
        [program.buffers[a].name for a in arguments],
    )


def read(value: Node, axes: tuple[Axis, ...], *box: Interval) -> dict[str, Box | None]:
    """What a box of the one result is computed from, by name."""
    body, shapes, names = over(value, axes)
    return dict(zip(names, needed(body, shapes, box), strict=True))


def product() -> Node:
    return reduction(Op.REDUCE_MULACC, (STEP,), of("x", (6, 4), at(i, 4, k)), of("w", (4, 5), at(k, 5, j)))


def test_a_box_of_a_product_needs_its_rows_of_one_factor_and_its_columns_of_the_other() -> None:
    assert read(product(), (ROW, COLUMN), (2, 3), (1, 1)) == {"x": ((2, 3), (0, 3)), "w": ((0, 3), (1, 1))}


def test_a_window_needs_what_is_around_it_and_padding_nothing() -> None:
    wide = of("x", (6, 8), at(i, 8, plus(j, k)))
    window = reduction(Op.REDUCE_ADD, (STEP,), wide)
    assert read(window, (ROW, COLUMN), (1, 2), (1, 3)) == {"x": ((1, 2), (1, 6))}
    place = plus(j, number(-3))
    padded = of("x", (6, 5), at(i, 5, place), binary(Op.CMPLT, number(-1), place))
    assert read(padded, (ROW, COLUMN), (0, 0), (1, 4)) == {"x": ((0, 0), (0, 1))}
    assert read(padded, (ROW, COLUMN), (0, 0), (0, 2)) == {"x": None}


def test_what_carries_over_several_axes_needs_one_run_of_memory() -> None:
    shifted = of("x", (3, 11), plus(at(i, 5, j), number(1)))
    body, shapes, _ = over(shifted, (ROW, COLUMN))
    assert read(shifted, (ROW, COLUMN), (0, 0), (0, 4)) == {"x": ((0, 0), (1, 5))}
    assert read(shifted, (ROW, COLUMN), (1, 2), (0, 4)) == {"x": ((0, 1), (0, 10))}
    assert is_found(body, shapes, 1, ((1, 1), (2, 7))) and not is_found(body, shapes, 1, ((0, 1), (2, 7)))


def test_quotients_and_remainders_of_a_box_are_those_of_its_ends() -> None:
    thirds = of("x", (2, 3), at(binary(Op.FLOORDIV, i, number(3)), 3, binary(Op.FLOORMOD, i, number(3))))
    assert read(thirds, (ROW,), (3, 4)) == {"x": ((1, 1), (0, 1))}
    assert read(thirds, (ROW,), (2, 4)) == {"x": ((0, 1), (0, 2))}


def test_a_branch_that_is_not_taken_in_a_box_needs_nothing() -> None:
    until = binary(Op.CMPLT, j, plus(i, number(1)))
    either = choice(until, of("x", (5,), j), of("y", (5,), j))
    assert read(either, (ROW, COLUMN), (0, 1), (0, 4)) == {"x": ((0, 1),), "y": ((1, 4),)}
    assert read(either, (ROW, COLUMN), (4, 5), (0, 4)) == {"x": ((0, 4),), "y": None}


def test_what_data_or_a_variable_choose_may_be_any() -> None:
    row = node(Op.CAST, INDEX, of("rows", (6,), i, dtype=DType.INT32))
    inside = binary(Op.CMPLT, number(-1), row), binary(Op.CMPLT, row, number(7))
    table = of("x", (7, 5), at(row, 5, j), binary(Op.AND, *inside))
    assert read(table, (ROW, COLUMN), (2, 3), (1, 2)) == {"rows": ((2, 3),), "x": ((0, 6), (1, 2))}
    assert read(of("x", (12,), plus(i, N)), (ROW,), (1, 2)) == {"x": ((1, 8),)}


def test_bodies_over_boxes_at_two_places_are_one_and_read_their_boxes_alone() -> None:
    body, shapes, _ = over(product(), (ROW, COLUMN))
    boxes = (((0, 2), (0, 4)), ((3, 5), (0, 4)))
    first, second = (rebased(body, shapes, box, needed(body, shapes, box)) for box in boxes)
    assert first == second and first.variables == ()
    assert [p.elements for p in first.program.bodies[0].parameters] == [15, 12, 20]
    until = choice(binary(Op.CMPLT, j, plus(i, number(1))), of("x", (6, 5), at(i, 5, j)), const(F32, 0))
    body, shapes, _ = over(until, (ROW, COLUMN))
    first, second = (rebased(body, shapes, box, (box,)) for box in boxes)
    assert first == second and first.variables == (-1,)  # which elements are zeros depends on where the box begins


def test_a_load_is_guarded_where_it_has_no_influence_and_could_leave_its_box() -> None:
    until = choice(binary(Op.CMPLT, i, number(3)), of("x", (6,), i), const(F32, 0))
    body, shapes, _ = over(until, (ROW,))
    restricted = rebased(body, shapes, ((0, 5),), (((0, 2),),))
    (load,) = (n for n in restricted.program.bodies[0].instructions if n.op is Op.LOAD)
    assert load.c != NO_GUARD and restricted.program.bodies[0].parameters[1].elements == 3
    check(restricted.program)
