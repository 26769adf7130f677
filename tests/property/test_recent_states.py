"""States that calls left: files as what they change of another, and how many are kept in memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigentensor_operator.calls import recent
from eigentensor_operator.calls.recent import CHAIN, Patch, RecentStates, States, difference, patched

Change = tuple[int, bytes]


def changed(file: bytes, changes: list[Change]) -> bytes:
    other = bytearray(file)
    for at, data in changes:
        place = at % max(1, len(other))
        other[place : place + len(data)] = data[: len(other) - place]
    return bytes(other)


@given(
    st.binary(max_size=64).map(lambda seed: (seed or b"0") * 700),
    st.integers(0, 40_000),
    st.lists(st.tuples(st.integers(0, 40_000), st.binary(max_size=40)), max_size=6),
)
def test_a_file_comes_back_out_of_what_it_changes(file: bytes, size: int, changes: list[Change]) -> None:
    base = file[:size]
    other = changed(base, changes)
    data = difference(base, other)
    if data is not None:
        assert patched(base, data) == other and len(data) < max(len(other) * 3 // 4, 2048)
    else:
        assert len(other) < 1024 * (2 * len(changes) * 2 + 1)


def test_other_files_are_written_whole() -> None:
    assert difference(b"0" * 4096, b"0" * 4097) is None
    assert difference(b"0" * 4096, b"1" * 4096) is None
    assert difference(b"0" * 100, b"0" * 100) is None


def test_a_chain_of_patches_ends() -> None:
    file = bytes(8192)
    assert States(b"r", {}, file).patch(file) == Patch(b"r", difference(file, file) or b"")
    assert States(b"r", {}, file, CHAIN - 2).patch(file) is not None
    assert States(b"r", {}, file, CHAIN - 1).patch(file) is None


def test_the_newest_states_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "ROOM", 100)
    kept = RecentStates()
    for name in (b"a", b"b", b"a", b"c"):
        kept.put(States(name, {}, bytes(40)))
        assert kept.get(b"a") is not None
    assert kept.get(b"b") is None and kept.get(b"c") is not None
    kept.clear()
    assert kept.get(b"a") is None
    kept.put(States(b"d", {}, bytes(200)))
    assert kept.get(b"d") is None
