"""`eigentensor init`: examples out of the package into an empty folder."""

import json
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from eigentensor_client.cli import main
from eigentensor_client.examples import FOLDER, PACKAGED, PARTS, example, examples

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def called(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["init", *words])
    return (int(ended.value.code or 0), *capsys.readouterr())


@pytest.mark.parametrize("name", PARTS)
def test_an_example_is_written_whole(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(capsys, name)
    assert (code, err) == (0, "")
    written = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    sources = example(name).files
    assert written.keys() == sources.keys()
    assert all(path.read_bytes() == sources[place].read_bytes() for place, path in written.items())
    assert example(name).command in out.replace("\n", " ")


@pytest.mark.parametrize("name", PARTS)
def test_an_example_says_at_its_top_what_it_is_and_how_it_is_a_paid_task(name: str) -> None:
    """In the first three lines; and the command names files that are there."""
    chosen = example(name)
    assert len(chosen.what.splitlines()) == len(chosen.command.splitlines()) == 1
    program, verb, *words = chosen.command.split()
    if program == "python":
        assert verb in chosen.files
    else:
        assert (program, verb) == ("eigentensor", "run")
        assert {words[0], "input.safetensors", "expected.safetensors", "original.safetensors"} <= chosen.files.keys()
        assert "@input.safetensors" in words


def test_the_page_of_the_examples_lists_them_with_their_commands() -> None:
    page = (FOLDER / "README.md").read_text()
    for chosen in examples():
        assert f"| `{chosen.name}` |" in page and f"`{chosen.command}`" in page


def test_without_a_name_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys)
    assert code == 0 and [line.split()[0] for line in out.splitlines()] == ["example", *PARTS]
    code, out, _ = called(capsys, "--json")
    assert [listed["name"] for listed in json.loads(out)["examples"]] == list(PARTS)


def test_a_folder_that_is_not_there_is_made(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "sklearn_forest", "new/forest", "--json")
    fields = json.loads(out)
    assert code == 0 and fields["folder"] == "new/forest"
    assert "new/forest/forest.onnx" in fields["files"] and (folder / "new" / "forest" / "forest.onnx").exists()
    _, out, _ = called(capsys, "sklearn_forest", "another")
    assert "cd another && eigentensor run forest.onnx" in out


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["pytorch"], 2, "no example is named 'pytorch'"),
        (["pytorch_mlp"], 3, "is not empty: a, b, c, …"),
        (["pytorch_mlp", "a"], 3, "a is no folder"),
    ],
)
def test_nothing_is_written_where_it_cannot_be(
    words: list[str], code: int, says: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "abcd":
        (folder / name).write_text("")
    status, out, err = called(capsys, *words)
    assert (status, out) == (code, "") and says in err and "\n  fix  " in err
    assert sorted(path.name for path in folder.iterdir()) == list("abcd")


def test_a_wheel_has_what_init_writes(folder: Path) -> None:
    """Built from this folder, with nothing fetched."""
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    names = set(ZipFile(wheel).namelist())
    wanted = {path.relative_to(FOLDER) for chosen in examples() for path in chosen.files.values()}
    assert {f"eigentensor_client/{PACKAGED.name}/{path}" for path in wanted} <= names
    assert not any("__pycache__" in name for name in names)
