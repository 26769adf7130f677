"""Which messages about a batch of paid calls are due, and from which block to which."""

import pytest

from eigentensor.channel import BatchState, events
from eigentensor.channel.due import NEVER, BatchVerb, actions, awake, messages
from eigentensor.channel.life import BatchLife
from eigentensor.dispute import Phase
from eigentensor.dispute.position import deadline_of
from eigentensor.task import Event, Leaf
from support.stories import batch_events as story
from support.stories.aggregator import CHALLENGER, CLIENT, at
from support.stories.batch_events import BATCH, BEFORE, DRAWN, OFFER, OPEN, batch_of_story

Window = tuple[BatchVerb, int, int, tuple[int, ...]]
#: How long a clock is, and the last block of disputes.
CLOCK = 80
DISPUTE_BY = story.COMMITTED + 2 + 1 + max(30, 50) + 2 * 10 + 20 + 10


def windows(life: BatchLife) -> list[Window]:
    return [(due.verb, due.first, due.last, due.numbers) for due in messages(life)]


def due_of(*happened: Event) -> list[Window]:
    return windows(batch_of_story(*happened))


def clock_of(since: int, phase: Phase = Phase.PUBLISH) -> int:
    """The first block after the clock of who is to move."""
    return deadline_of(story.position(phase, since)) + 1


def test_a_batch_that_is_not_committed_lapses() -> None:
    first = story.BEGUN + OFFER.epoch + 10 + 1
    assert due_of(*BEFORE) == [(BatchVerb.CLOSE, first, NEVER, ())]
    assert due_of(*BEFORE, story.closed(first, BatchState.LAPSED)) == []


def test_a_committed_batch_waits_for_its_seed_or_fails() -> None:
    record = (BatchVerb.SEED, story.SEED + 1, story.SEED + 50, (story.SEED,))
    assert due_of(*OPEN, *story.committed()) == [(BatchVerb.CLOSE, story.SEED + 51, NEVER, ()), record]
    assert due_of(*DRAWN) == [(BatchVerb.CLOSE, DISPUTE_BY + 1, NEVER, ())]
    assert batch_of_story(*DRAWN).dispute_by == DISPUTE_BY


def test_a_batch_without_calls_needs_no_seed() -> None:
    assert due_of(*OPEN, *story.committed(leaves=0)) == [(BatchVerb.CLOSE, story.COMMITTED + 11, NEVER, ())]


def test_a_game_ends_by_the_clock_and_holds_the_close_up() -> None:
    opened = [*DRAWN, *story.challenged()]
    assert due_of(*opened) == [(BatchVerb.TIMEOUT, clock_of(60), NEVER, (1,))]
    assert due_of(*opened, story.moved(65, Phase.CALL)) == [(BatchVerb.TIMEOUT, clock_of(65, Phase.CALL), NEVER, (1,))]
    won = [*opened, *story.ended(executor_lost=False)]
    assert due_of(*won) == [(BatchVerb.CLOSE, DISPUTE_BY + 1, NEVER, ())]


def test_of_games_that_the_operator_loses_by_the_clock_the_first_is_ended() -> None:
    both = [*DRAWN, *story.challenged(60, 1), *story.challenged(61, 2)]
    assert due_of(*both) == [(BatchVerb.TIMEOUT, clock_of(60), NEVER, (1,))]


def test_what_is_not_shown_in_time_convicts() -> None:
    demanded = events.Demanded(at(50), BATCH, 3, CLIENT, (Leaf(False, 0, 1),), 130)
    life = batch_of_story(*DRAWN, demanded)
    (due,) = messages(life)
    assert (due.verb, due.first, due.key) == (BatchVerb.DENOUNCE, 131, (BatchVerb.DENOUNCE, BATCH, (3, 1)))
    assert due.demand is not None and due.demand.leaves == demanded.leaves
    shown = events.Shown(at(55), BATCH, 3, story.ORDER, b"", story.CALL), events.LeafShown(at(55), BATCH, 3, 0, b"")
    assert due_of(*DRAWN, demanded, *shown) == [(BatchVerb.CLOSE, max(DISPUTE_BY, 65) + 1, NEVER, ())]


def test_a_share_that_is_not_justified_in_time_convicts() -> None:
    roots = events.RootsRevealed(at(70), BATCH, (story.ROOT, story.ROOT))
    differs = [*DRAWN, story.answered(16), roots, story.opened_answer(16, agrees=False, block=75)]
    assert due_of(*differs) == [(BatchVerb.DENOUNCE_SHARE, 75 + CLOCK + 1, NEVER, (1,))]
    justified = [events.Justified(at(80), BATCH, 1, 0, ())]
    assert due_of(*differs, *justified) == [(BatchVerb.CLOSE, DISPUTE_BY + 1, NEVER, ())]


ANSWERS: list[Event] = [
    *DRAWN, story.answered(0), story.answered(16, operator=CHALLENGER),
    story.opened_answer(0, agrees=True), story.opened_answer(16, agrees=False),
]  # fmt: skip


def test_all_answers_are_settled_after_the_end() -> None:
    final = [*ANSWERS, story.closed(200)]
    assert due_of(*final) == [(BatchVerb.SETTLE, 201, NEVER, (0, 16))]
    settled = events.Settled(at(201), BATCH, 1, CLIENT, 5)
    assert due_of(*final, settled) == [(BatchVerb.SETTLE, 201, NEVER, (16,))]
    assert due_of(*final, settled, events.Settled(at(201), BATCH, 17, CLIENT, 0)) == []


def test_who_differed_is_settled_after_the_slash_that_it_has_a_part_of() -> None:
    end = batch_of_story(*ANSWERS).lock_end
    over = [*ANSWERS, story.convicted(100)]
    assert due_of(*over) == [
        (BatchVerb.SLASH, 101, end, ()),
        (BatchVerb.SETTLE, end + 1, NEVER, (16,)),
        (BatchVerb.SETTLE, 101, NEVER, (0,)),
    ]
    slashed = events.Slashed(at(110), BATCH, 7, 5, CLIENT)
    assert due_of(*over, slashed) == [(BatchVerb.SETTLE, 101, NEVER, (0, 16))]


def test_bonds_of_idle_games_come_back() -> None:
    idle = [*DRAWN, *story.challenged(60, 1), *story.challenged(61, 2), *story.challenged(62, 3, slot=1)]
    over = [
        *idle,
        *story.ended(70, 1, executor_lost=True),
        story.convicted(70),
        events.Slashed(at(71), BATCH, 7, 5, CLIENT),
    ]
    assert due_of(*over) == [(BatchVerb.REFUND_BOND, 71, NEVER, (2,))]
    assert due_of(*over, events.BondReturned(at(72), BATCH, 2, CHALLENGER, 24)) == []


@pytest.mark.parametrize("happened", [BEFORE, DRAWN, ANSWERS, [*ANSWERS, story.convicted(100)]], ids=range(4))
def test_a_batch_is_awake_from_the_first_message_to_the_last(happened: list[Event]) -> None:
    life = batch_of_story(*happened)
    first, last = awake(life) or (0, 0)
    assert first == min(window[1] for window in windows(life)) and last == max(window[2] for window in windows(life))
    assert actions([life], first - 2) == [] and actions([life], first - 1) != []


def test_a_seed_is_recorded_once_for_all_batches() -> None:
    life = batch_of_story(*OPEN, *story.committed())
    assert [due.verb for due in actions([life, life], story.SEED)] == [BatchVerb.SEED]
