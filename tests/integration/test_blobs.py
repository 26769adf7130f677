"""Blobs between a local store and a gateway: verified, resumable, never half-written."""

import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import fsspec
import httpx
import numpy as np
import pytest

from eigentensor import merkle
from eigentensor.errors import BlobCorrupt, BlobNotFound, BlobTooLarge, ConfigError, GatewayError, StoreFull
from eigentensor.store import GatewayClient, Kind, LocalStore, Pieces, bindings_root, save_safetensors
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_aggregator.uploads import PAUSE
from support.hostile.uploads import half_open, trickling

PIECE = merkle.PIECE
ATTEMPTS = 3
Serve = Callable[[Settings], tuple[str, Daemon]]
BIG = np.random.default_rng(0).bytes(3 * PIECE + 1234)
NAME = merkle.blob_root(BIG).hex()


@pytest.fixture
def url(settings: Settings, serve: Serve) -> str:
    return serve(settings.model_copy(update={"max_blob": 4 * PIECE, "max_stored": 12 * PIECE, "poll": 10}))[0]


Gateways = Callable[..., GatewayClient]


@pytest.fixture
def gateway(url: str, tmp_path: Path) -> Iterator[Gateways]:
    """Clients of the same gateway, each with a store of its own."""
    clients: list[GatewayClient] = []

    def make(transport: httpx.BaseTransport | None = None, store: LocalStore | None = None) -> GatewayClient:
        store = store or LocalStore(tmp_path / f"store-{len(clients)}")
        clients.append(GatewayClient(url, store, attempts=ATTEMPTS, transport=transport))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


class Wire(httpx.BaseTransport):
    """A bad line: `spoil` sees each chunk of each blob that is downloaded, and may change it or break off."""

    def __init__(self, spoil: Callable[[int, int, bytes], bytes]) -> None:
        self._inner = httpx.HTTPTransport()
        self._spoil = spoil
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        response = self._inner.handle_request(request)
        if request.method != "GET" or request.url.path.endswith("/pieces"):
            return response
        turn = len(self.downloads())
        return httpx.Response(
            response.status_code, headers=response.headers, stream=_Spoiled(response, turn, self._spoil)
        )

    def downloads(self) -> list[str]:
        """The Range of each download."""
        return [r.headers["Range"] for r in self.requests if r.method == "GET" and "Range" in r.headers]

    def close(self) -> None:
        self._inner.close()


class _Spoiled(httpx.SyncByteStream):
    def __init__(self, response: httpx.Response, turn: int, spoil: Callable[[int, int, bytes], bytes]) -> None:
        self._response, self._turn, self._spoil = response, turn, spoil

    def __iter__(self) -> Iterator[bytes]:
        at = 0
        for chunk in self._response.stream:  # type: ignore[union-attr]
            yield self._spoil(self._turn, at, chunk)
            at += len(chunk)

    def close(self) -> None:
        self._response.close()


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, len(BIG)])
def test_bytes_come_back_as_they_went(gateway: Gateways, size: int) -> None:
    data = BIG[:size]
    alice, bob = gateway(), gateway()
    blob = alice.store.put(data)
    seen: list[tuple[int, int]] = []
    assert alice.upload(blob) == blob == alice.upload(blob)
    path = bob.fetch(blob, lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == data and path == bob.store.path(blob) == bob.fetch(blob)
    assert not size or seen[-1] == (size, size)
    names = bob.names(blob)
    assert names is not None and (names.size, names.kind) == (size, Kind.OTHER)


def test_a_tensor_file_is_fetched_by_its_bindings_root(gateway: Gateways, tmp_path: Path) -> None:
    alice, bob = gateway(), gateway()
    path = tmp_path / "w.safetensors"
    save_safetensors(path, {"w": np.arange(600_000, dtype=np.float32)})
    alice.upload(path)
    root = bindings_root(path)
    assert bob.fetch(root).read_bytes() == path.read_bytes()
    assert bob.fetch("0x" + root.hex()) == bob.store.path(merkle.blob_root(path.read_bytes()))


def test_files_with_one_bindings_root_are_one_and_the_smallest_is_given(gateway: Gateways, tmp_path: Path) -> None:
    data = np.arange(64, dtype=np.float32)
    paths = [tmp_path / name for name in ("padded", "flat", "square")]
    save_safetensors(paths[1], {"x": data})
    save_safetensors(paths[2], {"x": data.reshape(8, 8)})
    whole = paths[1].read_bytes()
    length = int.from_bytes(whole[:8], "little")
    paths[0].write_bytes(
        (length + 8000).to_bytes(8, "little") + whole[8 : 8 + length] + b" " * 8000 + whole[8 + length :]
    )
    (root,) = set(map(bindings_root, paths))
    alice = gateway()
    for path in paths:
        alice.upload(path)
    file = gateway().fetch(root)
    assert file.stat().st_size == min(path.stat().st_size for path in paths) < paths[0].stat().st_size


def test_what_is_not_there_is_not_found(gateway: Gateways) -> None:
    client = gateway()
    assert client.names("00" * 32) is None
    for name in ("00" * 32, "nonsense"):
        with pytest.raises(BlobNotFound):
            client.fetch(name)


def test_a_wrong_piece_is_fetched_again_and_the_good_ones_are_not(gateway: Gateways) -> None:
    def spoil(turn: int, at: int, chunk: bytes) -> bytes:
        return bytes(len(chunk)) if turn == 1 and PIECE <= at < PIECE + 100_000 else chunk

    alice, wire = gateway(), Wire(spoil)
    alice.upload(alice.store.put(BIG))
    assert gateway(wire).fetch(NAME).read_bytes() == BIG
    assert wire.downloads() == ["bytes=0-", f"bytes={PIECE}-"]


def test_a_piece_that_stays_wrong_is_never_stored(gateway: Gateways) -> None:
    alice, wire = gateway(), Wire(lambda turn, at, chunk: bytes(len(chunk)) if turn > 1 or at >= PIECE else chunk)
    alice.upload(alice.store.put(BIG))
    client = gateway(wire)
    with pytest.raises(BlobCorrupt, match="piece 1"):
        client.fetch(NAME)
    assert len(wire.downloads()) == 1 + ATTEMPTS
    assert NAME not in client.store and list(client.store) == []
    assert client.store.partial(NAME).read_bytes() == BIG[:PIECE]


def test_a_download_that_broke_off_goes_on_in_another_process(gateway: Gateways) -> None:
    def spoil(turn: int, at: int, chunk: bytes) -> bytes:
        if turn > 1 or at > 2 * PIECE + 70_000:
            raise httpx.ReadError("the line is dead")
        return chunk

    alice = gateway()
    alice.upload(alice.store.put(BIG))
    first = gateway(Wire(spoil))
    with pytest.raises(GatewayError, match="dead"):
        first.fetch(NAME)
    with first.store.partial(NAME).open("ab") as file:
        file.write(b"half a piece, as a crash leaves it")
    wire = Wire(lambda turn, at, chunk: chunk)
    second = gateway(wire, LocalStore(first.store.root))
    assert second.fetch(NAME).read_bytes() == BIG
    assert wire.downloads() == [f"bytes={2 * PIECE}-"]
    assert not second.store.partial(NAME).exists()


def test_what_is_wrong_in_a_partial_download_is_fetched_again(gateway: Gateways) -> None:
    alice, bob = gateway(), gateway()
    alice.upload(alice.store.put(BIG))
    bob.store.partial(NAME).write_bytes(BIG[:PIECE] + bytes(PIECE) + BIG[2 * PIECE :])
    assert bob.fetch(NAME).read_bytes() == BIG


def test_an_answer_that_ends_early_is_taken_up(gateway: Gateways) -> None:
    alice, wire = gateway(), Wire(lambda turn, at, chunk: b"" if at > PIECE + 200_000 else chunk)
    alice.upload(alice.store.put(BIG))
    assert gateway(wire).fetch(NAME).read_bytes() == BIG
    assert wire.downloads() == ["bytes=0-", f"bytes={PIECE}-", f"bytes={2 * PIECE}-"]


@pytest.mark.parametrize("lie", ["another blob", "another size", "no pieces", "not JSON"])
def test_a_gateway_that_lies_about_a_blob_is_not_believed(gateway: Gateways, tmp_path: Path, lie: str) -> None:
    save_safetensors(tmp_path / "a", {"a": np.zeros(3, np.float32)})
    save_safetensors(tmp_path / "b", {"a": np.ones(3, np.float32)})
    other = (tmp_path / "b").read_bytes()
    answer = Pieces.of(other).to_json() | {"kind": "tensors", "computed": bindings_root(tmp_path / "a").hex()}
    if lie == "another size":
        answer["size"] += 1
    elif lie == "no pieces":
        del answer["pieces"]

    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/pieces"):
            return httpx.Response(200, text="hello") if lie == "not JSON" else httpx.Response(200, json=answer)
        return httpx.Response(206, stream=httpx.ByteStream(other))

    client = gateway(httpx.MockTransport(handle))
    with pytest.raises((BlobCorrupt, GatewayError)):
        client.fetch(bindings_root(tmp_path / "a"))
    assert list(client.store) == []


@pytest.mark.parametrize("answer", [b"", b"[" * 100_000, b"[]", b"\xff", b"null"])
def test_an_answer_that_is_no_object_is_not_a_gateways(gateway: Gateways, answer: bytes) -> None:
    client = gateway(httpx.MockTransport(lambda request: httpx.Response(200, content=answer)))
    with pytest.raises(GatewayError, match="not a gateway"):
        client.task("00" * 32)


def test_an_endless_answer_is_cut_off(gateway: Gateways) -> None:
    class Endless(httpx.SyncByteStream):
        pieces = 0

        def __iter__(self) -> Iterator[bytes]:
            while True:
                self.pieces += 1
                yield bytes(PIECE)

    stream = Endless()
    client = gateway(httpx.MockTransport(lambda request: httpx.Response(200, stream=stream)))
    with pytest.raises(GatewayError, match="larger than"):
        client.operators()
    assert stream.pieces < 100


def test_two_at_once_download_once(gateway: Gateways, tmp_path: Path) -> None:
    alice = gateway()
    alice.upload(alice.store.put(BIG))
    store = LocalStore(tmp_path / "shared")
    wires = [Wire(lambda turn, at, chunk: chunk) for _ in range(3)]
    clients = [gateway(wire, store) for wire in wires]
    threads = [threading.Thread(target=client.fetch, args=(NAME,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.read(NAME) == BIG
    assert sum(len(wire.downloads()) for wire in wires) == 1


def put(url: str, path: str, data: bytes = b"", content_range: str = "", **options: object) -> httpx.Response:
    headers = {"Content-Range": content_range} if content_range else {}
    return httpx.put(f"{url}/v1/blobs/{path}", content=data, headers=headers, **options)  # type: ignore[arg-type]


def test_an_upload_goes_on_where_it_stopped_also_after_a_restart(
    settings: Settings, serve: Serve, tmp_path: Path
) -> None:
    url, first = serve(settings)
    pieces = Pieces.of(BIG)
    assert httpx.put(f"{url}/v1/blobs/{NAME}/pieces", json=pieces.to_json()).json()["received"] == 0
    answer = put(url, NAME, BIG[:PIECE], f"bytes 0-{PIECE - 1}/{len(BIG)}").json()
    assert (answer["received"], answer["complete"]) == (PIECE, False)
    assert httpx.head(f"{url}/v1/blobs/{NAME}").status_code == 404
    part = settings.staging / f"{NAME}.part"
    part.write_bytes(part.read_bytes() + b"a torn piece")

    first.stop()
    again, _ = serve(settings)
    requests: list[httpx.Request] = []
    with GatewayClient(again, LocalStore(tmp_path / "s"), transport=Recorder(requests)) as client:
        client.upload(client.store.put(BIG))
        client.upload(NAME)
    sent = [r.headers["Content-Range"].split()[1].split("-")[0] for r in requests if "Content-Range" in r.headers]
    assert sent == [str(PIECE)]
    assert httpx.get(f"{again}/v1/blobs/{NAME}").content == BIG
    assert list(settings.staging.iterdir()) == []


def test_words_alone_lock_nobody_out(url: str, gateway: Gateways) -> None:
    for number in range(80):
        pieces = Pieces(4 * PIECE, tuple(bytes([number, i]) * 16 for i in range(4)))
        answer = httpx.put(f"{url}/v1/blobs/{pieces.blob.hex()}/pieces", json=pieces.to_json())
        assert (answer.status_code, answer.json()["received"]) == (202, 0)
    client = gateway()
    for data in (b"small", BIG):
        assert client.upload(client.store.put(data)) == merkle.blob_root(data).hex()


def test_who_begins_and_does_not_go_on_keeps_nobody_out(settings: Settings, serve: Serve, tmp_path: Path) -> None:
    """As tests/hostile/test_uploads.py, with fewer and without a clock."""
    url, _ = serve(settings.model_copy(update={"max_uploads": 8, "max_blob": 4 * PIECE, "max_stored": 64 * PIECE}))
    port = httpx.URL(url).port or 0
    with half_open(port, 24) as crowd:
        assert crowd.statuses == {202: 24}
        parts = list(settings.staging.glob("*.part"))
        time.sleep(PAUSE)
        assert len(parts) <= 8 and sum(part.stat().st_size for part in parts) <= 8 * PIECE
        with trickling(port, 100), GatewayClient(url, LocalStore(tmp_path / "s")) as client:
            assert client.upload(client.store.put(BIG)) == NAME


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_one_address_cannot_hold_all_places_and_who_lost_one_begins_anew(
    settings: Settings, serve: Serve, tmp_path: Path
) -> None:
    url, _ = serve(settings.model_copy(update={"max_uploads": 2}))
    resting = [bytes([number]) + BIG for number in range(2)]
    for data in resting:
        pieces = Pieces.of(data)
        httpx.put(f"{url}/v1/blobs/{pieces.blob.hex()}/pieces", json=pieces.to_json())
        put(url, pieces.blob.hex(), data[:PIECE], f"bytes 0-{PIECE - 1}/{len(data)}")
    elsewhere = httpx.HTTPTransport(local_address="127.0.0.2")
    for name, transport, data in (("b", elsewhere, BIG), ("a", None, resting[0]), ("c", None, resting[1])):
        with GatewayClient(url, LocalStore(tmp_path / name), transport=transport) as client:
            assert client.upload(client.store.put(data)) == merkle.blob_root(data).hex()


@pytest.mark.parametrize("where", ["", "memory://lost-blobs"])
def test_a_blob_that_was_lost_can_be_given_again(settings: Settings, serve: Serve, tmp_path: Path, where: str) -> None:
    url, _ = serve(settings.model_copy(update={"blobs": where or None, "max_stored": 2 * len(BIG) + 100}))
    files, root = fsspec.core.url_to_fs(where or str(settings.data / "blobs"))
    with GatewayClient(url, LocalStore(tmp_path / "s")) as client:
        for data in (BIG, b"small"):
            blob = client.upload(client.store.put(data))
            for lost in (b"", data[:3]):
                (path,) = [path for path in files.find(root) if path.endswith(blob)]
                files.rm_file(path)
                if lost:
                    files.pipe_file(path, lost)
                assert not client.has(blob)
                gone = httpx.get(f"{url}/v1/blobs/{blob}")
                assert (gone.status_code, gone.json()["code"]) == (404, "BlobNotFound")
                assert client.upload(blob) == blob
                assert httpx.get(f"{url}/v1/blobs/{blob}").content == data


class Recorder(httpx.BaseTransport):
    def __init__(self, requests: list[httpx.Request]) -> None:
        self._inner, self._requests = httpx.HTTPTransport(), requests

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self._requests.append(request)
        return self._inner.handle_request(request)

    def close(self) -> None:
        self._inner.close()


def test_bytes_that_are_not_what_their_name_says_are_refused(url: str) -> None:
    wrong = put(url, "11" * 32, b"hello")
    assert wrong.status_code == 422 and wrong.json()["code"] == "BlobCorrupt"
    pieces = Pieces.of(BIG).to_json()
    assert httpx.put(f"{url}/v1/blobs/{'11' * 32}/pieces", json=pieces).status_code == 422
    assert httpx.put(f"{url}/v1/blobs/{NAME}/pieces", json=pieces | {"size": 1}).status_code == 422
    assert put(url, NAME, BIG[:PIECE], f"bytes 0-{PIECE - 1}/{len(BIG)}").status_code == 404
    assert httpx.put(f"{url}/v1/blobs/{NAME}/pieces", json=pieces).status_code == 202
    assert put(url, NAME, bytes(PIECE), f"bytes 0-{PIECE - 1}/{len(BIG)}").status_code == 422
    assert put(url, NAME, BIG[:100], f"bytes 0-99/{len(BIG)}").status_code == 422
    gap = put(url, NAME, BIG[PIECE : 2 * PIECE], f"bytes {PIECE}-{2 * PIECE - 1}/{len(BIG)}")
    assert gap.json() == {"schema": "eigentensor.upload/1", "received": 0, "complete": False}
    for bad in ("bytes 0-1/2", "bytes 5-4/10", "bytes x", "bytes 0-0/1"):
        assert put(url, NAME, b"ab" if bad == "bytes 0-0/1" else b"abc", bad).status_code == 400
    assert put(url, NAME, BIG[:PIECE], f"bytes 1-{PIECE}/{len(BIG)}").status_code == 404
    assert httpx.get(f"{url}/v1/blobs/{NAME}").status_code == 404


def test_senders_and_receivers_that_are_gone_leave_what_came_and_no_fault(
    url: str, gateway: Gateways, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    pieces, address = Pieces.of(BIG).to_json(), (httpx.URL(url).host, httpx.URL(url).port or 0)
    assert httpx.put(f"{url}/v1/blobs/{NAME}/pieces", json=pieces).status_code == 202
    length = f"Content-Length: {len(BIG)}\r\nContent-Range: bytes 0-{len(BIG) - 1}/{len(BIG)}"
    for framing, sent in ((length, BIG[: PIECE + 999]), ("Transfer-Encoding: chunked", b"5\r\nhello\r\n")):
        with socket.create_connection(address) as connection:
            connection.sendall(f"PUT /v1/blobs/{NAME} HTTP/1.1\r\nHost: x\r\n{framing}\r\n\r\n".encode() + sent)
    deadline = time.monotonic() + 60
    while httpx.put(f"{url}/v1/blobs/{NAME}/pieces", json=pieces).json()["received"] != PIECE:
        assert time.monotonic() < deadline
    client = gateway()
    client.upload(client.store.put(BIG))
    with socket.create_connection(address) as connection:
        connection.sendall(f"GET /v1/blobs/{NAME} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        connection.recv(1000)
    assert httpx.get(f"{url}/v1/blobs/{NAME}").content == BIG
    assert "Traceback" not in caplog.text + "".join(capfd.readouterr())


def test_the_same_blob_from_several_at_once_is_whole(url: str, gateway: Gateways, settings: Settings) -> None:
    clients = [gateway() for _ in range(3)]
    for client in clients:
        client.store.put(BIG)
    with ThreadPoolExecutor(3) as threads:
        assert set(threads.map(lambda client: client.upload(NAME), clients)) == {NAME}
    assert httpx.get(f"{url}/v1/blobs/{NAME}").content == BIG
    assert list(settings.staging.iterdir()) == []


def test_pieces_before_a_wrong_one_are_kept(url: str) -> None:
    assert httpx.put(f"{url}/v1/blobs/{NAME}/pieces", json=Pieces.of(BIG).to_json()).status_code == 202
    spoiled = BIG[:PIECE] + bytes(PIECE) + BIG[2 * PIECE :]
    assert put(url, NAME, spoiled, f"bytes 0-{len(BIG) - 1}/{len(BIG)}").json()["code"] == "BlobCorrupt"
    assert httpx.put(f"{url}/v1/blobs/{NAME}/pieces", json=Pieces.of(BIG).to_json()).json()["received"] == PIECE
    rest = put(url, NAME, BIG[PIECE:], f"bytes {PIECE}-{len(BIG) - 1}/{len(BIG)}").json()
    assert rest == {"schema": "eigentensor.upload/1", "received": len(BIG), "complete": True}


def test_too_much_is_refused(url: str, gateway: Gateways) -> None:
    client = gateway()
    with pytest.raises(BlobTooLarge):
        client.upload(client.store.put(BIG + BIG))
    large = httpx.put(f"{url}/v1/blobs/{NAME}", content=bytes(PIECE + 1))
    assert large.status_code == 413 and large.headers["content-type"] == "application/problem+json"

    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 1000 * PIECE:
            sent += PIECE
            yield bytes(PIECE)

    with httpx.Client() as http, suppress(httpx.TransportError):
        http.put(f"{url}/v1/blobs/{NAME}", content=endless())
    assert sent < 100 * PIECE
    for first in range(3):
        client.upload(client.store.put(bytes([first]) + BIG))
    with pytest.raises(StoreFull):
        client.upload(client.store.put(b"\3" + BIG))
    small = GatewayClient(url, LocalStore(client.store.root / "small"), limit=100)
    with small, pytest.raises(BlobTooLarge):
        small.fetch(merkle.blob_root(b"\0" + BIG))


def test_what_is_stored_counts_once_and_after_a_restart_and_without_the_database(
    settings: Settings, serve: Serve
) -> None:
    limited = settings.model_copy(update={"max_stored": 300})

    def statuses(settings: Settings, *fills: int) -> list[int]:
        url, daemon = serve(settings)
        blobs = [bytes([fill]) * 100 for fill in fills]
        given = [put(url, merkle.blob_root(blob).hex(), blob).status_code for blob in blobs]
        daemon.stop()
        return given

    assert statuses(limited, 0, 0, 0, 1) == [202] * 4
    assert statuses(limited, 0, 1, 2, 3) == [202, 202, 202, 507]
    other = limited.model_copy(update={"database": f"sqlite:///{settings.data}/other.sqlite"})
    assert statuses(other, 2, 3) == [202, 507]


@pytest.mark.parametrize(
    ("header", "status", "expected"),
    [
        ("bytes=0-3", 206, BIG[:4]),
        ("bytes=0-0", 206, BIG[:1]),
        ("bytes=5-", 206, BIG[5:]),
        ("bytes=-7", 206, BIG[-7:]),
        (f"bytes={len(BIG) - 2}-{len(BIG) + 50}", 206, BIG[-2:]),
        (f"bytes={len(BIG)}-", 416, None),
        ("bytes=7-3", 416, None),
        ("bytes=-0", 416, None),
        ("bytes=-", 200, BIG),
        ("lines=1-2", 200, BIG),
        ("bytes=0-1,5-6", 200, BIG),
    ],
)
def test_ranges_are_those_of_http(
    gateway: Gateways, url: str, header: str, status: int, expected: bytes | None
) -> None:
    client = gateway()
    client.upload(client.store.put(BIG))
    answer = httpx.get(f"{url}/v1/blobs/{NAME}", headers={"Range": header})
    assert answer.status_code == status
    if expected is not None:
        assert answer.content == expected
    head = httpx.head(f"{url}/v1/blobs/{NAME}")
    assert head.headers["Content-Length"] == str(len(BIG)) and head.headers["ETag"] == f'"{NAME}"'


def test_blobs_are_found_again_when_the_database_is_lost(settings: Settings, serve: Serve, tmp_path: Path) -> None:
    url, _ = serve(settings)
    with GatewayClient(url, LocalStore(tmp_path / "s")) as client:
        client.upload(client.store.put(BIG))
    other = settings.model_copy(update={"database": f"sqlite:///{tmp_path / 'new.sqlite'}"})
    url, _ = serve(other)
    assert httpx.get(f"{url}/v1/blobs/{NAME}").content == BIG
    stray = settings.data / "blobs" / "aa" / ("aa" * 32)
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"not what its name says")
    url, _ = serve(settings)
    assert httpx.get(f"{url}/v1/blobs/{'aa' * 32}").status_code == 404


def test_blobs_lie_in_any_folder_that_fsspec_knows(settings: Settings, serve: Serve, tmp_path: Path) -> None:
    url, _ = serve(settings.model_copy(update={"blobs": "memory://test-blobs"}))
    with GatewayClient(url, LocalStore(tmp_path / "s")) as client:
        client.upload(client.store.put(BIG))
    with GatewayClient(url, LocalStore(tmp_path / "t")) as client:
        assert client.fetch(NAME).read_bytes() == BIG


def test_a_database_or_blobs_that_do_not_answer_are_away(settings: Settings, serve: Serve, tmp_path: Path) -> None:
    url, _ = serve(settings)
    with GatewayClient(url, LocalStore(tmp_path / "s")) as client:
        blob = client.upload(client.store.put(b"small"))

    def answered() -> tuple[int, str]:
        answer = httpx.get(f"{url}/v1/blobs/{blob}")
        return answer.status_code, answer.json()["code"] if answer.is_error else answer.text

    place = settings.data / "blobs" / blob[:2]
    away = place.rename(place.with_suffix(".away"))
    place.touch()  # no folder: what is in it can neither be found nor is it missing
    assert answered() == (503, "Away")
    place.unlink()
    away.rename(place)
    assert answered() == (200, "small")
    with closing(sqlite3.connect(settings.data / "aggregator.sqlite")) as database:
        database.execute("ALTER TABLE blobs RENAME TO gone")
        assert answered() == (503, "Away")
        database.execute("ALTER TABLE gone RENAME TO blobs")
    assert answered() == (200, "small")


def test_blobs_that_can_lie_nowhere_are_said_before_anything_starts(settings: Settings, serve: Serve) -> None:
    for url in ("nonsense://bucket/x", "/dev/null/x"):
        with pytest.raises(ConfigError, match="cannot lie"):
            serve(settings.model_copy(update={"blobs": url}))


def test_a_gateway_that_is_away_is_said(tmp_path: Path) -> None:
    with GatewayClient("http://127.0.0.1:9", LocalStore(tmp_path), attempts=2) as client:
        with pytest.raises(GatewayError, match="no answer") as away:
            client.fetch(NAME)
        assert away.value.status is None and away.value.topic == "network"
