"""Every error code has a test that provokes it, and every exit code of the table is what the command returns."""

import ast
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import eigentensor
import eigentensor_aggregator
import eigentensor_client
import eigentensor_cluster
import eigentensor_economics
import eigentensor_local
import eigentensor_models
import eigentensor_operator
import eigentensor_serve
from eigentensor import errors
from eigentensor.chain.fixes import FIXES, TOPICS
from eigentensor.errors import EigenTensorError
from eigentensor_client import cli
from eigentensor_client.cli import exit_code, main
from support.screens.errors import BASES, ELSEWHERE, HERE

ROOT = Path(__file__).parents[2]
PARTS = (
    eigentensor, eigentensor_aggregator, eigentensor_client, eigentensor_cluster, eigentensor_economics,
    eigentensor_local, eigentensor_models, eigentensor_operator, eigentensor_serve,
)  # fmt: skip
SOURCES = {
    str(path.relative_to(Path(part.__path__[0]).parent)): path.read_text()
    for part in PARTS
    for path in Path(part.__path__[0]).rglob("*.py")
}
#: Exit codes of no error: done, a fault of this program, Ctrl-C, signals.
PLAIN = {"0", "1", "130", "128 + n"}


@cache
def classes() -> set[type[EigenTensorError]]:
    """All that any part defines: the modules that define one are found by their text, and imported."""
    for path, text in SOURCES.items():
        if re.search(r"^class \w+\(\w*(Error|NotFound|Refused)\)", text, re.M):
            importlib.import_module(path.removesuffix(".py").replace("/", "."))

    def below(kind: type[EigenTensorError]) -> Iterator[type[EigenTensorError]]:
        yield kind
        for sub in kind.__subclasses__():
            yield from below(sub)

    return {kind for kind in below(EigenTensorError) if kind.__module__.partition(".")[0].startswith("eigentensor")}


def codes() -> dict[str, str]:
    """The table of exit codes in client/README.md."""
    text = (ROOT / "client" / "README.md").read_text().partition("| exit code |")[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| ([\d n+]+) \| (.+) \|$", text, re.M))


def test_every_error_is_provoked_by_a_test_or_is_caught_for_all_below_it() -> None:
    named = {kind.__name__ for kind in HERE} | ELSEWHERE.keys() | {kind.__name__ for kind in BASES}
    assert {kind.__name__ for kind in classes()} == named
    raised = {word for text in SOURCES.values() for word in re.findall(r"raise (?:\w+\.)*(\w+)\(", text)}
    assert not raised & {kind.__name__ for kind in BASES}


@pytest.mark.parametrize("kind", HERE, ids=lambda kind: kind.__name__)
def test_an_error_is_provoked(kind: type[EigenTensorError]) -> None:
    with pytest.raises(kind) as raised:
        HERE[kind]()
    assert type(raised.value) is kind
    assert raised.value.what


@pytest.mark.parametrize("name", ELSEWHERE)
def test_an_error_is_provoked_by_the_test_that_is_named(name: str) -> None:
    file, test, excerpt = ELSEWHERE[name]
    text = (ROOT / "tests" / file).read_text()
    [function] = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef) and node.name == test]
    assert excerpt in (ast.get_source_segment(text, function) or "")


def test_the_tree_in_words_has_every_error_with_its_place() -> None:
    written = re.findall(r"^([│├└─ ]*)(\w+)", (errors.__doc__ or "").partition("\n\n")[2], re.M)
    depths = {name: len(lines) // 4 for lines, name in written}
    own = [kind for kind in classes() if kind.__module__ == errors.__name__]
    assert depths == {kind.__name__: len(inspect.getmro(kind)) - 4 for kind in own}


def test_the_table_has_the_exit_code_of_every_error_and_no_other() -> None:
    of_errors = {str(exit_code(kind)) for kind in classes() - BASES}
    assert not of_errors & PLAIN
    assert set(codes()) == PLAIN | of_errors


def ended(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(words)
    code = end.value.code
    return (code if isinstance(code, int) else 0, *capsys.readouterr())


def test_the_command_ends_with_the_code_of_whatever_was_raised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below any verb: here by a user's file, which the verb runs."""
    file = tmp_path / "raises.py"
    for kind in classes() - BASES:
        file.write_text(
            f"from {kind.__module__} import {kind.__name__} as Kind\n"
            "error = Kind.__new__(Kind)\n"
            "error.what, error.fix, error.topic = 'what went wrong', 'what to do', ''\n"
            "raise error\n"
        )
        code, out, err = ended(capsys, "program", "capture", str(file), "--json")
        assert (code, str(code) in codes()) == (exit_code(kind), True)
        named = {"schema": "eigentensor.error/1", "error": kind.__name__, "exit_code": exit_code(kind)}
        what = f"what went wrong ({file}:4)" if kind is errors.PaymentRefused else "what went wrong"
        assert json.loads(out) == named | {"what": what, "why": "", "fix": "what to do"}
        assert err == f"capturing {file}\nerror  {what}\n  fix  what to do\n"


def test_an_interrupted_command_ends_with_130(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "raises.py"
    file.write_text("raise KeyboardInterrupt")
    message = f"capturing {file}\nnothing was written: the same command begins again\n"
    assert ended(capsys, "program", "capture", str(file)) == (130, "", message)


def test_wrong_usage_is_an_error_like_others(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ended(capsys, "plan", "--nonsense", "--json")
    error = json.loads(out)
    assert (code, error["schema"], error["error"]) == (2, "eigentensor.error/1", "UsageError")
    assert error["what"].startswith("No such option: --nonsense")
    assert err == f"error  {error['what']}\n  fix  `eigentensor plan --help` shows what it takes.\n"


def test_a_topic_of_the_library_has_a_verb_and_the_library_names_none() -> None:
    """What a library says to do can be done from Python, too; the command adds its verbs by the error's topic."""
    library = {name: text for name, text in SOURCES.items() if name.startswith("eigentensor/")}
    named = {word for text in library.values() for word in re.findall(r'topic ?= ?"(\w+)"', text)} | set(
        TOPICS.values()
    )
    assert named == cli._TOPICS.keys()
    apart = ("schemas/", "web/documents.py", "web/refusals.py")  # documents of services, whose examples they are
    verbs = re.compile("`eigentensor [a-z]|^--[a-z]{2}|(?<!bwrap) --[a-z]{2}|`--[a-z]{2}")
    texts = [
        (name, node.value)
        for name, text in library.items()
        if not name.removeprefix("eigentensor/").startswith(apart)
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if keyword.arg == "fix"
        for node in ast.walk(keyword.value)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert len(texts) > 50
    assert [text for text in [*texts, *FIXES.items()] if verbs.search(text[1])] == []
