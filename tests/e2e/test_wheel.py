"""From `pip install` to a checked result: the wheel alone, in an empty folder and an empty home, where the repository,
compilers and a sandbox are missing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from eigentensor.store import load_safetensors
from eigentensor_local.devnet import Devnet, Party
from support.newcomer.machine import ROOT, Machine, built_wheel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MIB = 1 << 20
MOST = 150 * MIB  #: of files that a client's packages bring
TALK = "clang is not installed: the reference computes small programs, slowly, in its place, with the same bits"
MODEL = """
import numpy as np
from tinygrad import Tensor
from eigentensor import TensorContext

context = TensorContext()
x = context.add_graph_input("x", (4, 8))
weight = context.add_weight("weight", Tensor(np.linspace(-1, 1, 24, dtype=np.float32).reshape(8, 3)))
program = context.compile_to_graph((x @ weight).softmax())
"""
LOCAL = """
import numpy as np
from eigentensor import execute_graph_on_gpu
from model import program

np.save("local.npy", execute_graph_on_gpu(program, {"x": np.load("x.npy")}))
"""


def pythons() -> list[str]:
    """The Pythons of this machine that a client may have: on the path, or where pyenv keeps them."""
    versions = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    here = list[str]()
    for minor in range(11, 15):
        kept = sorted(versions.glob(f"3.{minor}.*/bin/python"))
        named = sys.executable if sys.version_info[:2] == (3, minor) else shutil.which(f"python3.{minor}")
        if (path := str(kept[-1]) if kept else named) is not None:
            here.append(path)
    return here


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module", params=pythons(), ids=lambda python: Path(python).parents[1].name)
def machine(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    made = Machine(tmp_path_factory.mktemp("machine"), request.param, wheel, bare=True)
    (made.folder / "model.py").write_text(MODEL)
    (made.folder / "local.py").write_text(LOCAL)
    np.save(made.folder / "x.npy", np.random.default_rng(0).standard_normal((4, 8), dtype=np.float32))
    return made


def test_a_clients_packages_are_few_megabytes(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    sizes: dict[bool, int] = {True: 0, False: 0}
    for path in machine.packages.rglob("*"):
        if path.is_file() and not path.relative_to(machine.packages).parts[0].startswith(("pip", "setuptools")):
            sizes[path.suffix == ".pyc"] += path.stat().st_size
    listed = machine.run("python", "-m", "pip", "list", "--format", "json").stdout
    count = len([one for one in json.loads(listed) if one["name"] not in ("pip", "setuptools")])
    with capsys.disabled():
        sys.stdout.write(
            f"\n{machine.packages}: {count} packages, {sizes[False] / MIB:.1f} MiB of files, "
            f"and {sizes[True] / MIB:.1f} MiB of bytecode that pip makes of them\n"
        )
    assert sizes[False] <= MOST


def test_programs_are_captured_imported_and_shown(machine: Machine) -> None:
    machine.run("eigentensor", "program", "capture", "model.py")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (4, 3 if n == "y" else 8)) for n in "xy"]
    w = helper.make_tensor("w", TensorProto.FLOAT, (8, 3), np.linspace(0, 1, 24))
    onnx.save(helper.make_model(helper.make_graph(nodes, "net", ends[:1], ends[1:], [w])), machine.folder / "net.onnx")
    machine.run("eigentensor", "program", "import", "net.onnx")
    for name, output in (("model", "output"), ("net", "y")):
        shown = json.loads(machine.run("eigentensor", "program", "show", f"{name}.program", "--json").stdout)
        assert shown["schema"].startswith("eigentensor.program/") and output in json.dumps(shown)


def test_what_stands_in_for_a_compiler_is_said_once(machine: Machine) -> None:
    assert machine.run("python", "local.py").stderr.splitlines() == [TALK]
    assert np.load(machine.folder / "local.npy").shape == (4, 3)


def test_programs_are_served_here(machine: Machine) -> None:
    machine.run("eigentensor", "deploy", "model.py", "--name", "model", "--local")
    x = np.load(machine.folder / "x.npy")
    with machine.serving(r"http://[0-9.:]+", "eigentensor", "serve", "--local", "--port", "0") as url:
        answer = httpx.post(f"{url}/v1/apps/model", json={"inputs": {"x": x.tolist()}}, timeout=60)
        assert answer.status_code == 200 and answer.headers["eigentensor-state"] == "local"


def test_a_task_is_planned_paid_and_its_receipt_checked(machine: Machine, net: Devnet, operators: list[Party]) -> None:
    task = ["model.py", "-i", "x=@x.npy", "--max-price", "0.05"]
    plan = json.loads(machine.run("eigentensor", "plan", *task, "--json", network=net.path).stdout)
    assert plan["calls"] > 0
    kept = ["--wait", "checked", "-o", "out.safetensors", "--receipt", "receipt.json"]
    machine.run("eigentensor", "run", *task, *kept, network=net.path)
    receipt = ["eigentensor", "receipt", "check", "receipt.json", "--outputs", "out.safetensors"]
    assert "it happened" in machine.run(*receipt, "--chain", network=net.path).stdout
    assert "bubblewrap is not installed" in machine.run(*receipt, "--deep", code=7, network=net.path).stderr
    machine.run("python", "local.py")
    paid, local = load_safetensors(machine.folder / "out.safetensors"), np.load(machine.folder / "local.npy")
    assert paid["output"].tobytes() == local.tobytes()


@pytest.mark.parametrize(("verb", "extra"), [("watch", "aggregator"), ("aggregator run", "aggregator")])
def test_what_a_client_does_not_have_says_how_to_get_it(machine: Machine, verb: str, extra: str) -> None:
    done = machine.run("eigentensor", *verb.split(), code=3)
    assert f"pip install 'eigentensor[{extra}]'" in done.stderr


def test_the_sdist_of_the_last_commit_builds_the_same_wheel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(
        [str(ROOT / "scripts" / "release"), str(tmp_path)],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same wheel, byte for byte" in done.stdout and done.stdout.count("PASSED") == 2
    assert {path.suffix for path in tmp_path.iterdir()} == {".whl", ".gz"}
    with capsys.disabled():
        sys.stdout.write(f"\n{done.stdout}")
