"""Every error: what it means, how it came about, what to do. From the tree of errors and from where each is raised."""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from docs.making.markup import code, plain, table
from docs.making.sections import ROOT
from eigentensor import errors
from eigentensor.chain.fixes import FIXES
from eigentensor.errors import EigenTensorError
from eigentensor_client.cli import exit_code

_SOURCES = [
    path
    for part in ("sdk", "operator", "aggregator", "client")
    for path in sorted(ROOT.glob(f"{part}/eigentensor*/**/*.py"))
]


def pages() -> dict[str, str]:
    """Texts by their places under the folder of the reference."""
    return {"errors.md": _errors(), "contract-errors.md": _contracts()}


def _errors() -> str:
    raised = _raised()
    parts = [
        "# Errors",
        "An error says what was wrong, why, and what to do. Python raises it, the command prints it and ends with its\n"
        "code, services answer it as a problem (RFC 9457). `{…}` stands for what belongs to the case.",
        "```text\n" + (inspect.getdoc(errors) or "").partition("\n\n")[2].strip() + "\n```",
    ]
    for kind in sorted(_classes(), key=lambda kind: kind.__name__):
        base = kind.__mro__[1].__name__
        above = f"[`{base}`](#{base.lower()})" if issubclass(kind.__mro__[1], EigenTensorError) else code(base)
        parts += [f"## {kind.__name__}", f"Is {above}; the command ends with code {exit_code(kind)}."]
        parts.append(plain(re.split(r"\n\s*\n", inspect.getdoc(kind) or "")[0]))
        if kind.usual_fix:
            parts.append(f"**Mostly helps**: {plain(kind.usual_fix)}")
        parts.append(table(("what and why", "what to do"), raised.get(kind.__name__, ())))
    return "\n\n".join(filter(None, parts)) + "\n"


def _contracts() -> str:
    rows = [(code(name), plain(fix)) for name, fix in FIXES.items()]
    return (
        "# Refusals of contracts\n\nA contract that refuses a message is the error [`Reverted`](errors.md#reverted),\n"
        "which names the refusal and says what to do.\n\n" + table(("refusal", "what to do"), rows)
    )


@cache
def _classes() -> tuple[type[EigenTensorError], ...]:
    for path in _SOURCES:
        if re.search(r"^class \w+\(\w*(Error|NotFound|Refused)\)", path.read_text(), re.MULTILINE):
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts[1:]))

    def below(kind: type[EigenTensorError]) -> Iterator[type[EigenTensorError]]:
        yield kind
        for sub in kind.__subclasses__():
            yield from below(sub)

    return tuple(dict.fromkeys(below(EigenTensorError)))


def _raised() -> Mapping[str, list[tuple[str, str]]]:
    """By the name of an error what is said where it is raised: what, and what to do. Texts that are made elsewhere are
    left out."""
    known = {kind.__name__: kind for kind in _classes()}
    found: dict[str, dict[tuple[str, str], None]] = {}
    for path in _SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or (name := _name(node.func)) not in known:
                continue
            texts = [text for argument in node.args if (text := _text(argument)) and " " in text]
            fixes = [_text(word.value) for word in node.keywords if word.arg == "fix"]
            if len(re.findall(r"[a-z]+", " ".join(texts))) > 1:  # else only the case would say it
                row = plain(": ".join(texts)), plain(next(iter(fixes), "") or known[name].usual_fix)
                found.setdefault(name, {})[row] = None
    return {name: sorted(rows) for name, rows in found.items()}


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.expr) -> str:
    """A text as it is written in the source, `{…}` for what is computed; empty if all of it is."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "{…}" for part in node.values)
    return ""
