"""Sections of the repository's Markdown files, included in pages of the site, and links that lead to where they are.

A line of a page `@include FILE` stands for the text before a file's first `##` heading, `@include FILE: TITLE` for what
is under a heading; with `#`s before it the heading itself comes too, on that level. `@include! …` leaves out what is
under headings below it. Headings on GitHub and here have the same anchors, so that a link into a README file is one to
the page that includes that section. A section is on one page.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGES = "client/docs/pages"
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#{1,5}) (.+)$", re.MULTILINE)
_INCLUDE = re.compile(r"^(#{1,5} )?@include(!?) ([\w./-]+\.md)(?:: (.+))?$", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^()\s#]*)(?:#([^()\s]+))?\)")
_ITEM = re.compile(r"[*-] |\d+\. |\|")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, its level, what is under it, and of that what stands before the next heading."""

    title: str
    level: int
    text: str
    alone: str

    @property
    def anchor(self) -> str:
        """As GitHub makes it."""
        return anchor_of(self.title)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a section is on the site: a page, and the anchor on it, empty for all of the page."""

    page: str
    anchor: str = ""


def anchor_of(title: str) -> str:
    """The anchor of a heading: small letters, hyphens for spaces, no punctuation."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


@cache
def sections(file: str) -> tuple[Section, ...]:
    """All sections of a file of the repository, in order. The first one is what begins with its title."""
    text = (ROOT / file).read_text()
    fences = [match.span() for match in _FENCE.finditer(text)]
    found = [one for one in _HEADING.finditer(text) if not any(a <= one.start() < b for a, b in fences)]
    made = []
    for number, one in enumerate(found):
        level, rest = len(one[1]), found[number + 1 :]
        following = (later.start() for later in rest if len(later[1]) <= level or level == 1)
        alone = text[one.end() : rest[0].start() if rest else len(text)]
        made.append(Section(one[2], level, text[one.end() : next(following, len(text))], alone))
    return tuple(made)


def section(file: str, title: str = "") -> Section:
    """The section of a title, the first one without. Raises LookupError."""
    for one in sections(file):
        if not title or one.title == title:
            return one
    raise LookupError(f"{file} has no section {title!r}")


def included(text: str, page: str) -> str:
    """A page's text with what its lines include, whose links are as if they stood in the page."""

    def replace(match: re.Match[str]) -> str:
        level, alone, file, title = match[1], match[2], match[3], match[4] or ""
        one = section(file, title)
        body = _relinked(one.alone if alone else one.text, file, page)
        shift = (len(level) - 1 if level else 1) - one.level
        body = _outside(body, lambda part: _HEADING.sub(lambda m: "#" * (len(m[1]) + shift) + f" {m[2]}", part))
        return (f"{level}{one.title}\n\n" if level else "") + body.strip("\n")

    return _INCLUDE.sub(replace, text)


def places(pages: Mapping[str, str]) -> dict[tuple[str, str], Place]:
    """(File, anchor) of what is included anywhere → where it is. `pages` are texts by their paths on the site."""
    known: dict[tuple[str, str], Place] = {}
    for page, text in pages.items():
        for level, alone, file, title in _INCLUDE.findall(text):
            whole = section(file, title)
            for number, one in enumerate(_within(file, whole)):
                if number and alone:
                    break
                first = not number and not level
                place = Place(page, "" if first else one.anchor)
                if known.setdefault((file, one.anchor), place) != place:
                    raise LookupError(f"{file}, {one.title}: on {known[file, one.anchor].page} and on {page}")
                if one.level == 1:
                    known[file, ""] = Place(page)
    return known


def linked(text: str, page: str, known: Mapping[tuple[str, str], Place]) -> str:
    """A page's text whose links into files of the repository lead to pages of the site. A file that is no page is named
    alone. A link to a section that no page includes stays as it is: mkdocs says that it leads nowhere."""
    here = posixpath.join(PAGES, posixpath.dirname(page))

    def replace(match: re.Match[str]) -> str:
        target, anchor = match[1], match[2] or ""
        file = posixpath.normpath(posixpath.join(here, target)) if target else posixpath.join(PAGES, page)
        if file.startswith(f"{PAGES}/") or not target:
            return match[0]
        if (ROOT / file).is_file() and not file.endswith(".md"):
            return f"](@file:{file})"
        if (place := known.get((file, anchor))) is None:
            return match[0]
        path = posixpath.relpath(place.page, posixpath.dirname(page) or ".")
        return f"]({path}{'#' if place.anchor else ''}{place.anchor})"

    named = _outside(text, lambda part: _LINK.sub(replace, part))
    return re.sub(r"\[([^\[\]]+)\]\(@file:([^)]+)\)", r"\1 (`\2`)", named)


def separated(text: str) -> str:
    """The same Markdown where lists and tables have an empty line before them, and what is within a list has four
    spaces: GitHub needs neither."""

    def parted(part: str) -> str:
        lines: list[str] = []
        for line in part.split("\n"):
            before = lines[-1] if lines else ""
            begins = _ITEM.match(line) and before.strip() and not _ITEM.match(before) and not before.startswith(" ")
            inside = any(_ITEM.match(earlier) for earlier in _paragraph(lines))
            if begins and not inside:
                lines.append("")
            lines.append(line)
        return re.sub(r"^(?:  )+(?=\S)", lambda spaces: 2 * spaces[0], "\n".join(lines), flags=re.MULTILINE)

    return _outside(text, parted)


def _paragraph(lines: list[str]) -> Iterator[str]:
    """The lines since the last empty one."""
    for line in reversed(lines):
        if not line.strip():
            return
        yield line


def _within(file: str, whole: Section) -> Iterator[Section]:
    """A section and those below it; of the first one what stands before any chapter."""
    every = sections(file)
    start = every.index(whole)
    yield whole
    for one in every[start + 1 :]:
        if one.level <= whole.level or whole.level == 1:
            return
        yield one


def _relinked(text: str, file: str, page: str) -> str:
    """Links of a file, as they are written in a page."""
    here, there = posixpath.dirname(file), posixpath.join(PAGES, posixpath.dirname(page))

    def replace(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(here, match[1])) if match[1] else file
        return f"]({posixpath.relpath(target, there)}{f'#{match[2]}' if match[2] else ''})"

    return _outside(text, lambda part: _LINK.sub(replace, part))


def _outside(text: str, change: Callable[[str], str]) -> str:
    """A text of which what is outside fences is changed."""
    parts, at = [], 0
    for fence in _FENCE.finditer(text):
        parts += [change(text[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, change(text[at:])])
