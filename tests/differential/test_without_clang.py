"""A machine without clang: what executes in its place, with the same bits, what capture computes with, what is said."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from differential.test_kept import WITH_STATES, goes_on, matvec, sums
from eigentensor import clang
from eigentensor.errors import LimitError, NoSandbox
from eigentensor.program import encode
from eigentensor.runtime import CompiledGraph, devices
from eigentensor.runtime.interpreted import MOST
from eigentensor.runtime.sandbox.execution import run_sandboxed
from support.generated.programs import generate
from support.oracles.agreement import differences

ONE = np.ones(1000, np.float32)


@pytest.fixture
def without_clang(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In this process, as far as the choice of a device goes."""
    monkeypatch.setattr(clang, "NAMES", ())
    devices.default.cache_clear()
    devices._announce.cache_clear()
    yield
    devices.default.cache_clear()
    devices._announce.cache_clear()


def test_clang_may_have_the_name_of_a_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert clang.path() is None
    for name in ("clang-14", "clang-19", "clang"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o700)
        assert clang.path() == str(tmp_path / name)


@pytest.mark.parametrize("seed", range(6))
def test_the_reference_executes_programs_as_devices_do(seed: int) -> None:
    assert differences(generate(seed), lambda program: CompiledGraph(program, device=devices.REFERENCE).run) == []


@pytest.mark.parametrize("seed", WITH_STATES[:3])
def test_it_goes_on_from_the_states_that_the_last_run_left(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on(devices.REFERENCE, seed, monkeypatch)


def test_it_computes_confined_too() -> None:
    results = run_sandboxed(encode(sums()), {"s": ONE, "x": ONE}, repeat=2, device=devices.REFERENCE)
    assert results.outputs["output"][0] == 4 and results.states["s"][0] == 3


def test_nothing_is_executed_unconfined_for_want_of_a_compiler(
    without_clang: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoSandbox, match="bubblewrap is not installed"):
        run_sandboxed(encode(sums()), {"s": ONE, "x": ONE}, device=devices.REFERENCE)


def test_what_is_too_much_for_it_says_what_to_install() -> None:
    rows = MOST // 4
    graph = CompiledGraph(matvec(rows, 2), device=devices.REFERENCE)
    weights = np.broadcast_to(np.float32(1), (rows, 2))
    with pytest.raises(LimitError, match="clang is not installed") as caught:
        graph.loaded.run({0: weights, 1: weights}, [()])
    assert caught.value.fix == clang.FIX


@pytest.mark.parametrize(
    ("passes", "can_be_confined", "confined", "device"),
    [
        (True, True, False, "CL"),
        (True, True, True, "CL"),
        (True, False, False, "CL"),
        (True, False, True, devices.REFERENCE),
        (False, False, False, devices.REFERENCE),
    ],
)
def test_what_stands_in_has_shown_that_it_can(
    without_clang: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    passes: bool,
    can_be_confined: bool,
    confined: bool,
    device: str,
) -> None:
    monkeypatch.setattr(devices, "_passes", lambda of: passes)
    monkeypatch.setattr(devices, "_can_be_confined", lambda of: can_be_confined)
    assert [devices.default(confined=confined) for _ in range(2)] == [device] * 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("clang is not installed: ") and line.endswith(" in its place, with the same bits")


def test_a_device_passes_that_gives_the_bits_of_the_reference() -> None:
    assert devices._passes("CPU") and not devices._passes("CUDA:NOT HERE")


CODE = """
import json
import numpy as np
from tinygrad import Tensor, nn
from eigentensor import TensorContext, execute_graph_on_gpu

Tensor.manual_seed(1)
layer, context = nn.Linear(5, 3), TensorContext()
weights = {name: context.add_weight(name, getattr(layer, name)) for name in ("weight", "bias")}
x = context.add_graph_input("x", (4, 5))
program = context.compile_to_graph(x.linear(weights["weight"].T, weights["bias"]).gelu())
fixed = {name: np.full(w.shape, 0.3, np.float32) for name, w in program.weights.items()}
y = execute_graph_on_gpu(program, {"x": np.arange(20, dtype=np.float32).reshape(4, 5) / 7}, fixed)
print(json.dumps([program.uuid, y.tobytes().hex(), program.weights["weight"].tolist()]))
"""


def captured(folder: Path, **environment: str) -> tuple[tuple[str, str, list[float]], str]:
    """Root, bits and drawn weights of a layer, captured and executed in a process of its own; what that says."""
    kept = {name: value for name, value in os.environ.items() if name not in ("DEV", "CC")}
    own = {"HOME": str(folder), "XDG_CACHE_HOME": str(folder), **environment}
    done = subprocess.run([sys.executable, "-c", CODE], env=kept | own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return tuple(json.loads(done.stdout)), done.stderr


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, list[float]]:
    """Here, with clang."""
    layer, silence = captured(tmp_path_factory.mktemp("clang"), DEV="CPU")
    assert silence == ""
    return layer


OTHERS = [pytest.param(f"CPU:{way}", marks=pytest.mark.slow) for way in ("LLVM", "PYTHON")]


@pytest.mark.parametrize("device", ["CPU", *OTHERS])
def test_without_any_compiler_a_layer_is_captured_and_executed_with_the_same_bits(
    device: str, expected: tuple[str, str, list[float]], tmp_path: Path
) -> None:
    alone = {"PATH": str(tmp_path), "OCL_ICD_VENDORS": str(tmp_path), "DEV": device}
    (uuid, bits, drawn), talk = captured(tmp_path, **alone)
    assert (uuid, bits) == expected[:2]
    np.testing.assert_allclose(drawn, expected[2], rtol=1e-5)
    assert talk.splitlines() == [
        "clang is not installed: the reference computes small programs, slowly, in its place, with the same bits"
    ]
