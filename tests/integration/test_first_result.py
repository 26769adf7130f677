"""One command on a machine where nothing runs: a model in, a checked result out, and nothing left behind."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from eigentensor import reference
from eigentensor.capture import import_onnx
from eigentensor.store import load_safetensors
from support.bench.first_result import environment, first_result, started

pytestmark = pytest.mark.slow


def test_a_model_is_run_on_a_local_network_that_the_command_starts_and_ends(tmp_path: Path) -> None:
    seconds, printed = first_result(tmp_path)
    assert "no local network runs: starting one" in printed and "ending the local network" in printed
    assert seconds.keys() >= {"network", "posted", "checked"}
    x = np.load(tmp_path / "input.npy")
    graph = import_onnx(tmp_path / "model.onnx", {"x": x.shape})
    expected = reference.execute(graph.program, {"x": x, **graph.weights}).outputs
    outputs = load_safetensors(tmp_path / "out.safetensors")
    assert {key: value.tobytes() for key, value in outputs.items()} == {k: a.tobytes() for k, a in expected.items()}
    assert not list((tmp_path / "state" / "eigentensor" / "networks").iterdir())


def test_a_python_file_is_run_on_a_network_of_its_own_and_its_result_is_shown_and_kept(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("def net(x): return x * 2 + 1\n")
    np.save(tmp_path / "x.npy", x := np.arange(3, dtype=np.float32))
    words = ["run", "net.py:net", "-i", "x=@x.npy", "--wait", "result"]
    command = [sys.executable, "-m", "eigentensor_client", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=280, cwd=tmp_path, env=environment(tmp_path), check=True
    )
    (kept,) = tmp_path.glob("*.safetensors")
    assert load_safetensors(kept)["output"].tobytes() == (x * 2 + 1).tobytes()
    assert "float32  [3]    1 3 5" in done.stdout and f"written     {kept.name}" in done.stdout
    assert f"no file was named with -o: the outputs are in {kept.name}" in done.stderr


def test_ctrl_c_ends_the_network_and_says_so(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("posted "):
                break
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) >= 4  # the chain, the aggregator, two operators
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 130
    assert "the local network ends, and the task with it" in rest and "Traceback" not in rest
    assert not psutil.wait_procs(family, timeout=30)[1]
    assert not (tmp_path / "out.safetensors").exists()
    assert not list((tmp_path / "state" / "eigentensor" / "networks").iterdir())


def test_a_network_that_is_kept_serves_other_commands_until_ctrl_c(tmp_path: Path) -> None:
    with started(tmp_path, "--keep") as process:
        assert process.stdout is not None
        notice = next(line for line in process.stdout if "the local network goes on until Ctrl-C" in line or not line)
        assert notice and (tmp_path / "out.safetensors").exists()
        words = [sys.executable, "-m", "eigentensor_client", "ps", "--json"]
        listed = subprocess.run(
            words, env=environment(tmp_path), capture_output=True, text=True, timeout=120, check=True
        )
        (task,) = json.loads(listed.stdout)["tasks"]
        assert task["checked"] == "checked(1)"
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) >= 4
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
    assert process.returncode == 130 and "Traceback" not in rest
    assert not psutil.wait_procs(family, timeout=30)[1]
    assert not list((tmp_path / "state" / "eigentensor" / "networks").iterdir())
