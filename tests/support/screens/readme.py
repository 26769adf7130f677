"""The commands that the README files and the pages of the documentation show."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[3]
READMES = sorted(p for p in ROOT.glob("**/README.md") if not {".venv", "node_modules", ".pytest_cache"} & set(p.parts))
PAGES = sorted(ROOT.glob("client/docs/pages/**/*.md"))
_COMMAND = re.compile(r"(?:\.venv/bin/)?(eigentensor|python) ")


def commands(readme: Path, section: str = "") -> list[list[str]]:
    """Words of each command in the blocks of a section, in order; of the whole file if none is named."""
    text = readme.read_text()
    if section:
        text = re.split(rf"^#+ {re.escape(section)}\n", text, maxsplit=1, flags=re.M)[1].partition("\n## ")[0]
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    blocks = [block for language, block in fenced if language != "python"]
    lines = [part for block in blocks for line in block.splitlines() for part in line.split(" && ")]
    shown = [_COMMAND.sub(r"\1 ", line.removeprefix("$ ").strip()) for line in lines]
    return [shlex.split(line, comments=True) for line in shown if _COMMAND.match(line)]


def blocks(readme: Path) -> list[tuple[str, str, str]]:
    """Section, language and text of each block, in order."""
    code_blocks, section = [], ""
    for title, language, text in re.findall(r"^#+ ([^\n]*)$|^```(\w*)\n(.*?)^```$", readme.read_text(), re.M | re.S):
        if title:
            section = title
        else:
            code_blocks.append((section, language, text))
    return code_blocks


def mentioned(readme: Path) -> set[str]:
    """What a file names in its text as a command: words of `eigentensor …` without options and arguments."""
    return set(re.findall(r"`eigentensor ((?:[a-z]+ ?)+)", readme.read_text()))
