"""The documentation site as a browser sees it: built without a warning, served by the gateway's routes."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser, Page, sync_playwright

from eigentensor_aggregator import documentation

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
#: Looked at in both schemes, on a desk and on a phone.
SOME = ("", "start/", "guides/operator/", "concepts/roots/", "concepts/games/", "reference/command/run/",
        "reference/errors/", "reference/contracts/TaskMarket/", "specification/the-format-version-1/")  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [ROOT / "scripts" / "docs", folder / "pages", folder / "site.zip"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def url(site: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documentation, "ARCHIVE", site / "site.zip")
        app = FastAPI(docs_url=None, redoc_url=None)
        app.include_router(documentation.router())
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            thread.join(0.05)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/docs/"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


def opened(browser: Browser, url: str, width: int, scheme: Any) -> tuple[Page, list[str]]:
    """A page that writes down what goes wrong: in its console, and what it asks of others."""
    page, wrong = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme), list[str]()
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "request", lambda request: wrong.append(request.url) if not request.url.startswith((url, "data:")) else None
    )
    page.on("response", lambda response: wrong.append(response.url) if response.status >= 400 else None)
    return page, wrong


def is_too_wide(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > innerWidth"))


def test_every_page_is_well_and_asks_nobody_else(site: Path, url: str, browser: Browser) -> None:
    pages = sorted(path.parent.relative_to(site / "pages") for path in site.glob("pages/**/index.html"))
    assert len(pages) > 120
    page, wrong = opened(browser, url, 390, "light")
    for path in pages:
        page.goto(f"{url}{path}/".replace("/./", "/"))
        assert not is_too_wide(page), path
    assert wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_and_are_in_the_readers_scheme(url: str, browser: Browser, width: int, scheme: str) -> None:
    page, wrong = opened(browser, url, width, scheme)
    for path in SOME:
        page.goto(url + path)
        shown = page.locator("body").get_attribute("data-md-color-scheme")
        assert shown == {"light": "default", "dark": "slate"}[scheme]
        assert not is_too_wide(page)
    assert wrong == []


def test_search_finds_receipts(url: str, browser: Browser) -> None:
    page, wrong = opened(browser, url, 1280, "light")
    page.goto(url)
    page.fill("input[name=query]", "receipt")
    page.wait_for_selector(".md-search-result__item a")
    assert "Receipts" in page.locator(".md-search-result__item h1").all_inner_texts()
    assert wrong == []
