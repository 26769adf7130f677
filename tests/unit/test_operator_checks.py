"""Stories of checks: what a verifier does about the seed, its answer, its bond and others' silence."""

from dataclasses import replace
from typing import Any

import pytest

from eigentensor.economics import WAD, challenge_window, is_drawn
from eigentensor.economics.pricing import Pricing
from eigentensor.program.cost import Needs
from eigentensor.task import (
    Answered,
    Challenged,
    Exposed,
    GameEnded,
    Revealed,
    Seeded,
    Settled,
    Slashed,
    State,
)
from eigentensor_operator.case import Candidacy, Case, Seal, Step
from eigentensor_operator.events import Do, Done, Drain, Executed, Inspected, Looked, RolledBack, Undone
from eigentensor_operator.policy import Backing, Code, Policy, Reason
from eigentensor_operator.state import Operator
from eigentensor_operator.verifying import candidacy_of
from support.stories.operator import (
    ME,
    NEEDS,
    OTHER,
    POLICY,
    SEAL,
    SECOND,
    STANDING,
    TASK,
    THIRD,
    WRONG,
    Story,
    a_life,
    an_order,
    at,
    mix_of,
    sealed_by,
)

THIRD_TASK = b"\xcc" * 32
SEED_BLOCK, CHECK_BY, REVEAL_BY = 14, 44, 74
NODE_AWAY = Reason(Code.CHAIN, "a node", "unreachable", lasting=False)


def test_a_verifier_that_agrees_is_paid_its_bond_and_its_fee() -> None:
    story = Story()
    story.until_opened()
    assert not story.idle
    story.quiet(46, 70)
    story.seen(State.FINAL, 76)
    assert story.head(76) == (Do(Step.SETTLE, TASK),)
    story.handle(Done(TASK, Step.SETTLE, 77))
    story.noted(Settled(at(77), TASK, 1, ME, WAD))
    story.quiet(77, 90)
    assert story.idle


def test_a_verifier_that_differs_is_paid_after_the_conviction_and_sees_to_the_slash() -> None:
    story = Story()
    story.until_opened(WRONG)
    story.noted(Challenged(at(46), TASK, 1, ME, WAD))
    story.quiet(46)
    story.noted(GameEnded(at(50), TASK, 1, ME, True))
    story.seen(State.CONVICTED, 50)
    story.quiet(50, 54)
    assert story.head(55) == (Do(Step.SETTLE, TASK),)
    story.handle(Done(TASK, Step.SETTLE, 56))
    story.noted(Settled(at(56), TASK, 1, ME, WAD))
    story.quiet(56)
    assert story.head(57) == (Do(Step.SLASH, TASK),)
    story.handle(Undone(TASK, Step.SLASH, Reason(Code.CHAIN, "the core", "paused", lasting=False)))
    assert story.head(58) == (Do(Step.SLASH, TASK),)
    story.handle(Done(TASK, Step.SLASH, 59))
    story.noted(Slashed(at(59), TASK, 1, 1, ME))
    story.quiet(59, 200)


def test_a_verifier_that_lost_its_game_asks_for_nothing_when_the_task_is_final() -> None:
    story = Story()
    story.until_opened(WRONG)
    story.noted(Challenged(at(46), TASK, 1, ME, WAD), GameEnded(at(60), TASK, 1, ME, False))
    story.quiet(60)
    early = story.idle
    story.seen(State.FINAL, 80)
    story.quiet(80, 81)
    assert (early, story.idle) == (False, True)  # somebody else might still have convicted the executor
    story.head(81 + POLICY.keep)
    assert story.operator.cases == {}


def test_the_fee_of_a_lost_answer_is_taken_if_another_game_convicts_the_executor() -> None:
    story = Story()
    story.until_opened(WRONG)
    story.noted(Challenged(at(46), TASK, 1, ME, WAD), GameEnded(at(60), TASK, 1, ME, False))
    story.seen(State.CONVICTED, 70)
    assert story.head(70) == (Do(Step.SETTLE, TASK),)


def test_a_lost_answer_that_has_no_part_in_the_fee_is_not_settled_and_sees_to_the_slash() -> None:
    story = Story()
    story.until_answered(index=3)
    other = replace(at(45), transaction=b"\7" * 32)
    story.noted(Answered(at(16), TASK, 0, THIRD, bytes(32)))
    story.seen(State.REVEALED, 45, claim=WRONG)
    story.noted(Revealed(other, TASK, 1, SEAL.outputs_root), Revealed(at(46), TASK, 4, SEAL.outputs_root))
    story.noted(Challenged(at(46), TASK, 1, ME, WAD), GameEnded(at(60), TASK, 1, ME, False))
    story.seen(State.CONVICTED, 70)
    assert story.head(70) == (Do(Step.SLASH, TASK),)
    assert story.idle


def test_a_game_that_the_operator_lost_as_a_challenger_costs_its_answer_nothing() -> None:
    story = Story()
    story.until_opened()
    apart = replace(at(47), transaction=b"\7" * 32)
    story.noted(Challenged(apart, TASK, 1, ME, WAD), GameEnded(at(60), TASK, 1, ME, False))
    story.seen(State.FINAL, 80)
    assert story.operator.bond_of(story.case()) > 0
    assert story.head(80) == (Do(Step.SETTLE, TASK),)


def test_a_verifier_that_agreed_leaves_the_slash_to_others() -> None:
    story = Story()
    story.until_opened()
    story.seen(State.CONVICTED, 50)
    assert story.head(55) == (Do(Step.SETTLE, TASK),)
    story.noted(Settled(at(55), TASK, 1, ME, WAD))
    story.handle(Done(TASK, Step.SETTLE, 55))
    story.quiet(56, 60)


def test_a_silent_executor_is_convicted_by_the_open_answer() -> None:
    story = Story()
    story.until_answered()
    story.quiet(REVEAL_BY - 1)
    assert story.head(REVEAL_BY) == (Do(Step.REVEAL, TASK),)
    story.handle(Done(TASK, Step.REVEAL, 75))
    story.noted(Revealed(at(75), TASK, 1, SEAL.outputs_root))
    story.seen(State.CONVICTED, 75)
    story.quiet(75, 83)
    assert story.head(84) == (Do(Step.SETTLE, TASK),)


def test_an_answer_is_opened_although_another_one_convicted_the_executor_before() -> None:
    story = Story()
    story.until_answered()
    story.seen(State.REVEALED, 45, claim=WRONG)
    story.seen(State.CONVICTED, 47)
    assert story.head(47) == (Do(Step.REVEAL, TASK),)


def test_an_answer_is_opened_in_every_block_until_its_last_and_then_given_up() -> None:
    story = Story()
    story.until_answered()
    story.seen(State.REVEALED, 45, claim=SEAL.outputs_root)
    for block in range(45, 55):
        assert story.head(block) == (Do(Step.REVEAL, TASK),)
        story.handle(Undone(TASK, Step.REVEAL, NODE_AWAY))
    story.quiet(55, 56)
    assert story.case().unanswered == Reason(Code.LATE, "block 55", "block 57")
    story.seen(State.FINAL, 90)
    story.quiet(90)
    assert story.idle


def test_a_task_that_nobody_ends_is_ended_by_the_verifier() -> None:
    story = Story()
    story.until_opened()
    challenge_by = 45 + challenge_window(POLICY.parameters, 20)
    story.quiet(challenge_by + 3)
    assert story.head(challenge_by + 4) == (Do(Step.CLOSE, TASK),)


def test_an_exposed_answer_is_over() -> None:
    story = Story()
    story.until_answered()
    story.noted(Exposed(at(20), TASK, 1, THIRD, 1))
    story.seen(State.REVEALED, 45, claim=SEAL.outputs_root)
    story.quiet(45)
    assert story.idle


def test_an_undrawn_task_is_nobodys_business() -> None:
    story = Story()
    story.until_drawn(drawn=False)
    story.quiet(15, 40)


def test_a_verifier_records_a_seed_about_which_everybody_else_is_silent() -> None:
    story = Story()
    story.posted()
    story.seen(State.ACCEPTED, 11, executor=OTHER)
    story.seen(State.COMMITTED, 12, claim=b"\x0c" * 32)
    story.quiet(SEED_BLOCK + 3)
    assert story.head(SEED_BLOCK + 4) == (Do(Step.SEED, TASK),)


def test_an_operator_without_seats_checks_nothing() -> None:
    story = Story(standing=replace(STANDING, seats=0))
    story.until_drawn()
    story.quiet(15, 30)


def test_an_operator_that_does_not_verify_checks_nothing() -> None:
    story = Story(Operator(replace(POLICY, verify=False)))
    story.until_drawn()
    story.quiet(15, 30)


def test_an_operator_whose_seats_were_not_drawn_does_nothing() -> None:
    story = Story()
    story.until_drawn()
    assert story.head(15) == (Do(Step.LOOK, TASK),)
    assert story.handle(Looked(TASK, Candidacy(mix_of(TASK, True), None))) == ()
    story.quiet(16)


def test_another_seed_after_a_reorganisation_is_looked_at_anew() -> None:
    story = Story()
    story.until_check()
    story.handle(RolledBack(13))
    story.handle(Inspected(TASK, NEEDS))
    story.quiet(15)
    mixes = (bytes([n]) * 32 for n in range(256) if bytes([n]) * 32 != mix_of(TASK, True))
    another = next(mix for mix in mixes if is_drawn(mix, TASK, story.case().order.check_rate))
    story.noted(Seeded(at(16), SEED_BLOCK, another))
    assert story.head(16) == (Do(Step.LOOK, TASK),)


@pytest.mark.parametrize(("cut", "expected"), [(15, Step.ANSWER), (16, None), (44, None), (45, Step.REVEAL)])
def test_an_answer_rolled_back_is_sent_again_unchanged(cut: int, expected: Step | None) -> None:
    story = Story()
    story.until_opened()
    story.handle(RolledBack(cut))
    expected_now = () if expected is None else (Do(expected, TASK),)
    story.standing = replace(story.standing, block=cut)
    if expected is Step.ANSWER:
        assert story.head(47 - 4) == (Do(Step.LOOK, TASK),)
        assert story.handle(Looked(TASK, Candidacy(mix_of(TASK, True), 0))) == expected_now
    else:
        assert story.head(47) == expected_now
    assert story.case().seal == SEAL


@pytest.mark.parametrize("answered", [False, True])
def test_a_verifier_goes_on_from_its_journal_and_the_chain(answered: bool) -> None:
    story = Story(Operator(POLICY, {TASK: Case(a_life(), seal=SEAL)}))
    story.until_drawn()
    if not answered:
        assert story.head(15) == (Do(Step.LOOK, TASK),)
        assert story.handle(Looked(TASK, Candidacy(mix_of(TASK, True), 0))) == (Do(Step.ANSWER, TASK),)
        return
    story.noted(Answered(at(16), TASK, 0, ME, sealed_by(ME, slot=1)))
    story.seen(State.REVEALED, 45, claim=SEAL.outputs_root)
    assert story.head(45) == (Do(Step.REVEAL, TASK),)


def test_an_answer_whose_seal_was_lost_is_given_up() -> None:
    story = Story()
    story.until_drawn()
    story.noted(Answered(at(16), TASK, 0, ME, sealed_by(ME, slot=1)))
    story.seen(State.REVEALED, 45, claim=SEAL.outputs_root)
    story.quiet(45)
    assert story.case().unanswered == Reason(Code.SEAL, sealed_by(ME, slot=1).hex(), "no seal")


def test_an_answer_that_cannot_be_among_the_lowest_is_not_sent() -> None:
    story = Story()
    story.until_answer(index=3)
    story.handle(Undone(TASK, Step.ANSWER, NODE_AWAY))
    story.noted(Answered(at(16), TASK, 2, THIRD, bytes(32)))
    story.quiet(16, 20)
    assert story.case().unanswered == Reason(Code.RANK, "one of the 1 lowest answers", "1 lower ones", lasting=False)


def test_whom_others_precede_waits_as_long_as_it_can_and_steps_in_for_them() -> None:
    story = Story()
    story.until_check(index=5, rank=2)
    assert story.handle(Inspected(TASK, NEEDS)) == ()
    latest = CHECK_BY - POLICY.blocks(NEEDS) - POLICY.reserve - POLICY.patience
    story.quiet(16, latest - 1)
    assert story.head(latest) == (Do(Step.FETCH, TASK),)


def test_whom_others_precede_does_nothing_once_they_answered() -> None:
    story = Story()
    story.until_check(index=5, rank=1)
    assert story.handle(Inspected(TASK, NEEDS)) == ()
    story.noted(Answered(at(20), TASK, 0, THIRD, bytes(32)))
    story.quiet(20, CHECK_BY - 5, CHECK_BY - 4)


@pytest.mark.parametrize(
    ("code", "policy", "needs"),
    [
        (Code.PRICE, replace(POLICY, pricing=Pricing(price_per_hour=360 * WAD)), NEEDS),
        (Code.EXEC, POLICY, Needs(27 * 1_000_000, 1)),
        (Code.WORK, replace(POLICY, max_operations=10), NEEDS),
        (Code.MEMORY, replace(POLICY, max_memory=10), NEEDS),
    ],
)
def test_a_check_that_does_not_pay_or_does_not_fit_is_not_begun(code: Code, policy: Policy, needs: Needs) -> None:
    story = Story()
    story.until_check()
    story.operator = replace(story.operator, policy=policy)
    assert story.handle(Inspected(TASK, needs)) == ()
    unanswered = story.case().unanswered
    assert unanswered is not None and unanswered.code is code and unanswered.needed != unanswered.offered
    story.quiet(16, 20)


@pytest.mark.parametrize(
    ("code", "standing"),
    [
        (Code.COLLATERAL, {"balance": 0}),
        (Code.CAP, {"cap": 0}),
        (Code.MEMBERSHIP, {"member": False}),
        (Code.SEATS, {"backing": Backing(seat_stake=WAD, lasting=WAD - 1)}),
    ],
)
def test_who_may_not_answer_or_cannot_hold_the_bond_gives_no_answer(code: Code, standing: dict[str, Any]) -> None:
    story = Story(standing=replace(STANDING, **standing))
    story.until_drawn()
    assert story.head(15) == (Do(Step.LOOK, TASK),)
    assert story.handle(Looked(TASK, Candidacy(mix_of(TASK, True), 0))) == ()
    unanswered = story.case().unanswered
    assert unanswered is not None and unanswered.code is code
    story.standing = STANDING
    assert story.head(17) == (Do(Step.INSPECT, TASK),)


def test_the_bond_of_an_answer_on_its_way_is_not_promised_twice() -> None:
    story = Story(standing=replace(STANDING, balance=WAD * 6 // 100))
    story.until_answer()
    story.posted(SECOND, block=15)
    assert story.head(15) == (Do(Step.DECLINE, SECOND),)
    refused = story.case(SECOND).refused
    assert refused is not None and refused.code is Code.COLLATERAL


def test_a_device_that_computes_wrong_bits_answers_nothing() -> None:
    story = Story()
    story.until_check()
    story.handle(Inspected(TASK, NEEDS))
    assert story.fetched() == (Do(Step.EXECUTE, TASK),)
    wrong = Reason(Code.DEVICE, "0x3f800000", "0x3f800001")
    assert story.handle(Undone(TASK, Step.EXECUTE, wrong)) == ()
    assert story.operator.faulty == wrong
    story.quiet(16, 40)


def test_a_draining_operator_answers_nothing_more_and_opens_what_it_answered() -> None:
    story = Story()
    story.until_answered()
    story.handle(Drain())
    story.seen(State.REVEALED, 45, claim=SEAL.outputs_root)
    assert story.head(45) == (Do(Step.REVEAL, TASK),)
    other = Story(Operator(POLICY, draining=True))
    other.until_drawn()
    assert other.head(15) == (Do(Step.LOOK, TASK),)
    assert other.handle(Looked(TASK, Candidacy(mix_of(TASK, True), 0))) == ()


def test_inputs_that_the_client_withholds_are_asked_for_until_it_is_too_late() -> None:
    story = Story()
    story.until_check()
    story.handle(Inspected(TASK, NEEDS))
    missing = Reason(Code.DATA, "inputs", "not at the gateway", lasting=False)
    story.handle(Undone(TASK, Step.FETCH, missing))
    tried = 0
    for block in range(16, 60):
        if story.head(block) == (Do(Step.FETCH, TASK),):
            tried = block
            story.handle(Undone(TASK, Step.FETCH, missing))
    assert CHECK_BY - 12 < tried < CHECK_BY
    assert not story.operator.answer_in(story.case())


def test_a_promise_is_executed_before_a_check_that_could_make_it_late() -> None:
    story = Story()
    story.until_drawn()
    story.posted(SECOND, block=10)
    story.seen(State.ACCEPTED, 11, task=SECOND, executor=ME)
    promised = replace(story.case(SECOND), needs=Needs(10 * 1_000_000, 1), doing=Step.FETCH)
    checked = replace(story.case(), needs=NEEDS, fetched=True, candidacy=Candidacy(mix_of(TASK, True), 0))
    story.operator = story.operator.replaced(promised).replaced(checked)
    story.quiet(18)
    assert story.operator.slack == 0
    life = replace(story.case(SECOND).life, uuid=THIRD_TASK, order=an_order(exec=60))
    later = replace(story.case(SECOND), life=life, needs=NEEDS)
    assert story.operator.replaced(later).slack == -1
    assert story.handle(Done(SECOND, Step.FETCH)) == (Do(Step.EXECUTE, SECOND),)


def test_a_check_that_makes_no_promise_late_goes_before_what_was_promised() -> None:
    """Who always has promises would never check."""
    story = Story()
    story.until_drawn()
    story.posted(SECOND, block=10)
    story.seen(State.ACCEPTED, 11, task=SECOND, executor=ME)
    promised = replace(story.case(SECOND), needs=NEEDS, doing=Step.FETCH)
    checked = replace(
        story.case(), needs=NEEDS, fetched=True, prepared=True, candidacy=Candidacy(mix_of(TASK, True), 0)
    )
    story.operator = story.operator.replaced(promised).replaced(replace(checked, doing=Step.PREPARE))
    story.quiet(18)
    story.operator = story.operator.replaced(replace(story.case(SECOND), fetched=True, doing=None))
    assert story.handle(Done(TASK, Step.PREPARE)) == (Do(Step.EXECUTE, TASK),)


def test_a_check_counts_among_what_a_new_acceptance_has_to_wait_for() -> None:
    story = Story()
    story.until_check()
    assert story.handle(Inspected(TASK, Needs(16 * 1_000_000, 1))) == (Do(Step.FETCH, TASK),)
    story.posted(SECOND, block=15)
    assert story.head(15) == (Do(Step.INSPECT, SECOND),)
    assert story.handle(Inspected(SECOND, Needs(2 * 1_000_000, 1))) == (Do(Step.DECLINE, SECOND),)
    assert story.case(SECOND).refused == Reason(Code.BUSY, "21 blocks", "20 blocks", lasting=False)


def test_what_was_fetched_for_a_race_that_another_operator_won_is_no_work() -> None:
    story = Story()
    story.until_accept()
    story.seen(State.ACCEPTED, 11, executor=OTHER)
    story.handle(Undone(TASK, Step.ACCEPT, NODE_AWAY))
    story.seen(State.COMMITTED, 12, claim=b"\x0c" * 32)
    story.quiet(12)
    assert story.case().fetched and not list(story.operator.checks())
    story.seeded(15, drawn=True)
    assert story.head(15) == (Do(Step.LOOK, TASK),)
    assert story.handle(Looked(TASK, Candidacy(mix_of(TASK, True), None))) == ()
    assert story.operator.blocks_ahead == 0


def test_a_check_that_failed_for_good_is_no_work_any_more() -> None:
    story = Story()
    story.until_check()
    story.handle(Inspected(TASK, NEEDS))
    assert story.fetched() == (Do(Step.EXECUTE, TASK),)
    assert story.operator.blocks_ahead > 0
    story.handle(Undone(TASK, Step.EXECUTE, Reason(Code.EXECUTION, "an end", "killed by signal 11")))
    assert story.operator.blocks_ahead == 0


def test_other_bits_than_before_stop_the_operator() -> None:
    story = Story()
    story.until_check()
    story.operator = story.operator.replaced(replace(story.case(), seal=SEAL))
    story.handle(Executed(TASK, Seal(WRONG, SEAL.salt)))
    assert story.operator.faulty is not None and story.case().seal == SEAL


def test_a_candidate_is_the_lowest_of_the_own_seats_behind_those_of_other_operators() -> None:
    nobody = "0x" + "00" * 20
    drawn = [(nobody, 0), (OTHER, 1), (THIRD, 1), (THIRD, 1), (ME, 12), (ME, 3), (ME, 3)]
    mix = b"\7" * 32
    assert candidacy_of(mix, drawn, ME, OTHER, 12) == Candidacy(mix, 5, frozenset({THIRD}))
    assert candidacy_of(mix, drawn[:5], ME, OTHER, 12) == Candidacy(mix, None, frozenset({THIRD}))
    assert candidacy_of(mix, drawn, ME, THIRD, 12) == Candidacy(mix, 5, frozenset({OTHER}))
    assert candidacy_of(mix, [], ME, OTHER, 12) == Candidacy(mix, None)


def test_an_executor_is_no_candidate_and_everybody_else_is_before_it() -> None:
    drawn = [(ME, 1), (OTHER, 1), (THIRD, 1), (OTHER, 3)]
    assert candidacy_of(b"\7" * 32, drawn, ME, ME, 12) == Candidacy(b"\7" * 32, None, frozenset({OTHER, THIRD}))
