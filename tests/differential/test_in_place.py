"""Calls that write over what they read: only where that cannot be seen."""

from pathlib import Path

import numpy as np
import pytest

from eigentensor.cache import Cache
from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, Node, binary, const, counter, load, node, reduction, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op
from eigentensor.runtime.bodies.rewriting import join
from eigentensor.runtime.cpu import toolchain
from eigentensor.runtime.cpu.choice import candidates
from eigentensor.runtime.cpu.schedule import apart
from eigentensor.runtime.memory.append import append
from eigentensor.runtime.memory.in_place import in_place
from eigentensor.runtime.memory.plan import MemoryPlan, memories, next_turn, plan
from support.generated.programs import generate
from support.oracles.agreement import disagreements

F32, INDEX = DType.FLOAT32, DType.INDEX
ROW, COLUMN = Axis(0, 6), Axis(1, 32)


def at(*terms: tuple[Axis, int], offset: int = 0) -> Node:
    total = const(INDEX, offset)
    for axis, stride in terms:
        total = binary(Op.ADD, total, binary(Op.MUL, counter(axis), const(INDEX, stride)))
    return total


def x(index: Node, elements: int = 192, dtype: DType = F32) -> Node:
    return load(Array("x", dtype, elements), index)


SAME, NEXT = at((ROW, 32), (COLUMN, 1)), at((ROW, 32), (COLUMN, 1), offset=1)


def doubled(value: Node) -> Node:
    return binary(Op.ADD, value, value)


@pytest.mark.parametrize(
    ("value", "over"),
    [
        (doubled(x(SAME)), True),
        (binary(Op.MUL, x(SAME), load(Array("bias", F32, 32), counter(COLUMN))), True),
        (doubled(x(at((ROW, 32), (COLUMN, -1), offset=31))), False),
        (binary(Op.ADD, x(SAME), x(at((COLUMN, 6), (ROW, 1)))), False),
        (doubled(x(at((COLUMN, 1)), 32)), False),
        (doubled(load(Array("x", F32, 192), NEXT, binary(Op.CMPLT, NEXT, const(INDEX, 192)))), False),
        (node(Op.CAST, DType.FLOAT16, x(SAME)), False),
        (reduction(Op.REDUCE_ADD, (Axis(2, 2, True),), binary(Op.MUL, x(SAME), x(SAME))), False),
    ],
)
def test_a_body_may_write_over_what_it_reads_at_the_same_element_only(value: Node, over: bool) -> None:
    assert bool(in_place(to_body(value, (ROW, COLUMN)).body)) is over


@pytest.mark.parametrize("shape", [(6, 32), (3, 7, 48), (13, 5), (1000, 16), (16, 3, 3)])
def test_no_schedule_computes_an_element_twice(shape: tuple[int, ...]) -> None:
    axes = tuple(Axis(n, extent) for n, extent in enumerate(shape))
    strides = [int(np.prod(shape[n + 1 :])) for n in range(len(shape))]
    size = int(np.prod(shape))
    last = load(Array("y", F32, shape[-1]), counter(axes[-1]))
    body = to_body(binary(Op.ADD, x(at(*zip(axes, strides, strict=True)), size), last), axes).body
    for schedule in candidates(body, toolchain.local().target):
        joined = join(body, schedule.joined)
        over = apart(joined, schedule)
        tile = {over.vector: over.lanes * over.columns, over.row: over.rows}
        assert all(extent % tile.get(axis, 1) == 0 for axis, extent in enumerate(joined.output_ranges))


def chain(links: int) -> Program:
    """Each call doubles what the one before has written, the first an input."""
    calls, before = [], "x"
    for number in range(links):
        calls.append((f"y{number}", to_body(doubled(load(Array(before, F32, 192), SAME)), (ROW, COLUMN))))
        before = f"y{number}"
    buffers = {"x": Buffer(Role.INPUT, F32, (6, 32), "x")}
    return assemble(calls, buffers, {(Kind.OUTPUT, "output"): (before, (6, 32))})


def test_a_chain_needs_the_memory_of_one_link(tmp_path: Path) -> None:
    program = chain(5)
    assert plan(program).size > plan(program, over=True).size == 0  # all in the memory of the result
    tensors = {"x": np.random.default_rng(1).standard_normal((6, 32), dtype=np.float32)}
    assert disagreements(program, tensors, cache=Cache(tmp_path)) == []


@pytest.mark.parametrize("over", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_only_what_is_read_for_the_last_time_is_written_over(seed: int, over: bool) -> None:
    check(generate(seed).program, over=over)


def check(program: Program, *, over: bool) -> None:
    """Follows all turns: a call is written neither over what is read later nor over what it may not."""
    layout = plan(program, 64, over=over)
    places = [[span(program, layout, turn, b) for b in range(count(program))] for turn in range(3)]
    for turn, of in enumerate(places):
        for j, call in enumerate(program.calls):
            result, body = len(program.buffers) + j, program.bodies[call.body]
            assert of[result][0] >= len(program.buffers)  # what is given is not written
            later = {b for c in program.calls[j + 1 :] for b in c.arguments}
            later |= {r.buffer for r in program.results if r.buffer < result}
            own = {a for n, a in enumerate(call.arguments, 1) if n not in (in_place(body) if over else ())}
            part, appended = layout.body(program, j, turn), append(body)
            if part != body:
                assert appended and part == appended.part
                old = call.arguments[appended.parameter - 1]
                assert of[old] == of[result] and call.arguments.count(old) == 1 and old not in later
                assert turn or old >= len(program.buffers)  # what comes from outside is stored by a call first
                own = {a for a in call.arguments if a != old}
            for live in {b for b in later | own if b < result}:
                assert not overlap(of[live], of[result]), (turn, j, live)
    for name, new in program.new_states.items():
        (state,) = (n for n, b in enumerate(program.buffers) if (b.role, b.name) == (Role.STATE, name))
        for turn in range(3):
            assert places[next_turn(layout, turn)][state] == places[turn][new.buffer]


ARENA = 1 << 40  #: stands for the memory that results of calls share


def count(program: Program) -> int:
    return len(program.buffers) + len(program.calls)


def span(program: Program, layout: MemoryPlan, turn: int, buffer: int) -> tuple[int, int, int]:
    """The memory of a buffer, and where in it the buffer begins and ends."""
    size, start, memory = program.parameter(buffer), 0, memories(program, layout, turn)[buffer]
    if len(program.buffers) <= buffer and layout.own[buffer - len(program.buffers)] is None:
        memory, start = ARENA, layout.offsets[buffer - len(program.buffers)]
    end = start + size.elements * size.dtype.size
    assert memory != ARENA or end <= layout.size
    return memory, start, end


def overlap(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return one[0] == other[0] and max(one[1], other[1]) < min(one[2], other[2])
