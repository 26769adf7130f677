"""Memory that two processes have mapped: boxes lie there as they were, within bounds, until nobody has them."""

import errno
import gc
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eigentensor.numerics.dtypes import DType
from eigentensor.system import sealed_memory
from eigentensor_cluster.engine.mapped import ALIGN, GROWTH, MOST, PAGE, Inbox, Outbox, Room

CODES = {
    np.dtype(storage): dtype
    for storage, dtype in (
        (np.bool_, DType.BOOL), (np.uint8, DType.UINT8), (np.float16, DType.FLOAT16), (np.float32, DType.FLOAT32),
        (np.int64, DType.INT64),
    )
}  # fmt: skip


def mapped(limit: int) -> tuple[Room, Outbox, Inbox]:
    """Memory of so many bytes at most, and whoever it is handed over to."""
    room = Room()
    room.widen(limit)
    outbox = Outbox(room)
    return room, outbox, Inbox(os.dup(outbox.descriptor))


def some_box(chance: random.Random) -> NDArray[Any]:
    """A box, every second one with gaps between its elements."""
    dtype = chance.choice(list(CODES))
    whole = np.frombuffer(chance.randbytes(1 << 14), np.uint8)
    array = (whole & 1).view(np.bool_) if dtype == np.bool_ else whole.view(dtype)
    rows = array[: len(array) // 8 * 8].reshape(8, -1)[:, : chance.randrange(array.size // 8)]
    return rows if chance.random() < 0.5 else np.ascontiguousarray(rows)


@pytest.mark.parametrize("seed", range(8))
def test_boxes_lie_as_they_were_while_somebody_has_them_and_take_no_more_than_they_may(seed: int) -> None:
    chance = random.Random(seed)
    limit = 4 * GROWTH
    room, outbox, inbox = mapped(limit)
    held, refused = list[tuple[NDArray[Any], bytes]](), 0
    for _ in range(400):
        box = some_box(chance)
        if (at := outbox.lay(box)) is None:
            refused += 1
        else:
            came = inbox.box(CODES[box.dtype], box.size, at).reshape(box.shape)  # a view, as whoever copies it has
            held.append((came, box.tobytes()))
        while held and (at is None or chance.random() < 0.45):
            del held[chance.randrange(len(held))]
            at = 0
        assert all(came.tobytes() == data for came, data in held)
    assert refused > 10 and not room.is_over
    came = None  # type: ignore[assignment]
    held.clear()
    gc.collect()
    outbox.trim()
    room.widen(-limit)
    assert not room.is_over, "all of it is given back"
    outbox.close()


def test_memory_that_is_given_back_is_not_there_any_more_and_comes_again() -> None:
    room, outbox, inbox = mapped(1 << 24)

    def there() -> int:
        return os.fstat(outbox.descriptor).st_blocks * 512

    at = outbox.lay(np.ones(1 << 20, np.float32))
    assert at is not None
    outbox.trim()
    assert there() > 4 << 20, "it lies there"
    inbox.box(DType.FLOAT32, 1 << 20, at)
    outbox.trim()
    assert there() <= PAGE
    assert outbox.lay(np.ones(1 << 20, np.float32)) == at
    outbox.close()
    assert outbox.lay(np.ones(1 << 22, np.float32)) is None
    room.widen(-(1 << 24))
    assert not room.is_over


@pytest.mark.parametrize(
    ("elements", "at"),
    [(1, 0), (1, PAGE), (1, PAGE + 1), (1, PAGE + ALIGN + 4), (MOST, PAGE + ALIGN), (1, MOST), (1, 1 << 63)],
)
def test_a_box_that_cannot_lie_there_is_refused(elements: int, at: int) -> None:
    _, _, inbox = mapped(GROWTH)
    with pytest.raises(ValueError, match="no box of"):
        inbox.box(DType.FLOAT32, elements, at)


def test_bools_are_zero_or_one() -> None:
    _, outbox, inbox = mapped(GROWTH)
    at = outbox.lay(np.array([0, 1, 2], np.uint8))
    assert at is not None
    with pytest.raises(ValueError, match="bools"):
        inbox.box(DType.BOOL, 3, at)


def test_only_memory_that_nobody_can_take_away_is_mapped(tmp_path: Path) -> None:
    """Else who reads it could be killed by whoever made it."""

    def descriptors() -> list[int]:
        unsealed = os.memfd_create("x", os.MFD_ALLOW_SEALING)
        os.ftruncate(unsealed, PAGE)
        small, large = sealed_memory("x", 8), sealed_memory("x", MOST + PAGE)
        file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
        os.ftruncate(file, PAGE)
        return [unsealed, small, large, file, os.open("/dev/zero", os.O_RDWR)]

    for descriptor in descriptors():
        with pytest.raises(OSError):
            Inbox(descriptor)
        with pytest.raises(OSError):
            os.fstat(descriptor)


def test_a_system_that_has_no_memory_is_named_once(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    _, outbox, _ = mapped(1 << 24)

    def full(*arguments: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    assert [outbox.lay(np.ones(9, np.float32)) for _ in range(2)] == [None, None]
    assert capsys.readouterr().err.count("No space left on device") == 1
    monkeypatch.undo()
    assert outbox.lay(np.ones(9, np.float32)) is not None
