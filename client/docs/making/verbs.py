"""The command: a page for each verb with what it takes, its examples and what it prints, as `tests/screens` has it."""

import re
from collections.abc import Iterator
from typing import Any

from docs.making.markup import code, fenced, folded, plain, table
from docs.making.sections import ROOT
from eigentensor_client.cli import PARTS, VERBS
from eigentensor_client.usage import EXAMPLES
from support.screens.commands import AS, commands

_SCREENS = ROOT / "tests" / "screens"


def pages() -> dict[str, str]:
    """Texts by their places under the folder of the reference."""
    every = commands()
    made = {"command/index.md": _index()}
    for name, line in _lines().items():
        leaves = {words: leaf for words, leaf in every.items() if words.split()[0] == name}
        parts = [f"# eigentensor {name}", line, *(part for item in leaves.items() for part in _verb(*item, leaves))]
        made[f"command/{name}.md"] = "\n\n".join(parts) + "\n"
    return made


def _lines() -> dict[str, str]:
    return {name: line for name, (_, line) in VERBS.items()} | PARTS


def _index() -> str:
    rows = [(f"[`{name}`]({name}.md)", plain(line)) for name, line in _lines().items()]
    return (
        "# The command\n\nEvery verb, and what it prints. What all verbs have in common, and their exit codes, say\n"
        "[the rules of the command](rules.md).\n\n" + table(("verb", "does"), rows)
    )


def _verb(words: str, leaf: Any, leaves: dict[str, Any]) -> Iterator[str]:
    context = leaf.make_context(words, [], resilient_parsing=True)
    if len(leaves) > 1 or words != next(iter(leaves)):
        yield f"## {words}"
    usage = " ".join(re.sub(r"^\{(.*)\}$", r"\1", piece) for piece in leaf.collect_usage_pieces(context))
    yield fenced(f"eigentensor {words} {usage}", "console")
    yield from (plain(paragraph) for paragraph in re.split(r"\n\s*\n", leaf.help or ""))
    records = [param.get_help_record(context) for param in leaf.params]
    yield table(("takes", ""), [(code(record[0]), plain(record[1])) for record in records if record])
    if lines := EXAMPLES.get(words):
        yield fenced("\n".join(f"eigentensor {line}" for line in lines), "console")
    yield from _screen(words, AS.get(words, words).replace(" ", "-"))


def _screen(words: str, name: str) -> Iterator[str]:
    path = _SCREENS / f"{name}.txt"
    if not path.exists():
        return
    shown = re.split(r"^── (.+)\n", path.read_text(), flags=re.MULTILINE)
    by_title = dict(zip(shown[1::2], shown[2::2], strict=True))
    as_other = "" if name == words.replace(" ", "-") else f", as of `{name.replace('-', ' ')}`"
    yield f"**What it prints{as_other}**"
    for title, text in by_title.items():
        if title == "--json":
            yield folded("The same with --json", fenced(text, "json"))
        elif title != "120 columns":
            yield fenced(text)
