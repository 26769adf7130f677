"""The command: quick to answer, data apart from talk, errors without tracebacks."""

import json
import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from eigentensor_client.cli import ADDED, COMPLETES, PARTS, VERBS, main
from eigentensor_client.usage import EXAMPLES
from support.screens.commands import commands

HEAVY = {"web3", "tinygrad", "fastapi", "numpy", "rich", "sqlmodel", "httpx", "pydantic", "schemas"}


def eigentensor(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "eigentensor_client", *words], capture_output=True, text=True, timeout=60
    )


def test_help_names_every_verb() -> None:
    done = eigentensor("--help")
    assert done.returncode == 0
    assert all(f"  {name} " in done.stdout for name in (*VERBS, *PARTS))


def test_no_help_imports_anything_heavy() -> None:
    code = (
        "import sys; from eigentensor_client.cli import PARTS, VERBS, main\n"
        "for words in ([], *([name] for name in (*VERBS, *PARTS))):\n"
        "    try: main([*words, '--help'])\n"
        "    except SystemExit: pass\n"
        "loaded = (name for name, module in sys.modules.items() if module)  # None: kept from being imported\n"
        "print(*{word for name in loaded for word in name.split('.')}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert not HEAVY & set(done.stderr.split())


#: What signs, what sends and what computes: a command that only reads loads none of it.
UNREAD = {
    "web3", "eth_account", "eth_hash", "py_ecc", "aiohttp", "requests", "cffi", "tinygrad", "onnx", "numpy",
    "safetensors", "fastapi", "pydantic", "importlib.metadata", "sqlite3", "typing_extensions",
    "eigentensor.capture", "eigentensor.chain.call_views", "eigentensor.chain.channels", "eigentensor.chain.games",
    "eigentensor.chain.market", "eigentensor.chain.sender", "eigentensor.channel", "eigentensor.merkle",
    "eigentensor.program", "eigentensor.receipt", "eigentensor.runtime.cpu", "eigentensor.store.gateway",
    "eigentensor.task.events", "eigentensor.tracing", "eigentensor_client.client", "eigentensor_client.verbs.show",
}  # fmt: skip
#: But for this, and what it is made of: the lives of tasks, balances, and programs with the headers of their tensors.
TASKS, MONEY = {"eigentensor.task.events", "eigentensor_client.verbs.show"}, {"eigentensor.chain.market"}
PLANS = {"safetensors", "eigentensor.merkle", "eigentensor.program", "eigentensor.store.gateway"}


@pytest.mark.parametrize(
    ("modules", "loaded"),
    [
        ("accounts tasks task_view verbs.task verbs.show eigentensor.chain.lives eigentensor.task.view", TASKS),
        ("accounts tasks verbs.wallet eigentensor.chain.market eigentensor.chain.token", MONEY),
        ("accounts plans inputs sources verbs.run verbs.planned", PLANS),
        ("accounts verbs.network eigentensor.chain.reader eigentensor.store.queries", set()),
    ],
    ids=["tasks", "wallet", "plans", "networks"],
)
def test_who_only_reads_loads_neither_what_signs_nor_what_computes(modules: str, loaded: set[str]) -> None:
    names = (name if name.startswith("eigentensor.") else f"eigentensor_client.{name}" for name in modules.split())
    code = f"import sys, eigentensor_client.cli, {', '.join(names)}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert UNREAD & set(done.stdout.split()) == loaded


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
    assert "--install-completion" not in out


@pytest.mark.parametrize("words", [["nonsense"], ["run"], ["run", "--nonsense"], ["task", "nonsense"], []])
def test_wrong_usage_is_code_2(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    code, _, err = main_in_process(capsys, *words)
    assert code == 2
    assert "Traceback" not in err


def test_a_word_that_is_nearly_a_verb_is_recognised(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = main_in_process(capsys, "optimize")
    assert code == 2 and "Did you mean 'optimise'?" in err


def test_an_error_says_what_and_how_to_fix_it() -> None:
    done = eigentensor("program", "check", "nowhere.program")
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == "error  cannot read nowhere.program: No such file or directory\n  fix  Check the path.\n"


def test_an_error_is_an_object_if_json_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = main_in_process(capsys, "program", "check", "nowhere.program", "--json")
    error = json.loads(out)
    assert code == 4
    assert (error["schema"], error["error"], error["exit_code"]) == ("eigentensor.error/1", "BlobNotFound", 4)


#: Commands without data of their own: a script, a story, and what serves until it is told to stop.
WITHOUT_DATA = {
    "completion", "demo", "serve", "operator run", "aggregator run",
    "cluster up", "cluster worker", "cluster top", "cluster timeline", "cluster down",
}  # fmt: skip


def test_every_command_has_help_and_json_and_can_be_quiet() -> None:
    all_commands = commands()
    options = {words: {word for p in command.params for word in p.opts} for words, command in all_commands.items()}
    assert not {words for words, command in all_commands.items() if not command.help}
    assert not {words for words, has in options.items() if not {"--quiet", "-q"} <= has}
    assert {words for words, has in options.items() if "--json" not in has} == WITHOUT_DATA


def test_the_help_of_every_command_ends_with_examples_that_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    every = commands()
    assert EXAMPLES.keys() == every.keys()
    for words, lines in EXAMPLES.items():
        _, out, _ = main_in_process(capsys, *words.split(), "--help")
        shown = out.rpartition("  Examples:\n")[2].splitlines()
        assert shown == [f"  eigentensor {line}" for line in lines] and len(lines) in (1, 2), words
        assert all(len(line) <= 80 for line in shown), words
        for line in lines:
            assert f"{line} ".startswith(f"{words} ")
            given = shlex.split(line.partition(" > ")[0])[len(words.split()) :]
            every[words].make_context(words, given)  # raises a usage error for what the verb does not take


def test_every_command_is_in_a_table_of_a_readme_and_every_one_there_exists() -> None:
    """A row's first column names commands: `wallet show, deposit` are two of `wallet`."""
    listed = set[str]()
    for page in ("client", "operator", "aggregator"):
        for row in re.findall(r"^\| (`[^|]*) \|", verbs_of(Path(page, "README.md").read_text()), re.M):
            for span in re.findall("`([^`]*)`", row):
                first, *more = span.split(", ")
                noun = first.rpartition(" ")[0]
                listed |= {first, *(f"{noun} {name}" for name in more)}
    assert listed == set(commands())


def verbs_of(page: str) -> str:
    """Its table under the head `verb`."""
    return page.partition("| verb | does |")[2].partition("\n\n")[0]


def test_a_part_keeps_its_verbs_beside_those_that_a_client_adds(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ADDED:
        code, out, _ = main_in_process(capsys, name, "--help")
        assert code == 0 and "  list " in out and "  up " in out


def test_quiet_leaves_data_and_errors(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("correct horse battery")
    words = ["wallet", "new", str(tmp_path / "key.json"), "--password-file", str(password)]
    code, out, err = main_in_process(capsys, *words, "-q")
    assert (code, err) == (0, "") and "address" in out
    code, out, err = main_in_process(capsys, *words, "-q")
    assert (code, out) == (3, "") and "error  " in err


def test_a_new_keystore_is_its_owners_alone_and_opens_with_its_password(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from eigentensor.chain import load_account

    keystore, password = tmp_path / "key.json", tmp_path / "password"
    password.write_text("short")
    words = ["wallet", "new", str(keystore), "--password-file", str(password), "--json"]
    code, out, _ = main_in_process(capsys, *words)
    assert (code, json.loads(out)["error"], keystore.exists()) == (3, "ConfigError", False)
    password.write_text("correct horse battery")
    code, out, _ = main_in_process(capsys, *words)
    answer = json.loads(out)
    assert (code, answer["schema"]) == (0, "eigentensor.keystore/1")
    assert load_account(keystore, password).address == answer["address"]
    assert stat.S_IMODE(keystore.stat().st_mode) == 0o600


def test_nobody_is_asked_without_a_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = main_in_process(capsys, "wallet", "new", str(tmp_path / "key.json"))
    assert code == 3 and "there is no terminal" in err


def test_networks_are_listed_with_what_is_wrong_with_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    code, out, _ = main_in_process(capsys, "network", "list")
    assert code == 0 and "eigentensor devnet" in out
    folder = tmp_path / "eigentensor" / "networks"
    folder.mkdir(parents=True)
    (folder / "broken.json").write_text("{}")
    code, out, _ = main_in_process(capsys, "network", "list", "--json")
    [network] = json.loads(out)["networks"]
    assert (code, network["name"]) == (0, "broken") and "does not describe a network" in network["wrong"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    code, out, _ = main_in_process(capsys, "completion", shell)
    assert code == 0 and COMPLETES in out


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("can", {"cancel"}),
        ("c", {"cancel", "challenge", "channel", "chat", "cluster", "completion"}),
        ("task ex", {"explain"}),
        ("plan --max", {"--max-price"}),
    ],
)
def test_words_are_completed(words: str, completed: set[str]) -> None:
    line = f"eigentensor {words}"
    environment = {COMPLETES: "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words.split()))}
    done = subprocess.run(
        [sys.executable, "-m", "eigentensor_client"], capture_output=True, text=True, env=os.environ | environment
    )
    assert (done.returncode, set(done.stdout.split()), done.stderr) == (0, completed, "")


def test_a_hint_names_the_command_as_it_was_called_where_it_is_not_on_the_path(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "eigentensor_client", "plan", "x.program"]
    home = {"PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(tmp_path)}
    env = {name: value for name, value in os.environ.items() if not name.startswith("EIGENTENSOR")} | home
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=env)
    assert f"`{sys.executable} -m eigentensor_client network list` shows which there are" in done.stderr
