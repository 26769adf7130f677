"""Indices as front ends make them: what the proof finds, and what it takes for a guard."""

import pytest

from eigentensor.program import Bounds, DType, Op, check
from eigentensor.program.bounds import prove
from eigentensor.program.expression import (
    Array,
    Axis,
    Named,
    Node,
    binary,
    conjunction,
    const,
    counter,
    load,
    node,
    reduction,
    to_body,
)
from support.hostile.refusals import of_value
from support.programs.worked_examples import F32, I32, INDEX, add, index, less, mul

BOOL = DType.BOOL
ROW, COLUMN = Axis(0, 8), Axis(1, 6)
POS = node(Op.VAR, INDEX, arg=Named("pos", Bounds(0, 5)))


def x(elements: int) -> Array:
    return Array("x", F32, elements)


def by(op: Op, a: Node, b: int) -> Node:
    return binary(op, a, index(b))


def negated(condition: Node) -> Node:
    return binary(Op.CMPNE, condition, const(BOOL, 1))


def inside(a: Node, end: int) -> Node:
    return conjunction(negated(less(a, index(0))), less(a, index(end)))


def proven(value: Node) -> bool:
    proof = prove(to_body(value, (ROW, COLUMN)).body)
    return proof.overflow is None and proof.outside is None


def test_a_row_major_element_needs_no_guard() -> None:
    element = add(mul(counter(ROW), index(6)), counter(COLUMN))
    assert proven(load(x(48), element))
    assert not proven(load(x(47), element))


def test_a_flipped_element_needs_no_guard() -> None:
    assert proven(load(x(8), binary(Op.SUB, index(7), counter(ROW))))
    assert not proven(load(x(8), binary(Op.SUB, index(8), counter(ROW))))


def test_padding_of_a_convolution_is_proven_by_its_guard() -> None:
    row, column = add(counter(ROW), index(-1)), add(counter(COLUMN), index(-1))
    element = add(mul(row, index(4)), column)
    assert proven(load(x(24), element, conjunction(inside(row, 6), inside(column, 4))))
    assert not proven(load(x(24), element, conjunction(inside(row, 6), inside(column, 5))))
    assert not proven(load(x(24), element, inside(row, 6)))


def test_a_transposed_convolution_divides_what_its_guard_bounds() -> None:
    """The quotient is bounded because its dividend is, under the guard."""
    row = add(counter(ROW), counter(COLUMN))
    element = by(Op.FLOORDIV, add(row, index(-2)), 2)
    assert proven(load(x(4), element, inside(add(row, index(-2)), 8)))
    assert not proven(load(x(3), element, inside(add(row, index(-2)), 8)))


def test_a_guard_on_a_scaled_sum_bounds_a_multiple_of_it() -> None:
    total = add(counter(ROW), counter(COLUMN))
    element = add(mul(total, index(3)), index(2))
    assert proven(load(x(15), element, less(total, index(5))))
    assert proven(load(x(15), element, less(mul(total, index(2)), index(10))))
    assert not proven(load(x(14), element, less(total, index(5))))


def test_quotient_and_remainder_split_a_merged_counter() -> None:
    merged = add(mul(counter(ROW), index(6)), counter(COLUMN))
    element = add(mul(by(Op.FLOORDIV, merged, 6), index(6)), by(Op.FLOORMOD, merged, 6))
    assert proven(load(x(48), element))
    assert not proven(load(x(47), element))


def test_a_gather_is_proven_by_a_guard_on_the_loaded_number() -> None:
    number = load(Array("ids", I32, 8), counter(ROW))
    element = add(mul(node(Op.CAST, INDEX, number), index(6)), counter(COLUMN))
    guard = conjunction(negated(less(number, const(I32, 0))), less(number, const(I32, 100)))
    assert proven(load(x(600), element, guard))
    assert not proven(load(x(599), element, guard))


@pytest.mark.parametrize("clamp", ["min and max", "where"])
def test_a_clamped_number_needs_no_guard(clamp: str) -> None:
    number = node(Op.CAST, INDEX, load(Array("ids", I32, 8), counter(ROW)))
    if clamp == "where":
        high = node(Op.WHERE, INDEX, less(number, index(9)), number, index(8))
        element = node(Op.WHERE, INDEX, less(number, index(0)), index(0), high)
    else:
        element = by(Op.MIN, by(Op.MAX, number, 0), 8)
    assert proven(load(x(9), element))
    assert not proven(load(x(8), element))


def test_negative_numbers_that_count_from_the_end_are_proven_by_a_guard_on_the_choice() -> None:
    number = load(Array("ids", I32, 8), counter(ROW))
    choice = node(Op.WHERE, I32, less(number, const(I32, 0)), add(number, const(I32, 9)), number)
    element = node(Op.CAST, INDEX, choice)
    assert not proven(load(x(9), element))
    assert proven(load(x(9), element, inside(element, 9)))


def test_a_masked_number_needs_no_guard() -> None:
    number = node(Op.AND, I32, load(Array("ids", I32, 8), counter(ROW)), const(I32, 15))
    assert proven(load(x(16), node(Op.CAST, INDEX, number)))
    assert not proven(load(x(15), node(Op.CAST, INDEX, number)))


def test_a_variable_is_within_its_bounds_in_every_iteration() -> None:
    assert proven(load(x(6), POS))
    assert not proven(load(x(5), POS))


def test_a_reduction_as_long_as_a_variable_reads_to_its_largest_value() -> None:
    axis = Axis(9, 6, True)
    value = reduction(Op.REDUCE_ADD, (axis,), load(x(6), counter(axis)), extents=(add(POS, index(1)),))
    assert proven(value)
    shorter = reduction(Op.REDUCE_ADD, (axis,), load(x(5), counter(axis)), extents=(add(POS, index(1)),))
    assert not proven(shorter)
    assert prove(to_body(value, ()).body).extents == ((1, 6),)


def test_a_load_inside_an_empty_loop_is_in_bounds_and_one_beside_it_is_not() -> None:
    axis = Axis(9, 0, True)
    check(of_value(reduction(Op.REDUCE_ADD, (axis,), load(x(0), counter(axis))), ROW))
    assert not proven(reduction(Op.REDUCE_ADD, (axis,), load(x(0), index(0))))
    total = node(Op.CAST, INDEX, reduction(Op.REDUCE_ADD, (axis,), node(Op.CAST, I32, counter(axis))))
    assert not proven(load(x(0), total))


def test_a_load_of_an_empty_tensor_is_in_bounds_where_its_guard_never_holds() -> None:
    assert proven(load(x(0), counter(ROW), less(counter(ROW), index(0))))
    assert proven(load(x(0), index(3), less(index(3), index(0))))
    assert not proven(load(x(0), counter(ROW), less(counter(ROW), index(1))))


@pytest.mark.parametrize("truth", [0, 1])
@pytest.mark.parametrize("op", [Op.CMPNE, Op.CMPEQ, Op.XOR])
def test_a_comparison_with_a_bool_keeps_or_negates_a_condition(op: Op, truth: int) -> None:
    holds = less(index(3), counter(ROW))
    negates = (op is Op.CMPEQ) == (truth == 0)
    compared = node(op, BOOL, holds, const(BOOL, truth))
    assert proven(load(x(4), counter(ROW), compared)) == negates
    assert proven(load(x(4), binary(Op.SUB, counter(ROW), index(4)), compared)) == (not negates)


def test_an_index_beyond_two_to_the_62_is_found_where_it_arises() -> None:
    large = mul(counter(ROW), const(INDEX, (1 << 62) // 7 + 1))
    body = to_body(load(x(1), by(Op.MIN, large, 0)), (ROW, COLUMN)).body
    overflow = prove(body).overflow
    assert overflow is not None
    assert body.instructions[overflow[0]].op is Op.MUL
    assert overflow[1] == (0, 7 * ((1 << 62) // 7 + 1))
    assert proven(load(x(1), by(Op.MIN, mul(counter(ROW), const(INDEX, (1 << 62) // 7)), 0)))
