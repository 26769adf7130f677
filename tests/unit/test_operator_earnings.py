"""What tasks brought an operator: every wei that its account got or lost by them, once, in the block where it did."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from eigentensor.economics import WAD, bond, bond_share, reward
from eigentensor.task import (
    Accepted,
    Cause,
    Challenged,
    Closed,
    Convicted,
    Exposed,
    Failed,
    GameEnded,
    Settled,
    Slashed,
    State,
)
from eigentensor_operator.earnings import Earned, Earning, Source, earnings_of
from eigentensor_operator.events import RolledBack
from eigentensor_operator.store import Store, changed
from support.stories.operator import ME, PARAMETERS, POLICY, PRICE, TASK, THIRD, WRONG, Story, at

BOND, REWARD = bond(PARAMETERS, PRICE), reward(PARAMETERS, PRICE)
COLLATERAL = WAD // 5


def earned(story: Story) -> list[Earning]:
    return list(earnings_of(story.case().life, ME))


def executed() -> Story:
    """A result of its own, revealed, with collateral."""
    story = Story()
    story.posted()
    story.noted(Accepted(at(11), TASK, ME, PRICE, COLLATERAL))
    story.seen(State.COMMITTED, 12, claim=b"\x0c" * 32)
    story.seen(State.REVEALED, 45, claim=WRONG)
    return story


def test_a_final_task_brings_its_price_and_its_lost_challenges_their_bonds() -> None:
    story = executed()
    assert earned(story) == []
    story.challenged(46)
    story.noted(GameEnded(at(50), TASK, 1, THIRD, False))
    story.noted(Closed(at(80), TASK, PRICE + bond_share(PARAMETERS, PRICE), 0))
    won = Earning(80, Source.BOND, bond_share(PARAMETERS, PRICE))
    assert earned(story) == [Earning(80, Source.TASK, PRICE), won]


def test_a_task_that_was_not_finished_costs_the_penalty() -> None:
    story = Story()
    story.posted()
    story.noted(Accepted(at(11), TASK, ME, PRICE, COLLATERAL), Failed(at(40), TASK, 0, WAD // 50))
    assert earned(story) == [Earning(40, Source.PENALTY, -WAD // 50)]


def test_a_conviction_costs_the_collateral_once_and_the_stake() -> None:
    story = executed()
    story.seen(State.CONVICTED, 60)
    story.noted(Slashed(at(70), TASK, 1, 1, THIRD))
    stake = story.case().life.stake
    assert stake
    assert earned(story) == [Earning(60, Source.PENALTY, -COLLATERAL), Earning(70, Source.PENALTY, -stake)]
    story = Story()
    story.posted()
    story.noted(Accepted(at(11), TASK, ME, PRICE, COLLATERAL))
    story.seen(State.COMMITTED, 12, claim=b"\x0c" * 32)
    story.noted(Exposed(at(13), TASK, 0, THIRD, REWARD // 2))
    story.seen(State.CONVICTED, 60)
    assert sum(earning.amount for earning in earned(story)) == -COLLATERAL


def test_a_verifier_earns_what_comes_beyond_its_bond() -> None:
    story = Story()
    story.until_opened()
    story.seen(State.FINAL, 76)
    assert earned(story) == []
    story.noted(Settled(at(77), TASK, 1, ME, BOND + WAD // 9))
    assert earned(story) == [Earning(77, Source.CHECK, WAD // 9)]


def test_an_answer_that_was_not_opened_costs_its_bond_and_so_does_an_exposed_one() -> None:
    story = Story()
    story.until_answered()
    story.seen(State.REVEALED, 45, claim=WRONG)
    story.seen(State.FINAL, 76)
    story.noted(Settled(at(77), TASK, 1, ME, 0))
    assert earned(story) == [Earning(77, Source.PENALTY, -BOND)]
    story = Story()
    story.until_answered()
    story.noted(Exposed(at(20), TASK, 1, THIRD, BOND // 2))
    assert earned(story) == [Earning(20, Source.PENALTY, -BOND)]


def test_who_wins_the_deciding_game_gets_the_reward_and_who_loses_one_loses_its_bond() -> None:
    story = Story()
    story.until_opened(WRONG)
    story.noted(Challenged(at(46), TASK, 1, ME, BOND), GameEnded(at(50), TASK, 1, ME, True))
    story.seen(State.CONVICTED, 50)
    assert earned(story) == []  # another one had won: THIRD
    won = replace(story.case().life, events=(Convicted(at(50), TASK, Cause.VERDICT, ME, 0),))
    assert list(earnings_of(won, ME)) == [Earning(50, Source.BOND, REWARD)]
    story = Story()
    story.until_opened(WRONG)
    story.noted(Challenged(at(46), TASK, 1, ME, BOND), GameEnded(at(60), TASK, 1, ME, False))
    story.seen(State.CONVICTED, 70)
    story.noted(Settled(at(80), TASK, 1, ME, WAD // 9))
    assert earned(story) == [Earning(60, Source.PENALTY, -BOND), Earning(80, Source.CHECK, WAD // 9)]


def test_the_journal_keeps_what_forgotten_tasks_brought_and_drops_what_was_taken_back(tmp_path: Path) -> None:
    store, story = Store(tmp_path / "journal.sqlite"), executed()
    store.save(story.operator, story.operator.cases.values())

    def goes_on(block: int, *events: Closed) -> None:
        before = story.operator
        story.noted(*events)
        story.head(block)
        gone = before.cases.keys() - story.operator.cases.keys()
        store.save(story.operator, changed(before, story.operator), gone)

    goes_on(80, Closed(at(80), TASK, PRICE, 0))
    assert store.earnings(99) == [Earning(80, Source.TASK, PRICE)] and store.earnings(79) == []
    before = story.operator
    story.handle(RolledBack(79))
    store.save(story.operator, changed(before, story.operator))
    assert store.earnings(99) == []
    goes_on(81, Closed(at(81), TASK, PRICE, 0))
    goes_on(81 + 10 * POLICY.keep + 10_000)
    assert story.operator.cases == {}
    assert store.earnings(10**6) == [Earning(81, Source.TASK, PRICE)]


def test_what_was_earned_is_counted_from_a_moment_on() -> None:
    earnings = [
        Earning(1, Source.TASK, 100), Earning(2, Source.CHECK, 7), Earning(3, Source.TASK, 20),
        Earning(3, Source.BOND, 5), Earning(4, Source.PENALTY, -60), Earning(5, Source.CHECK, 0),
    ]  # fmt: skip
    asked: list[int] = []

    def time_of(block: int) -> int:
        asked.append(block)
        return 1_000_000 + 12 * block

    counted = Earned.of(earnings, datetime.fromtimestamp(1_000_000 + 36, UTC), time_of)
    assert counted == Earned("1970-01-12T13:47:16+00:00", 1, 20, 1, 0, 5, 60)
    assert counted.net == -35
    assert len(asked) <= 3
    assert Earned.of([], datetime.fromtimestamp(0, UTC), time_of).net == 0
