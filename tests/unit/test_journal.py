"""What an account meant to send, over versions of the journal."""

import sqlite3
from pathlib import Path
from threading import Thread

from eigentensor.chain.journal import Journal, Status

EARLIER = """
CREATE TABLE intents (key TEXT PRIMARY KEY, name TEXT NOT NULL, nonce INTEGER NOT NULL, status TEXT NOT NULL);
CREATE TABLE attempts (
    hash BLOB PRIMARY KEY, key TEXT NOT NULL REFERENCES intents, raw BLOB NOT NULL, fee INTEGER NOT NULL,
    tip INTEGER NOT NULL, sent_at REAL NOT NULL
);
CREATE INDEX attempts_of_key ON attempts (key);
INSERT INTO intents VALUES ('monday', 'approve', 3, 'pending');
INSERT INTO attempts VALUES (x'01', 'monday', x'02', 5, 6, 7.0);
"""


def test_the_same_bytes_can_be_sent_for_two_reasons() -> None:
    """A reorganisation took the first back, and left its nonce to the second."""
    journal = Journal(None)
    for key in ("monday", "tuesday"):
        journal.begin(key, "approve", 3)
        journal.attempt(key, b"\1", b"\2", 5, 6)
    intents = [journal.get(key) for key in ("monday", "tuesday")]
    assert [intent and intent.attempts[0].hash for intent in intents] == [b"\1", b"\1"]


def test_a_journal_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    earlier = sqlite3.connect(path)
    earlier.executescript(EARLIER)
    earlier.close()
    for _ in range(2):
        journal = Journal(path)
        (intent,) = journal.pending()
        assert (intent.key, intent.nonce, intent.status) == ("monday", 3, Status.PENDING)
        assert [(a.hash, a.raw, a.fee, a.tip, a.sent_at) for a in intent.attempts] == [(b"\1", b"\2", 5, 6, 7.0)]
        journal.close()


def test_what_an_intent_may_take_is_kept_to_the_wei(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite")
    journal.begin("monday", "post", 3, takes=10**30 + 1)
    journal.begin("tuesday", "reveal", 4)
    assert [intent.takes for intent in journal.pending()] == [10**30 + 1, 0]
    journal.close()


def test_who_shares_a_journal_takes_turns(tmp_path: Path) -> None:
    """Two journals of one file are as two processes."""
    first, second = Journal(tmp_path / "journal.sqlite"), Journal(tmp_path / "journal.sqlite")
    order: list[str] = []

    def enter() -> None:
        with second.in_turn():
            order.append("second")

    with first.in_turn():
        waiting = Thread(target=enter)
        waiting.start()
        second.begin("meanwhile", "reveal", 1)  # nothing else waits
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]
    first.close()
    second.close()
