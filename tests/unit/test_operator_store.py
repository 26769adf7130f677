"""The operator's journal gives back what it was given, and belongs to one operator."""

import json
import sqlite3
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eigentensor.chain import Head
from eigentensor.economics import WAD, bond
from eigentensor.errors import ConfigError
from eigentensor.program.cost import Needs
from eigentensor.task import Answered, Challenged, GameEnded, Revealed, Settled, State, TaskEvent
from eigentensor_operator.case import Case, Role
from eigentensor_operator.config import Settings
from eigentensor_operator.daemon import Daemon
from eigentensor_operator.events import Inspected
from eigentensor_operator.metrics import Metrics
from eigentensor_operator.policy import Code, Reason
from eigentensor_operator.report import unfinished
from eigentensor_operator.state import Operator
from eigentensor_operator.store import _MIGRATIONS, Line, Store, changed
from support.stories.operator import (
    ME,
    NEEDS,
    PARAMETERS,
    POLICY,
    PRICE,
    SEAL,
    SECOND,
    TASK,
    WRONG,
    Story,
    a_life,
    an_order,
    at,
    reaches,
)

NOBODY = Operator(POLICY)

PLAIN = Case(a_life(max_price=2**95))
FULL = Case(
    a_life(SECOND),
    seal=SEAL,
    uploaded=True,
    refused=Reason(Code.BUSY, "a place", "none", lasting=False),
    dropped=Reason(Code.LATE, "block 1", "block 2"),
    published=Code.BUSY,
    halted=True,
)


def test_cases_come_back_after_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path / "deep" / "journal.sqlite")
    store.save(NOBODY, [PLAIN, replace(FULL, seal=None)])
    store.save(NOBODY, [FULL])
    store.close()
    again = Store(tmp_path / "deep" / "journal.sqlite")
    assert again.cases(PARAMETERS) == {TASK: PLAIN, SECOND: replace(FULL, refused=None)}
    full = Line(SECOND, State.NONE, Role.NONE, 0, (), False, True, FULL.dropped)
    assert again.summary() == [Line(TASK, State.NONE, Role.NONE, 0, (), False), full]


def test_what_the_chain_says_is_not_taken_from_the_journal(tmp_path: Path) -> None:
    store = Store(tmp_path / "journal.sqlite")
    posted = PLAIN.stepped(reaches(State.OPEN, 3, order=PLAIN.order))
    store.save(NOBODY, [replace(posted, needs=Needs(1, 1), fetched=True)])
    assert store.cases(PARAMETERS) == {TASK: PLAIN}
    assert store.summary() == [Line(TASK, State.OPEN, Role.NONE, 0, (), False)]


def test_forgotten_cases_are_gone(tmp_path: Path) -> None:
    store = Store(tmp_path / "journal.sqlite")
    store.save(NOBODY, [PLAIN, FULL])
    store.save(NOBODY, [], forgotten=[SECOND])
    assert set(store.cases(PARAMETERS)) == {TASK}


def test_the_checkpoint_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "journal.sqlite")
    assert store.checkpoint is None
    store.checkpoint = Head(5, b"\5" * 32)
    store.checkpoint = Head(6, b"\6" * 32)
    store.close()
    assert Store(tmp_path / "journal.sqlite").checkpoint == Head(6, b"\6" * 32)


def test_a_journal_belongs_to_one_operator_in_one_market(tmp_path: Path) -> None:
    store = Store(tmp_path / "journal.sqlite")
    assert store.operator == ""
    assert store.belongs_to("market", "me")
    assert store.belongs_to("market", "me")
    assert store.operator == "me"
    assert not store.belongs_to("market", "another")
    assert not store.belongs_to("another", "me")


def test_only_cases_that_differ_or_whose_part_changed_are_written() -> None:
    before = Operator(POLICY, {TASK: PLAIN, SECOND: FULL})
    after = Operator(POLICY, {TASK: replace(PLAIN, attempts=3, not_before=9), SECOND: replace(FULL, seal=None)})
    assert changed(before, after) == [after.cases[SECOND]]
    assert changed(NOBODY, before) == [PLAIN, FULL]
    answered = PLAIN.stepped(Answered(at(5), TASK, 0, ME, bytes(32)))
    assert changed(before, before.replaced(answered)) == [answered]


def test_what_is_at_stake_is_kept_for_people(tmp_path: Path) -> None:
    story = Story()
    story.until_opened(WRONG)
    store = Store(tmp_path / "journal.sqlite")
    story.noted(Challenged(at(46), TASK, 7, ME, WAD))
    store.save(story.operator, story.operator.cases.values())
    (line,) = store.summary()
    assert (line.role, line.bond, line.games) == (Role.VERIFIER, bond(PARAMETERS, PRICE), (7,))
    story.noted(GameEnded(at(60), TASK, 7, ME, False))
    store.save(story.operator, story.operator.cases.values())
    (line,) = store.summary()
    assert (line.bond, line.games) == (0, ())


def advance(store: Store, story: Story, *events: TaskEvent, head: int) -> None:
    """The story goes on, and the journal keeps what differs then."""
    before = story.operator
    story.noted(*events)
    story.head(head)
    store.save(story.operator, changed(before, story.operator))


def test_an_answer_is_unfinished_until_it_is_settled_or_can_not_be_opened_any_more(tmp_path: Path) -> None:
    settings = Settings.load(data_dir=tmp_path)
    assert unfinished(settings) == []
    for opened in (False, True):
        store, story = Store(settings.journal), Story()
        story.until_answered()
        store.save(story.operator, story.operator.cases.values())
        story.seen(State.REVEALED, 45, claim=WRONG)
        story.seen(State.CONVICTED, 46)
        advance(store, story, head=46)
        assert unfinished(settings) == [TASK]
        if opened:
            advance(store, story, Revealed(at(47), TASK, 1, SEAL.outputs_root), head=47)
        advance(store, story, head=54)
        assert unfinished(settings) == [TASK]
        advance(store, story, head=55)
        assert unfinished(settings) == ([TASK] if opened else [])
        advance(store, story, Settled(at(56), TASK, 1, ME, WAD), head=56)
        assert unfinished(settings) == []
        store.close()


def test_an_acceptance_on_its_way_is_unfinished_and_so_is_all_until_the_chain_was_read(tmp_path: Path) -> None:
    settings = Settings.load(data_dir=tmp_path)
    store, story = Store(settings.journal), Story()
    story.posted()
    store.save(story.operator, story.operator.cases.values())
    assert unfinished(settings) == [TASK]
    advance(store, story, head=10)
    assert unfinished(settings) == []
    before = story.operator
    story.handle(Inspected(TASK, NEEDS))
    story.fetched()
    store.save(story.operator, changed(before, story.operator))
    assert unfinished(settings) == [TASK]


def test_a_journal_of_the_first_version_keeps_its_seals(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with sqlite3.connect(path) as old:
        old.executescript(_MIGRATIONS[0])
        order = json.dumps(an_order().to_json())
        values = (TASK, 3, order, SEAL.outputs_root, SEAL.salt, bytes(32), 1, None, None, None, State.REVEALED, 1)
        old.execute(f"INSERT INTO cases VALUES ({','.join('?' * 12)})", values)
    old.close()
    kept = Case(a_life(), seal=SEAL, uploaded=True)
    for _ in range(2):
        store = Store(path)
        assert store.cases(PARAMETERS) == {TASK: kept}
        assert store.summary() == [Line(TASK, State.REVEALED, Role.EXECUTOR, 0, (), False, True)]
        store.close()


def test_a_journal_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "journal.sqlite") as later:
        later.execute("PRAGMA user_version = 99")
    with pytest.raises(ConfigError, match="later version"):
        Store(tmp_path / "journal.sqlite")


def test_what_a_full_journal_has_no_room_for_is_taken_again(tmp_path: Path) -> None:
    store, chain = Store(tmp_path / "operator.sqlite"), SimpleNamespace(deployment=SimpleNamespace(token_symbol="T"))
    parts: tuple[Any, Any] = (chain, None)  # a node and hands, of which nothing is asked
    daemon = Daemon(parts[0], store, parts[1], POLICY, Metrics("T"), tmp_path / "drain", 0.0, lambda: None)
    store._connection.execute("PRAGMA max_page_count = 12")
    tasks = [bytes([number]) * 32 for number in range(1, 40)]
    for task in tasks:
        daemon._take(partial(reaches, State.OPEN, 5, task=task))
    assert not daemon._inbox.empty() and len(daemon.operator.cases) == len(store.summary()) < len(tasks)
    store._connection.execute("PRAGMA max_page_count = 1000")
    while not daemon._inbox.empty():
        again = daemon._inbox.get()
        assert again is not None
        daemon._take(again)
    assert {line.task for line in store.summary()} == daemon.operator.cases.keys() == set(tasks)
    store.close()
