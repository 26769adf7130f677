"""What names of scopes mean: GT's YAML and Python's words for it, the log of instructions, and GT's commands."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from runpy import run_module

import numpy as np
import pytest

import eigentensor.gt as gt
from eigentensor.cluster.local import LocalSession
from eigentensor.cluster.log import Event, parse_log
from eigentensor.cluster.tiers import Tiers
from eigentensor.errors import ConfigError
from eigentensor.gt import connection
from eigentensor.gt.commands import command, execute
from eigentensor.gt.environment import Environment, environment
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

    def words(*arguments: str) -> list[str]:
        return command(arguments).words

    assert words("server", "-p", "12345", "--spawn_gpu_workers", "4", "--no-console-log") == [*up, "4"]
    assert words("server", "-H", "10.0.0.7", "--token", "t") == [*up, "0", "--bind", "10.0.0.7:12345", "--token", "t"]
    assert words("server", "--log-file", "f.log") == [*up, "0", "--log", "f.log"]
    assert words("worker", "--host", "localhost", "-p", "12345") == ["cluster", "worker", "--slots", "1"]
    joined = ["cluster", "worker", "--slots", "2", "--join", "cluster://h:1/ab"]
    assert words("worker", "--join", "cluster://h:1/ab", "--slots", "2") == joined
    assert words("top", "--port", "59000", "--host", "127.0.0.1") == ["cluster", "top"]
    assert words("top", "--cluster", "a", "--token", "t") == ["cluster", "top", "--cluster", "a", "--token", "t"]
    assert words("visualize", "a/b.log") == ["cluster", "timeline", "a/b.log", "-o", "a/b.svg"]
    assert words("visualize", "b.log", "--output", "c.svg") == ["cluster", "timeline", "b.log", "-o", "c.svg"]
    traced = command(["trace", "-s", "2.5", "-n", "9", "--dir", "d"])
    assert traced.words == ["cluster", "log", "-s", "2.5", "-n", "9"] and traced.after == 2.5
    assert traced.file is not None and traced.file.parent == Path("d") and traced.file.name.startswith("trace-")
    for refused, why in (
        (["worker", "--host", "10.0.0.7"], "give it as --join ADDRESS"),
        (["worker", "--backend", "numpy"], "--backend: there is one"),
        (["worker", "--id", "3"], "a name of its own"),
        (["top", "--host", "10.0.0.7"], "give it as --cluster ADDRESS"),
        (["visualize", "b.log", "--output", "b.png"], "name an .svg"),
        (["visualize", "b.log", "--dpi", "150"], "leave --dpi out"),
    ):
        with pytest.raises(SystemExit):
            command(refused)
        assert why in capsys.readouterr().err


def test_a_trace_goes_into_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, kept = list[list[str]](), os.dup(1)
    monkeypatch.setattr(os, "execv", lambda path, words: lines.append(words))
    try:
        execute(["trace", "-s", "0.01", "--dir", str(tmp_path / "new")])
        os.write(1, b"a line\n")
    finally:
        os.dup2(kept, 1)
        os.close(kept)
    (file,) = (tmp_path / "new").iterdir()
    assert file.read_text() == "a line\n" and lines[0][1:] == [
        "-m",
        "eigentensor_client",
        "cluster",
        "log",
        "-s",
        "0.01",
    ]


@pytest.mark.parametrize("name", ["server", "worker", "scripts.top", "scripts.trace", "scripts.visualize"])
def test_each_of_gts_modules_is_a_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr("eigentensor.gt.commands.execute", asked.append)
    monkeypatch.setattr(sys, "argv", [name, "--words"])
    monkeypatch.delitem(sys.modules, f"eigentensor.gt.{name}", raising=False)
    run_module(f"eigentensor.gt.{name}", run_name="__main__")
    assert asked == [[name.rpartition(".")[2], "--words"]]


def test_every_variable_of_gt_is_followed_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    followed = {
        "GT_AUTO_SHARD": "1", "GT_AUTO_COMPILE": "1", "GT_VERBOSE": "1", "GT_HOTPATH_THRESHOLD": "5",
        "GT_INSTRUCTION_LOG": "a.log", "GT_CONFIG": "b.yaml",
    }  # fmt: skip
    for variable, value in followed.items():
        monkeypatch.setenv(variable, value)
    says = environment()
    assert says == Environment(True, True, 5, "a.log", "b.yaml") and says.tiers == Tiers(sight=5)
    for variable in followed:
        monkeypatch.delenv(variable)
    assert environment() == Environment() and environment().tiers == Tiers()
    monkeypatch.setenv("GT_DEBUG_CLIENT", "1")
    assert environment().log == "/dev/stderr"


@pytest.mark.parametrize(
    ("variable", "value", "instead"),
    [
        ("GT_BACKEND", "pytorch", "Unset GT_BACKEND"),
        ("GT_SAVE_COMPILED_CODE", "1", "eigentensor program"),
        ("GT_HOTPATH_WINDOW", "20", "GT_HOTPATH_THRESHOLD"),
        ("GT_HOTPATH_MIN_SEQ", "3", "GT_HOTPATH_THRESHOLD"),
        ("GT_HOTPATH_MAX_EXPAND", "3", "GT_HOTPATH_THRESHOLD"),
        ("GT_DEBUG_DISPATCHER", "1", "cluster log -f"),
        ("GT_DEBUG_WORKER", "1", "cluster log -f"),
        ("GT_DEBUG_COMPILE", "1", "gt.debug"),
        ("GT_WORKER_BATCH_SIZE", "10", "Unset GT_WORKER_BATCH_SIZE"),
        ("GT_CLIENT_BATCH_SIZE", "10", "Unset GT_CLIENT_BATCH_SIZE"),
        ("GT_COMPILE", "1", "compile: true"),
        ("GT_AUTO_SHARD", "yes", "1 or 0"),
        ("GT_HOTPATH_THRESHOLD", "0", "from 1 on"),
        ("GT_HOTPATH_THRESHOLD", "²", "from 1 on"),
    ],
)
def test_what_is_not_followed_is_refused_by_name(
    variable: str, value: str, instead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=variable) as refused:
        gt.ones(1)
    assert instead in refused.value.fix
    monkeypatch.setenv(variable, "")
    gt.ones(1)


def test_auto_shard_cuts_what_is_in_no_scope(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GT_AUTO_SHARD", "1")
    monkeypatch.setenv("GT_VERBOSE", "1")
    gt.gpu_workers(2)
    segments = recorded()
    gt.load_config(path)
    w = gt.from_numpy(np.arange(6, dtype=np.float32), requires_grad=True)
    with gt.signal.context("stage"):
        inside = w * 2
    loss = (inside + w).sum()
    loss.backward()
    assert w.grad is not None and w.grad.data.numpy().tolist() == [3] * 6
    assert set(segments[0].signals.values()) == {"GT_AUTO_SHARD", "stage", "stage_gradients"}
    assert gt.get_signal_config("GT_AUTO_SHARD") == gt.SignalConfig(gt.ShardConfig(0))
    assert "here, by 2 workers" in capsys.readouterr().err
