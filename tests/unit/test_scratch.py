"""Folders for a while are gone when their block, or their process, has ended, however that was."""

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eigentensor.scratch import scratch

HELD = """
import sys, time
from pathlib import Path
from eigentensor.scratch import scratch
with scratch(Path(sys.argv[1]) if len(sys.argv) > 1 else None) as folder:
    (folder / "inputs").write_text("secret")
    print(folder, flush=True)
    sys.stdin.read()
"""


def held(folder: Path, *words: str) -> "tuple[subprocess.Popen[str], Path]":
    """A process that has a folder, until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HELD, *words], env=os.environ | {"TMPDIR": str(folder)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


@pytest.mark.parametrize("within", [False, True])
def test_what_a_killed_process_left_is_gone_when_the_next_one_begins(tmp_path: Path, within: bool) -> None:
    words = [str(tmp_path)] * within
    killed, left = held(tmp_path, *words)
    living, mine = held(tmp_path, *words)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert (left / "inputs").exists()
    following, _ = held(tmp_path, *words)
    assert not left.exists() and (mine / "inputs").exists(), "what somebody uses stays"
    for process in (living, following):
        process.communicate()
        assert process.returncode == 0
    assert not list(tmp_path.iterdir())


def test_a_folder_is_gone_when_its_block_ends_and_is_nobody_elses() -> None:
    with scratch() as folder:
        assert folder.stat().st_mode & 0o077 == 0 and list(folder.iterdir()) == []
        with scratch() as other:
            assert other != folder
    assert not folder.exists() and not other.exists()


def in_child(mine: str) -> bool:
    with scratch() as folder:
        return folder.exists() and Path(mine).exists()


def test_a_forked_child_has_a_folder_of_its_own_and_leaves_its_parents() -> None:
    with scratch() as folder:
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.apply(in_child, [str(folder)])
        assert folder.exists()


def test_what_was_tidied_up_meanwhile_is_made_again(tmp_path: Path) -> None:
    with scratch(tmp_path) as folder:
        home = folder.parent
    for path in (home / ".lock", home):
        path.unlink() if path.is_file() else path.rmdir()
    with scratch(tmp_path) as folder:
        assert folder.exists()


def test_a_folder_that_somebody_else_can_read_is_not_used(tmp_path: Path) -> None:
    root = tmp_path / f"eigentensor-{os.getuid()}"
    root.mkdir()
    root.chmod(0o777)
    process, folder = held(tmp_path)
    process.communicate()
    assert folder.parent.parent == tmp_path
