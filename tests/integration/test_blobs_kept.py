"""Blobs in an S3: up and down, what is damaged or lost, what nobody names any more."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import fsspec
import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

from eigentensor import merkle
from eigentensor.chain import Network
from eigentensor.merkle import outputs_root
from eigentensor.store import GatewayClient, LocalStore, Pieces
from eigentensor.store.parts import encode_results
from eigentensor.task import State
from eigentensor_aggregator import cli, folder
from eigentensor_aggregator.blob_index import BlobIndex
from eigentensor_aggregator.blobs import Blobs, Limits
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_aggregator.folder import Folder
from eigentensor_aggregator.keeping import Keeper
from eigentensor_aggregator.metrics import Metrics
from eigentensor_aggregator.queries import Queries
from eigentensor_aggregator.scrub import Scrub
from eigentensor_aggregator.store import Store
from eigentensor_local.anvil import pass_seed
from support.stories.market import Life, Orders

PIECE = merkle.PIECE
Serve = Callable[[Settings], tuple[str, Daemon]]
BIG = np.random.default_rng(7).bytes(10 * PIECE + 99)
NAME = merkle.blob_root(BIG).hex()
DAY = 24 * 3600


@pytest.fixture
def bucket(s3: str, request: pytest.FixtureRequest) -> str:
    """An empty one, for this test."""
    return f"s3://b{abs(hash(request.node.nodeid)):x}/blobs"


def up(url: str, data: bytes, store: Path) -> str:
    with GatewayClient(url, LocalStore(store)) as client:
        return client.upload(client.store.put(data))


def test_blobs_go_to_an_s3_in_parts_and_come_back_by_ranges(
    settings: Settings, serve: Serve, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "PART", 5 * PIECE)
    monkeypatch.setattr(folder, "WINDOW", 4 * PIECE)
    url, daemon = serve(settings.model_copy(update={"blobs": bucket}))
    assert httpx.get(f"{url}/healthz").json()["status"] == "ok"
    up(url, BIG, tmp_path / "a")
    files, root = fsspec.core.url_to_fs(bucket)
    assert files.info(f"{root}/{NAME[:2]}/{NAME}")["ETag"].strip('"').endswith("-3")
    with GatewayClient(url, LocalStore(tmp_path / "b")) as client:
        client.store.partial(NAME).write_bytes(BIG[: 3 * PIECE])  # of a transfer that broke off
        assert client.fetch(NAME).read_bytes() == BIG
    for first, last in ((0, 0), (5 * PIECE - 3, 9 * PIECE + 2), (len(BIG) - 1, len(BIG) - 1)):
        answer = httpx.get(f"{url}/v1/blobs/{NAME}", headers={"Range": f"bytes={first}-{last}"})
        assert (answer.status_code, answer.content) == (206, BIG[first : last + 1])
    daemon.stop()
    other = {"blobs": bucket, "database": f"sqlite:///{tmp_path / 'new.sqlite'}"}
    url, _ = serve(settings.model_copy(update=other))
    assert httpx.get(f"{url}/v1/blobs/{NAME}").content == BIG


def test_an_upload_waits_with_its_last_piece_for_a_service_that_is_away(
    settings: Settings, serve: Serve, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _ = serve(settings.model_copy(update={"blobs": bucket}))
    files, _ = fsspec.core.url_to_fs(bucket)
    data = BIG[: 2 * PIECE + 5]
    pieces = Pieces.of(data)
    name = pieces.blob.hex()
    put = f"{url}/v1/blobs/{name}"
    whole = {"Content-Range": f"bytes 0-{len(data) - 1}/{len(data)}"}

    def away(*_: object, **__: object) -> None:
        raise ConnectionError("nobody answers")

    with monkeypatch.context() as patch:
        patch.setattr(files, "put_file", away)
        httpx.put(f"{put}/pieces", json=pieces.to_json())
        answer = httpx.put(put, content=data, headers=whole)
        assert (answer.status_code, answer.json()["code"]) == (503, "Away")
        assert httpx.put(f"{put}/pieces", json=pieces.to_json()).json()["received"] == 2 * PIECE
    up(url, data, tmp_path / "again")
    assert httpx.get(put).content == data
    with monkeypatch.context() as patch:
        patch.setattr(files, "exists", away)
        assert httpx.get(f"{url}/healthz").status_code == 503


def test_what_is_damaged_or_lost_is_found_and_fetched_from_who_has_it(
    settings: Settings, serve: Serve, bucket: str, tmp_path: Path
) -> None:
    ours = settings.model_copy(update={"blobs": bucket})
    theirs = settings.model_copy(update={"data": tmp_path / "peer", "keystore": None})
    url, _ = serve(ours)
    peer, _ = serve(theirs)
    data = [bytes([n]) + BIG[: 2 * PIECE] for n in range(4)]
    names = [up(url, one, tmp_path / "a") for one in data]
    for one in data[:2]:
        up(peer, one, tmp_path / "b")
    files, root = fsspec.core.url_to_fs(bucket)
    paths = [f"{root}/{name[:2]}/{name}" for name in names]
    files.pipe_file(paths[0], data[0][:-1] + b"?")  # a wrong byte in the last piece
    files.rm_file(paths[1])
    files.pipe_file(paths[2], data[2][:-7])
    words = ["scrub", "--data", str(ours.data), "--blobs", bucket, "--peers", peer, "--json"]
    ran = CliRunner().invoke(cli.app, words)
    reports = {r["blob"]: (r["found"], r["words"]) for r in map(json.loads, ran.stdout.splitlines())}
    assert reports == {
        names[0]: ("fetched", f"piece 2 of blob {names[0]} is wrong; {peer} has it"),
        names[1]: ("fetched", f"its bytes are gone; {peer} has it"),
        names[2]: ("lost", f"it has {len(data[2]) - 7} of {len(data[2])} bytes; nobody has it"),
    }
    assert ran.exit_code == 8
    assert [httpx.get(f"{url}/v1/blobs/{name}").status_code for name in names] == [200, 200, 404, 200]
    assert httpx.get(f"{url}/v1/blobs/{names[0]}").content == data[0]
    up(url, data[2], tmp_path / "a")
    again = CliRunner().invoke(cli.app, words[:-1])
    assert (again.exit_code, again.stdout) == (0, "4 blobs looked at, 0 lost\n")


@pytest.fixture
def keeper(settings: Settings, network: Network) -> Iterator[Keeper]:
    """What an aggregator with these settings would do in the background, step by step."""
    settings.data.mkdir(exist_ok=True)
    store = Store(settings.database_url, network.deployment)
    index, files = BlobIndex(store.session), Folder(settings.blobs_url)
    blobs = Blobs(files, settings.staging, index, Limits(1 << 30, 1 << 30, 4))
    scrub = Scrub(files, index, [], settings.data / "scrub")
    metrics = Metrics((), ())
    queries = Queries(store)
    yield Keeper(blobs, index, scrub, queries, metrics, lambda: True, keep_days=3, scrub_days=1, rate=1 << 30)
    store.close()


def aged(settings: Settings, days: float) -> None:
    """Whatever was given, named or looked at was so long ago."""
    with closing(sqlite3.connect(settings.data / "aggregator.sqlite")) as database, database:
        database.execute(f"UPDATE blobs SET since = since - {days * DAY}, checked = checked - {days * DAY}")


def test_the_keeper_looks_at_what_nobody_has_looked_at_for_long(
    settings: Settings, serve: Serve, keeper: Keeper, tmp_path: Path
) -> None:
    url, _ = serve(settings)
    blob = up(url, b"not for long", tmp_path / "a")
    path = settings.data / "blobs" / blob[:2] / blob
    path.write_bytes(b"NOT for long")
    keeper.scrub()
    assert path.exists()
    aged(settings, 2)
    keeper.scrub()
    assert not path.exists() and httpx.get(f"{url}/v1/blobs/{blob}").status_code == 404


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True)
def test_what_nobody_names_is_collected_and_never_what_an_open_task_names(
    settings: Settings, serve: Serve, keeper: Keeper, tmp_path: Path, life: Life, order_of: Orders
) -> None:
    url, daemon = serve(settings)
    given = {name: up(url, name.encode() * 50, tmp_path / "a") for name in ("inputs", "weights", "outputs", "states")}
    roots = {name: bytes.fromhex(blob) for name, blob in given.items()}
    result = encode_results(roots["outputs"], roots["states"])
    given |= {"result": up(url, result, tmp_path / "a"), "nobody's": up(url, b"?", tmp_path / "a")}
    life = Life(life.anvil, life.client, life.operator, order_of(inputs=roots["inputs"], weights=roots["weights"]))
    root = outputs_root(roots["outputs"], roots["states"])
    life.committed(root)
    pass_seed(life.anvil, life.client, life.order, drawn=False)
    life.reveal(life.operator, root=root)

    def left() -> set[str]:
        daemon.turn()
        with keeper._index._session() as session:  # as if nobody had asked for anything for days
            session.connection().exec_driver_sql(f"UPDATE blobs SET since = since - {4 * DAY}")
        keeper.collect()
        return {name for name, blob in given.items() if httpx.head(f"{url}/v1/blobs/{blob}").is_success}

    assert left() == {"inputs", "weights", "outputs", "states", "result"}
    life.anvil.mine_past(life.client.market.deadline_of(life.task))
    daemon.turn()
    assert life.client.market.task_at(life.task).state is State.FINAL
    assert left() == set()
    assert up(url, b"?", tmp_path / "a") == given["nobody's"]
