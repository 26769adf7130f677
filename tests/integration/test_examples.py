"""The examples do what they say."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from eigentensor import reference
from eigentensor.capture import GraphProgram
from eigentensor.graph.lower import lower
from eigentensor.numerics.dtypes import DType
from eigentensor.planner.oracle import max_relative_error, oracle
from eigentensor.runtime.compiled import execute
from eigentensor_client.cli import main

EXAMPLES = Path(__file__).parents[2] / "client" / "examples"


@pytest.mark.slow
def test_digits_learns_and_becomes_a_small_program_with_weights() -> None:
    names = runpy.run_path(str(EXAMPLES / "digits.py"))
    training, held_out = names["load"]()
    assert (len(training.labels), len(held_out.labels)) == (1500, 297)
    graph = names["program"]()
    assert isinstance(graph, GraphProgram)
    assert len(graph.to_bytes()) < 10_000
    assert len(graph.weights) == 6
    batch = names["BATCH"]
    scores = reference.execute(graph.program, {"images": held_out.images[:batch], **graph.weights}).outputs["output"]
    assert (scores.argmax(axis=1) == held_out.labels[:batch]).mean() > 0.85


def test_the_block_of_a_transformer_is_a_graph_that_becomes_a_program() -> None:
    graph = runpy.run_path(str(EXAMPLES / "attention.py"))["graph"]()
    made = lower(graph)
    x = np.random.default_rng(1).standard_normal((64, 128), dtype=np.float32)
    output = execute(made.program, {"x": x, **made.weights}).outputs["output"]
    (exact,) = oracle(graph, {"x": x})
    assert max_relative_error(DType.FLOAT32, output, exact) < 1e-5


def test_a_python_file_becomes_a_program_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "matmul.program"
    with pytest.raises(SystemExit) as ended:
        main(["program", "capture", str(EXAMPLES / "matmul.py"), "-o", str(target)])
    assert not ended.value.code
    assert str(target) in capsys.readouterr().out
    assert GraphProgram.from_bytes(target.read_bytes()).program.outputs["output"].shape == (256, 256)
    with pytest.raises(SystemExit) as ended:
        main(["program", "capture", str(EXAMPLES / "matmul.py") + ":x", "-o", str(target)])
    assert ended.value.code == 7
    assert "no program named 'x'" in capsys.readouterr().err


def test_a_python_file_imports_what_lies_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("parts").mkdir()
    Path("parts", "doubling.py").write_text("def double(x):\n    return x + x\n")
    Path("parts", "doubled.py").write_text(
        "import numpy as np\nfrom doubling import double\nfrom eigentensor.capture import capture\n"
        "program = capture(double, [np.zeros(3, np.float32)])\n"
    )
    with pytest.raises(SystemExit) as ended:
        main(["program", "capture", "parts/doubled.py"])
    assert not ended.value.code
    assert GraphProgram.from_bytes(Path("doubled.program").read_bytes()).program.outputs["output"].shape == (3,)


def test_the_example_is_the_ten_lines_of_the_front_page() -> None:
    readme = (EXAMPLES.parents[1] / "README.md").read_text()
    assert (EXAMPLES / "matmul.py").read_text() in readme
