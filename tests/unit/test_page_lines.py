"""The life of a task as a page draws it: what happened in order, what is ahead, what could be done now."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge

from eigentensor.task import Cause, Closed, Failed, TaskEvent
from eigentensor_aggregator.pages.health import families
from eigentensor_aggregator.pages.line import chances, line
from eigentensor_aggregator.pages.words import REASONS, checks, reason, tone
from support.stories.aggregator import (
    CHALLENGER,
    REVEALED_TASK,
    TASK,
    accepted,
    answered,
    at,
    challenged,
    committed,
    convicted,
    ended,
    life_of,
    mix,
    opened_answer,
    posted,
    revealed,
)

UUID = TASK.hex()
OPEN: list[TaskEvent] = [posted()]
ACCEPTED, COMMITTED = [*OPEN, accepted()], [*OPEN, accepted(), committed()]


@pytest.mark.parametrize(
    ("events", "drawn", "ahead", "command"),
    [
        (OPEN, None, [("Acceptance", 100)], f"eigentensor task cancel {UUID}"),
        (ACCEPTED, None, [("Commit of the executor", 32)], None),
        (COMMITTED, None, [("Seed of block 17", 67), ("Reveal", 77)], None),
        (COMMITTED, True, [("Answers of the verifiers", 47), ("Reveal", 77)], None),
        (COMMITTED, False, [("Reveal", 77)], None),
        (REVEALED_TASK, False, [("Final, if nobody challenges", 60)], f"eigentensor challenge open {UUID}"),
        ([*REVEALED_TASK, Closed(at(70), TASK, 9, 10)], False, [], f"eigentensor receipt get {UUID}"),
    ],
)
def test_what_is_ahead_has_its_last_block(
    events: list[TaskEvent], drawn: bool | None, ahead: list[tuple[str, int]], command: str | None
) -> None:
    life = life_of(*events, mix=None if drawn is None else mix(drawn=drawn))
    stops = [stop for stop in line(life) if stop.block is None]
    free = [] if life.accepted_at is None or life.state.is_terminal else [(stops[-1].title, life.end)]
    assert [(stop.title, stop.by) for stop in stops] == ahead + free
    assert not ahead or stops[0].tone == "live"
    commands = [chance.command for chance in chances(life, 20)]
    assert command is None or command in commands


def test_what_anybody_may_send_is_named_as_long_as_it_is_taken() -> None:
    told = [[(c.what, c.by) for c in chances(life_of(*COMMITTED), block)] for block in (16, 17, 67)]
    assert [("record the seed", 67) in those for those in told] == [False, True, False]
    assert ("end it: what it waited for is over", None) in told[2]


def test_the_line_tells_who_did_what_in_the_order_of_the_chain() -> None:
    checked = [posted(), accepted(), committed(), answered(20), revealed(30), opened_answer(31, root=b"\3" * 32)]
    story = [*checked, *challenged(32), *ended(40, executor_lost=True), convicted(40)]
    stops = line(life_of(*story, mix=mix(drawn=True)))
    assert [stop.title for stop in stops] == [
        "Posted", "Accepted", "Committed", "Answered", "Result revealed", "A verifier differs", "Challenged: game 1",
        "Game 1: the executor lost", "Convicted: it lost a game",
    ]  # fmt: skip
    assert [stop.block for stop in stops] == sorted(stop.block or 0 for stop in stops)
    assert stops[6].who == CHALLENGER and stops[6].game == 1 and stops[6].facts == (("bond", 24),)
    assert all(stop.transaction and stop.transaction.startswith("0x") for stop in stops)


def test_a_state_has_the_tone_of_what_it_means_for_who_paid() -> None:
    played = life_of(*REVEALED_TASK, *challenged(32), mix=mix(drawn=False))
    good = life_of(*COMMITTED, answered(20), revealed(30), opened_answer(31), Closed(at(70), TASK, 9, 1))
    bad = life_of(*COMMITTED, convicted(cause=Cause.SILENCE))
    lives = [life_of(*OPEN), played, good, bad, life_of(*ACCEPTED, Failed(at(50), TASK, 1, 2))]
    assert [tone(life) for life in lives] == ["live", "warn", "good", "bad", "warn"]
    assert [checks(life) for life in lives] == ["20 % of 1", "not drawn", "1 of 1 agree", "20 % of 1", "20 % of 1"]
    assert reason("busy") == REASONS["busy"] and reason("<b>") == "<b>"


def test_health_leaves_out_what_is_zero_and_begins_with_the_largest() -> None:
    registry = CollectorRegistry()
    tasks, gas = Gauge("t", "Tasks", ["state"], registry=registry), Counter("gas", "Gas", registry=registry)
    for state, count in (("open", 2), ("final", 7), ("failed", 0)):
        tasks.labels(state).set(count)
    gas.inc(0)
    told = {family.name: family for family in families(registry.collect())}
    assert list(told["t"].samples) == [("final", 7), ("open", 2)] and told["t"].most == 7
    assert list(told["gas"].samples) == [("", 0)]
