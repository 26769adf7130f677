"""What cannot be disputed is refused before it is posted or accepted, with the reason."""

from dataclasses import replace

import pytest

from eigentensor.dispute import MAX_CALLS, refuse
from eigentensor.dispute.refusal import ELEMENT, WHOLE_LEAF
from eigentensor.program import Buffer, DType, Kind, Op, Program, Role
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, counter, load, reduction, to_body
from eigentensor.program.limits import RESULTS
from worked_examples import layer, session


def sums(elements: int, steps: int) -> Program:
    """`elements` sums of so many steps."""
    i, k = Axis(0, elements), Axis(1, steps, True)
    body = to_body(reduction(Op.REDUCE_ADD, (k,), load(Array("x", DType.INT8, elements), counter(i))), (i,))
    return assemble(
        [("total", body)],
        {"x": Buffer(Role.INPUT, DType.INT8, (elements,), "x")},
        {(Kind.OUTPUT, "total"): ("total", (elements,))},
    )


def outputs(program: Program, number: int) -> Program:
    """The program with so many results, all of them of its last call."""
    (first, *_) = program.results
    return replace(program, results=tuple(first._replace(name=f"output {n:04}") for n in range(number)))


def test_ordinary_programs_can_be_disputed() -> None:
    assert refuse(layer().program, 1) is None
    assert refuse(session().program, 4) is None


def test_more_calls_than_fit_one_transaction_are_refused() -> None:
    assert refuse(session().program, MAX_CALLS // 2) is None
    assert refuse(session().program, MAX_CALLS // 2 + 1) == "it executes 2,048 calls, at most 2,047 can be disputed"


@pytest.mark.parametrize(("number", "reason"), [(RESULTS, "leaves none to observe"), (RESULTS - 1, "a proof of 1")])
def test_results_that_cannot_be_collected_are_refused(number: int, reason: str) -> None:
    assert reason in str(refuse(outputs(layer().program, number), 1))
    assert refuse(outputs(layer().program, 300), 1) is None


def test_reductions_that_take_too_long_to_show_are_refused() -> None:
    instructions = 3  # range, load, reduce
    assert refuse(sums(1, ELEMENT // 8), 1) is None
    assert f"at most {ELEMENT:,}" in str(refuse(sums(1, ELEMENT // instructions + 1), 1))
    assert refuse(sums(1024, WHOLE_LEAF // 1024 // 8), 1) is None
    assert f"at most {WHOLE_LEAF:,}" in str(refuse(sums(1024, WHOLE_LEAF // 1024 // instructions + 1), 1))
