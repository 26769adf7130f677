"""Stories of programs that take long to compile: they cost those who post them, and nobody else's order waits."""

from dataclasses import replace
from typing import Any

import pytest

from eigentensor.economics import WAD
from eigentensor.economics.pricing import Pricing
from eigentensor.numerics.dtypes import DType
from eigentensor.program.cost import compile_seconds
from eigentensor_operator.case import Step
from eigentensor_operator.events import Do, Done, Inspected, Undone
from eigentensor_operator.policy import Code, Reason, is_close, refuse_price
from eigentensor_operator.preparing import GRACE, PLACES, SMALL, Place, limit, outlived, place_of
from eigentensor_operator.state import Operator
from support.generated.programs import generate
from support.programs.compiling import hostile_program
from support.stories.operator import NEEDS, POLICY, SECOND, STANDING, TASK, Story, an_order

HOSTILE, HONEST = "0x" + "66" * 20, "0x" + "77" * 20
LARGE, TOO_LARGE = SMALL * 5, POLICY.max_compile * 2
TASKS = [bytes([n]) * 32 for n in range(1, 31)]


def a_program(number: int) -> bytes:
    return number.to_bytes(32, "big")


def ready(story: Story, task: bytes, seconds: float, number: int, **terms: Any) -> None:
    """Posted, looked at, and all of it is here: its program is still to be compiled."""
    story.posted(task, program=a_program(number), **terms)
    case = story.case(task)
    story.operator = story.operator.replaced(replace(case, needs=NEEDS, compile_seconds=seconds, fetched=True))


def preparing(story: Story) -> list[bytes]:
    return [case.uuid for case in story.operator.cases.values() if case.doing is Step.PREPARE]


@pytest.mark.parametrize("seconds", [SMALL, LARGE])
def test_a_normal_order_is_accepted_while_those_of_another_client_are_compiled(seconds: float) -> None:
    story = Story()
    for number, task in enumerate(TASKS):
        ready(story, task, seconds, number, client=HOSTILE)
    story.head(10)
    place = Place.SMALL if seconds <= SMALL else Place.LARGE
    assert len(preparing(story)) == PLACES[place]
    ready(story, TASK, 1.0, 99, client=HONEST)
    story.head(11)
    if place is Place.SMALL:  # as soon as one of them is done, or given up: it does not wait for the others
        first, *_ = preparing(story)
        assert Do(Step.PREPARE, TASK) in story.handle(Done(first, Step.PREPARE))
    assert TASK in preparing(story)
    assert Do(Step.ACCEPT, TASK) in story.handle(Done(TASK, Step.PREPARE))
    assert preparing(story)  # and theirs are still being compiled


def test_what_ran_before_is_timed_anew_where_another_order_of_it_leaves_little_time() -> None:
    budget = (an_order().exec - POLICY.reserve) * POLICY.block_seconds
    much = replace(NEEDS, operations=int(budget * POLICY.operations_per_second / 4))
    assert not is_close(POLICY, an_order(), NEEDS) and is_close(POLICY, an_order(), much)
    for needs, step in ((NEEDS, Step.ACCEPT), (much, Step.PREPARE)):
        story = Story()
        ready(story, TASK, 1.0, 1)
        story.operator = replace(story.operator, proven=frozenset({a_program(1)}))
        story.operator = story.operator.replaced(replace(story.case(TASK), needs=needs))
        assert story.operator.compiling(story.case(TASK)) == 0
        assert story.head(10) == (Do(step, TASK),)


def test_of_one_client_the_cheapest_goes_first() -> None:
    story = Story()
    for number, (task, seconds) in enumerate(zip(TASKS, (9.0, 7.0, 5.0, 3.0), strict=False)):
        ready(story, task, seconds, number)
    story.head(10)
    assert preparing(story) == [TASKS[2], TASKS[3]]


def test_who_was_given_less_goes_first_whatever_it_costs() -> None:
    story = Story()
    for number, task in enumerate(TASKS[:4]):
        ready(story, task, 1.0, number, client=HOSTILE)
    story.head(10)
    ready(story, TASK, 9.0, 99, client=HONEST)
    first, _ = preparing(story)
    assert Do(Step.PREPARE, TASK) in story.handle(Done(first, Step.PREPARE))


def test_compiling_is_part_of_the_price_once() -> None:
    pricing = Pricing(price_per_hour=WAD)
    policy = replace(POLICY, pricing=pricing)
    order = an_order()  # 0.01 for a second of execution, with an hour at 1
    assert refuse_price(policy, order, STANDING, NEEDS) is None
    refused = refuse_price(policy, order, STANDING, NEEDS, 100.0)
    assert refused is not None and (refused.code, refused.lasting) == (Code.PRICE, True)
    story = Story(Operator(policy))
    ready(story, TASK, 100.0, 1)
    assert story.head(10) == (Do(Step.DECLINE, TASK),)
    story.operator = replace(story.operator, proven=frozenset({a_program(2)}))
    ready(story, SECOND, 100.0, 2)
    assert Do(Step.ACCEPT, SECOND) in story.head(11)


def test_what_takes_too_long_to_compile_is_declined_before_anything_is_compiled() -> None:
    story = Story()
    story.posted()
    story.head(10)
    assert story.handle(Inspected(TASK, NEEDS, TOO_LARGE)) == (Do(Step.DECLINE, TASK),)
    refused = story.case().refused
    assert refused is not None and (refused.code, refused.lasting) == (Code.COMPILE, True)


def test_a_program_that_outlives_what_was_expected_waits_among_the_large_ones_and_then_is_declined() -> None:
    story, late = Story(), Reason(Code.COMPILE, "in time", "too long", lasting=False)
    ready(story, TASK, 1.0, 1)
    assert story.head(10) == (Do(Step.PREPARE, TASK),)
    assert limit(POLICY, 1.0) == GRACE * SMALL
    assert story.handle(Undone(TASK, Step.PREPARE, late)) == ()
    assert place_of(story.case()) is Place.LARGE and story.case().refused is None
    assert story.head(12) == (Do(Step.PREPARE, TASK),)
    assert limit(POLICY, story.case().compile_seconds) == POLICY.max_compile
    assert story.handle(Undone(TASK, Step.PREPARE, late)) == ()
    assert story.head(14) == (Do(Step.DECLINE, TASK),)
    refused = story.case().refused
    assert refused is not None and (refused.code, refused.lasting) == (Code.COMPILE, True)


@pytest.mark.parametrize("seconds", [0.0, SMALL, SMALL + 1, POLICY.max_compile])
def test_nothing_is_expected_to_end_after_it_was_given_up(seconds: float) -> None:
    assert limit(POLICY, seconds) < outlived(seconds) and outlived(outlived(seconds)) == float("inf")


def test_nothing_is_compiled_that_could_make_a_promise_late() -> None:
    story = Story()
    story.until_execute(exec=6)
    assert story.operator.slack == 2
    ready(story, SECOND, 5.0, 2)
    ready(story, TASKS[0], 1.0, 3)
    story.head(11)
    assert preparing(story) == [TASKS[0]]


def test_a_program_that_failed_when_it_was_tried_is_declined_for_good_and_by_its_own_name() -> None:
    story = Story()
    ready(story, TASK, 1.0, 1)
    story.head(10)
    reason = Reason(Code.TRIAL, "a program that can be executed", "array is too big")
    assert story.handle(Undone(TASK, Step.PREPARE, reason)) == (Do(Step.DECLINE, TASK),)
    story.quiet(11, 12, 30)
    assert story.operator.proven == frozenset()


def test_bodies_and_instructions_cost_and_halves_most() -> None:
    ordinary = compile_seconds(generate(0).program)
    few, many = (compile_seconds(hostile_program(bodies, 300)) for bodies in (1, 3))
    assert 0 < ordinary < SMALL < few and many > 2.9 * few
    assert compile_seconds(hostile_program(1, 300, DType.FLOAT32)) < few / 2
