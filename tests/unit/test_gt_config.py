"""What names of scopes mean: GT's YAML and Python's words for it, the log of instructions, and GT's commands."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import eigentensor.gt as gt
from eigentensor.cluster.local import LocalSession
from eigentensor.cluster.log import Event, parse_log
from eigentensor.cluster.tiers import Tiers
from eigentensor.errors import ConfigError
from eigentensor.gt import connection
from eigentensor.gt.__main__ import words
from eigentensor.stream.segment import Key, Segment

YAML = """
stage:
  shard: {axis: 0, workers: [0, 1]}
  backward: stage_gradients
stage_gradients:
  shard: {axis: 0, workers: null}
hot:
  compile: true
"""


@pytest.fixture(autouse=True)
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No session, and nothing said."""
    connection.close()
    monkeypatch.setattr(connection, "_signals", None)
    yield
    connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "signals.yaml"
    file.write_text(YAML)
    return file


def recorded() -> list[Segment]:
    """The segments that are sent from here on."""
    segments: list[Segment] = []

    def note(_: bytes, __: Key, segment: Segment) -> None:
        segments.append(segment)

    connection.recorder().sent = note
    return segments


def test_a_file_that_the_environment_names_says_what_gradients_carry(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GT_CONFIG", str(path))
    segments = recorded()
    w = gt.from_numpy(np.ones(3, np.float32), requires_grad=True)
    with gt.signal.context("stage"):
        loss = (w * w).sum()
        with gt.signal.context("nothing is said about this one"):
            other = w + 1
    loss.backward()
    assert w.grad is not None
    w.grad.data.numpy()
    assert set(segments[0].signals.values()) == {"stage", "stage_gradients"} and other.shape == (3,)
    assert capsys.readouterr().err.count("workers that are not there") == 1


def test_yaml_and_python_say_the_same_and_the_later_one_holds(path: Path) -> None:
    gt.load_config(path)
    assert gt.get_signal_config("hot") == gt.SignalConfig(compile=True) and gt.get_signal_config("cold") is None
    gt.register_config("hot", gt.SignalConfig(shard=gt.ShardConfig(axis=1, workers=(0,)), backward_signal="stage"))
    config = gt.get_signal_config("hot")
    assert config is not None and config.shard == gt.ShardConfig(1, (0,)) and not config.compile
    assert set(gt.get_config().by_name) == {"stage", "stage_gradients", "hot"}


def test_a_configuration_that_is_none_is_refused_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("stage:\n  shard: {axis: first}\n")
    with pytest.raises(ConfigError, match=r"bad\.yaml, line 2: the axis 'first' is none"):
        gt.load_config(file)
    monkeypatch.setenv("GT_CONFIG", str(file))
    with pytest.raises(ConfigError, match="line 2"):
        gt.ones(1)


def test_what_is_to_be_compiled_is_at_its_first_sight(path: Path) -> None:
    local = LocalSession(tiers=Tiers(most=1 << 60, sight=1 << 60))
    connection.open_session(local)
    gt.load_config(path)
    x = gt.from_numpy(np.ones(3, np.float32))
    (x + 1).data.numpy()
    with gt.signal.context("hot"):
        hot = x * 3
    assert hot.data.numpy().tolist() == [3, 3, 3]
    assert [defined.execute is not None for defined in local._programs.values()] == [False, True]


@pytest.mark.parametrize("variable", ["GT_INSTRUCTION_LOG", "EIGENTENSOR_INSTRUCTION_LOG"])
def test_the_log_of_instructions_has_a_line_for_each(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ops.log"
    monkeypatch.setenv(variable, str(file))
    x = gt.from_numpy(np.ones((2, 2), np.float32))
    with gt.signal.context("stage"):
        (x @ x + 1).data.numpy()
    entries = list(parse_log(file.read_text().splitlines()))
    assert [entry.event for entry in entries] == [Event.CONNECT, Event.RECV, Event.RECV, Event.WORKER_SEND]
    assert [entry.what for entry in entries[1:]] == ["BinaryOp", "UnaryOp", "RUN"]
    assert entries[1].size == 16 and dict(entries[1].detail) == {
        "result": "1", "op": "matmul", "shape": "2,2", "left": "0", "right": "0", "signal": "stage",
    }  # fmt: skip
    assert len(entries[3].detail["root"]) == 64


def test_gts_commands_are_those_of_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    up = ["cluster", "up", "--workers"]
    assert words(["server", "-p", "12345", "--spawn_gpu_workers", "4"]) == [*up, "4"]
    assert words(["server", "-H", "10.0.0.7", "--token", "t"]) == [*up, "0", "--bind", "10.0.0.7:12345", "--token", "t"]
    assert words(["worker", "--host", "localhost", "-p", "12345"]) == ["cluster", "worker", "--slots", "1"]
    joined = ["cluster", "worker", "--slots", "2", "--join", "cluster://h:1/ab"]
    assert words(["worker", "--join", "cluster://h:1/ab", "--slots", "2"]) == joined
    for refused, why in (
        (["worker", "--host", "10.0.0.7"], "give it as --join ADDRESS"),
        (["worker", "--backend", "numpy"], "--backend"),
    ):
        with pytest.raises(SystemExit):
            words(refused)
        assert why in capsys.readouterr().err
