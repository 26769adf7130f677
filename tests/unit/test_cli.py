"""The command: quick to answer, data apart from talk, errors without tracebacks."""

import json
import subprocess
import sys

import pytest

from eigentensor_client.cli import PARTS, VERBS, main

HEAVY = {"web3", "tinygrad", "fastapi", "numpy", "rich", "sqlmodel", "httpx"}


def eigentensor(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "eigentensor_client", *words], capture_output=True, text=True, timeout=60
    )


def test_help_names_every_verb() -> None:
    done = eigentensor("--help")
    assert done.returncode == 0
    assert all(f"  {name} " in done.stdout for name in (*VERBS, *PARTS))


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from eigentensor_client.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert not HEAVY & set(done.stderr.split())


def main_in_process(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(words)
    code = ended.value.code
    return (code if isinstance(code, int) else 0, *capsys.readouterr())


@pytest.mark.parametrize("name", [*VERBS, *PARTS])
def test_every_verb_explains_itself(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, err = main_in_process(capsys, name, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: eigentensor {name}")


@pytest.mark.parametrize("words", [["nonsense"], ["run"], ["run", "--nonsense"], ["task", "nonsense"], []])
def test_wrong_usage_is_code_2(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    code, _, err = main_in_process(capsys, *words)
    assert code == 2
    assert "Traceback" not in err


def test_an_error_says_what_and_how_to_fix_it() -> None:
    done = eigentensor("program", "check", "nowhere.program")
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == "error  cannot read nowhere.program: No such file or directory\n  fix  Check the path.\n"


def test_an_error_is_an_object_if_json_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = main_in_process(capsys, "program", "check", "nowhere.program", "--json")
    said = json.loads(out)
    assert code == 4
    assert (said["schema"], said["error"], said["exit_code"]) == ("eigentensor.error/1", "BlobNotFound", 4)
