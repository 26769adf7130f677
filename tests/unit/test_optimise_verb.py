"""`eigentensor optimise` plans graphs of files, and writes what it chose."""

import json
from pathlib import Path

import numpy as np
import pytest

from eigentensor import reference
from eigentensor.program.codec import decode
from eigentensor.store.tensors import load_safetensors
from eigentensor_client.cli import main

GRAPH = """
from eigentensor.graph import GraphBuilder
import numpy as np
def graph():
    builder = GraphBuilder()
    weight = builder.weight("w", np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8))
    return builder.graph((builder.input("x", (4, 8)) @ weight).tanh())
text = "no graph"
"""


def test_the_verb_writes_a_program_its_weights_and_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("eigentensor.runtime.build.database.default_path", lambda: tmp_path / "times.sqlite")
    Path("net.py").write_text(GRAPH)
    with pytest.raises(SystemExit, match="0"):
        main(["optimise", "net.py", "--paths", "3", "--picture", "net.svg", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "eigentensor.optimised/2"
    assert report["files"] == ["net.program", "net.weights.safetensors", "net.svg"]
    assert report["chosen"]["max_relative_error"] <= report["tolerance"] == 1e-5
    (block,) = report["blocks"]
    assert [path["verdict"] for path in block["paths"]].count("chosen") == 1
    program = decode(Path("net.program").read_bytes())
    x = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)
    weights = load_safetensors(Path("net.weights.safetensors"))
    output = reference.execute(program, {"x": x, **weights}).outputs["output"]
    np.testing.assert_allclose(output, np.tanh(x @ weights["w"]), rtol=1e-4, atol=1e-6)


COUNTING = """
import numpy as np
from tinygrad import Tensor
from eigentensor.capture import capture_graph
total = Tensor.zeros(4).contiguous().realize()
def step(x, position):
    total[position : position + 1].assign(x.sum(0, keepdim=True))
    return total[: position + 1].exp().sum()
def graph():
    return capture_graph(step, {"x": np.zeros(3, np.float32)}, {"total": total}, variables={"position": (0, 3, 1)})
"""


def test_the_verb_plans_what_was_captured_with_states_and_variables_for_many_iterations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("eigentensor.runtime.build.database.default_path", lambda: tmp_path / "times.sqlite")
    Path("sums.py").write_text(COUNTING)
    with pytest.raises(SystemExit, match="0"):
        main(["optimise", "sums.py", "--paths", "2", "--max-repeat", "4", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["files"] == ["sums.program", "sums.states.safetensors"]
    program = decode(Path("sums.program").read_bytes())
    tensors = {"x": np.full(3, 0.5, np.float32), **load_safetensors(Path("sums.states.safetensors"))}
    results = reference.execute(program, tensors, {"position": 0}, 4)
    np.testing.assert_allclose(results.outputs["output"], 4 * np.exp(1.5), rtol=1e-5)


def test_the_verb_says_what_is_no_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.py").write_text(GRAPH)
    (tmp_path / "net.json").write_text("{}")
    for name, says in (("net.py:text", "no graph named 'text'"), ("net.txt", "cannot read"), ("net.json", "graph")):
        with pytest.raises(SystemExit):
            main(["optimise", str(tmp_path / name)])
        err = capsys.readouterr().err
        assert says in err and "Traceback" not in err
