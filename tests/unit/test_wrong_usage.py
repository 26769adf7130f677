"""What users do wrong: never a traceback, a code of the table, what was wrong and what to do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from eigentensor_client.cli import main

SOURCE = """
import numpy as np
from tinygrad import Tensor
from eigentensor.capture import capture
print("this file talks")
program = capture(lambda x: x + 1, {"x": np.zeros(3, np.float32)})
def function(x): return x
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    Path("net.py").write_text(SOURCE)
    Path("file").write_text("text")
    Path("bytes").write_bytes(bytes(range(256)))
    Path("folder").mkdir()
    Path("data").mkdir()
    Path("data/aggregator.sqlite").write_bytes(bytes(range(256)))


def called(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(words)
    code = ended.value.code
    return (code if isinstance(code, int) else 0, *capsys.readouterr())


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("program check /proc/self/mem", 3, "Input/output error"),
        (f"program capture net.py -o {'x' * 300}", 3, "File name too long"),
        ("program capture net.py -o folder", 3, "it is a folder"),
        ("program capture net.py -o file/x", 3, "Not a directory"),
        ("program capture net.py -w missing", 2, "takes no weights"),
        ("program check net.py:function", 2, "`eigentensor program capture net.py:function`"),
        ("program show missing.onnx", 4, "missing.onnx"),
        ("program capture net.py --shards 2", 2, "is captured by the file itself"),
        ("program capture net.py:function --shards 2", 2, "takes x, and is given nothing"),
        ("program capture net.py --shards 2 --shard-axis x", 2, "cannot read the axis 'x'"),
        ("program capture net.py --shard-axis x=0", 2, "cut into one part"),
        ("optimise net.py:function", 7, "missing 1 required positional argument"),
        ("optimise file", 2, "file is no graph"),
        ("receipt check file", 8, "this is no receipt"),
        ("wallet new key --password-file bytes", 3, "is not text"),
        ("wallet new key --password-file folder", 3, "cannot read folder"),
        (f"app list --data {'x' * 300}", 3, "File name too long"),
        ("aggregator scrub --data data", 3, "file is not a database"),
        ("operator drain --data-dir file", 3, "cannot read file/operator.toml"),
        (f"operator status --network file/x.json --address 0x{'1' * 40}", 3, "cannot read file/x.json"),
        ("challenge show 0", 2, "not in the range"),
        (f"challenge show {10**40}", 2, "not in the range"),
        ("run file --timeout -1", 2, "not in the range"),
        ("run file --timeout nan", 2, "'nan' is no number that ends"),
        ("get 3f2a --timeout inf", 2, "'inf' is no number that ends"),
        ("receipt check file --timeout -1", 2, "not in the range"),
        ("tune file --seconds nan", 2, "'nan' is no number that ends"),
        ("optimise net.py --tolerance nan", 2, "'nan' is no number that ends"),
        ("devnet --block-time inf", 2, "'inf' is no number that ends"),
        ("run file -o folder", 3, "cannot write folder: it is a folder"),
        ("run file --receipt missing/r.json", 3, "cannot write missing/r.json: No such file"),
        ("get 3f2a --states-output file/x", 3, "cannot write file/x: Not a directory"),
        ("session run file -o missing/x", 3, "cannot write missing/x: No such file"),
        ("session wait file -o missing/x", 3, "cannot write missing/x: No such file"),
        ("optimise net.py:program --picture missing/x", 3, "cannot write missing/x: No such file"),
    ],
)
def test_mistakes_are_explained_with_a_fix_and_leave_nothing(
    capsys: pytest.CaptureFixture[str], words: str, code: int, says: str
) -> None:
    before = sorted(Path().iterdir())
    returned, out, err = called(capsys, *words.split(" "))
    assert (returned, out) == (code, ""), err
    assert "error  " in err and says in err and "\n  fix  " in err
    assert sorted(Path().iterdir()) == before


def test_what_does_not_fit_is_said_before_a_network_is_started_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = called(capsys, "run", "net.py")
    assert code == 2 and "missing x" in err and "fix  Give what the program has: x." in err
    assert "network" not in err


def test_what_a_users_file_prints_is_talk(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = called(capsys, "program", "capture", "net.py", "--json")
    assert (code, json.loads(out)["schema"]) == (0, "eigentensor.program/1")
    assert "this file talks" in err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_knows_few_letters_is_no_reason_to_fail(encoding: str) -> None:
    name = os.fsdecode(b"\xff\xe4\xb8\x96")  # no text at all
    words = ((name, 4), ("\u4e16\u754c", 4))
    for word, code in words:
        command = [sys.executable, "-m", "eigentensor_client", "program", "check", word]
        environment = os.environ | {"PYTHONIOENCODING": encoding}
        done = subprocess.run(command, capture_output=True, env=environment, timeout=60)
        assert (done.returncode, done.stdout) == (code, b""), done.stderr
        assert done.stderr.startswith(b"error  cannot read") and b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("shell", "code", "says"),
    [
        ("network list >&-", 0, ""),
        ("network list >&- 2>&-", 0, ""),
        ("wallet new key <&-", 3, "there is no terminal"),
        ("network list | true; exit ${PIPESTATUS[0]}", 141, ""),
        ("network list --json | true; exit ${PIPESTATUS[0]}", 141, ""),
        ("network list >/dev/full", 3, "No space left on device"),
        ("network list --json >/dev/full", 3, "No space left on device"),
    ],
)
def test_streams_may_be_closed_broken_or_full(shell: str, code: int, says: str) -> None:
    line = f"{sys.executable} -m eigentensor_client {shell}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    assert says in done.stderr and "Traceback" not in done.stderr
