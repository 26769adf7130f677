"""What came of a task: written where it is wanted, else kept beside the user under a free name, and shown."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from eigentensor.errors import ConfigError
from eigentensor.program import DType
from eigentensor.store import load_safetensors
from eigentensor_client import elements
from eigentensor_client.files import check_places, write_free, write_whole
from eigentensor_client.screen import Screen
from eigentensor_client.verbs.outputs import keep_outputs, write_files
from support.screens.screens import RESULT
from support.screens.values import WORK

OUTPUT = RESULT.outputs["output"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a user is."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_takes_a_name_that_is_free_or_that_has_its_bytes() -> None:
    def write(text: str) -> str:
        return str(write_free("a", ".txt", lambda file: file.write_text(text)))

    assert [write("one"), write("one"), write("two"), write("two"), write("one")] == [
        "a.txt", "a.txt", "a-2.txt", "a-2.txt", "a.txt",
    ]  # fmt: skip
    Path("a-3.txt").mkdir()
    Path("a-4.txt").symlink_to("nowhere")
    assert write("three") == "a-5.txt"
    assert {path.name: path.read_text() for path in Path().iterdir() if path.is_file()} == {
        "a.txt": "one", "a-2.txt": "two", "a-5.txt": "three",
    }  # fmt: skip


def test_what_cannot_be_written_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: Path) -> None:
        file.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(ConfigError, match=r"cannot write a\.txt here: No space left"):
        write_free("a", ".txt", fail)
    assert not list(Path().iterdir())


def test_a_link_leads_to_the_file_that_is_written_and_stays_a_link() -> None:
    Path("link").symlink_to(Path("there").absolute())
    for text in ("one", "two"):
        write_whole(Path("link"), lambda file, text=text: file.write_text(text))  # type: ignore[misc]
        assert Path("link").is_symlink() and Path("there").read_text() == text
    assert sorted(path.name for path in Path().iterdir()) == ["link", "there"]


def test_a_pipe_takes_the_bytes_and_stays_a_pipe() -> None:
    os.mkfifo("pipe")
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(Path("pipe").read_text)
        write_whole(Path("pipe"), lambda file: file.write_text("all of it"))
        assert read.result(timeout=60) == "all of it"
    assert [path.name for path in Path().iterdir()] == ["pipe"] and Path("pipe").is_fifo()


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="a device that is full is needed")
def test_a_device_says_that_it_takes_no_more(tmp_path: Path) -> None:
    Path("full").symlink_to("/dev/full")
    with pytest.raises(ConfigError, match=r"cannot write full: No space left"):
        write_whole(Path("full"), lambda file: file.write_text("text"))
    assert Path("/dev/full").is_char_device() and Path("full").is_symlink()


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("missing/y", "No such file"),
        ("file/y", "Not a directory"),
        ("folder", "it is a folder"),
        ("y" * 300, "too long"),
    ],
)
def test_a_place_where_nothing_can_be_written_is_refused_before_there_is_anything(place: str, why: str) -> None:
    Path("file").touch()
    Path("folder").mkdir()
    check_places(None, Path("y"), Path("file"), Path("/dev/null"))
    with pytest.raises(ConfigError, match=rf"cannot write {place}: .*{why}"):
        check_places(Path("y"), Path(place))
    assert sorted(path.name for path in Path().iterdir()) == ["file", "folder"]


def test_outputs_are_kept_under_the_name_of_their_task(capsys: pytest.CaptureFixture[str]) -> None:
    name = f"{RESULT.uuid[:10]}.safetensors"
    Path(name).write_text("of somebody else")
    assert keep_outputs(Screen(), WORK.program, RESULT) == (kept := f"{RESULT.uuid[:10]}-2.safetensors")
    assert keep_outputs(Screen(), WORK.program, RESULT) == kept
    assert load_safetensors(Path(kept))["output"].tobytes() == OUTPUT.tobytes()
    assert Path(name).read_text() == "of somebody else" and len(list(Path().iterdir())) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"no file was named with -o: the outputs are in {kept}\n" * 2)


def test_outputs_that_cannot_be_kept_are_no_error(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert keep_outputs(Screen(), WORK.program, RESULT) is None
    assert f"`eigentensor get {RESULT.uuid[:10]} -o FILE` fetches the outputs again" in capsys.readouterr()[1]


def test_what_is_wanted_is_written_and_named() -> None:
    files = write_files(WORK.program, RESULT, Path("out.safetensors"))
    assert files == {"outputs": "out.safetensors", "states": None, "receipt": None}
    assert load_safetensors(Path("out.safetensors"))["output"].tobytes() == OUTPUT.tobytes()


def test_elements_are_exact_in_json_and_short_for_people() -> None:
    listed = elements.as_json(OUTPUT)
    assert listed == [[float(np.float32(0.1)), -3.0, "NaN", 1e9], ["Infinity", 0.0, 0.0, 0.0]]
    assert json.loads(json.dumps(listed, allow_nan=False)) == listed
    assert elements.shown(OUTPUT, DType.FLOAT32) == "0.1 -3 nan 1e+09 inf 0 …"
    assert elements.shown(np.array([0x3FC0, 0xC000], np.uint16), DType.BFLOAT16) == "1.5 -2"
    assert elements.shown(np.array(True), DType.BOOL) == "true"
    assert elements.shown(np.empty((0, 3), np.int8), DType.INT8) == ""
    assert elements.as_json(np.array([[1, 2**63]], np.uint64)) == [[1, 2**63]]
    assert elements.as_json(np.array(-0.0, np.float16)) == 0 and str(elements.as_json(np.array(-0.0))) == "-0.0"
