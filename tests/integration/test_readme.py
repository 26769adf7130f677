"""What the README files show runs, and what they link to is there."""

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from eigentensor_client.cli import app, main
from readme_commands import READMES, ROOT, commands, mentioned

VERBS: Any = get_command(app)
named = pytest.mark.parametrize("readme", READMES, ids=lambda p: str(p.relative_to(ROOT)))


def test_the_ten_lines_run(capsys: pytest.CaptureFixture[str]) -> None:
    [code, *_] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.endswith("(256, 256)\n")


@named
def test_links_lead_somewhere(readme: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", readme.read_text())
    assert not [link for link in links if not (readme.parent / link).exists()]


def parsed(words: list[str]) -> None:
    """As the command itself does it, up to where a verb would begin. Raises a usage error."""
    context = VERBS.make_context("eigentensor", list(words))
    while hasattr(context.command, "resolve_command") and context._protected_args:
        name, command, rest = context.command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)


@named
def test_every_command_in_a_block_has_verbs_and_options_that_there_are(readme: Path) -> None:
    for words in commands(readme):
        if words[0] == "eigentensor":
            parsed(words[1:])


@named
def test_every_command_in_the_text_is_there(readme: Path) -> None:
    for line in mentioned(readme):
        command, context = VERBS, VERBS.make_context("eigentensor", ["ps"], resilient_parsing=True)
        for word in line.split():
            if not hasattr(command, "get_command"):
                break
            command = command.get_command(context, word)
            assert command is not None, f"`eigentensor {line}`: there is no {word!r}"


@pytest.mark.slow
def test_what_the_clients_page_says_of_cheating_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = commands(ROOT / "client" / "README.md", "What would cheating pay?")
    assert len(lines) == 4
    for words in lines:
        with pytest.raises(SystemExit) as ended:
            main(words[1:])
        assert not ended.value.code, words
    assert {path.stem for path in (tmp_path / "pictures").iterdir()} == {"payoffs", "frontier", "operator", "verifier"}
