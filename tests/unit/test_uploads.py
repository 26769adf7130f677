"""Who holds a place among the uploads in progress: nobody by words alone, and nobody for long who rests."""

import resource
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import Session, SQLModel, create_engine

from eigentensor.errors import BlobNotFound, StoreFull
from eigentensor.merkle import PIECE
from eigentensor.store import Pieces
from eigentensor_aggregator import uploads
from eigentensor_aggregator.blob_index import BlobIndex
from eigentensor_aggregator.blobs import Blobs, Limits
from eigentensor_aggregator.folder import Folder
from eigentensor_aggregator.uploads import PAUSE, REST, Declared, Places, Upload, address_of

TWO = Pieces(2 * PIECE, (b"\1" * 32, b"\2" * 32))


def held(address: str, at: float) -> Upload:
    return Upload(TWO, address, at, 0, own=True)


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0, 1000)), max_size=40),
    st.integers(1, 8),
    st.sampled_from("abcdefg"),
)
def test_a_place_yields_to_whoever_has_fewer_and_when_it_rests(
    wanted: list[tuple[str, float]], most: int, newcomer: str
) -> None:
    places, now = Places(most, lambda: 1000.0), 1000.0
    taken = [places.take(str(n), held(address, at)) for n, (address, at) in enumerate(wanted)]
    assert sum(taken) == min(most, len(wanted))
    there = {str(n): upload for n, upload in enumerate(wanted) if taken[n]}
    counted = Counter(address for address, _ in there.values())
    yielding = places.yielding(newcomer)
    for blob in yielding:
        address, at = there[blob]
        assert at < now - PAUSE or counted[address] == max(counted.values()) > counted[newcomer] + 1
    assert {blob for blob, (_, at) in there.items() if at < now - REST} <= set(yielding)
    if counted and max(counted.values()) > counted[newcomer] + 1:
        assert yielding


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 12), st.integers(0, 30)), max_size=60))
def test_lists_of_pieces_take_a_bounded_room_and_one_address_an_eighth_of_it(
    lists: list[tuple[str, int, int]],
) -> None:
    declared, most = Declared(64), 64
    declarations: dict[str, tuple[str, int]] = {}
    for address, length, seed in lists:
        pieces = Pieces((length - 1) * PIECE + 1 + seed, tuple(bytes([seed]) * 32 for _ in range(length)))
        declared.add(pieces, address)
        declarations[pieces.blob.hex()] = address, length
        assert declared.get(pieces.blob.hex()) == pieces
        kept = {blob: of for blob, of in declarations.items() if declared.get(blob) is not None}
        assert sum(of[1] for of in kept.values()) <= most
        for whose in "abc":
            own = [of[1] for of in kept.values() if of[0] == whose]
            assert sum(own) <= most // 8 or len(own) == 1


def test_addresses_are_counted_by_household() -> None:
    assert address_of("2001:db8:1:2:aaaa::1") == address_of("2001:db8:1:3::7") != address_of("2001:db8:2:2::7")
    assert address_of("::ffff:192.0.2.7") == address_of("192.0.2.7") != address_of("192.0.2.8")
    assert address_of("fe80::1%eth0") == address_of("fe80::2") and address_of("testclient") == "testclient"


@pytest.fixture
def blobs(tmp_path: Path) -> Iterator[Blobs]:
    yield opened(tmp_path)


def opened(folder: Path, **limits: int) -> Blobs:
    engine = create_engine(f"sqlite:///{folder / 'index.sqlite'}")
    SQLModel.metadata.create_all(engine)

    @contextmanager
    def session() -> Iterator[Session]:
        with Session(engine, expire_on_commit=False) as session:
            yield session
            session.commit()
        engine.dispose()

    bounds = Limits(**{"blob": 8 * PIECE, "stored": 64 * PIECE, "uploads": 3, **limits})
    return Blobs(Folder(str(folder / "blobs")), folder / "uploads", BlobIndex(session), bounds)


def begin(blobs: Blobs, number: int, address: str) -> str:
    """The first of three pieces of a blob."""
    data = bytes([number]) * (2 * PIECE + 5)
    pieces = Pieces.of(data)
    blobs.declare(pieces, address)
    assert blobs.receive(pieces.blob.hex(), data[:PIECE], (0, len(data)), address).received == PIECE
    return pieces.blob.hex()


def go_on(blobs: Blobs, number: int, address: str) -> bool:
    """Sends the rest of it; whether it is complete."""
    data = bytes([number]) * (2 * PIECE + 5)
    for at in (PIECE, 2 * PIECE):
        received = blobs.receive(Pieces.of(data).blob.hex(), data[at : at + PIECE], (at, len(data)), address)
    return received.complete


def test_the_place_of_whoever_has_most_is_taken_and_the_others_go_on(blobs: Blobs) -> None:
    for number in range(3):
        begin(blobs, number, "a")
    begin(blobs, 3, "b")
    assert go_on(blobs, 3, "b") and go_on(blobs, 1, "a") and go_on(blobs, 2, "a")
    with pytest.raises(BlobNotFound, match="was begun"):
        go_on(blobs, 0, "a")


def test_where_everybody_has_as_many_a_place_is_refused_until_one_rests(
    blobs: Blobs,
) -> None:
    for number, address in enumerate("abc"):
        begin(blobs, number, address)
    with pytest.raises(StoreFull, match="3 uploads are in progress"):
        begin(blobs, 3, "d")
    small = Pieces.of(b"small")
    assert blobs.receive(small.blob.hex(), b"small", None, "d").complete
    go_on(blobs, 1, "b")
    assert begin(blobs, 3, "d")


def test_what_is_in_progress_holds_bounded_bytes_and_the_oldest_goes_on(tmp_path: Path) -> None:
    """Of eight pieces in progress six are those of others; none that does not rest ends for one that has not begun."""
    blobs = opened(tmp_path, blob=3 * PIECE, stored=32 * PIECE, uploads=9)
    for number in range(6):
        begin(blobs, number, str(number))
    with pytest.raises(StoreFull, match="in progress may hold"):
        begin(blobs, 6, "6")
    assert go_on(blobs, 0, "0")
    assert blobs.declare(Pieces.of(bytes([1]) * (2 * PIECE + 5))).received == PIECE
    assert blobs.declare(Pieces.of(bytes([5]) * (2 * PIECE + 5))).received == 0


def test_nobody_goes_on_and_an_upload_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = opened(tmp_path)
    begin(blobs, 0, "a")
    blobs.expire()
    assert len(list((tmp_path / "uploads").iterdir())) == 2
    monkeypatch.setattr(uploads, "STALE", -1.0)
    blobs.expire()
    assert list((tmp_path / "uploads").iterdir()) == []


def test_whoever_pauses_makes_room_for_others_those_first_that_have_least() -> None:
    now = [1000.0]
    places = Places(4, lambda: now[0])
    for name, have in (("far", 9), ("near", 1), ("busy", 0), ("nearer", 2)):
        places.take(name, Upload(TWO, name, now[0], have, own=True))
    assert places.yielding("new") == [] == places.yielding_bytes("new")
    now[0] += PAUSE + 1
    places.moved_on("busy", 1)
    assert places.yielding("new") == ["near", "nearer", "far"] == places.yielding_bytes("new")
    assert places.yielding_bytes("far") == ["near", "nearer", "busy"]
    now[0] += REST
    places.moved_on("near", 1)
    assert places.yielding("new") == ["far", "nearer", "busy", "near"][:3]


@contextmanager
def full_disk(most: int) -> Iterator[None]:
    """No file may have more bytes: the system itself refuses what would be written."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_an_upload_that_finds_the_disk_full_leaves_nothing_on_it(blobs: Blobs, tmp_path: Path) -> None:
    begin(blobs, 0, "a")
    with full_disk(PIECE + PIECE // 2), pytest.raises(StoreFull):
        go_on(blobs, 0, "a")
    assert list((tmp_path / "uploads").iterdir()) == []
    begin(blobs, 0, "a")
    assert go_on(blobs, 0, "a")


def test_an_upload_that_finds_the_store_full_leaves_nothing(tmp_path: Path) -> None:
    blobs = opened(tmp_path, stored=4 * PIECE)
    for number in (0, 1):
        begin(blobs, number, "a")
    assert go_on(blobs, 0, "a")
    with pytest.raises(StoreFull, match="stores at most"):
        go_on(blobs, 1, "a")
    assert list((tmp_path / "uploads").iterdir()) == []


def test_nothing_stays_of_what_a_killed_process_had_begun_but_verified_pieces(tmp_path: Path) -> None:
    blobs = opened(tmp_path)
    blob = begin(blobs, 0, "a")
    staging = tmp_path / "uploads"
    whole = bytes([0]) * (2 * PIECE + 5)
    for name in (f"{blob}-{'0' * 32}.part", f"{'1' * 64}.part", f"{'2' * 64}.{'3' * 32}"):
        (staging / name).write_bytes(b"left behind")
    (staging / f"{'4' * 64}.pieces").write_bytes(b"")
    again = opened(tmp_path)
    assert {path.name for path in staging.iterdir()} == {f"{blob}.part", f"{blob}.pieces"}
    assert again.declare(Pieces.of(whole)).received == PIECE
    assert go_on(again, 0, "a")


def test_an_upload_that_ended_before_it_was_kept_is_completed_after_a_restart(tmp_path: Path) -> None:
    """All pieces were there, and it was killed."""
    data = bytes(2 * PIECE)
    pieces, blobs = Pieces.of(data), opened(tmp_path)
    blobs.declare(pieces)
    blobs.receive(pieces.blob.hex(), data[:PIECE], (0, len(data)))
    (tmp_path / "uploads" / f"{pieces.blob.hex()}.part").write_bytes(data)
    again = opened(tmp_path)
    received = again.declare(pieces).received
    assert again.receive(pieces.blob.hex(), data[received : received + PIECE], (received, len(data))).complete
