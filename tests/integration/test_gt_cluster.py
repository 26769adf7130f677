"""Tensors at a cluster: what is trained there has the bits of what is trained here, and holds no more."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import eigentensor.gt as gt
from eigentensor.errors import ConfigError, ConnectionLost
from eigentensor.gt import connection
from eigentensor.gt.nn import Adam, Linear
from support.clusters import cluster
from support.sharing import moved, sent


@pytest.fixture(autouse=True)
def session() -> Iterator[None]:
    """No session before and after."""
    connection.close()
    yield
    connection.close()


def trained(steps: int) -> list[float]:
    """The losses of a layer that learns a sum."""
    gt.manual_seed(3)
    layer, x = Linear(6, 2), gt.randn(16, 6)
    optimizer = Adam(layer.parameters(), lr=0.05)
    losses = []
    for _ in range(steps):
        with gt.signal.context("forward", backward="gradients"):
            loss = ((layer(x) - x[:, :2] * 2) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.item()))
    return losses


@pytest.mark.parametrize("address", [None, "localhost:12345"])
def test_training_at_a_cluster_has_the_bits_of_training_here(
    address: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path / "c") as c:
        c.here(slots=2)
        monkeypatch.setenv("EIGENTENSOR_CLUSTER", str(c.address))
        gt.connect(address)
        there = trained(20)
        stats = connection.recorder().session.stats()
        assert stats.runs == 20 and stats.handles <= len(connection.recorder()) + 20
        connection.close()
    assert there == trained(20) and there[-1] < there[0]


def test_a_cluster_that_is_not_there_is_said_and_so_is_what_is_no_address(tmp_path: Path) -> None:
    with pytest.raises(ConnectionLost):
        gt.connect(f"unix:{tmp_path}/door")
    with pytest.raises(ConfigError, match="no address of a cluster"):
        gt.connect("10.0.0.7:12345")
    gt.ones(1)
    with pytest.raises(ConfigError, match="tensors were made already"):
        gt.connect()


@pytest.mark.slow
def test_gts_server_lets_gts_clients_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    command = [sys.executable, "-m", "eigentensor.gt", "server", "-p", "12345", "--spawn_gpu_workers", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            assert any("the cluster is up" in line for line in server.stderr)
            gt.connect("localhost:12345")
            there = trained(3)
            assert [w.runs for w in connection.recorder().session.stats().workers] == [3]
            connection.close()
        finally:
            server.terminate()
            server.communicate(timeout=30)
    assert there == trained(3)


@pytest.mark.parametrize(
    "signals",
    [
        "forward: {shard: {axis: 0}}\ngradients: {shard: {axis: 0}}",
        "forward: {shard: {axis: 1, workers: [0, 1]}}",
        "forward: {shard: {workers: [0]}}\ngradients: {shard: {workers: [1]}}",
    ],
)
def test_training_that_signals_share_out_among_workers_has_the_same_bits(
    signals: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(tmp_path / "c") as c:
        for _ in range(2):
            c.joined(device="PYTHON")
        monkeypatch.setenv("EIGENTENSOR_CLUSTER", str(c.address))
        gt.connect()
        connection.recorder().session.configure(signals)
        there = trained(6)
        log = c.dispatcher.log.entries()
        assert moved(log) == sent(log) > 0
        connection.close()
    assert there == trained(6)
