"""Markdown of generated pages: tables, code, and plain text that must not become anything else."""

import re
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\*_\[\]>|{}#])")


def plain(text: str) -> str:
    """A text that stands as it is: what it has in backquotes stays code, everything else is no markup."""
    parts = re.split(r"(`[^`\n]+`)", " ".join(text.split()))
    kept = (part if n % 2 else _SPECIAL.sub(r"\\\1", part.replace("<", "&lt;")) for n, part in enumerate(parts))
    return "".join(kept)


def code(text: str) -> str:
    """A word of code in a line, or in a cell of a table."""
    return f"`{text}`" if "`" not in text else f"`` {text} ``"


def cell(text: str) -> str:
    """What stands in a cell: a bar would end it, but within code."""
    parts = re.split(r"(`[^`\n]+`)", " ".join(text.split()))
    return "".join(part if n % 2 else re.sub(r"(?<!\\)\|", r"\|", part) for n, part in enumerate(parts))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells in Markdown; nothing where there are no rows."""
    lines = [f"| {' | '.join(map(cell, row))} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "| --- " * len(head) + "|", *lines, ""]) if lines else ""


def fenced(text: str, language: str = "text") -> str:
    """Lines as they are."""
    return f"```{language}\n{text.rstrip()}\n```\n"


def folded(title: str, text: str) -> str:
    """What is shown when its title is clicked."""
    inner = "\n".join(f"    {line}".rstrip() for line in text.splitlines())
    return f'??? note "{title}"\n\n{inner}\n'
