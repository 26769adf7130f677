"""The table of sdk/README.md about what tinygrad would change. `scripts/vectors` writes it."""

from support.programs.rewrite_rows import rows
from support.programs.rewrites import Rewrite
from support.vectors.programs import README, between

MARKS = ("<!-- rewrites: scripts/vectors writes them -->\n", "<!-- end of the rewrites -->\n")


def document() -> str:
    """sdk/README.md with the table as it has to be."""
    head = "| rewrite | by | changes | tinygrad's kernel gives | here |"
    lines = [head, "| --- | --- | --- | --- | --- |", *map(line, rows())]
    return between(README.read_text(), *MARKS, "\n".join(lines) + "\n")


def line(row: Rewrite) -> str:
    by = f"`{row.rule}`" if row.is_rule or "_" in row.rule else row.rule
    return f"| {row.name} | {by} | {share(row)} | {row.stock} | {row.answer} |"


def share(row: Rewrite) -> str:
    if not row.is_rule:
        return "–"
    percent = 100 * row.share
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.1f} %"


if __name__ == "__main__":
    README.write_text(document())
