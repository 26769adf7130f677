"""What cannot be disputed is refused before it is posted or accepted, with the reason."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from eigentensor.dispute import refuse
from eigentensor.dispute.encoding import witness_bytes
from eigentensor.dispute.refusal import ELEMENT, RATE, WHOLE_LEAF, largest_witness
from eigentensor.economics import GAMES
from eigentensor.program import Buffer, DType, Kind, Op, Program, Role
from eigentensor.program.assemble import assemble
from eigentensor.program.cost import game_work
from eigentensor.program.expression import Array, Axis, binary, counter, load, reduction, to_body
from eigentensor.program.limits import EXECUTED_CALLS, RESULTS
from eigentensor.tracing import Element, witness_of
from support.generated.programs import generate
from support.programs.worked_examples import index, layer, session, sums
from support.stories.games import account_of
from support.vectors.dispute import points


def outputs(program: Program, number: int) -> Program:
    """The program with so many results, all of them of its last call."""
    (first, *_) = program.results
    return replace(program, results=tuple(first._replace(name=f"output {n:04}") for n in range(number)))


def test_ordinary_programs_can_be_disputed() -> None:
    assert refuse(layer().program, 1) is None
    assert refuse(session().program, 4) is None


def test_programs_of_any_number_of_calls_can_be_disputed() -> None:
    assert refuse(session().program, EXECUTED_CALLS // len(session().program.calls)) is None


def test_programs_of_any_number_of_results_can_be_disputed() -> None:
    assert refuse(outputs(layer().program, RESULTS), 1) is None


def test_reductions_that_take_too_long_to_show_are_refused() -> None:
    instructions = 3  # range, load, reduce
    assert refuse(sums(1, ELEMENT // 8), 1) is None
    assert f"at most {ELEMENT:,}" in str(refuse(sums(1, ELEMENT // instructions + 1), 1))
    assert refuse(sums(1024, WHOLE_LEAF // 1024 // 8), 1) is None
    assert f"at most {WHOLE_LEAF:,}" in str(refuse(sums(1024, WHOLE_LEAF // 1024 // instructions + 1), 1))


def test_reductions_that_take_longer_than_a_clock_are_refused_where_it_is_that_short() -> None:
    long = sums(1024, WHOLE_LEAF // 1024 // 8)
    takes = GAMES * game_work(long) / RATE
    assert refuse(long, 1) is None and refuse(long, 1, takes) is None
    assert f"{GAMES} games at once" in str(refuse(long, 1, takes * 0.9))
    assert refuse(layer().program, 1, 0.01) is None


def test_what_is_slow_counts_for_more_in_a_clock() -> None:
    quick, slow = (divided(Op.ADD), divided(Op.FLOORMOD))
    assert game_work(slow) > 2 * game_work(quick)
    clock = GAMES * game_work(quick) / RATE
    assert refuse(quick, 1, clock) is None and refuse(slow, 1, clock) is not None


def divided(op: Op) -> Program:
    """Sums of remainders, or of something quicker, of numbers that are not known."""
    i, k, dtype = Axis(0, 1024), Axis(1, 4096, True), DType.INT64
    x, y = load(Array("x", dtype, 1024), counter(i)), load(Array("y", dtype, 4096), counter(k))
    body = to_body(reduction(Op.REDUCE_ADD, (k,), binary(op, binary(op, x, y), y)), (i,))
    buffers = {n: Buffer(Role.INPUT, dtype, (size,), n) for n, size in (("x", 1024), ("y", 4096))}
    return assemble([("total", body)], buffers, {(Kind.OUTPUT, "total"): ("total", (1024,))})


def picked(constants: int, size: int) -> Program:
    """The sum of one element of each of so many constants."""
    arrays = [Array(f"c{n}", DType.INT32, size) for n in range(constants)]
    total = load(arrays[0], index(0))
    for array in arrays[1:]:
        total = binary(Op.ADD, total, load(array, index(0)))
    data = {
        a.key: Buffer(Role.CONSTANT, DType.INT32, (size,), data=np.full(size, n, "<i4").tobytes())
        for n, a in enumerate(arrays)
    }
    return assemble([("total", to_body(total, ()))], data, {(Kind.OUTPUT, "total"): ("total", ())})


def test_steps_that_read_more_than_fits_a_transaction_are_refused() -> None:
    assert refuse(picked(7, 4000), 1) is None
    assert "a step needs a witness of 1" in str(refuse(picked(8, 4000), 1))


@pytest.mark.parametrize("seed", range(40))
def test_no_witness_is_larger_than_was_reckoned(seed: int) -> None:
    example, random = generate(seed), Random(seed)
    true = account_of(example)
    most = largest_witness(example.program, len(true.calls))
    for number, tensor in true.kept.items():
        if tensor.size:
            element = Element(true, number, random.randrange(tensor.size))
            for point in points(element, random):
                assert len(witness_bytes(witness_of(true, element, point))) <= most
