"""The notebooks run from the first cell to the last, and are committed without what they print."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from eigentensor_local.devnet import Party

FOLDER = Path(__file__).parents[2] / "client" / "examples" / "notebooks"
NAMES = {path.stem for path in FOLDER.glob("*.ipynb")}
SHOWN = ("text/html", "image/png", "text/plain")


def run(name: str) -> list[str]:
    """Executes a notebook; what each of its cells shows, the richest of it."""
    book = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(book, timeout=400, resources={"metadata": {"path": FOLDER}}).execute()
    outputs: list[Any] = [output for cell in book.cells for output in cell.get("outputs", ())]
    shown = [output.get("data", {"text/plain": output.get("text", "")}) for output in outputs]
    return [next((data[kind] for kind in SHOWN if kind in data), "") for data in shown]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_no_output_is_committed(name: str) -> None:
    for cell in json.loads((FOLDER / f"{name}.ipynb").read_text())["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None and cell["metadata"] == {}


def test_the_pages_of_the_documentation_name_every_notebook() -> None:
    page = (FOLDER.parents[1] / "docs" / "pages" / "start" / "notebooks.md").read_text()
    assert {name for name in NAMES if f"`{name}.ipynb`" in page} == NAMES and len(NAMES) == 5


def test_economics() -> None:
    shown = run("economics")
    assert sum(one.startswith("iVBOR") for one in shown) == 2  # pictures
    assert any("bribing: -" in one for one in shown)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["first_result", "own_model", "sessions"])
def test_paid(operators: list[Party], name: str) -> None:
    shown = "\n".join(run(name))
    assert "it runs already" in shown
    assert "tokens of at most 0.05 tokens" in shown and ".receipt</a>" in shown
    if name == "first_result":
        assert "<small>" in shown and "waits for" in shown and "checked(1)" in shown  # the bars, a handle


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_dispute() -> None:
    shown = "\n".join(run("dispute"))
    assert "the referee computes another value than the executor claims" in shown and "convicted" in shown
