"""A lie before everybody's eyes: the pages of a dispute while it is played and afterwards, of its program, and of what
lies cost, in a real browser over a real chain."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from eigentensor.dispute import Phase, Position, Published, Side
from eigentensor.dispute.strategy import Knowledge
from eigentensor.program.codec import encode
from eigentensor.program.model import Program
from eigentensor.store import GatewayClient
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from support.browsing import Visit, chromium, visiting
from support.stories.game_table import Case, Table
from support.stories.games import account_of, honest
from support.stories.liars import Fault, Liar
from support.vectors.dispute import captured

FAULT = Fault(0, 7, 30, 0, 33)  # an accumulator of the sum, after step 33 of 59
MOVES = 7
HOSTILE = "<img src=x onerror=alert(1)>\u05d0\u05d1" + "x" * 90  # letters that run from right to left


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def test_a_planted_lie_is_convicted_before_the_eyes_of_who_looks(
    table: Table, settings: Settings, serve: Callable[[Settings], tuple[str, Daemon]], browser: Browser, tmp_path: Path,
    thorough: bool,
) -> None:  # fmt: skip
    url, _ = serve(settings)
    example = captured("long sum")
    true = account_of(example)
    liar = Liar(true, example.tensors, FAULT)
    root = uploaded(url, example.program, tmp_path)
    with ExitStack() as stack:
        visits: list[Visit] = []

        def executor(position: Position, published: Published, knowledge: Knowledge) -> Any:
            if position.phase is Phase.PUBLISH:
                visits.append(stack.enter_context(visiting(browser, when_there(f"{url}/games/1"))))
            made = {Phase.PUBLISH: 1, Phase.LEAF: 3, Phase.BORDERS: 5}[position.phase]
            expect(visits[0].page.locator(".moves li")).to_have_count(made)  # without a reload
            expect(visits[0].page.locator(".player.runs h2")).to_contain_text("Executor")
            return liar.next_move(position, published, knowledge)

        case = Case(true, liar.account.outputs, executor, honest(Side.CHALLENGER))
        (order,) = table.revealed([case])
        course = table.dispute(case, order)
        assert course.outcome is not None and course.outcome.executor_lost
        (visit,) = visits
        expect(visit.page.locator(".title .badge")).to_have_text("the executor lost")
        claimed, computed = visit.page.locator(".claims > div").all()
        expect(claimed).to_contain_text("-8.885084e-38 0x81f1e000 float32")
        expect(computed).to_contain_text("-30.234375 0xc1f1e000 float32")
        assert claimed.locator(".bit").all_inner_texts() == list(f"{0x81F1E000:032b}")
        assert computed.locator(".bit").all_inner_texts() == list(f"{0xC1F1E000:032b}")
        assert claimed.locator(".differs").count() == computed.locator(".differs").count() == 1
        expect(visit.page.get_by_text("accumulator + value 16")).to_be_visible()
        expect(visit.page.get_by_role("row", name="the client's escrow")).to_contain_text("0.041")
        faults = visit.looks_well(thorough=thorough)
    faults += replayed(browser, url, thorough)
    with visiting(browser, f"{url}/programs/{root}?call=2") as visit:
        expect(visit.page.locator("#call h2")).to_contain_text("Call 2")
        assert visit.page.locator(".node").count() == len(example.program.calls)
        visit.page.locator("#paths").scroll_into_view_if_needed()
        expect(visit.page.locator("#paths .badge")).to_have_text("chosen", timeout=60_000)
        faults += visit.looks_well(thorough=thorough)
    assert faults == []


def replayed(browser: Browser, url: str, thorough: bool) -> list[str]:
    """What is wrong with the pages of moves, reached by their URLs, by keys, and without scripts."""
    faults = []
    with visiting(browser, f"{url}/games") as visit:
        visit.page.get_by_role("link", name="1", exact=True).click()
        for number in range(MOVES, 1, -1):
            expect(visit.page.locator("[aria-current=step]")).to_have_text(str(number))
            visit.page.keyboard.press("ArrowLeft")
        expect(visit.page.locator(".title .badge")).to_have_text(f"move 1 of {MOVES}")
        visit.page.keyboard.press("ArrowRight")
        expect(visit.page.locator("[aria-current=step]")).to_have_text("2")
        visit.size = 0  # of many pages
        visit.page.goto(f"{url}/games/1?move=4")
        expect(visit.page.locator(".tree").first).to_contain_text("elements of leaf 0")
        faults += visit.looks_well(thorough=thorough)
        visit.page.goto(f"{url}/games")
        faults += visit.looks_well(thorough=thorough)
    with visiting(browser, f"{url}/games/1?move=1", java_script_enabled=False) as visit:
        for number in range(2, MOVES + 1):
            visit.page.get_by_role("link", name="After").click()
            assert visit.page.url == f"{url}/games/1?move={number}"
        expect(visit.page.locator(".verdict")).to_contain_text("They differ in 1 bit")
        faults += visit.faults
    assert httpx.get(f"{url}/games/1?move={MOVES + 1}").status_code == 404
    return faults


def test_programs_of_strangers_are_shown_as_text_or_refused(
    settings: Settings,
    serve: Callable[[Settings], tuple[str, Daemon]],
    browser: Browser,
    tmp_path: Path,
    thorough: bool,
) -> None:
    url, _ = serve(settings)
    program = captured("softmax").program
    (result, *others) = program.results
    root = uploaded(url, replace(program, results=(result._replace(name=HOSTILE), *others)), tmp_path)
    with visiting(browser, f"{url}/programs/{root}") as visit:
        expect(visit.page.locator("bdi", has_text="onerror").first).to_contain_text(HOSTILE)
        assert visit.page.locator("img[src=x]").count() == 0
        assert visit.looks_well(thorough=thorough) == []
    with visiting(browser, f"{url}/programs/{root}", java_script_enabled=False) as visit:
        visit.page.get_by_role("link", name="Look for paths").click()
        expect(visit.page.locator("#paths")).to_contain_text("as it is")
        assert visit.faults == []
    page = httpx.get(f"{url}/programs/{root}?call=999", headers={"Accept": "text/html"})
    assert page.status_code == 404 and "calls" in page.text
    missing = httpx.get(f"{url}/programs/{'3f' * 32}", headers={"Accept": "text/html"})
    assert missing.status_code == 404 and "No blob" in missing.text


def test_sliders_answer_as_the_command_does_and_without_scripts(
    settings: Settings, serve: Callable[[Settings], tuple[str, Daemon]], browser: Browser, thorough: bool
) -> None:
    url, _ = serve(settings)
    with visiting(browser, f"{url}/economics") as visit:
        page = visit.page
        expect(page.locator(".verdict .badge")).to_have_text("every lie is a loss")
        expect(page.locator(".uplot")).to_have_count(4)
        page.locator("[name=share]").fill("95")
        expect(page.locator(".verdict .badge")).to_have_text("lying pays", timeout=30_000)
        assert "share=95" in page.url
        assert visit.looks_well(thorough=thorough) == []
    with visiting(browser, f"{url}/economics", java_script_enabled=False) as visit:
        visit.page.get_by_role("button", name="Compute").click()
        assert "check=20" in visit.page.url and visit.faults == []
    refused = httpx.get(f"{url}/economics?check=1", headers={"Accept": "text/html"})
    assert refused.status_code == 422 and "no check rate below" in refused.text


def uploaded(url: str, program: Program, folder: Path) -> str:
    """The root of a program that the gateway is given."""
    file = folder / "program"
    file.write_bytes(encode(program))
    with closing(GatewayClient(url)) as gateway:
        return gateway.upload(file)


def when_there(url: str) -> str:
    """The URL, once there is something."""
    for _ in range(200):
        if httpx.get(url).status_code == 200:
            return url
        time.sleep(0.05)
    raise AssertionError(f"nothing at {url}")
