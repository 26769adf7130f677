"""A browser that looks at pages as people do, and notices what they would not: faults in the console, requests to
strangers, what a policy forbade, what does not fit the screen, what is hard to read."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, sync_playwright

PHONE, DESKTOP = 390, 1280  #: pixels
View = tuple[Literal["light", "dark"], int]
VIEWS: tuple[View, ...] = (("light", PHONE), ("light", DESKTOP), ("dark", PHONE), ("dark", DESKTOP))
_turns = cycle(VIEWS)
SIZE = 200_000  #: bytes that a page may have, with its files, as they travel
_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
_AXE = Path(__file__).parents[2] / "sdk" / "web" / "node_modules" / "axe-core" / "axe.min.js"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium; the test is skipped where it is not installed."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("not installed: chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        yield browser
        browser.close()


@dataclass
class Visit:
    """A page that somebody looks at. `faults` is what went wrong so far, `size` the bytes that came."""

    page: Page
    host: str
    faults: list[str] = field(default_factory=list)
    size: int = 0
    quiet: bool = False

    def looks_well(self, *, thorough: bool = False) -> list[str]:
        """What is wrong in either colour scheme, on a phone and on a desk. axe-core looks at one of these in turn, each
        time at another one; if it is to be `thorough`, at all."""
        found, closely = list(self.faults), VIEWS if thorough else (next(_turns),)
        for scheme, width in VIEWS:
            self.page.emulate_media(color_scheme=scheme)
            self.page.set_viewport_size({"width": width, "height": 844})
            where = f"{self.page.url} at {width}, {scheme}"
            if self.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                found.append(f"{where}: wider than the screen")
            if (scheme, width) in closely:
                found += [f"{where}: {one}" for one in serious(self.page)]
        if self.size > SIZE:
            found.append(f"{self.page.url}: {self.size:,} bytes")
        return found

    def _watch(self) -> None:
        self.page.on("console", lambda m: self._fault(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self._fault(str(error)))
        self.page.on("request", self._asked)
        self.page.on("requestfinished", self._came)

    def _fault(self, what: str) -> None:
        if not self.quiet:
            self.faults.append(f"{self.page.url}: {what}")

    def _asked(self, request: Request) -> None:
        if urlsplit(request.url).netloc != self.host:
            self.faults.append(f"{self.page.url} asks a stranger: {request.url}")

    def _came(self, request: Request) -> None:
        if not request.url.endswith("/events"):
            sizes = request.sizes()
            self.size += sizes["responseBodySize"] + sizes["responseHeadersSize"]


@contextmanager
def visiting(browser: Browser, url: str, **options: Any) -> Iterator[Visit]:
    """A fresh visitor at a page; `options` are those of a browser context, such as java_script_enabled=False."""
    context: BrowserContext = browser.new_context(reduced_motion="reduce", **options)  # no colour in between
    try:
        context.set_default_timeout(120_000)  # milliseconds: how soon is no test's matter
        visit = Visit(context.new_page(), urlsplit(url).netloc)
        visit._watch()
        visit.page.goto(url)
        yield visit
    finally:
        context.close()


def serious(page: Page) -> list[str]:
    """What axe-core finds on a page that keeps somebody from using it."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(_AXE.read_text())
    found = page.evaluate("axe.run({resultTypes: ['violations']}).then((all) => all.violations)")
    return [
        f"{one['id']}: {one['help']}: {json.dumps(one['nodes'][0]['html'])} {one['nodes'][0]['failureSummary']}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
