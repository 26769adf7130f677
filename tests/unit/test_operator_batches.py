"""Stories of the machine of batches: every deadline is met, nothing is late, nothing is early."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor.channel import BatchState, Breach, batch_of, events
from eigentensor.dispute import Phase, Position, deadline_of
from eigentensor.economics import WAD, shares
from eigentensor.task import Seeded
from eigentensor.task.events import Leaf, Opened
from eigentensor_operator.batches.case import Doubt, Step
from eigentensor_operator.batches.checking import DEMANDED, LOOKING
from eigentensor_operator.calls.interface import Load
from eigentensor_operator.policy import Code, Reason
from eigentensor_operator.state import Turn
from support.stories.batches import MIX, OFFER, POOL, ROOT, TASK, Blocks, an_order
from support.stories.operator import ME, OTHER, PARAMETERS, POLICY, THIRD

HALF = OFFER.epoch // 2


def one_call_a_block(block: int) -> int:
    return 1


def test_an_own_batch_lives_from_its_offer_to_its_last_wei() -> None:
    blocks = Blocks(calling=one_call_a_block)
    blocks.until(lambda: blocks.life().state is BatchState.FINAL)
    first, second = blocks.life(), blocks.life(2)
    assert [step for _, step in blocks.sent[:4]] == [Step.OFFER, Step.BEGIN, Step.BEGIN, Step.COMMIT]
    assert second.begun_at < (first.committed_at or 0) <= first.begun_at + HALF + 3
    assert first.leaves >= HALF - 3 and first.mix == MIX
    assert not blocks.late
    assert blocks.blocks_of(Step.SEED)[0] >= first.seed_block + POLICY.patience
    assert Step.REVEAL_ROOTS not in [step for _, step in blocks.sent]  # nobody answered


def test_calls_are_owed_by_a_batch_that_is_begun_at_all_times() -> None:
    blocks = Blocks(calling=one_call_a_block)
    blocks.until(blocks.serves)
    for _ in range(500):
        blocks.mine()
        assert blocks.serves(), blocks.block
    assert not blocks.late
    committed = [load.leaves for load in blocks.drained.values()]
    assert len(committed) >= 7 and sum(committed) + blocks.load.leaves >= 500


def test_where_nothing_is_called_batches_lapse_and_none_is_begun_until_somebody_wants_calls() -> None:
    blocks = Blocks(wanted=False)
    blocks.mine(50)
    assert [step for _, step in blocks.sent] == [Step.OFFER]
    blocks.wanted = True
    blocks.mine(3)
    blocks.wanted = False
    blocks.until(lambda: blocks.life().state is BatchState.LAPSED)
    assert [step for _, step in blocks.sent] == [Step.OFFER, Step.BEGIN, Step.CLOSE]
    assert blocks.sent[-1][0] == blocks.life().close_from or blocks.sent[-1][0] > blocks.life().commit_by
    blocks.mine(300)
    assert len(blocks.sent) == 3 and not blocks.late


def test_what_is_wanted_though_nothing_is_called_goes_on_without_a_gap() -> None:
    blocks = Blocks()
    blocks.until(blocks.serves)
    for _ in range(3 * OFFER.epoch):
        blocks.mine()
        assert blocks.serves()
    assert not blocks.blocks_of(Step.COMMIT) and not blocks.late
    assert len(blocks.blocks_of(Step.BEGIN)) <= 5


@pytest.mark.parametrize(
    "load",
    [
        Load(leaves=shares.capacity(OFFER.check_rate, OFFER.verifiers) * 4 // 5, amount=1, lines=1),
        Load(leaves=900, amount=OFFER.most * 4 // 5, lines=1),
        Load(leaves=400, amount=1, lines=360, tails=0),
        Load(leaves=400, amount=1, lines=200, tails=1000),
    ],
)
def test_a_batch_that_is_nearly_full_is_committed_at_once(load: Load) -> None:
    blocks = Blocks(calling=lambda _: 0)
    blocks.until(blocks.serves)
    begun = blocks.life().begun_at
    blocks.mine(2)
    blocks.load = load
    blocks._more = dict  # type: ignore[method-assign]
    blocks.until(lambda: blocks.life().committed_at is not None)
    assert blocks.life().committed_at is not None and blocks.life().since < begun + HALF // 2
    assert blocks.life(2).begun_at < blocks.life().since and not blocks.late


@pytest.mark.parametrize(("amount", "is_early"), [(8 * PARAMETERS.g_chk, True), (8 * PARAMETERS.g_chk - 1, False)])
def test_a_channel_that_may_cost_no_more_is_committed_early_if_that_is_worth_a_batch(
    amount: int, is_early: bool
) -> None:
    assert OFFER.verifiers == 2
    blocks = Blocks(calling=lambda _: 0, short=True)
    blocks.until(blocks.serves)
    begun = blocks.life().begun_at
    blocks.mine(2)
    blocks.load = Load(leaves=20, amount=amount, lines=1)
    blocks._more = dict  # type: ignore[method-assign]
    blocks.until(lambda: blocks.life().committed_at is not None)
    assert (blocks.life().since < begun + HALF // 2) is is_early
    assert blocks.life(2).begun_at < blocks.life().since and not blocks.late


def test_where_no_further_batch_can_be_begun_the_last_one_is_committed_all_the_same() -> None:
    blocks = Blocks(calling=one_call_a_block)
    blocks.until(blocks.serves)
    blocks.balance = 0
    blocks.ignored = frozenset({Step.DEPOSIT})
    blocks.until(lambda: blocks.life().committed_at is not None)
    life = blocks.life()
    assert life.since <= life.commit_by - POLICY.reserve + 2 and not blocks.late

    blocks = Blocks(calling=one_call_a_block)
    blocks.until(blocks.serves)
    blocks.draining = True
    blocks.until(lambda: blocks.life().committed_at is not None)
    assert blocks.life().since <= blocks.life().begun_at + HALF + 3
    blocks.mine(200)
    assert len(blocks.blocks_of(Step.BEGIN)) == 1 and not blocks.late


def test_a_device_that_is_faulty_commits_what_it_signed_and_begins_nothing() -> None:
    blocks = Blocks(calling=one_call_a_block)
    blocks.until(blocks.serves)
    blocks.faulty = True
    blocks.until(lambda: blocks.life().committed_at is not None)
    blocks.mine(100)
    assert len(blocks.blocks_of(Step.BEGIN)) == 1 and not blocks.late


def test_what_a_begin_lacks_is_deposited_before() -> None:
    blocks = Blocks(balance=0, calling=one_call_a_block, ignored=frozenset({Step.BEGIN}))
    blocks.mine(4)
    assert [step for _, step in blocks.sent] == [Step.OFFER, Step.DEPOSIT]
    blocks.balance = shares.collateral(PARAMETERS, OFFER.max_price, OFFER.verifiers)
    blocks.ignored = frozenset()
    blocks.mine(3)
    assert [step for _, step in blocks.sent][-1] is Step.BEGIN
    assert blocks.batches.claims().stake == 0


def test_without_free_stake_no_batch_is_begun_and_the_reason_is_said() -> None:
    blocks = Blocks(offers={POOL: replace(OFFER, most=10**6 * WAD)})
    blocks.mine(5)
    assert [step for _, step in blocks.sent] == [Step.OFFER]
    refused = blocks.batches.desks[POOL].refused
    assert refused is not None and refused.code is Code.STAKE


def answered(blocks: Blocks, root: bytes = ROOT) -> None:
    """Somebody answers for share 0 of the first own batch."""
    blocks.until(lambda: blocks.life().mix is not None)
    blocks.feed(events.Answered(blocks.place(blocks.block), blocks.life().batch, 3, OTHER, b"\1" * 32))


def test_roots_are_revealed_where_somebody_answered_and_not_before_the_answers_time_is_over() -> None:
    blocks = Blocks(calling=one_call_a_block)
    answered(blocks)
    blocks.until(lambda: blocks.life().revealed_at is not None)
    assert blocks.blocks_of(Step.REVEAL_ROOTS) == [blocks.life().check_by + 1] and not blocks.late


def test_a_share_that_is_demanded_is_justified_and_demanded_calls_are_shown_at_once() -> None:
    blocks = Blocks(calling=one_call_a_block)
    answered(blocks)
    blocks.until(lambda: blocks.life().revealed_at is not None)
    life = blocks.life()
    blocks.feed(events.Revealed(blocks.place(blocks.block), life.batch, 4, b"\2" * 32, False))
    demanded = events.Demanded(blocks.place(blocks.block), life.batch, 5, THIRD, (), blocks.block + life.clock)
    blocks.feed(demanded)
    block = blocks.block
    blocks.mine(2)
    assert {step for at, step in blocks.sent if at > block} >= {Step.JUSTIFY, Step.SHOW}
    assert blocks.life().open_demands == () and blocks.life().shown_until > 0
    assert blocks.life().close_from is None  # the share is still demanded
    parts = blocks.life().parts(0)
    for part in range(parts):
        blocks.feed(events.Justified(blocks.place(blocks.block), life.batch, 0, part, ()))
    assert blocks.life().open_share_demands == ()
    assert blocks.life().close_from is not None and blocks.life().dispute_by >= blocks.block + PARAMETERS.reveal


def test_demands_that_events_do_not_tell_apart_stay_until_the_chain_refuses_them() -> None:
    blocks = Blocks(calling=one_call_a_block)
    blocks.until(lambda: blocks.life().mix is not None)
    life = blocks.life()
    for index in range(2):
        leaves = (Leaf(False, 0, index),)
        at = blocks.place(blocks.block)
        blocks.feed(events.Demanded(at, life.batch, 5, THIRD, leaves, blocks.block + life.clock))
    blocks.feed(*blocks.shown(life.batch, 5, b""))
    assert len(blocks.life().open_demands) == 2
    blocks.feed(*blocks.shown(life.batch, 5, b""))
    assert blocks.life().open_demands == ()


def test_what_was_concluded_is_on_chain_before_a_batch_leaves_it_out() -> None:
    blocks = Blocks(calling=one_call_a_block)
    blocks.until(blocks.serves)
    blocks.mine(HALF - 4)
    blocks.concluding = blocks.block
    blocks.until(lambda: bool(blocks.blocks_of(Step.COMMIT)))
    assert blocks.blocks_of(Step.CONCLUDE)[0] < blocks.blocks_of(Step.COMMIT)[0] and not blocks.late


def test_a_client_has_a_while_to_send_what_was_concluded() -> None:
    blocks = Blocks()
    blocks.until(blocks.serves)
    begun = blocks.concluding = blocks.block
    blocks.draining = True
    blocks.mine(20)
    (sent,) = blocks.blocks_of(Step.CONCLUDE)
    assert begun + 4 * POLICY.patience <= sent <= begun + 4 * POLICY.patience + 2


def test_no_batch_is_committed_while_a_channel_of_it_is_being_concluded() -> None:
    blocks = Blocks(calling=one_call_a_block, ignored=frozenset({Step.CONCLUDE}))
    blocks.until(blocks.serves)
    blocks.concluding = blocks.block
    blocks.mine(OFFER.epoch)
    assert not blocks.blocks_of(Step.COMMIT)


def test_a_convicted_operator_begins_nothing_more() -> None:
    blocks = Blocks(calling=one_call_a_block)
    blocks.until(blocks.serves)
    blocks.feed(events.Convicted(blocks.place(blocks.block), blocks.life().batch, Breach.CONTRADICTION, THIRD))
    blocks.mine(3)
    assert blocks.case(blocks.life().batch).halted
    blocks.mine(200)
    assert blocks.batches.pools.pools[POOL].is_over and len(blocks.blocks_of(Step.BEGIN)) == 1
    assert not blocks.blocks_of(Step.COMMIT)


def test_games_and_demands_of_own_batches_are_counted_and_their_clocks_watched() -> None:
    blocks = Blocks(calling=one_call_a_block, ignored=frozenset({Step.SHOW, Step.PLAY}))
    blocks.until(lambda: blocks.life().mix is not None)
    life, since = blocks.life(), blocks.block
    assert blocks.batches.games == 0
    position = Position(TASK, ME, THIRD, Phase.PUBLISH, since, life.clock, life.clock)
    opened, at = blocks.place(since), blocks.place(since)
    blocks.feed(Opened(opened, TASK, 1, THIRD, position))
    blocks.feed(events.Challenged(at, life.batch, 1, THIRD, life.bond, 0, an_order(), ROOT))
    blocks.feed(events.Demanded(blocks.place(since), life.batch, 5, THIRD, (), since + life.clock))
    turns = {Turn(TASK, 1, deadline_of(position)), Turn(life.batch, 0, since + life.clock)}
    assert blocks.batches.games == 1 and {*blocks.batches.turns(blocks.case(life.batch))} == turns
    blocks.mine(life.clock * 2 // 3 - 1)
    assert not {*blocks.batches.short_clocks()}
    blocks.mine(2)
    assert {*blocks.batches.short_clocks()} == turns
    blocks.feed(*blocks.shown(life.batch, 5))
    assert {turn.game for turn in blocks.batches.short_clocks()} == {1}


# ---- Shares of others ----


def test_a_verifier_whose_calls_all_agree_answers_opens_and_settles() -> None:
    blocks = Blocks(offers={})
    batch = blocks.others()
    blocks.until(lambda: blocks.batches.pools.batches[batch].answer_by(ME) is not None)
    life = blocks.batches.pools.batches[batch]
    assert blocks.blocks_of(Step.ANSWER)[0] <= life.check_by
    blocks.until(lambda: blocks.block > life.check_by)
    blocks.feed(events.RootsRevealed(blocks.place(blocks.block), batch, (ROOT, b"\2" * 32)))
    blocks.until(lambda: blocks.batches.pools.batches[batch].answers[0].agrees is True)
    blocks.until(lambda: blocks.batches.pools.batches[batch].answers[0].settled is not None)
    settled = blocks.batches.pools.batches[batch].answers[0].settled
    assert settled == life.bond + life.fee and not blocks.late
    blocks.mine(2 * POLICY.keep)
    assert batch not in blocks.batches.cases and not blocks.late


def test_an_answer_is_opened_though_the_operator_reveals_nothing() -> None:
    blocks = Blocks(offers={})
    batch = blocks.others()
    blocks.until(lambda: Step.REVEAL in [step for _, step in blocks.sent])
    life = blocks.batches.pools.batches[batch]
    assert blocks.blocks_of(Step.REVEAL) == [life.reveal_by + 1] and not blocks.late


def test_other_roots_than_those_of_the_leaves_cannot_be_justified_and_are_denounced() -> None:
    blocks = Blocks(offers={})
    batch = blocks.others()
    blocks.until(lambda: blocks.batches.pools.batches[batch].answer_by(ME) is not None)
    blocks.until(lambda: blocks.block > blocks.batches.pools.batches[batch].check_by)
    blocks.feed(events.RootsRevealed(blocks.place(blocks.block), batch, (b"\7" * 32, b"\2" * 32)))
    blocks.until(lambda: blocks.batches.pools.batches[batch].state is BatchState.CONVICTED)
    life = blocks.batches.pools.batches[batch]
    demand = life.share_demands[0]
    assert blocks.blocks_of(Step.DENOUNCE_SHARE) == [demand.since + life.clock + 1]
    blocks.mine(POLICY.patience + 4)
    assert {Step.SETTLE, Step.SLASH} <= {step for _, step in blocks.sent} and not blocks.late


def test_a_wrong_call_is_demanded_then_challenged_and_no_answer_is_given() -> None:
    blocks = Blocks(offers={}, result=Doubt(7, rb"\9" * 32))
    batch = blocks.others()
    blocks.until(lambda: bool(blocks.blocks_of(Step.DEMAND)))
    blocks.mine(2)
    blocks.feed(*blocks.shown(batch, 7))
    blocks.mine(3)
    life = blocks.batches.pools.batches[batch]
    assert [game.challenger for game in life.games.values()] == [ME]
    blocks.mine(life.clock + 3)
    life = blocks.batches.pools.batches[batch]
    assert life.state is BatchState.CONVICTED and life.conviction is not None and life.conviction.winner == ME
    blocks.mine(POLICY.patience + 2)
    after = blocks.batches.pools.batches[batch].conviction
    assert after is not None and after.slashed_at is not None
    steps = [step for _, step in blocks.sent]
    assert Step.ANSWER not in steps and steps.count(Step.CHALLENGE) == 1 and not blocks.late


def test_who_does_not_show_what_is_wrong_is_denounced() -> None:
    blocks = Blocks(offers={}, result=Doubt(7, rb"\9" * 32))
    batch = blocks.others()
    blocks.until(lambda: blocks.batches.pools.batches[batch].state is BatchState.CONVICTED)
    life = blocks.batches.pools.batches[batch]
    assert blocks.blocks_of(Step.DENOUNCE) == [life.demands[0].show_by + 1]


def test_a_share_that_is_not_served_is_demanded_when_the_time_of_the_answers_is_nearly_over() -> None:
    blocks = Blocks(offers={}, silent=True)
    batch = blocks.others()
    blocks.until(lambda: bool(blocks.blocks_of(Step.DEMAND)))
    life = blocks.batches.pools.batches[batch]
    late = min(life.check_by, life.demand_by - life.clock - LOOKING)  # in blocks of a second
    assert blocks.blocks_of(Step.DEMAND)[0] >= late - POLICY.reserve
    assert (blocks.case(batch).doubt or Doubt(-1)).number in life.numbers(0)
    blocks.until(lambda: blocks.batches.pools.batches[batch].state is BatchState.CONVICTED)
    assert not blocks.late


LATE = Reason(Code.DATA, "a share that is served in time", "a right call, shown late", lasting=False)
LEAVES = (Leaf(False, 0, 0), Leaf(False, 0, 1))


def withheld(**story: Any) -> tuple[Blocks, bytes]:
    """The first demand of a share that is withheld is on its way."""
    blocks = Blocks(offers={}, **story)
    batch = blocks.others()
    blocks.until(lambda: bool(blocks.blocks_of(Step.DEMAND)))
    return blocks, batch


def demanded(blocks: Blocks, batch: bytes) -> list[tuple[int, int]]:
    """The calls that were demanded, each with the number of leaves."""
    return [(demand.number, len(demand.leaves)) for demand in blocks.batches.pools.batches[batch].demands]


def test_of_a_share_that_is_not_served_several_calls_are_demanded_one_after_the_other() -> None:
    blocks, batch = withheld(silent=True, judged=[(None, LATE)] * 9)
    for count in range(1, DEMANDED + 1):
        blocks.until(lambda count=count: len(demanded(blocks, batch)) == count)  # type: ignore[misc]
        blocks.mine(2)
        blocks.feed(*blocks.shown(batch, demanded(blocks, batch)[-1][0]))
    blocks.mine(blocks.batches.pools.batches[batch].demand_by - blocks.block + 2)
    numbers = [number for number, _ in demanded(blocks, batch)]
    assert len(set(numbers)) == len(numbers) == DEMANDED and not blocks.late
    assert Step.ANSWER not in {step for _, step in blocks.sent}


def test_a_call_whose_program_is_nowhere_does_not_save_the_others() -> None:
    blocks, batch = withheld(silent=True, lost=True)
    blocks.mine(2)
    blocks.feed(*blocks.shown(batch, demanded(blocks, batch)[0][0]))
    blocks.until(lambda: len(demanded(blocks, batch)) == 2)
    life = blocks.batches.pools.batches[batch]
    assert blocks.blocks_of(Step.DEMAND)[1] < life.demand_by and len(set(demanded(blocks, batch))) == 2
    blocks.lost, blocks.result = False, Doubt(demanded(blocks, batch)[1][0], b"\x09" * 32)
    blocks.mine(2)
    blocks.feed(*blocks.shown(batch, demanded(blocks, batch)[1][0]))
    blocks.until(lambda: bool(blocks.blocks_of(Step.CHALLENGE)))
    assert not blocks.late


def test_inputs_that_nobody_serves_are_demanded_by_their_leaves_and_what_they_give_is_challenged() -> None:
    blocks, batch = withheld(silent=True)
    ((number, _),) = demanded(blocks, batch)
    blocks.judged = [(Doubt(number, leaves=LEAVES), None), (Doubt(number, b"\x09" * 32, LEAVES), None)]
    blocks.mine(2)
    blocks.feed(*blocks.shown(batch, number))
    blocks.until(lambda: len(demanded(blocks, batch)) == 2)
    assert demanded(blocks, batch) == [(number, 0), (number, 2)]
    blocks.mine(2)
    assert not blocks.blocks_of(Step.CHALLENGE)
    blocks.feed(*blocks.shown(batch, number, b"\1", b"\2"))
    assert blocks.batches.pools.batches[batch].shown[-1][1] == (b"\1", b"\2")
    blocks.until(lambda: bool(blocks.blocks_of(Step.CHALLENGE)))
    assert not blocks.judged and not blocks.late


def test_who_shows_a_call_and_not_its_inputs_is_denounced() -> None:
    blocks, batch = withheld(silent=True)
    ((number, _),) = demanded(blocks, batch)
    blocks.judged = [(Doubt(number, leaves=LEAVES), None)]
    blocks.mine(2)
    blocks.feed(*blocks.shown(batch, number))
    blocks.until(lambda: blocks.batches.pools.batches[batch].state is BatchState.CONVICTED)
    life = blocks.batches.pools.batches[batch]
    assert blocks.blocks_of(Step.DENOUNCE) == [life.demands[-1].show_by + 1] and not blocks.late


def test_a_call_that_is_shown_at_the_last_moment_leaves_time_to_demand_its_inputs() -> None:
    blocks, batch = withheld(silent=True)
    ((number, _),) = demanded(blocks, batch)
    blocks.judged = [(Doubt(number, leaves=LEAVES), None)]
    life = blocks.batches.pools.batches[batch]
    blocks.mine(life.demands[0].show_by - 1 - blocks.block)
    blocks.feed(*blocks.shown(batch, number))
    blocks.until(lambda: len(demanded(blocks, batch)) == 2)
    assert not blocks.late


def test_what_is_served_beside_a_call_that_is_withheld_is_executed_all_the_same() -> None:
    numbers = frozenset(range(0, 100, 9))
    blocks, batch = withheld(withheld=numbers)
    life = blocks.batches.pools.batches[batch]
    hidden = {number for number in life.numbers(0) if number in numbers}
    assert hidden and set(blocks.case(batch).withheld) == hidden and demanded(blocks, batch)[0][0] in hidden
    blocks.mine(life.check_by - blocks.block + 5)
    assert blocks.case(batch).executed
    assert Step.ANSWER not in {step for _, step in blocks.sent} and not blocks.late


def test_a_wrong_call_is_found_behind_one_that_is_withheld() -> None:
    blocks, batch = withheld(withheld=frozenset(range(0, 100, 9)))
    life = blocks.batches.pools.batches[batch]
    wrong = next(number for number in life.numbers(0) if number % 9)
    blocks.result = Doubt(wrong, b"\x09" * 32)
    blocks.until(lambda: len(demanded(blocks, batch)) == 2)
    assert demanded(blocks, batch)[1] == (wrong, 0)
    blocks.mine(2)
    blocks.feed(*blocks.shown(batch, wrong))
    blocks.until(lambda: bool(blocks.blocks_of(Step.CHALLENGE)))
    assert not blocks.late


def test_a_call_that_the_offer_does_not_allow_is_demanded_and_convicts_without_a_bond() -> None:
    blocks = Blocks(offers={}, result=Doubt(7, is_outside=True), balance=PARAMETERS.g_chunk)
    batch = blocks.others()
    blocks.until(lambda: bool(blocks.blocks_of(Step.DEMAND)))
    blocks.mine(2)
    blocks.feed(*blocks.shown(batch, 7))
    blocks.until(lambda: blocks.batches.pools.batches[batch].state is BatchState.CONVICTED)
    convicted = blocks.batches.pools.batches[batch].conviction
    assert convicted is not None and convicted.breach is Breach.OUTSIDE and convicted.winner == ME
    steps = {step for _, step in blocks.sent}
    assert Step.OUTSIDE in steps and not steps & {Step.DEPOSIT, Step.CHALLENGE, Step.ANSWER} and not blocks.late


def test_nothing_is_answered_by_who_is_not_drawn_or_has_no_seat_or_does_not_want_to() -> None:
    for change in ({"index": None}, {"draining": True}, {"faulty": True}, {"testing": True}):
        blocks = Blocks(offers={}, **change)
        batch = blocks.others()
        blocks.mine(blocks.batches.pools.batches[batch].demand_by - blocks.block + 1)
        assert not {Step.ANSWER, Step.DEMAND, Step.CHALLENGE} & {step for _, step in blocks.sent}


def test_a_lower_answer_of_the_share_leaves_nothing_to_be_paid() -> None:
    blocks = Blocks(offers={}, index=5)
    batch = blocks.others()
    blocks.until(lambda: blocks.batches.pools.batches[batch].mix is not None)
    blocks.feed(events.Answered(blocks.place(blocks.block), batch, 2, THIRD, b"\1" * 32))
    blocks.until(lambda: blocks.block > blocks.batches.pools.batches[batch].check_by)
    unanswered = blocks.case(batch).unanswered
    assert not blocks.blocks_of(Step.ANSWER) and unanswered is not None and unanswered.code is Code.RANK


# ---- Reorganisations ----


def test_after_another_seed_the_draw_is_looked_at_again() -> None:
    blocks = Blocks(offers={}, silent=True)
    batch = blocks.others()
    blocks.until(lambda: blocks.case(batch).drawn is not None)
    seeded = blocks.batches.pools.batches[batch]
    blocks.roll_back(seeded.seed_block)
    assert blocks.batches.pools.batches[batch].mix is None and blocks.case(batch).drawn is None
    blocks.mine(2)
    blocks.feed(Seeded(blocks.place(blocks.block), seeded.seed_block, b"\7" * 32))
    blocks.mine(12)
    drawn = blocks.case(batch).drawn
    assert drawn is not None and drawn.mix == b"\7" * 32


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.tuples(st.integers(1, 60), st.integers(1, 12)), min_size=1, max_size=8))
def test_whatever_is_taken_back_no_message_is_late_and_every_batch_ends(
    seed: int, reorganisations: list[tuple[int, int]]
) -> None:
    """Blocks vanish with what they told; what was sent in them is sent again, and every own batch comes to its end."""
    blocks = Blocks(calling=lambda block: (block * seed >> 3) % 3)
    for wait, depth in reorganisations:
        blocks.mine(wait)
        blocks.roll_back(max(10, blocks.block - depth))
    blocks.mine(2)
    if batch_of(POOL, 1) in blocks.batches.pools.batches:
        blocks.mine(OFFER.epoch + shares.window(PARAMETERS, OFFER.exec) + 3 * POLICY.patience + 40)
        life = blocks.batches.pools.batches.get(batch_of(POOL, 1))
        assert life is None or life.state.is_terminal
    assert not blocks.late
