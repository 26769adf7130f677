"""What `eigentensor init` writes, as paid and checked tasks: the command that it names, in the folder that it wrote."""

import json
import runpy
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tinygrad import Context

from eigentensor_client.cli import main
from eigentensor_client.client import Client
from eigentensor_client.examples import MODELS
from eigentensor_client.function import function
from eigentensor_local.devnet import Party

pytestmark = pytest.mark.slow
BUSY = ["--exec", "60", "--accept-within", "200"]  # the examples do not say how busy this machine may be


@pytest.fixture(autouse=True)
def network(operators: list[Party], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def called(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([*words, "--json"])
    out, err = capsys.readouterr()
    assert not ended.value.code, err
    return json.loads(out)


@pytest.mark.parametrize("name", MODELS)
def test_an_exported_model_is_a_paid_task_with_the_expected_bytes(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = shlex.split(called(capsys, "init", name)["command"])
    task = called(capsys, *command[1:], *BUSY)["task"]
    assert task["checked"] in ("checked(1)", "checked(2)")
    assert (tmp_path / "output.safetensors").read_bytes() == (tmp_path / "expected.safetensors").read_bytes()


def test_the_simulation_is_paid_tasks(
    tmp_path: Path, client: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = function.terms
    monkeypatch.setattr(
        function, "terms", lambda self, client: replace(offered(self, client), exec=60, accept_within=200)
    )
    before = len(list(client.tasks()))
    python, file = called(capsys, "init", "heat_equation")["command"].split()
    with Context(DEV="CPU"):
        runpy.run_path(file, run_name="__main__")
    assert capsys.readouterr().out == Path("remote", "heat_equation.txt").read_text()
    assert python == "python" and len(list(client.tasks())) == before + 3


def test_the_training_is_paid_tasks(
    client: Client, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first task of ten."""
    python, file = called(capsys, "init", "training")["command"].split()
    monkeypatch.syspath_prepend(Path())
    runpy.run_path(file)["train"](client, batches=1)
    assert python == "python"
    assert capsys.readouterr().out.startswith(Path("training.txt").read_text().splitlines()[0])
