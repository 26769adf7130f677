"""The operator's journal gives back what it was given, and belongs to one operator."""

from dataclasses import replace
from pathlib import Path

from eigentensor.chain import Head, State
from eigentensor_operator.case import Case, Fact
from eigentensor_operator.policy import Code, Needs, Reason
from eigentensor_operator.store import Store, changed
from operator_stories import SEAL, SECOND, TASK, an_order

PLAIN = Case(TASK, an_order(max_price=2**95))
FULL = Case(
    SECOND,
    an_order(),
    seal=SEAL,
    uploaded=True,
    refused=Reason(Code.BUSY, "a place", "none", lasting=False),
    dropped=Reason(Code.LATE, "block 1", "block 2"),
    published=Code.BUSY,
)


def test_cases_come_back_after_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path / "deep" / "journal.sqlite")
    store.save([(PLAIN, False), (replace(FULL, seal=None), True)])
    store.save([(FULL, True)])
    store.close()
    again = Store(tmp_path / "deep" / "journal.sqlite")
    assert again.cases() == {TASK: PLAIN, SECOND: replace(FULL, refused=None)}
    assert [case for *_, case in again.summary()] == [PLAIN, FULL]


def test_what_the_chain_says_is_not_taken_from_the_journal(tmp_path: Path) -> None:
    store = Store(tmp_path / "journal.sqlite")
    store.save([(replace(PLAIN, history=(Fact(State.OPEN, 3),), needs=Needs(1, 1), fetched=True), False)])
    assert store.cases() == {TASK: PLAIN}
    assert [(uuid, state, mine) for uuid, state, mine, _ in store.summary()] == [(TASK, State.OPEN, False)]


def test_forgotten_cases_are_gone(tmp_path: Path) -> None:
    store = Store(tmp_path / "journal.sqlite")
    store.save([(PLAIN, False), (FULL, True)])
    store.save([], forgotten=[SECOND])
    assert set(store.cases()) == {TASK}


def test_the_checkpoint_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "journal.sqlite")
    assert store.checkpoint is None
    store.checkpoint = Head(5, b"\5" * 32)
    store.checkpoint = Head(6, b"\6" * 32)
    store.close()
    assert Store(tmp_path / "journal.sqlite").checkpoint == Head(6, b"\6" * 32)


def test_a_journal_belongs_to_one_operator_in_one_market(tmp_path: Path) -> None:
    store = Store(tmp_path / "journal.sqlite")
    assert store.belongs_to("market", "me")
    assert store.belongs_to("market", "me")
    assert not store.belongs_to("market", "another")
    assert not store.belongs_to("another", "me")


def test_only_cases_that_differ_are_written() -> None:
    before = {TASK: PLAIN, SECOND: FULL}
    after = {TASK: replace(PLAIN, attempts=3, not_before=9), SECOND: replace(FULL, seal=None)}
    assert changed(before, after) == [after[SECOND]]
    assert changed({}, before) == [PLAIN, FULL]
