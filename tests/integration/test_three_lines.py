"""Programs in plain tinygrad, and the same paid for: three lines apart, with the same results."""

import difflib
import re
import runpy
from pathlib import Path

import pytest
from tinygrad import Context

from eigentensor_client.function import Function

EXAMPLES = Path(__file__).parents[2] / "client" / "examples"
NAMES = sorted(path.stem for path in (EXAMPLES / "plain").glob("*.py"))
QUICK = ("heat_equation",)  # the others take tinygrad's compiler a while


def lines_of(kind: str, name: str) -> list[str]:
    return (EXAMPLES / kind / f"{name}.py").read_text().splitlines()


def printed(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    runpy.run_path(str(path), run_name="__main__")
    return capsys.readouterr().out


def test_five_programs_are_there() -> None:
    assert NAMES == ["bert_encoder", "digits_cnn", "gpt2_decoder", "heat_equation", "mlp_training"]
    assert sorted(path.stem for path in (EXAMPLES / "remote").glob("*.py")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_three_lines_make_a_program_remote(name: str) -> None:
    changes = [line for line in difflib.ndiff(lines_of("plain", name), lines_of("remote", name)) if line[0] in "+-"]
    new = [line[2:] for line in changes if line[0] == "+" and line[2:]]
    assert len(new) <= 3
    assert sum(line[0] == "-" for line in changes) == sum(".remote(" in line for line in new) == 1


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in NAMES]
)
def test_a_program_computes_the_same_either_way(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On this machine: tinygrad's own kernels against the program that an operator would execute."""
    monkeypatch.setattr(Function, "_remote", Function._local)
    with Context(DEV="CPU"):
        expected = printed(EXAMPLES / "plain" / f"{name}.py", capsys)
        assert expected
        assert printed(EXAMPLES / "remote" / f"{name}.py", capsys) == expected


def test_the_front_page_shows_the_three_lines() -> None:
    [shown] = re.findall(r"```diff\n(.*?)```", (EXAMPLES.parents[1] / "README.md").read_text(), re.DOTALL)
    changes = difflib.ndiff(lines_of("plain", "heat_equation"), lines_of("remote", "heat_equation"))
    lines = [line[0] + line[2:] for line in changes if line[0] in "+-" and line[2:]]
    assert [line for line in shown.splitlines() if line[:1] in ("+", "-")] == lines
