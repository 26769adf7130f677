"""Functions of tinygrad that a cluster computes: their bits, weights that stay there, states, lost sessions."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tinygrad import Tensor

import eigentensor as et
from eigentensor.errors import BindingError, ConnectionLost, WorkerLost
from eigentensor_client import clusters
from support.clusters import Cluster, cluster

WEIGHT = Tensor(np.arange(12, dtype=np.float32).reshape(4, 3), device="CPU").realize()
COUNT = Tensor.zeros(3, device="CPU").contiguous().realize()
ROWS = np.random.default_rng(0).standard_normal((2, 4), dtype=np.float32)


@et.function()
def scores(x: Tensor, *, factor: int = 1) -> dict[str, Tensor]:
    product = x @ WEIGHT
    return {"scores": product.tanh() * factor, "best": product.argmax(axis=1)}


@et.function()
def counted(x: Tensor) -> Tensor:
    COUNT.assign(COUNT + x)
    return COUNT * 2


class Layer:
    def __init__(self) -> None:
        self.weight = Tensor(ROWS.T.copy(), device="CPU").realize()

    @et.function()
    def squared(self, x: Tensor) -> Tensor:
        return (x @ self.weight).square()


@pytest.fixture
def c(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path / "c") as made:
        made.here(slots=2)
        yield made
        for there in clusters._open.values():
            there.close()
        clusters._open.clear()


def test_a_function_on_a_cluster_returns_what_it_returns_with_the_bits_that_it_has_here(c: Cluster) -> None:
    there = scores.on(str(c.address))
    for factor in (1, 3, 1):
        mine, own = there(Tensor(ROWS), factor=factor), scores.local(Tensor(ROWS), factor=factor)
        assert mine.keys() == own.keys()
        assert all(mine[name].numpy().tobytes() == own[name].numpy().tobytes() for name in own)
    layer = Layer()
    assert layer.squared.on(str(c.address))(Tensor(ROWS)).tolist() == layer.squared.local(Tensor(ROWS)).tolist()
    assert asyncio.run(layer.squared.on(str(c.address)).aio(Tensor(ROWS))).shape == (2, 2)
    with pytest.raises(BindingError):
        there(Tensor(ROWS), unknown=1)  # type: ignore[call-arg]
    (session,) = c.dispatcher.sessions.values()
    assert session.runs == 5, "one session for all functions"


def test_weights_are_put_once_and_again_when_they_change(c: Cluster) -> None:
    there = scores.on(str(c.address))
    before = there(Tensor(ROWS))["scores"].numpy()
    (session,) = c.dispatcher.sessions.values()
    c.until(lambda: len(session.tensors) == 1)
    put, kept = session.taken, set(session.tensors)
    there(Tensor(ROWS))
    c.until(lambda: session.taken == put + 5)  # an input, a run, two questions, what is freed
    assert set(session.tensors) == kept
    WEIGHT.assign(WEIGHT + 1).realize()
    after = there(Tensor(ROWS))["scores"].numpy()
    assert after.tobytes() == scores.local(Tensor(ROWS))["scores"].numpy().tobytes() != before.tobytes()
    c.until(lambda: len(session.tensors) == 1)
    assert set(session.tensors) != kept


def test_a_state_goes_on_from_call_to_call_wherever_they_are_computed(c: Cluster) -> None:
    one = Tensor(np.ones(3, np.float32))
    COUNT.assign(COUNT * 0).realize()
    assert counted.on(str(c.address))(one).tolist() == [2, 2, 2]
    assert counted.local(one).tolist() == [4, 4, 4]
    assert counted.on(str(c.address))(one).tolist() == [6, 6, 6] and COUNT.tolist() == [3, 3, 3]


def test_a_cluster_that_is_away_says_so_and_the_next_call_begins_anew(tmp_path: Path) -> None:
    with cluster(tmp_path / "c") as c, pytest.raises(WorkerLost, match="no worker has joined"):
        scores.on(str(c.address))(Tensor(ROWS))
    with pytest.raises(ConnectionLost, match="no cluster answers"):
        scores.on(str(c.address))(Tensor(ROWS))
    for _ in range(2):  # the same address, another cluster
        with cluster(tmp_path / "c") as c:
            c.here()
            if clusters._open:
                with pytest.raises(ConnectionLost):
                    scores.on(str(c.address))(Tensor(ROWS))
            assert scores.on(str(c.address))(Tensor(ROWS))["scores"].shape == (2, 3)
