"""Attack 15: a client's program computes what is undefined elsewhere. Who executes it honestly is acquitted.

That the deployed referee finds the same is for `contracts/test/attacks/Games.t.sol`, with games over these programs.
"""

from functools import cache
from itertools import islice
from random import Random
from typing import Any

import numpy as np
import pytest

from eigentensor import reference
from eigentensor.dispute import Side, refuse
from eigentensor.errors import ProgramError, RuleError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, Node, const, counter, load, node, reduction, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op
from eigentensor.runtime import execute
from eigentensor.tracing import Element, Execution, Point, evaluate_step, witness_of
from support.programs.hostile import PROGRAMS
from support.stories.games import account_of, honest, play, reckless
from support.stories.liars import Liar, some_fault

F32, I32, INDEX = DType.FLOAT32, DType.INT32, DType.INDEX


@cache
def account(name: str) -> Execution:
    return account_of(PROGRAMS[name]())


@pytest.mark.parametrize("name", PROGRAMS)
def test_fast_execution_gives_the_bits_that_are_disputed(name: str) -> None:
    example = PROGRAMS[name]()
    fast = execute(example.program, example.tensors)
    slow = reference.execute(example.program, example.tensors)
    assert fast.outputs.keys() == slow.outputs.keys()
    for output, array in slow.outputs.items():
        assert fast.outputs[output].tobytes() == array.tobytes(), output


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_step_evaluates_to_what_the_executor_has(name: str) -> None:
    true = account(name)
    for number in range(len(true.calls)):
        for place in range(true.kept[number].size):
            element = Element(true, number, place)
            final = Point(place, element.results)
            assert evaluate_step(witness_of(true, element, final)) == element.stored
            for k in range(len(element.results) if place in (0, 17) else 0):
                steps = element.length(k)
                values = element.accumulators(k, range(steps + 1))
                for step in range(steps):
                    point = Point(place, element.results, k, step, values[step])
                    assert evaluate_step(witness_of(true, element, point)) == values[step + 1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_honest_executor_is_acquitted_whatever_is_objected_to(name: str) -> None:
    true = account(name)
    for seed in range(12):
        played = play(true, true.outputs, honest(Side.EXECUTOR), reckless(Random(seed)))
        if played.outcome is None:
            assert played.last.phase.side is Side.CHALLENGER, played.moves
        else:
            assert not played.outcome.executor_lost, played.moves


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_wrong_bit_of_such_a_value_is_convicted(name: str) -> None:
    """Also a NaN of another payload, or a zero of the other sign."""
    true, example, random = account(name), PROGRAMS[name](), Random(7)
    liars = (Liar(true, example.tensors, some_fault(true, random)) for _ in range(100))
    chosen = list(islice((liar for liar in liars if liar.changed), 4))
    assert len(chosen) == 4
    for liar in chosen:
        played = play(true, liar.account.outputs, liar.next_move, honest(Side.CHALLENGER))
        assert played.outcome is not None and played.outcome.executor_lost, liar.fault


def test_the_programs_reach_what_they_are_named_after() -> None:
    """Otherwise the tests above would say nothing."""

    def outputs(name: str) -> dict[str, Any]:
        example = PROGRAMS[name]()
        return reference.execute(example.program, example.tensors).outputs

    loaded, nans = PROGRAMS["NaN payloads"]().tensors["x"].view(np.uint32), outputs("NaN payloads")
    noisy = np.isnan(loaded.view(np.float32))
    assert len({*loaded[noisy].tolist()}) > 5
    assert {*nans["bits"][noisy].tolist(), *nans["stored"].view(np.uint32)[noisy].tolist()} == {0x7FC00000}
    small = outputs("signed zeros and subnormals")["product"].view(np.uint32)
    assert 1 << 31 in small and any(0 < size < 0x800000 for size in small & 0x7FFFFFFF)
    assert not outputs("shifts by more than the width")["left out"].any()
    shifted = outputs("arithmetic shifts by more than the width")["right out"]
    assert {*shifted.tolist()} == {0, -1}
    divided, x = outputs("division by zero"), PROGRAMS["division by zero"]().tensors
    by_zero = x["y"] == 0
    assert by_zero.any() and not divided["cdiv"][by_zero].any()
    assert (divided["cmod"][by_zero] == x["x"][by_zero]).all()
    assert {-(1 << 31), (1 << 31) - 1, 0} <= {*outputs("casts of what does not fit")["as int32"].tolist()}
    gathered = outputs("indices far outside")["gathered"]
    assert 0 < np.count_nonzero(gathered) < gathered.size


def _one(value: Node, axes: tuple[Axis, ...], **inputs: Buffer) -> Program:
    shape = tuple(axis.extent for axis in axes)
    return assemble([("result", to_body(value, axes))], inputs, {(Kind.OUTPUT, "output"): ("result", shape)})


def test_an_index_from_the_client_without_a_guard_is_refused() -> None:
    lane = Axis(0, 8)
    place = node(Op.CAST, INDEX, load(Array("at", I32, 8), counter(lane)))
    with pytest.raises(RuleError) as refusal:
        _one(
            load(Array("table", F32, 8), place), (lane,),
            at=Buffer(Role.INPUT, I32, (8,), "at"), table=Buffer(Role.INPUT, F32, (8,), "table"),
        )  # fmt: skip
    assert refusal.value.rule == "bounds"


@pytest.mark.parametrize("extents", [(1 << 32,), (1 << 20, 1 << 20), (1 << 16, 1 << 16, 1 << 16, 1 << 16)])
def test_shapes_that_nobody_can_hold_are_refused(extents: tuple[int, ...]) -> None:
    axes = tuple(Axis(i, extent) for i, extent in enumerate(extents))
    with pytest.raises(ProgramError) as refusal:
        _one(const(F32, 0x3F800000), axes)
    assert refusal.value.rule == "limits"


def test_reductions_that_nobody_can_follow_are_refused_by_both_sides() -> None:
    axes = tuple(Axis(i, 1 << 10, is_reduce=True) for i in range(4))
    endless = _one(reduction(Op.REDUCE_ADD, axes, const(F32, 0x3F800000)), ())
    assert "evaluations" in (refuse(endless, 1) or "")
