"""Which page of the repository says the words of a command: those that a newcomer can know."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from support.screens.commands import commands
from support.screens.readme import PAGES, READMES, ROOT

_ASSIGNED = re.compile(r"([A-Z][A-Z_]*)=(.*)", re.DOTALL)
_CALLED = re.compile(r"@?\b(?:et|forward)\.\w+")


def split(line: str) -> tuple[dict[str, str], list[str]]:
    """The variables that a line of a shell sets for its command, and the command's words."""
    variables, words = {}, shlex.split(line)
    while match := _ASSIGNED.fullmatch(words[0]):
        variables[match[1]] = match[2]
        del words[0]
    return variables, words


def words_of(line: str) -> list[str]:
    """What somebody must know to type it: variables, verb, options."""
    variables, words = split(line)
    if words[0] != "eigentensor":
        return [*variables, *({"pip": ["pip install"]}.get(words[0], []))]
    verbs = [" ".join(words[1:n]) for n in (3, 2) if " ".join(words[1:n]) in commands()]
    options = [word.partition("=")[0] for word in words[1:] if re.match(r"--?[a-z]", word)]
    return list(dict.fromkeys([*variables, *verbs[:1], *options]))


def calls_of(text: str) -> list[str]:
    """What somebody must know to write a Python file: what it takes of the package, and of a function named forward."""
    return sorted(set(_CALLED.findall(text)))


def places_of(words: Iterable[str], printed: str = "") -> Mapping[str, str]:
    """Where each word stands: on the page that has the most of them, else on another; or in what was `printed` from a
    command; or nowhere, which is an empty text."""
    wanted = list(words)
    by_page = {page: [word for word in wanted if _says(code_of(page), word)] for page in [*READMES, *PAGES]}
    first = sorted(by_page, key=lambda page: -len(by_page[page]))
    places = {word: [str(page.relative_to(ROOT)) for page in first if word in by_page[page]] for word in wanted}
    elsewhere = {word: "the command before" if _says(printed, word) else "" for word in wanted}
    return {word: places[word][0] if places[word] else elsewhere[word] for word in wanted}


@cache
def code_of(page: Path) -> str:
    """What a page shows as code: lines of its blocks, and words in its text."""
    text = page.read_text()
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```\w*\n.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return "\n".join([*blocks, *re.findall(r"`([^`]+)`", rest)])


def _says(code: str, word: str) -> bool:
    """Whether a line has the words of a word in this order, or the text names a variable by its end, after the
    beginning that many share."""
    if re.search(r"[^\n]*?".join(map(_whole, word.split())), code):
        return True
    shared: Sequence[str] = re.findall(r"\b([A-Z_]+_)…", code)
    return any(word.startswith(front) and re.search(_whole(word.removeprefix(front)), code) for front in shared)


def _whole(word: str) -> str:
    return rf"(?<![\w-]){re.escape(word)}(?![\w-])"
