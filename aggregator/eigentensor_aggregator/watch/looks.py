"""What the watcher remembers, in the aggregator's database; everything else comes from the chain."""

import secrets
from collections.abc import Callable, Mapping

from sqlalchemy import and_
from sqlmodel import col, or_, select

from eigentensor.task import Life, State
from eigentensor_aggregator.store import Store
from eigentensor_aggregator.tables import GameRow, LookRow, Meta, TaskRow
from eigentensor_aggregator.watch.machine import Look, Verdict

#: Results that one round considers, those first whose windows close first.
ROUND = 256


class Looks:
    """Verdicts by task and claim, what was said of them, and the secret that chooses tasks."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def key(self) -> bytes:
        """32 secret bytes, drawn once."""
        with self._store.session() as session:
            row = session.get(Meta, "watch key") or Meta(name="watch key", value=secrets.token_hex(32))
            session.add(row)
            return bytes.fromhex(row.value)

    def lives(self, address: str | None, chooses: Callable[[bytes], bool]) -> list[Life]:
        """Tasks of which something may be left to do or to say: results without a verdict that the policy chooses,
        results that differ, and those in which `address` has a game."""
        at_claim = and_(col(LookRow.task) == col(TaskRow.task), col(LookRow.claim) == col(TaskRow.outputs_root))
        # Two questions, each from an index: one with both would go through all tasks there ever were.
        results = select(TaskRow.task, TaskRow.wake).join(LookRow, at_claim, isouter=True)
        unseen = results.where(col(TaskRow.state) == State.REVEALED.name.lower(), col(LookRow.task).is_(None))
        wrong = and_(col(LookRow.verdict) == Verdict.DIFFERS.value, col(LookRow.over).is_(False))
        looked = select(TaskRow.task, TaskRow.wake).join(LookRow, at_claim).where(or_(wrong, col(LookRow.report) == ""))
        played = select(GameRow.task).where(col(GameRow.challenger) == address, col(GameRow.state) != "ended")
        with self._store.session() as session:
            new = [row for row in session.exec(unseen).all() if chooses(bytes.fromhex(row[0]))]
            rows = sorted([*new, *session.exec(looked).all()], key=lambda row: (row[1] is not None, row[1] or 0))
            tasks = [*session.exec(played).all(), *(task for task, _ in rows[:ROUND])]
            return self._store.lives(session, list(dict.fromkeys(tasks)))

    def of(self, lives: list[Life]) -> Mapping[tuple[bytes, bytes], Look]:
        """The verdicts about these tasks, by task and claim."""
        tasks = [life.uuid.hex() for life in lives]
        with self._store.session() as session:
            rows = session.exec(select(LookRow).where(col(LookRow.task).in_(tasks))).all()
        return {(bytes.fromhex(r.task), bytes.fromhex(r.claim)): Look(Verdict(r.verdict), r.words) for r in rows}

    def add(self, task: bytes, claim: bytes, look: Look) -> None:
        """Keeps the verdict on a claim."""
        row = LookRow(task=task.hex(), claim=claim.hex(), verdict=look.verdict.value, words=look.words)
        with self._store.session() as session:
            session.merge(row)

    def reported(self, task: bytes, claim: bytes, words: str, *, over: bool) -> bool:
        """Remembers what is reported of a claim; False if that was the last report already."""
        with self._store.session() as session:
            row = session.get(LookRow, (task.hex(), claim.hex()))
            if row is None:
                return False
            news, row.report, row.over = row.report != words, words, over
            session.add(row)
            return news
