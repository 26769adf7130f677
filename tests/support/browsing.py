"""Debian's Chromium, and what a page must not do in it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, expect, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
AXE = Path(__file__).parents[2] / "sdk/web/node_modules/axe-core/axe.min.js"
LOOKS: tuple[tuple[Literal["dark", "light"], int, int], ...] = (("dark", 390, 844), ("light", 1280, 900))
MOST = 200_000  #: bytes of a page with all of its files, as they are sent
_QUIET = ("background-networking", "component-update", "sync", "gpu")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser until the block ends; the test is skipped where none is installed."""
    for needed in (CHROMIUM, AXE):
        if not needed.exists():
            pytest.skip(f"not installed: {needed}")
    switches = [f"--disable-{word}" for word in _QUIET] + ["--no-sandbox"] * (os.geteuid() == 0)
    expect.set_options(timeout=60_000)  # a loaded machine may be slow: how soon is no test's matter
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=switches)
        yield browser
        browser.close()


@dataclass
class Visit:
    """A page of one service, and what went wrong on it. A refusal that a test asks for is in `expected`."""

    page: Page
    url: str
    faults: list[str] = field(default_factory=list)
    expected: set[int] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)

    def open(self, path: str) -> Response:
        """Goes there."""
        self.sizes.clear()
        response = self.page.goto(self.url + path)
        assert response is not None
        return response

    def looked_at(self) -> None:
        """Fails for what a page must not do, wherever it was so far, and for what is wrong with it as it stands: dark
        on a phone, and light on a desktop."""
        assert self.faults == []
        assert sum(self.sizes.values()) <= MOST, self.sizes
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        for scheme, width, height in LOOKS:
            self.page.set_viewport_size({"width": width, "height": height})
            self.page.emulate_media(color_scheme=scheme)
            assert self.page.evaluate(wide) <= 0, f"{self.page.url} scrolls sideways at {width}"
            assert not (found := serious(self.page)), "\n".join([self.page.url, scheme, *found])

    def heard(self, message: ConsoleMessage) -> None:
        """Of a refusal browsers write a line, too."""
        is_expected = any(f"status of {status} " in message.text for status in self.expected)
        if message.type in ("error", "warning") and not is_expected:
            self.faults.append(f"{self.page.url}: {message.text}")

    def asked(self, request: Request) -> None:
        """Everything comes from the service itself."""
        if urlsplit(request.url).netloc != urlsplit(self.url).netloc and not request.url.startswith("blob:"):
            self.faults.append(f"{self.page.url} asks {request.url}")

    def done(self, request: Request) -> None:
        """Counts what was sent."""
        if request.resource_type in ("document", "script", "stylesheet", "image"):
            self.sizes[request.url] = max(0, request.sizes()["responseBodySize"])  # out of the cache it is less


@contextmanager
def visit(browser: Browser, url: str, **options: Any) -> Iterator[Visit]:
    """A new window with no past, at a service."""
    context = browser.new_context(reduced_motion="reduce", **options)
    visit = Visit(context.new_page(), url)
    visit.page.on("console", visit.heard)
    visit.page.on("pageerror", lambda error: visit.faults.append(f"{visit.page.url}: {error}"))
    visit.page.on("request", visit.asked)
    visit.page.on("requestfinished", visit.done)
    try:
        yield visit
    finally:
        context.close()


def serious(page: Page) -> list[str]:
    """What axe-core finds on a page that keeps people from using it."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{violation['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
