"""What the guides show in Python, and of sessions, runs on a network."""

import subprocess
import sys
from pathlib import Path
from runpy import run_path
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor

from eigentensor.chain import to_wei
from eigentensor.store import load_safetensors
from eigentensor_client import Client
from eigentensor_client.cli import main
from eigentensor_client.function import function
from eigentensor_client.orders import Terms
from eigentensor_local.devnet import Party
from support.screens.readme import ROOT, blocks, commands

pytestmark = pytest.mark.slow

GUIDES = ROOT / "client" / "docs" / "pages" / "guides"
START = ROOT / "client" / "docs" / "pages" / "start" / "index.md"
EXAMPLES = ROOT / "client" / "examples"


def run_python(page: Path, section: str, **names: Any) -> dict[str, Any]:
    """Executes the Python block of a section; what it has defined then."""
    [code] = [text for title, language, text in blocks(page) if (title, language) == (section, "python")]
    exec(compile(code, f"{page.name}, {section}", "exec", dont_inherit=True), names)
    return names


def test_the_commands_of_a_session_run(
    operators: list[Party], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "client").symlink_to(ROOT / "client")
    monkeypatch.chdir(tmp_path)
    for program, *words in commands(GUIDES / "sessions.md", "Sessions"):
        if program == "python":
            subprocess.run([sys.executable, *words], check=True, timeout=120)
            continue
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert not ended.value.code, f"{' '.join(words)}: {capsys.readouterr().err}"
    assert load_safetensors(tmp_path / "out.safetensors")["output"].shape == (1, 1, 16)


def test_the_python_of_a_session_runs(operators: list[Party], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graph = run_path(str(EXAMPLES / "decoder.py"))["program"]
    x, y = np.random.default_rng(0).standard_normal((2, 1, 1, 16), dtype=np.float32)
    names = run_python(
        GUIDES / "sessions.md",
        "Sessions",
        Client=Client,
        Path=Path,
        program=graph.program,
        weights=dict(graph.weights),
        states=dict(graph.states),
        terms=Terms(to_wei("0.05"), exec=60),
        x=x,
        y=y,
    )
    assert names["session"].step == 2 and names["states"].keys() == {"keys", "values"}


def test_a_function_and_a_client_run(
    operators: list[Party], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    weight = Tensor(np.eye(4, dtype=np.float32), device="CPU").realize()
    images = np.ones((2, 4), np.float32)

    def net(images: Tensor) -> Tensor:
        return images @ weight

    monkeypatch.setattr(function, "exec", 60)
    names = run_python(GUIDES / "function.md", "A function", Tensor=Tensor, model=net, x=Tensor(images, device="CPU"))
    assert np.array_equal(names["y"].numpy(), images)
    assert capsys.readouterr().out.startswith("[[1. 1. 1. 1.]")
    names = run_python(GUIDES / "function.md", "Python", net=net, images=images)
    assert np.array_equal(names["result"].outputs["output"], images)
    assert "final, " in capsys.readouterr().out


def test_the_function_of_the_five_minutes_runs(
    operators: list[Party], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function, "exec", 60)
    names = run_python(START, "A function of yours", __name__="__main__")
    assert np.array_equal(names["y"].numpy(), np.full((2, 4), 0.5, np.float32))
    assert capsys.readouterr().out.startswith("[[0.5 0.5 0.5 0.5]")
