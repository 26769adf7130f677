"""What mkdocs asks of this site while it builds: which pages there are, what stands in them, what may run."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.making import contracts, failures, figures, python, schemas, services, verbs
from docs.making.sections import Place, anchor_of, included, linked, places, sections, separated

_SCRIPT = re.compile(r"<script(?![^>]*\bsrc=)([^>]*)>(.*?)</script>", re.DOTALL)
#: Files whose every chapter is a page of its own: the folder of these pages.
_CHAPTERS = {"sdk/README.md": "specification", "contracts/README.md": "protocol"}
#: Chapters that are on another page.
_ELSEWHERE = {
    ("contracts/README.md", "Invariants"),
    ("contracts/README.md", "Deployment"),
    ("contracts/README.md", "Assumptions"),
}
_generated: dict[str, str] = {}
_places: dict[tuple[str, str], Place] = {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Makes what is generated. An entry of the navigation that ends in `/` stands for the pages in that folder that no
    other entry names."""
    sections.cache_clear()
    _generated.clear()
    _generated.update(chapters() | _references())
    listed = set(_names(config.nav))

    def expanded(entries: Sequence[Any]) -> Iterator[Any]:
        for entry in entries:
            if isinstance(entry, dict):
                yield {title: list(expanded(b)) if isinstance(b, list) else b for title, b in entry.items()}
            elif entry.endswith("/"):
                yield from (name for name in _generated if name.startswith(entry) and name not in listed)
            else:
                yield entry

    config.nav = list(expanded(config.nav or []))
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds what is generated, and finds out which page includes what."""
    for name, text in _generated.items():
        files.append(File.generated(config, name, content=text))
    _places.clear()
    _places.update(places({file.src_uri: file.content_string for file in files.documentation_pages()}))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A page with what it includes and draws, and links that lead to pages."""
    here = page.file.src_uri
    whole = separated(included(markdown, here))
    return figures.drawn(linked(whole, here, _places))


def on_post_build(*, config: MkDocsConfig) -> None:
    """Leaves out what nobody asks for, and writes down which scripts within pages may run: `scripts.json`."""
    site = Path(config.site_dir)
    for unused in ("404.html", "objects.inv", "sitemap.xml*", "**/*.map", "assets/javascripts/lunr/**/*.js"):
        for path in site.glob(unused):
            path.unlink()
    found = {hash_of(script) for page in site.rglob("*.html") for script in scripts_of(page.read_text())}
    (site / "scripts.json").write_text(json.dumps(sorted(found), indent=1) + "\n")


def scripts_of(page: str) -> list[str]:
    """The scripts that stand within a page; what is only data runs nowhere."""
    return [text for attributes, text in _SCRIPT.findall(page) if "application/json" not in attributes]


def hash_of(script: str) -> str:
    """As a Content-Security-Policy names a script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def chapters() -> dict[str, str]:
    """A page for each chapter of the normative files."""
    made = {}
    for file, folder in _CHAPTERS.items():
        for one in sections(file):
            if one.level == 2 and (file, one.title) not in _ELSEWHERE:
                made[f"{folder}/{anchor_of(one.title)}.md"] = f"# {one.title}\n\n@include {file}: {one.title}\n"
    return made


@cache
def _references() -> dict[str, str]:
    """What is generated from the code: once for all builds of a process."""
    parts = (verbs, failures, schemas, services, contracts, python)
    return {f"reference/{name}": text for part in parts for name, text in part.pages().items()}


def _names(entry: Any) -> Iterator[str]:
    """The pages that a navigation names."""
    if isinstance(entry, str):
        yield entry
    for below in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
        yield from _names(below)
