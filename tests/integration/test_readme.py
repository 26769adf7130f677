"""What the README files and the pages of the documentation show runs, and what they link to is there."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

from eigentensor import GraphBuilder, channel, merkle, reference, tracing
from eigentensor.channel.calls import Computation
from eigentensor.task import NONE, Domain
from eigentensor_client.cli import app, main
from support.screens.readme import PAGES, READMES, ROOT, blocks, commands, mentioned

VERBS: Any = get_command(app)
named = pytest.mark.parametrize("readme", [*READMES, *PAGES], ids=lambda p: str(p.relative_to(ROOT)))


def test_the_ten_lines_run(capsys: pytest.CaptureFixture[str]) -> None:
    [code, *_] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.endswith("(256, 256)\n")


@pytest.mark.parametrize("readme", READMES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(readme: Path) -> None:  # those of pages: mkdocs itself
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
def test_what_the_guide_says_of_cheating_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = commands(ROOT / "client/docs/pages/guides/economics.md", "What would cheating pay?")
    assert len(lines) == 6
    for words in lines:
        with pytest.raises(SystemExit) as ended:
            main(words[1:])
        assert not ended.value.code, words
    assert {path.stem for path in (tmp_path / "pictures").iterdir()} == {"payoffs", "frontier", "operator", "verifier"}


#: Where the blocks of a section are executed; where they are not, why.
BLOCKS = {
    "README.md": {
        "Try it": "scripts/demo and scripts/test themselves; what demo prints is told, with other addresses each time",
        "Ten lines": "test_the_ten_lines_run",
        "Three lines": "integration/test_three_lines.py, and paid in e2e/test_three_lines.py",
        "Three terminals": "e2e/test_commands.py",
        "Calls in milliseconds": "integration/test_channel_functions.py, with another function",
    },
    "client/README.md": {
        "The client: plan, pay, wait, verify": "e2e/test_commands.py, with another model; e2e/test_serve.py",
    },
    "client/docs/pages/start/terminals.md": {
        "Three terminals": "e2e/test_commands.py",
        "One command": "integration/test_first_result.py, with the model that it makes",
    },
    "client/docs/pages/guides/function.md": {
        "A function": "e2e/test_readme.py",
        "Python": "e2e/test_readme.py",
    },
    "client/docs/pages/guides/dispute.md": {
        "A dispute by hand": "integration/test_challenge.py: needs a wrong result, and its uuid",
    },
    "client/docs/pages/guides/receipts.md": {
        "Receipts": "e2e/test_commands.py, with another task",
    },
    "client/docs/pages/guides/sessions.md": {
        "Sessions": "e2e/test_readme.py",
    },
    "client/docs/pages/guides/calls.md": {
        "Paid calls": "integration/test_channel_functions.py, with other functions, at an operator in this process; "
        "integration/test_x402.py",
    },
    "client/docs/pages/guides/app.md": {
        "An app": "e2e/test_apps.py, with other names",
        "Pages": "integration/test_serve_pages.py",
        "Programs over HTTP": "e2e/test_serve.py: a service that goes on, and its tokens",
    },
    "client/docs/pages/guides/model.md": {
        "Models": "integration/test_openai_local.py: the example's training takes minutes",
        "Language models": "integration/test_model_chat.py, with a smaller model",
        "Encoders": "integration/test_encoders_served.py, with smaller ones",
    },
    "client/docs/pages/guides/economics.md": {
        "What would cheating pay?": "test_what_the_guide_says_of_cheating_runs",
    },
    "client/docs/pages/guides/secrets.md": {
        "Another signer": "integration/test_operator_daemon.py, with another owner",
    },
    "sdk/README.md": {
        "eigentensor: the program, its meaning, its names": "test_the_library_does_what_its_page_shows",
        "The format, version 1": "no program: the encoding",
        "Body record: a loop nest over one expression": "no program: the encoding",
        "A worked example": "unit/test_program_vectors.py holds it to the encoder",
        "Traces and witnesses": "test_the_library_does_what_its_page_shows",
        "Fast execution": "lines about three programs: differential/test_compiled.py, and test_kept.py beside it",
        "Many workers": "lines about a program of three calls: differential/test_sharded.py",
        "Graphs": "test_the_library_does_what_its_page_shows",
        "Signals": "unit/test_signals.py",
        "Streams, and GT's way of working": "unit/test_gt.py, with other models",
        "Pages": "parts of the gateway's: integration/test_pages.py",
        "A session at a cluster": "integration/test_cluster.py, with other programs and addresses",
        "Paid calls": "test_a_call_is_signed_as_the_page_of_the_library_shows",
    },
    "client/docs/pages/index.md": {"EigenTensor": "the front page's three lines: integration/test_three_lines.py"},
    "client/docs/pages/start/index.md": {
        "Install": "e2e/test_wheel.py, from the wheel",
        "A first paid result": "e2e/test_init.py",
        "A function of yours": "e2e/test_readme.py",
        "See somebody lie": "scripts/demo itself",
    },
    "client/docs/pages/start/notebooks.md": {"Notebooks": "e2e/test_notebooks.py, without a browser"},
    "client/examples/README.md": {
        "To begin with": "e2e/test_init.py, for each of them",
        "A language model": "e2e/test_language_model.py, a smaller one: this one's training takes minutes",
    },
}


def test_every_page_with_blocks_is_named() -> None:
    assert {str(page.relative_to(ROOT)) for page in PAGES if blocks(page)} <= BLOCKS.keys()


@pytest.mark.parametrize("page", BLOCKS)
def test_every_block_is_executed_or_there_is_a_reason(page: str) -> None:
    """Who adds a block says here where it is executed."""
    assert {section for section, _, _ in blocks(ROOT / page)} == BLOCKS[page].keys()
    for where in BLOCKS[page].values():
        for test in re.findall(r"(?:unit|integration|differential|e2e)/\w+\.py", where):
            assert (ROOT / "tests" / test).exists()
        for test in re.findall(r"test_\w+(?!\w|\.py)", re.sub(r"\w+/\w+\.py", "", where)):
            assert test in globals()


def run_python(section: str, **names: Any) -> dict[str, Any]:
    [code] = [text for title, kind, text in blocks(ROOT / "sdk" / "README.md") if (title, kind) == (section, "python")]
    exec(compile(code, f"sdk/README.md, {section}", "exec", dont_inherit=True), names)
    return names


def test_a_call_is_signed_as_the_page_of_the_library_shows() -> None:
    domain, key = Domain(1, "0x" + "11" * 20), channel.Key(b"k" * 32)
    deal: Any = SimpleNamespace(client=key.address)
    called = run_python(
        "Paid calls",
        **{n: getattr(channel, n) for n in ("CallReceipt", "Key", "Voucher", "hash_of", "is_signed_by")},
        **{n: getattr(channel, n) for n in ("message_of", "task_of")},
        **{name: getattr(merkle, name) for name in ("call_hash", "result_of")},
        channel=NONE, index=0, order=Computation(b"p" * 32).order(deal, NONE, 0, 7, NONE), domain=domain, number=1,
        outputs_root=b"o" * 32, secret=b"k" * 32, count=2, amount=10, offer=SimpleNamespace(signer=key.address),
        frontier=merkle.Frontier(),
    )  # fmt: skip
    assert called["voucher"].acked == 1 and called["frontier"].root() == called["voucher"].root


def test_the_library_does_what_its_page_shows() -> None:
    run_python("eigentensor: the program, its meaning, its names")
    random = np.random.default_rng(0)
    graph = run_python("Graphs", weights=random.standard_normal((64, 6), dtype=np.float32))["graph"]
    rows = random.standard_normal((8, 64), dtype=np.float32)
    result = reference.execute(graph.program, {"x": rows, **graph.weights}).outputs["y"]
    assert result.shape == (8, 3) and np.allclose(result.sum(axis=-1), 1)

    # Eight calls, of which the eighth reads the fourth.
    builder = GraphBuilder()
    x = builder.input("x", (16, 16))
    made = [x @ builder.weight(f"w{n}", random.standard_normal((16, 16), dtype=np.float32)) for n in range(7)]
    last = builder.weight("last", random.standard_normal((16, 16), dtype=np.float32))
    graph = builder.compile({**{f"a{n}": y for n, y in enumerate(made)}, "z": (made[3] @ last).relu()})
    tensors = {"x": random.standard_normal((16, 16), dtype=np.float32), **graph.weights}
    run_python("Traces and witnesses", program=graph.program, tensors=tensors, **vars(tracing))
