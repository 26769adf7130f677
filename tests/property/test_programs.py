"""Encoding, names and canonical form over generated programs."""

from dataclasses import replace
from enum import IntEnum
from random import Random
from struct import error
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor import merkle
from eigentensor.errors import ProgramError
from eigentensor.program import Body, Program, bind, costs, decode, encode, limits
from eigentensor.program.codec import to_bytes
from eigentensor.program.expression import Array, Axis, Node, const, counter, node, rewrite, to_body
from eigentensor.program.ops import REDUCTIONS, DType, Op
from eigentensor.program.validity import sentences
from support.generated.programs import Example, examples, generate

FEW = settings(max_examples=40)


@FEW
@given(examples())
def test_a_program_comes_back_from_its_bytes_and_its_bytes_from_it(example: Example) -> None:
    data = encode(example.program)
    assert decode(data) == example.program
    assert encode(decode(data)) == data


@FEW
@given(examples(), st.data())
def test_a_flipped_bit_is_refused_or_makes_another_program_of_another_name(
    example: Example, data: st.DataObject
) -> None:
    encoded = bytearray(encode(example.program))
    root = merkle.program_root(bytes(encoded))
    bit = data.draw(st.integers(0, 8 * len(encoded) - 1))
    encoded[bit // 8] ^= 1 << bit % 8
    try:
        other = decode(encoded)
    except ProgramError as refusal:
        assert refusal.rule
        return
    assert other != example.program
    assert encode(other) == encoded
    assert merkle.program_root(bytes(encoded)) != root


@FEW
@given(st.binary(max_size=300), st.integers(0, 1 << 32), st.integers(0, 1 << 12))
def test_spliced_bytes_are_refused_or_canonical(noise: bytes, seed: int, position: int) -> None:
    data = encode(generate(seed).program)
    spliced = data[: position % len(data)] + noise + data[position % len(data) + len(noise) :]
    try:
        program = decode(spliced)
    except ProgramError:
        return
    assert encode(program) == spliced


@FEW
@given(examples())
def test_what_is_bound_are_the_buffers_of_the_records(example: Example) -> None:
    program = example.program
    buffers = bind(program, example.tensors, example.variables, example.repeat)
    assert [b.size for b in buffers] == [b.elements for b in program.buffers]
    assert all(b.ndim == 1 and b.flags.c_contiguous for b in buffers)


@FEW
@given(examples())
def test_costs_stay_under_the_bounds_of_judging(example: Example) -> None:
    cost = costs(example.program)
    assert 0 < cost.largest_witness <= limits.WITNESS
    assert 0 < cost.largest_gas <= limits.GAS
    assert cost.calls == len(example.program.calls)


def random_value(random: Random, shift: int, tag: str) -> tuple[Node, tuple[Axis, ...]]:
    """The same expression for the same random numbers, with other names of axes and arrays."""
    axes = tuple(Axis(shift + n, extent) for n, extent in enumerate((3, 4)))
    values = [counter(axis) for axis in axes]
    for step in range(random.randrange(1, 30)):
        a, b = random.choice(values), random.choice(values)
        kind = random.randrange(5)
        if kind == 0:
            values.append(node(Op.ADD, DType.INDEX, a, b))
        elif kind == 1:
            values.append(node(Op.MIN, DType.INDEX, a, const(DType.INDEX, random.randrange(5))))
        elif kind == 2:
            array = Array((tag, random.randrange(3)), DType.INT16, 12)
            inside = node(Op.FLOORMOD, DType.INDEX, a, const(DType.INDEX, 12))
            values.append(node(Op.CAST, DType.INDEX, node(Op.LOAD, DType.INT16, inside, arg=array)))
        else:
            axis = Axis(shift + 10 + step, 5, True)
            term = node(Op.ADD, DType.INT32, node(Op.CAST, DType.INT32, a), node(Op.CAST, DType.INT32, counter(axis)))
            total = node(Op.REDUCE_MAX, DType.INT32, const(DType.INDEX, 5), term, arg=(axis,))
            values.append(node(Op.CAST, DType.INDEX, total))
    return node(Op.CAST, DType.INT32, values[-1]), axes


@FEW
@given(st.integers(0, 1 << 32), st.integers(1, 1000))
def test_names_of_axes_and_arrays_leave_no_mark_on_a_body(seed: int, shift: int) -> None:
    first, second = (to_body(*random_value(Random(seed), s, tag)) for s, tag in ((0, "a"), (shift, "b")))
    assert first.body == second.body
    assert [number_of(array) for array in first.arrays] == [number_of(array) for array in second.arrays]


def number_of(array: Array) -> object:
    assert isinstance(array.key, tuple)
    return array.key[1]


@FEW
@given(st.integers(0, 1 << 32))
def test_an_axis_that_reductions_share_is_like_an_axis_for_each(seed: int) -> None:
    value, axes = random_value(Random(seed), 0, "a")
    shared = Axis(99, 5, True)

    def share(n: Node) -> Node:
        if n.op not in REDUCTIONS:
            return n
        (own,) = n.arg
        term = rewrite(
            n.src[1],
            lambda x: counter(shared) if x.op is Op.RANGE and x.arg == own else x,
            enter=lambda x: x.op not in REDUCTIONS,
        )
        return node(n.op, n.dtype, n.src[0], term, arg=(shared,))

    one = to_body(rewrite(value, share), axes).body
    assert len({r.reduction for r in one.reduce_ranges}) == len(one.reduce_ranges) == one.reductions
    if one.reductions == to_body(value, axes).body.reductions:  # equal reductions become one
        assert one == to_body(value, axes).body


@pytest.mark.parametrize("seed", range(5))
def test_the_generator_gives_the_same_example_for_ever(seed: int) -> None:
    first, second = generate(seed), generate(seed)
    assert first.program == second.program
    assert first.variables == second.variables and first.repeat == second.repeat
    assert {n: t.tobytes() for n, t in first.tensors.items()} == {n: t.tobytes() for n, t in second.tensors.items()}


def test_generated_programs_use_every_operation_and_type() -> None:
    programs = [generate(seed).program for seed in range(120)]
    instructions = [i for program in programs for body in program.bodies for i in body.instructions]
    assert {i.op for i in instructions} == set(Op)
    assert {i.dtype for i in instructions} == set(DType)
    assert {body.reductions for program in programs for body in program.bodies} >= {0, 1, 2, 3}
    assert {program.max_repeat for program in programs} == {1, 2, 3}
    assert any(program.new_states for program in programs)
    assert any(program.variables for program in programs)


@settings(max_examples=150)
@given(st.integers(0, 1 << 32), st.integers(0, 1 << 32))
def test_a_program_with_changed_parts_is_refused_or_canonical(seed: int, change: int) -> None:
    random = Random(change)
    program = generate(seed % 200).program
    for _ in range(random.randrange(1, 4)):
        program = changed(program, random)
    try:
        data = to_bytes(program)
    except error:
        return  # a number that does not fit its field
    try:
        assert encode(decode(data)) == data
    except ProgramError as refusal:
        assert refusal.rule in sentences()


def changed(program: Program, random: Random) -> Program:
    """The program with one part replaced by another, or by something near it."""
    group = random.choice(("buffers", "bodies", "bodies", "bodies", "calls", "results", "variables"))
    parts = list(getattr(program, group))
    if not parts:
        return program
    number = random.randrange(len(parts))
    part = parts[number]
    if group == "bodies":
        parts[number] = changed_body(part, random)
    elif random.random() < 0.3:
        parts.insert(random.randrange(len(parts)), part)
    else:
        parts[number] = nearby(part, random, 9)
    change: dict[str, Any] = {group: tuple(parts)}
    return replace(program, **change)


def changed_body(body: Body, random: Random) -> Body:
    field = random.choice(("instructions",) * 4 + ("parameters", "output_ranges", "reduce_ranges", "variables"))
    parts = list(getattr(body, field))
    if not parts:
        return body
    number, other = random.randrange(len(parts)), random.randrange(len(parts))
    kind = random.randrange(4)
    if kind == 0:
        parts[number], parts[other] = parts[other], parts[number]
    elif kind == 1 and len(parts) > 1:
        del parts[number]
    elif field == "output_ranges":
        parts[number] = random.randrange(6)
    else:
        parts[number] = nearby(parts[number], random, len(body.instructions))
    change: dict[str, Any] = {field: tuple(parts)}
    return replace(body, **change)


def nearby(part: Any, random: Random, most: int) -> Any:
    """A record with one of its numbers changed, and codes only into codes."""
    field = random.choice(part._fields)
    value = getattr(part, field)
    if isinstance(value, IntEnum):
        return part._replace(**{field: random.choice(list(type(value)))})
    if isinstance(value, int):
        return part._replace(**{field: random.choice((0, 1, value + 1, value - 1, random.randrange(most + 1), 0xFFFF))})
    if isinstance(value, tuple) and value:
        changed = list(value)
        changed[random.randrange(len(value))] = random.randrange(most + 1)
        return part._replace(**{field: tuple(changed)})
    return part
