"""Programs put together out of expressions: what is shared, ordered and left out."""

import pytest

from eigentensor.errors import RuleError
from eigentensor.program import Buffer, Call, DType, Kind, Op, Role, Variable, costs
from eigentensor.program.assemble import assemble
from eigentensor.program.cost import work
from eigentensor.program.expression import (
    Array,
    Axis,
    Lowered,
    binary,
    const,
    counter,
    load,
    reduction,
    to_body,
)
from support.programs.worked_examples import F32, I32, INDEX, layer, session

ROW = Axis(0, 4)
OUT = {(Kind.OUTPUT, "output"): ("z", (4,))}


def plus(*keys: str) -> Lowered:
    """The sum of arrays of four elements."""
    total = load(Array(keys[0], F32, 4), counter(ROW))
    for key in keys[1:]:
        total = binary(Op.ADD, total, load(Array(key, F32, 4), counter(ROW)))
    return to_body(total, (ROW,))


def external(role: Role, name: str = "", fill: int = 0) -> Buffer:
    return Buffer(role, F32, (4,), name, bytes([fill]) * 16 if role is Role.CONSTANT else b"")


INPUTS = {"a": external(Role.INPUT, "a"), "b": external(Role.INPUT, "b")}


def test_equal_bodies_are_stored_once() -> None:
    program = assemble([("y", plus("a", "b")), ("z", plus("y", "a"))], INPUTS, OUT)
    assert len(program.bodies) == 1
    assert program.calls == (Call(0, (0, 1)), Call(0, (2, 0)))


def test_calls_weights_and_constants_that_nothing_needs_are_left_out() -> None:
    more = INPUTS | {"w": external(Role.WEIGHT, "w"), "c": external(Role.CONSTANT)}
    program = assemble([("y", plus("a", "w", "c")), ("z", plus("a", "b"))], more, OUT)
    assert len(program.calls) == 1
    assert [b.name for b in program.buffers] == ["a", "b"]


def test_an_input_that_nothing_reads_stays() -> None:
    assert [b.name for b in assemble([("z", plus("a"))], INPUTS, OUT).buffers] == ["a", "b"]


def test_equal_constants_become_one_and_stand_in_the_order_of_first_use() -> None:
    constants = {"c": external(Role.CONSTANT, fill=3), "d": external(Role.CONSTANT), "e": external(Role.CONSTANT)}
    program = assemble([("y", plus("a", "d")), ("z", plus("y", "e", "c"))], INPUTS | constants, OUT)
    assert [b.data[:1] for b in program.buffers if b.role is Role.CONSTANT] == [b"\0", b"\3"]
    assert program.calls[1].arguments == (4, 2, 3)


def test_buffers_are_sorted_by_role_and_name() -> None:
    externals = {n: external(role, n) for n, role in (("w", Role.WEIGHT), ("v", Role.WEIGHT), ("i", Role.INPUT))}
    program = assemble([("z", plus("w", "v", "i"))], externals, OUT)
    assert [b.name for b in program.buffers] == ["i", "v", "w"]
    assert program.calls[0].arguments == (2, 1, 0)


def test_variables_are_sorted_and_bound_by_name() -> None:
    program = session().program
    more = (Variable("pos", 0, 3, 1), Variable("n", 1, 2))
    y = to_body(load(Array("a", F32, 4), counter(ROW)), (ROW,))
    assert [v.name for v in assemble([("z", y)], INPUTS, OUT, more).variables] == ["n", "pos"]
    assert program.calls[0].variables == (0,)


def test_what_is_not_valid_is_refused_by_rule() -> None:
    outside = to_body(load(Array("a", F32, 4), binary(Op.ADD, counter(ROW), const(INDEX, 1))), (ROW,))
    with pytest.raises(RuleError, match=r"^bounds: "):
        assemble([("z", outside)], INPUTS, OUT)
    with pytest.raises(RuleError, match=r"^results: "):
        assemble([], INPUTS, {(Kind.OUTPUT, "output"): ("a", (4,))})


def test_a_key_that_nothing_writes_is_an_error() -> None:
    with pytest.raises(KeyError):
        assemble([("z", plus("nothing"))], INPUTS, OUT)


def test_a_loop_of_one_step_is_made_the_operation_itself() -> None:
    one = Axis(1, 1, True)
    value = reduction(Op.REDUCE_ADD, (one,), load(Array("a", F32, 4), counter(ROW)))
    assert value.op is Op.ADD and value.src[0] is const(F32, 0)
    assert counter(one) is const(INDEX, 0)
    least = reduction(Op.REDUCE_MAX, (one,), load(Array("i", I32, 4), counter(ROW)))
    assert least.src[0] is const(I32, -(1 << 31))


@pytest.mark.parametrize(
    ("dtype", "value", "pattern"),
    [(DType.INT8, -1, 0xFF), (DType.UINT8, 511, 0xFF), (DType.INT32, -2, 0xFFFFFFFE), (DType.BOOL, 7, 1)],
)
def test_a_constant_has_one_form_however_it_is_written(dtype: DType, value: int, pattern: int) -> None:
    body = to_body(const(dtype, value), ()).body
    assert [i.immediate for i in body.instructions] == [pattern]


def test_costs_are_those_of_the_table() -> None:
    cost = costs(layer().program)
    assert cost.calls == 2
    assert (cost.input_bytes, cost.weight_bytes, cost.result_bytes, cost.all_bytes) == (24, 64, 32, 152)
    # Per element: three steps of twelve instructions and the stored REDUCE; ten instructions.
    assert work(layer().program) == cost.evaluations == 8 * (3 * 12 + 1) + 8 * 10
    assert cost.largest_witness == 152 + 2 * 1024 + 24 * 32 + 2048
    assert cost.largest_gas == 100_000 + 40 * cost.largest_witness + 2_500 * 12 + 15_000 * 2
