"""Tensors on several workers of this process: where signals say, with the bits of one worker."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import eigentensor.gt as gt
from eigentensor.cluster.local import LocalSession
from eigentensor.cluster.log import Event, parse_log
from eigentensor.cluster.tiers import Tiers
from eigentensor.gt import connection
from eigentensor.gt.nn import SGD, Linear, Module
from eigentensor.sharding.layout import Place
from eigentensor.sharding.signals import Signals

REFERENCE = Tiers(most=1 << 60, sight=1 << 60)
PYTHON = "PYTHON"  #: the device for which nothing is compiled
ROWS = 7
PIPELINE = Path(__file__).parents[1] / "support" / "sharding" / "tensor_pipeline.yaml"
SIGNALS = {
    "data": gt.SignalConfig(gt.ShardConfig(0, (0, 1, 2)), "data_gradients"),
    "data_gradients": gt.SignalConfig(gt.ShardConfig(1)),
    "features": gt.SignalConfig(gt.ShardConfig(1, (1, 2)), "features_gradients"),
    "features_gradients": gt.SignalConfig(gt.ShardConfig(0, (2,))),
    "everywhere": gt.SignalConfig(gt.ShardConfig(replicated=True)),
}


@pytest.fixture(autouse=True)
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No session, and nothing said."""
    connection.close()
    monkeypatch.setattr(connection, "_signals", None)
    yield
    connection.close()


class Network(Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Linear(12, 20), Linear(20, 4)

    def forward(self, x: gt.Tensor) -> gt.Tensor:
        with gt.signal.context("data"):
            hidden = self.first(x).relu()
        with gt.signal.context("features"):
            return self.second(hidden)  # type: ignore[no-any-return]


def trained(session: LocalSession) -> list[bytes]:
    """The losses and the weights of three steps."""
    connection.open_session(session)
    gt.manual_seed(5)
    model, x = Network(), gt.randn(ROWS, 12)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(3):
        loss = ((model(x) - x[:, :4]) ** 2).mean()
        loss.backward()
        with gt.signal.context("everywhere"):
            optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.data.numpy().tobytes())
    weights = [parameter.data.numpy().tobytes() for parameter in model.parameters()]
    connection.close()
    return losses + weights


@pytest.fixture(scope="module")
def expected() -> list[bytes]:
    """What one worker gives, by the reference."""
    connection.close()
    return trained(LocalSession(tiers=REFERENCE))


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("are_signals_known", [True, False])
def test_every_number_of_workers_gives_the_same_bits(
    workers: int, are_signals_known: bool, expected: list[bytes]
) -> None:
    if are_signals_known:
        connection.set_signals(Signals(SIGNALS))
    assert trained(LocalSession(device=PYTHON, workers=workers)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_so_they_do_compiled(workers: int, expected: list[bytes]) -> None:
    connection.set_signals(Signals(SIGNALS))
    assert trained(LocalSession(workers=workers, tiers=Tiers(most=-1))) == expected


def test_calls_are_where_their_signals_say() -> None:
    connection.set_signals(Signals(SIGNALS))
    local = LocalSession(device=PYTHON, workers=3)
    connection.open_session(local)
    x = gt.from_numpy(np.ones((ROWS, 12), np.float32))
    with gt.signal.context("data"):
        rows = x + 1
    with gt.signal.context("features"):
        columns = x * 2
    with gt.signal.context("everywhere"):
        all_of_it = x * 3
    with gt.signal.context("data"):
        short = x[:2] + 5
    assert [t.data.numpy().shape[0] for t in (rows, columns, all_of_it, short)] == [ROWS, ROWS, ROWS, 2]
    (root,) = local._programs
    places = local.places(root)
    first, second, third, fourth = (places[call] for call in range(4))
    assert first == Place(0, (0, 1, 2)) and second == Place(1, (1, 2)) and fourth == Place(None, (0,))
    assert third.workers == (0, 1, 2) and (third.everywhere or third.axis is None)
    names = [worker.name for worker in local.stats().workers]
    assert names == ["worker 0", "worker 1", "worker 2"]


def test_other_signals_place_what_comes_after_them() -> None:
    local = LocalSession(device=PYTHON, workers=2)
    connection.open_session(local)
    gt.register_config("here", gt.SignalConfig(gt.ShardConfig(0, (1,))))
    x = gt.from_numpy(np.ones((4, 3), np.float32))

    def placed() -> tuple[Place, ...]:
        with gt.signal.context("here"):
            y = x + 1
        assert y.data.numpy().sum() == 24
        return local.places(*local._programs)

    assert placed() == (Place(None, (1,)),)
    gt.register_config("here", gt.SignalConfig(gt.ShardConfig(1, (0, 1))))
    assert placed() == (Place(1, (0, 1)),)


def test_where_calls_are_can_be_read_back_from_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ops.log"
    monkeypatch.setenv("GT_INSTRUCTION_LOG", str(file))
    connection.set_signals(Signals(SIGNALS))
    connection.open_session(LocalSession(device=PYTHON, workers=3))
    x = gt.from_numpy(np.ones((ROWS, 12), np.float32))
    for _ in range(2):
        with gt.signal.context("data"):
            y = x + 1
        y.data.numpy()
    plans = [entry for entry in parse_log(file.read_text().splitlines()) if entry.event is Event.PLAN]
    assert [(plan.who, plan.what) for plan in plans] == [("WORKER 0,1,2", "call 0")]
    assert plans[0].detail["axis"] == "0" and plans[0].detail["signal"] == "data"


class Pipeline(Module):
    """Four stages, each in a scope of its own with scopes within, as a file of signals for eight workers names them."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = [[Linear(6, 6), Linear(6, 6), Linear(6, 8), Linear(8, 6)] for _ in range(4)]

    def forward(self, x: gt.Tensor) -> gt.Tensor:
        for number, (into, out, up, down) in enumerate(self.stages):
            with gt.signal.context(f"stage{number}"):
                with gt.signal.context(f"stage{number}_attention_in"):
                    hidden = into(x).tanh()
                with gt.signal.context(f"stage{number}_attention_out"):
                    x = x + out(hidden)
                with gt.signal.context(f"stage{number}_mlp_in"):
                    hidden = up(x).relu()
                with gt.signal.context(f"stage{number}_mlp_out"), gt.signal.context("of no file"):
                    x = x + down(hidden)
        return x


def piped(session: LocalSession) -> list[bytes]:
    """The loss and the weights of a step."""
    connection.open_session(session)
    gt.manual_seed(6)
    model, x = Pipeline(), gt.randn(4, 6)
    loss = ((model(x) - 1) ** 2).mean()
    loss.backward()
    SGD(model.parameters(), lr=0.1).step()
    return [tensor.data.numpy().tobytes() for tensor in (loss, *model.parameters())]


@pytest.mark.slow
def test_a_file_for_eight_workers_cuts_a_pipeline_and_is_none_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = piped(LocalSession(tiers=REFERENCE))
    connection.close()
    monkeypatch.setenv("GT_CONFIG", str(PIPELINE))
    assert piped(LocalSession(tiers=REFERENCE)) == alone
    assert "workers that are not there" in capsys.readouterr().err
    connection.close()
    file = tmp_path / "ops.log"
    monkeypatch.setenv("GT_INSTRUCTION_LOG", str(file))
    assert piped(LocalSession(device=PYTHON, workers=8)) == alone
    plans = [entry for entry in parse_log(file.read_text().splitlines()) if entry.event is Event.PLAN]
    placed = {(plan.detail["signal"], plan.who) for plan in plans if "signal" in plan.detail}
    for number in range(4):
        both = f"WORKER {2 * number},{2 * number + 1}"
        for scope in ("attention_in", "attention_out", "mlp_in", "mlp_out", "gradients"):
            assert (f"stage{number}_{scope}", both) in placed
        assert {who for signal, who in placed if signal.startswith(f"stage{number}")} <= {both, f"WORKER {2 * number}"}
    assert not any(signal == "of no file" for signal, _ in placed)
