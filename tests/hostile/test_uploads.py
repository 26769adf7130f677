"""Whoever begins uploads at a gateway and does not go on, or trickles, keeps nobody else out."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from eigentensor.store import GatewayClient, LocalStore
from eigentensor_aggregator.config import Settings
from eigentensor_local.anvil import local_network
from support.bench.rest import MEMORY, process, serve_blobs
from support.hostile.uploads import half_open, trickling

COUNT, SIZE, ROUNDS = 10_000, 64 << 20, 5


@pytest.fixture
def gateway() -> Iterator[tuple[int, Path, psutil.Process]]:
    """A gateway in a process of its own: its port, its folder, and the process."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, local_network([]) as (_, network):
        path, data = network.save(Path(folder) / "network.json"), Path(folder) / "data"
        with process(serve_blobs, Settings(network=str(path), data=data)) as (port, _, running):
            yield port, data, running


def best(url: str, seed: int, folder: Path) -> float:
    """Seconds of an honest upload, the best of some."""
    taken = []
    for number in range(ROUNDS):
        with GatewayClient(url, LocalStore(folder / f"{seed}-{number}")) as client:
            blob = client.store.put(np.random.default_rng(100 * seed + number).bytes(SIZE))
            start = time.perf_counter()
            client.upload(blob)
            taken.append(time.perf_counter() - start)
    return min(taken)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_thousands_that_do_not_go_on_leave_an_honest_upload_half_of_its_speed(
    gateway: tuple[int, Path, psutil.Process], tmp_path: Path
) -> None:
    port, data, running = gateway
    url = f"http://127.0.0.1:{port}"
    alone = best(url, 0, tmp_path)
    with half_open(port, COUNT) as crowd:
        assert crowd.statuses == {202: COUNT}
        assert len(list((data / "uploads").glob("*.part"))) <= 64
        with trickling(port, 1000):
            beside = best(url, 1, tmp_path)
        assert crowd.open >= 0.9 * COUNT  # who was sent away comes again
        assert running.memory_full_info().pss <= 1 << 30
    print(f"alone {SIZE / alone / 1e6:.0f} MB/s, beside them {SIZE / beside / 1e6:.0f} MB/s")  # noqa: T201
    assert beside <= 2 * alone
