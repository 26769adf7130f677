"""Stories of the operator's machine: what it is told, and what it then does."""

from dataclasses import replace
from typing import Any

import pytest

from eigentensor import economics
from eigentensor.economics import WAD, challenge_window
from eigentensor.economics.pricing import Pricing
from eigentensor.player import MEMORY
from eigentensor.program.cost import Needs
from eigentensor.task import State
from eigentensor_operator.case import Case, Seal, Step
from eigentensor_operator.events import Do, Done, Drain, Executed, Inspected, RolledBack, Undone
from eigentensor_operator.policy import MOVES, Code, Reason
from eigentensor_operator.state import Operator
from support.stories.operator import (
    ME,
    NEEDS,
    OTHER,
    POLICY,
    SEAL,
    SECOND,
    STANDING,
    TASK,
    Story,
    a_life,
    an_order,
    sealed_by,
)

CHALLENGE_BY = 17 + challenge_window(POLICY.parameters, 20)
COMMIT_BY = 11 + 20
REVEAL_BY = 14 + 50 + 10


def test_an_honest_run_goes_from_the_order_to_the_payment() -> None:
    story = Story()
    story.until_upload()
    assert not story.idle
    assert story.handle(Done(TASK, Step.UPLOAD)) == ()
    assert story.head(CHALLENGE_BY + POLICY.patience - 1) == ()
    assert story.head(CHALLENGE_BY + POLICY.patience) == (Do(Step.CLOSE, TASK),)
    assert not story.idle
    story.seen(State.FINAL, CHALLENGE_BY + 3)
    assert story.handle(Done(TASK, Step.CLOSE, CHALLENGE_BY + 3)) == ()
    assert story.head(CHALLENGE_BY + 4) == ()
    assert story.idle


def test_a_finished_task_is_forgotten_when_no_reorg_can_bring_it_back() -> None:
    story = Story()
    story.until_delivered()
    story.seen(State.FINAL, 40)
    story.head(40 + POLICY.keep)
    assert TASK in story.operator.cases
    story.head(41 + POLICY.keep)
    assert story.operator.cases == {}


def test_results_are_delivered_even_after_the_task_is_final() -> None:
    story = Story()
    story.until_upload()
    story.handle(Undone(TASK, Step.UPLOAD, Reason(Code.DATA, "the gateway", "unreachable")))
    story.seen(State.FINAL, 44)
    assert story.head(200) == (Do(Step.UPLOAD, TASK),)
    story.handle(Undone(TASK, Step.UPLOAD, Reason(Code.DATA, "the gateway", "unreachable")))
    story.head(10_044)
    assert TASK in story.operator.cases
    story.handle(Undone(TASK, Step.UPLOAD, Reason(Code.DATA, "the gateway", "unreachable")))
    story.head(10_045)
    assert story.operator.cases == {}


def test_somebody_else_closes_first_and_nothing_is_sent() -> None:
    story = Story()
    story.until_delivered()
    story.seen(State.FINAL, CHALLENGE_BY + 1)
    assert story.head(CHALLENGE_BY + 9) == ()


@pytest.mark.parametrize("when", ["before the download ends", "while the acceptance is on its way"])
def test_a_lost_race_costs_nothing_more(when: str) -> None:
    story = Story()
    if when == "before the download ends":
        story.posted()
        story.head(10)
        story.seen(State.ACCEPTED, 11, executor=OTHER)
        assert story.handle(Inspected(TASK, NEEDS)) == ()
    else:
        story.until_accept()
        story.seen(State.ACCEPTED, 11, executor=OTHER)
        assert story.handle(Undone(TASK, Step.ACCEPT, Reason(Code.CHAIN, "Open", "Accepted"))) == ()
    assert story.head(11) == ()
    assert story.head(90) == ()
    assert story.idle


def test_an_acceptance_that_the_chain_does_not_show_is_sent_again() -> None:
    story = Story()
    story.until_accept()
    assert story.handle(Done(TASK, Step.ACCEPT, 12)) == ()
    assert story.head(11) == ()  # its block is not read yet
    assert story.head(12) == (Do(Step.ACCEPT, TASK),)


def test_an_acceptance_rolled_back_is_sent_again_and_the_result_is_not_computed_again() -> None:
    story = Story()
    story.until_commit()
    story.handle(Undone(TASK, Step.COMMIT, Reason(Code.CHAIN, "Accepted", "Open")))
    assert story.handle(RolledBack(10)) == ()
    assert story.case().state is State.OPEN
    assert story.head(12) == (Do(Step.ACCEPT, TASK),)
    story.seen(State.ACCEPTED, 13, executor=ME)
    assert story.handle(Done(TASK, Step.ACCEPT, 13)) == (Do(Step.COMMIT, TASK),)
    assert story.case().seal == SEAL


def test_an_acceptance_rolled_back_and_then_won_by_another_is_let_go() -> None:
    story = Story()
    story.until_commit()
    story.handle(RolledBack(10))
    story.seen(State.ACCEPTED, 11, executor=OTHER)
    story.handle(Undone(TASK, Step.COMMIT, Reason(Code.CHAIN, ME, OTHER)))
    assert story.head(13) == ()
    assert story.idle


def test_an_order_rolled_back_is_waited_for() -> None:
    story = Story()
    story.until_accept()
    story.handle(Undone(TASK, Step.ACCEPT, Reason(Code.CHAIN, "Open", "None")))
    story.handle(RolledBack(9))
    assert story.head(12) == ()
    story.posted(block=13)
    assert story.head(13) == (Do(Step.ACCEPT, TASK),)


def test_a_commitment_rolled_back_is_sent_again_unchanged() -> None:
    story = Story()
    story.until_reveal()
    story.handle(Undone(TASK, Step.REVEAL, Reason(Code.CHAIN, "Committed", "Accepted")))
    story.handle(RolledBack(11))
    assert story.head(17) == (Do(Step.COMMIT, TASK),)
    assert story.case().seal == SEAL


def test_a_reveal_rolled_back_is_sent_again() -> None:
    story = Story()
    story.until_delivered()
    story.handle(RolledBack(16))
    assert story.head(17) == (Do(Step.REVEAL, TASK),)


def test_a_failed_execution_before_the_deadline_is_dropped_and_ended_by_whoever_comes_first() -> None:
    story = Story()
    story.until_execute()
    assert story.handle(Undone(TASK, Step.EXECUTE, Reason(Code.EXECUTION, "an end", "killed by signal 11"))) == ()
    assert story.case().dropped is not None
    assert story.head(COMMIT_BY + 1) == ()
    assert story.head(COMMIT_BY + POLICY.patience) == (Do(Step.CLOSE, TASK),)
    story.seen(State.FAILED, COMMIT_BY + 3)
    assert story.head(COMMIT_BY + 4) == ()


def test_a_result_that_comes_too_late_is_not_sent() -> None:
    story = Story()
    story.until_execute()
    assert story.head(COMMIT_BY) == ()
    assert story.handle(Executed(TASK, SEAL)) == ()
    assert story.case().dropped == Reason(Code.LATE, f"block {COMMIT_BY}", f"block {COMMIT_BY + 1}")
    assert story.head(COMMIT_BY + 2) == (Do(Step.CLOSE, TASK),)


def test_a_reveal_that_cannot_come_in_time_is_not_sent() -> None:
    story = Story()
    story.until_reveal()
    story.handle(Undone(TASK, Step.REVEAL, Reason(Code.CHAIN, "a node", "unreachable")))
    assert story.head(REVEAL_BY) == ()
    assert story.case().dropped is not None
    assert story.head(REVEAL_BY + 2) == (Do(Step.CLOSE, TASK),)


def test_a_last_block_is_still_used() -> None:
    story = Story()
    story.until_execute()
    story.head(COMMIT_BY - 1)
    assert story.handle(Executed(TASK, SEAL)) == (Do(Step.COMMIT, TASK),)


def test_a_device_that_computes_wrong_bits_stops_accepting_and_never_commits() -> None:
    story = Story()
    story.until_execute()
    story.posted(SECOND)
    wrong = Reason(Code.DEVICE, "0x3f800000", "0x3f800001")
    actions = story.handle(Undone(TASK, Step.EXECUTE, wrong))
    assert actions == (Do(Step.DECLINE, SECOND),)
    assert story.operator.faulty == wrong
    assert story.head(12) == ()
    assert story.case(SECOND).refused == replace(wrong, lasting=False)


def test_a_second_execution_with_other_bits_is_a_faulty_device() -> None:
    story = Story()
    story.until_execute()
    sealed = replace(story.case(), seal=SEAL)
    story.operator = replace(story.operator, cases={TASK: sealed})
    assert story.handle(Executed(TASK, Seal(b"\x09" * 32, SEAL.salt))) == ()
    assert story.case().seal == SEAL
    assert story.operator.faulty is not None
    assert story.head(13) == ()


def test_a_lost_seal_is_admitted_not_invented() -> None:
    story = Story()
    story.posted()
    story.seen(State.ACCEPTED, 11, executor=ME)
    story.seen(State.COMMITTED, 12, claim=sealed_by(ME))
    assert story.head(12) == ()
    dropped = story.case().dropped
    assert dropped is not None and dropped.code is Code.SEAL
    assert story.head(REVEAL_BY + 2) == (Do(Step.CLOSE, TASK),)


def test_a_forgotten_acceptance_is_worked_off_from_the_beginning() -> None:
    story = Story()
    story.posted()
    story.seen(State.ACCEPTED, 11, executor=ME)
    assert story.head(12) == (Do(Step.INSPECT, TASK),)
    assert story.handle(Inspected(TASK, NEEDS)) == (Do(Step.FETCH, TASK),)
    assert story.handle(Done(TASK, Step.FETCH)) == (Do(Step.EXECUTE, TASK),)


@pytest.mark.parametrize(
    ("facts", "restored", "expected"),
    [
        ([(State.ACCEPTED, 11, ME, b"")], {}, Step.INSPECT),
        ([(State.ACCEPTED, 11, ME, b"")], {"seal": SEAL}, Step.COMMIT),
        ([(State.ACCEPTED, 11, ME, b""), (State.COMMITTED, 12, "", sealed_by(ME))], {"seal": SEAL}, Step.REVEAL),
        (
            [(State.ACCEPTED, 11, ME, b""), (State.COMMITTED, 12, "", sealed_by(ME)), (State.REVEALED, 17, "", b"")],
            {"seal": SEAL},
            Step.UPLOAD,
        ),
        ([], {"seal": SEAL}, Step.INSPECT),
    ],
)
def test_a_restart_goes_on_from_the_journal_and_the_chain(
    facts: list[tuple[State, int, str, bytes]], restored: dict[str, Any], expected: Step
) -> None:
    story = Story(Operator(POLICY, {TASK: Case(a_life(), **restored)}))
    story.posted()
    for state, block, executor, claim in facts:
        story.seen(state, block, executor=executor, claim=claim)
        if state is State.COMMITTED:
            story.seeded(15, drawn=False)
    assert story.head(17) == (Do(expected, TASK),)


def test_one_execution_at_a_time_the_most_urgent_first() -> None:
    story = Story()
    story.posted(TASK, block=9, exec=30)
    story.posted(SECOND, block=9, exec=20)
    for task in (TASK, SECOND):
        story.seen(State.ACCEPTED, 10, task=task, executor=ME)
    ready = {u: replace(c, needs=NEEDS, fetched=True) for u, c in story.operator.cases.items()}
    story.operator = replace(story.operator, cases=ready)
    assert story.head(10) == (Do(Step.EXECUTE, SECOND),)
    assert story.head(11) == ()
    assert story.handle(Executed(SECOND, SEAL)) == (Do(Step.COMMIT, SECOND), Do(Step.EXECUTE, TASK))


def test_a_full_operator_says_busy_and_takes_the_task_when_there_is_room() -> None:
    story = Story(Operator(replace(POLICY, capacity=1)))
    story.until_execute()
    story.posted(SECOND, block=11)
    assert story.head(11) == (Do(Step.INSPECT, SECOND),)
    assert story.handle(Inspected(SECOND, NEEDS)) == (Do(Step.DECLINE, SECOND),)
    assert story.case(SECOND).refused == Reason(Code.BUSY, "a free place", "1 of 1 taken", lasting=False)
    assert story.head(12) == ()  # once said is enough
    assert story.handle(Executed(TASK, SEAL)) == (Do(Step.COMMIT, TASK),)
    story.handle(Done(TASK, Step.COMMIT, 13))
    story.seen(State.COMMITTED, 13, claim=sealed_by(ME))
    assert story.head(13) == (Do(Step.FETCH, SECOND),)


def test_a_task_that_does_not_fit_behind_the_queue_waits() -> None:
    story = Story()
    story.until_execute()
    story.posted(SECOND, block=11, exec=20)
    story.head(11)
    story.handle(Inspected(SECOND, Needs(17 * 1_000_000, 1)))
    assert story.case(SECOND).refused == Reason(Code.BUSY, "21 blocks", "20 blocks", lasting=False)


def test_collateral_of_an_acceptance_on_its_way_is_not_promised_twice() -> None:
    story = Story(standing=replace(STANDING, balance=WAD * 6 // 100))
    story.until_accept()
    story.posted(SECOND)
    assert story.head(10) == (Do(Step.DECLINE, SECOND),)
    refused = story.case(SECOND).refused
    assert refused is not None and refused.code is Code.COLLATERAL


def test_a_draining_operator_finishes_what_it_accepted_and_takes_nothing_more() -> None:
    story = Story()
    story.until_execute()
    story.posted(SECOND)
    assert story.handle(Drain()) == (Do(Step.DECLINE, SECOND),)
    assert not story.idle
    assert story.handle(Executed(TASK, SEAL)) == (Do(Step.COMMIT, TASK),)


def test_a_rising_price_is_waited_for() -> None:
    story = Story(Operator(replace(POLICY, pricing=Pricing(price_per_hour=36 * WAD))))
    story.posted(min_price=0, max_price=2 * WAD // 100, ramp_start=10, ramp_length=20)
    assert story.head(10) == (Do(Step.INSPECT, TASK),)
    assert story.handle(Inspected(TASK, NEEDS)) == (Do(Step.DECLINE, TASK),)
    assert story.head(18) == ()
    assert story.head(19) == (Do(Step.FETCH, TASK),)


def test_nothing_is_downloaded_for_an_order_whose_terms_do_not_suit() -> None:
    story = Story(Operator(replace(POLICY, pricing=Pricing(min_price=WAD))))
    story.posted()
    assert story.head(10) == (Do(Step.DECLINE, TASK),)


def test_tensors_that_do_not_fit_are_traced_again_for_each_move() -> None:
    needs = replace(NEEDS, written=MEMORY)
    assert POLICY.defending(needs) == POLICY.seconds(needs)
    assert POLICY.defending(replace(needs, written=MEMORY + 1)) == (1 + economics.GAMES * MOVES) * POLICY.seconds(needs)


def test_what_cannot_be_defended_within_a_clock_is_not_taken() -> None:
    """As many games at once as anybody may open for their bond alone, though the execution itself is short."""
    clock = economics.clock(POLICY.parameters, an_order().exec)
    room = int(POLICY.operations_per_second * POLICY.block_seconds * (clock - POLICY.reserve - 1))
    for games, taken in ((room - NEEDS.operations, True), (2 * room, False)):
        story = Story(Operator(POLICY))
        story.posted()
        story.head(10)
        actions = story.handle(Inspected(TASK, replace(NEEDS, game=games // economics.GAMES)))
        assert (actions == (Do(Step.FETCH, TASK),)) is taken
        refused = story.case().refused
        assert (refused is None) if taken else refused is not None and refused.code is Code.DISPUTE


@pytest.mark.parametrize(
    ("code", "terms", "policy", "standing"),
    [
        (Code.SEMANTICS, {"semantics": 2}, {}, {}),
        (Code.ADMISSION, {"operators": b"\1" * 32}, {}, {}),
        (Code.PRICE, {}, {"pricing": Pricing(min_price=WAD)}, {}),
        (Code.EXEC, {"exec": 3}, {}, {}),
        (Code.MEMBERSHIP, {}, {}, {"member": False}),
        (Code.LIFETIME, {}, {}, {"delay": 100}),
        (Code.COLLATERAL, {}, {}, {"balance": 0}),
        (Code.CAP, {}, {}, {"cap": 0}),
        (Code.SEATS, {}, {}, {"other_seats": 1}),
        (Code.STAKE, {}, {}, {"stake": WAD // 10}),
        (Code.STAKE, {"value_at_risk": WAD}, {}, {}),
        (Code.STAKE_CAP, {}, {}, {"locked": 10 * WAD}),
        (Code.WORK, {}, {"max_operations": 10}, {}),
        (Code.MEMORY, {}, {"max_memory": 10}, {}),
        (Code.PRICE, {}, {"pricing": Pricing(price_per_hour=360 * WAD)}, {}),
        (Code.EXEC, {}, {"operations_per_second": 1e4}, {}),
    ],
)
def test_every_refusal_is_published_once_with_what_is_needed_and_what_is_offered(
    code: Code, terms: dict[str, Any], policy: dict[str, Any], standing: dict[str, Any]
) -> None:
    story = Story(Operator(replace(POLICY, **policy)), replace(STANDING, **standing))
    story.posted(**terms)
    actions = story.head(10)
    if actions == (Do(Step.INSPECT, TASK),):
        actions = story.handle(Inspected(TASK, NEEDS))
    assert actions == (Do(Step.DECLINE, TASK),)
    refused = story.case().refused
    assert refused is not None and refused.code is code and refused.needed != refused.offered
    assert story.handle(Done(TASK, Step.DECLINE)) == ()
    assert story.head(11) == ()


def test_a_refusal_that_could_not_be_published_is_published_later() -> None:
    story = Story(Operator(replace(POLICY, pricing=Pricing(min_price=WAD))))
    story.posted()
    assert story.head(10) == (Do(Step.DECLINE, TASK),)
    away = Reason(Code.DATA, "the gateway", "unreachable", lasting=False)
    assert story.handle(Undone(TASK, Step.DECLINE, away)) == ()
    assert [story.head(block) for block in (11, 17)] == [(), ()]
    assert story.head(18) == (Do(Step.DECLINE, TASK),)
    story.handle(Done(TASK, Step.DECLINE))
    assert story.head(19) == ()


def test_an_admitted_operator_accepts() -> None:
    story = Story(Operator(replace(POLICY, alone=b"\1" * 32)))
    story.until_accept(operators=b"\1" * 32)


def test_an_acceptance_too_late_is_not_tried() -> None:
    story = Story()
    story.posted(accept_by=12)
    assert story.head(11) == (Do(Step.INSPECT, TASK),)
    assert story.head(12) == ()
    assert story.handle(Inspected(TASK, NEEDS)) == (Do(Step.DECLINE, TASK),)
    assert story.case().refused == Reason(Code.DEADLINE, "acceptance in block 12", "block 13")


def test_that_time_is_over_hides_no_reason() -> None:
    story = Story(Operator(replace(POLICY, pricing=Pricing(price_per_hour=36 * WAD))))
    story.posted(min_price=0, max_price=2 * WAD // 100, ramp_start=15, ramp_length=20, accept_by=20)
    story.head(10)
    assert story.handle(Inspected(TASK, NEEDS)) == (Do(Step.DECLINE, TASK),)
    too_cheap = story.case().refused
    assert too_cheap is not None and too_cheap.code is Code.PRICE
    assert story.head(20) == ()
    assert story.case().refused == replace(too_cheap, lasting=True)


def test_that_time_is_over_is_the_reason_where_nothing_else_was_any_more() -> None:
    story = Story(Operator(replace(POLICY, pricing=Pricing(price_per_hour=36 * WAD))))
    story.posted(min_price=0, max_price=2 * WAD // 100, ramp_start=10, ramp_length=20, accept_by=20)
    story.head(10)
    story.handle(Inspected(TASK, NEEDS))
    assert story.head(19) == (Do(Step.FETCH, TASK),)
    story.head(20)
    assert story.handle(Done(TASK, Step.FETCH)) == (Do(Step.DECLINE, TASK),)
    assert story.case().refused == Reason(Code.DEADLINE, "acceptance in block 20", "block 21")


def test_an_invalid_program_is_declined_for_good() -> None:
    story = Story()
    story.posted()
    story.head(10)
    rule = Reason(Code.PROGRAM, "a valid program", "in-bounds: body 0")
    assert story.handle(Undone(TASK, Step.INSPECT, rule)) == (Do(Step.DECLINE, TASK),)
    assert story.head(50) == ()


def test_missing_data_is_said_and_asked_for_less_and_less_often() -> None:
    story = Story()
    story.posted()
    story.head(10)
    missing = Reason(Code.DATA, "inputs", "not at the gateway", lasting=False)
    assert story.handle(Undone(TASK, Step.INSPECT, missing)) == (Do(Step.DECLINE, TASK),)
    tried = []
    for block in range(11, 30):
        if story.head(block) == (Do(Step.INSPECT, TASK),):
            tried.append(block)
            story.handle(Undone(TASK, Step.INSPECT, missing))
    assert tried == [11, 13, 17, 25]


def test_a_cancelled_order_is_let_go() -> None:
    story = Story()
    story.posted()
    story.head(10)
    story.seen(State.CANCELLED, 11)
    assert story.handle(Inspected(TASK, NEEDS)) == ()
    assert story.head(12) == ()


def test_an_old_order_that_nobody_took_is_forgotten() -> None:
    story = Story(Operator(replace(POLICY, pricing=Pricing(min_price=WAD))))
    story.posted()
    story.head(10)
    story.head(101 + POLICY.keep)
    assert story.operator.cases == {}


def test_downloads_are_bounded() -> None:
    story = Story()
    for n in range(5):
        story.posted(bytes([n]) * 32)
    assert len(story.head(10)) == 2
    assert story.handle(Inspected(bytes(32), NEEDS)) == (Do(Step.FETCH, bytes(32)),)


def test_nothing_is_decided_before_the_chain_has_been_read() -> None:
    story = Story()
    story.posted()
    assert story.handle(Drain()) == ()


def test_a_task_that_was_never_seen_is_nobodys_business() -> None:
    story = Story()
    story.seen(State.REVEALED, 11)
    assert story.head(11) == ()
    assert story.handle(Done(TASK, Step.UPLOAD)) == ()


def test_a_salt_is_drawn_once() -> None:
    story = Story()
    story.until_execute()
    story.operator = replace(story.operator, cases={TASK: replace(story.case(), seal=SEAL)})
    story.handle(Executed(TASK, Seal(SEAL.outputs_root, b"\x09" * 32)))
    assert story.case().seal == SEAL
    assert story.operator.faulty is None


def test_a_commitment_that_is_not_ours_is_not_opened() -> None:
    story = Story()
    story.until_commit()
    story.seen(State.COMMITTED, 12, claim=b"\x09" * 32)
    story.handle(Done(TASK, Step.COMMIT, 12))
    assert story.head(12) == ()
    assert story.case().dropped == Reason(Code.SEAL, "09" * 32, sealed_by(ME).hex())


def test_a_receipt_that_comes_after_its_event_delays_nothing() -> None:
    story = Story()
    story.until_accept()
    story.seen(State.ACCEPTED, 11, executor=ME)
    assert story.head(11) == ()
    assert story.handle(Done(TASK, Step.ACCEPT, 11)) == (Do(Step.EXECUTE, TASK),)


def test_each_of_many_open_tasks_is_looked_at_no_more_often_than_each_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked about all tasks together is made once, not for each of them."""
    looks = 0

    def accepting(operator: Operator, case: Case) -> bool:
        nonlocal looks
        looks += 1
        return is_accepting(operator, case)

    def looked_at(count: int) -> int:
        nonlocal looks
        story = Story()
        for number in range(count):
            story.posted(number.to_bytes(32, "big"), block=10)
        first, *_ = story.head(10)
        looks = 0
        story.handle(Inspected(first.task, NEEDS))
        return looks

    is_accepting = Operator._accepting
    monkeypatch.setattr(Operator, "_accepting", accepting)
    assert looked_at(80) <= 3 * looked_at(40) + 10
