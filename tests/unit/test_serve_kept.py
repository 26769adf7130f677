"""What callers leave on the disk of a service, and for how long."""

import math
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from eigentensor.errors import BlobNotFound, StoreFull
from eigentensor.numerics.dtypes import DType
from eigentensor.store import LocalStore, describe, save_safetensors
from eigentensor.task.objects import Task
from eigentensor.web.documents import examples
from eigentensor_serve import kept
from eigentensor_serve.kept import KEPT, ResultFiles, Room, Uploads
from eigentensor_serve.ledger import DAY, Job, Key, Ledger, State

NOON = 20_000 * DAY + DAY / 2
TASK: Task = examples("eigentensor.schemas")["Task"]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(Ledger(tmp_path / "ledger.sqlite")) as ledger:
        yield ledger


def test_a_callers_oldest_blobs_make_room_for_its_newest(ledger: Ledger, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    mine, uploads = store.put(bytes(100)), Uploads(store, ledger.database, 250)

    def give(caller: str, content: bytes) -> str:
        path = tmp_path / "blob"
        path.write_bytes(content)
        names, _ = describe(path)
        uploads.adopt(path, names, caller)
        assert names.blob in store
        return names.blob

    first, second = (give("alice", bytes([n]) * 100) for n in (1, 2))
    other = give("bob", b"b" * 240)
    assert give("alice", bytes(100)) == mine, "it was there before: it is nobody's"
    assert give("alice", b"\1" * 100) == first, "uploads again: the newest now"
    third = give("alice", b"\3" * 100)
    assert [name in store for name in (first, second, third, other, mine)] == [True, False, True, True, True]
    huge = give("alice", bytes(1000) + b"x")
    assert [name in store for name in (first, third, huge)] == [False, False, True], "one blob is always kept"


def test_nobody_can_take_away_what_another_gave(ledger: Ledger, tmp_path: Path) -> None:
    store, uploads = LocalStore(tmp_path / "store"), Uploads(LocalStore(tmp_path / "store"), ledger.database, 400)
    path = tmp_path / "file"

    def give(caller: str, content: bytes) -> tuple[str, str]:
        path.write_bytes(content)
        names, _ = describe(path)
        uploads.adopt(path, names, caller)
        return names.blob, names.computed or ""

    def weights(*shape: int) -> bytes:
        save_safetensors(path, {"w": np.arange(4, dtype=np.float32).reshape(shape)})
        return path.read_bytes()

    flat, root = give("alice", weights(4))
    for content in (weights(4), weights(2, 2)):  # the same, and another file of the same root
        assert give("bob", content)[1] == root and store.path(root) == store.path(flat)
        give("bob", bytes(400))
        assert flat in store and root in store
    square, _ = give("bob", weights(2, 2))
    give("alice", bytes([1]) * 400)
    assert flat not in store and store.path(root) == store.path(square)


def test_blobs_that_an_earlier_version_kept_are_still_their_callers(ledger: Ledger, tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    blob = store.put(b"a" * 100)
    ledger.database.rows("CREATE TABLE blobs (number INTEGER PRIMARY KEY, blob TEXT, caller TEXT, bytes INTEGER)")
    ledger.database.rows("INSERT INTO blobs VALUES (1, ?, 'alice', 100)", blob)
    uploads = Uploads(store, ledger.database, 150)
    (tmp_path / "blob").write_bytes(b"b" * 100)
    uploads.adopt(tmp_path / "blob", describe(tmp_path / "blob")[0], "alice")
    assert blob not in store


def test_some_results_at_a_time_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_FORGOTTEN", 1)
    results = ResultFiles(tmp_path, 10_000)

    def there_after(task: str, elements: int) -> str:
        results.write(task, {"y": np.zeros(elements, np.float32)}, {"y": DType.FLOAT32})
        return "".join(task for task in "abcd" if results.path(task).exists())

    assert [there_after(*one) for one in (("a", 1000), ("b", 1000), ("c", 2200), ("d", 1))] == ["a", "ab", "bc", "cd"]
    ResultFiles(tmp_path, 1)
    assert len(list(tmp_path.iterdir())) == 1, "when it begins, all of them"


def test_results_go_after_a_day_or_when_they_are_too_many(tmp_path: Path) -> None:
    def write(results: ResultFiles, task: str) -> None:
        results.write(task, {"y": np.zeros(1000, np.float32)}, {"y": DType.FLOAT32})

    results = ResultFiles(tmp_path, 10_000)
    for task in "abc":
        write(results, task)
    assert [results.path(task).exists() for task in "abc"] == [False, True, True]
    old = results.path("b").stat().st_mtime - KEPT
    os.utime(results.path("b"), (old, old))
    again = ResultFiles(tmp_path, 10_000)  # started again
    assert [results.path(task).exists() for task in "bc"] == [False, True]
    assert again.read("c")["y"].tobytes() == results.read("c")["y"].tobytes() == bytes(4000)
    for files, task in ((again, "b"), (results, "a")):
        with pytest.raises(BlobNotFound):
            files.read(task)


def test_nothing_is_taken_that_would_fill_the_disk(tmp_path: Path) -> None:
    Room((tmp_path, tmp_path / "not" / "there"), 1).check()
    full = Room((tmp_path,), 1 << 62)
    for _ in range(2):
        with pytest.raises(StoreFull, match="must stay so"):
            full.check()


def test_room_is_looked_at_once_a_second_or_when_it_must_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Path] = []
    disk = shutil.disk_usage(tmp_path)

    def disk_usage(path: Path) -> tuple[int, int, int]:
        looks.append(path)
        return disk

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)
    room = Room((tmp_path,), 1)
    room.check()
    room.check()
    assert len(looks) == 1
    room.check(now=True)
    assert len(looks) == 2
    monkeypatch.setattr(time, "monotonic", lambda: math.inf)
    room.check()
    assert len(looks) == 3


def test_what_ended_long_ago_is_told_by_its_last_event_and_then_not_at_all(ledger: Ledger) -> None:
    for task, at in (("old", NOON - DAY), ("new", NOON), ("open", NOON - DAY)):
        ledger.add(Job(task, Key("alice", "this", task), None, at, escrow=10), TASK | {"stage": "asked"})
        ledger.record(task, TASK | {"stage": "open"}, state=State.OPEN)
    for task in ("old", "new"):
        ledger.record(task, TASK | {"stage": "final"}, state=State.ENDED, cost=4)
    ledger.forget(NOON, jobs=False)
    assert {task: [event.number for event in ledger.events(task)] for task in ("old", "new", "open")} == {
        "old": [3], "new": [1, 2, 3], "open": [1, 2],
    }  # fmt: skip
    assert ledger.spent() == 18
    ledger.forget(NOON, jobs=True)
    assert [job.task for _, job in ledger.jobs()] == ["open", "new"]
    assert ledger.known(Key("alice", "that", "old")) is None
