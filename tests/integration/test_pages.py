"""The gateway's pages in a real browser, over a market in which something has happened."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack

import httpx
import pytest
from playwright.sync_api import Browser, expect

from eigentensor.chain import Chain, Decline, anvil_account
from eigentensor.economics import WAD
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_local.anvil import Anvil
from support.browsing import chromium, visiting
from support.gateways import gateway
from support.stories.game_table import OPERATORS
from support.stories.market import ROOT, Life, Orders

HOSTILE = "<img src=x onerror=alert(1)>" + "x" * 100
Served = tuple[str, dict[str, str]]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def market(
    anvil: Anvil,
    client: Chain,
    operator: Chain,
    verifiers: list[Chain],
    order_of: Orders,
    settings: Settings,
    serve: Callable[[Settings], tuple[str, Daemon]],
) -> Served:
    """A gateway over tasks that are final and checked, convicted, running, and open; and the tasks' uuids."""
    for chain in (client, operator, *verifiers):
        chain.token.mint(chain.address, 20 * WAD)
        chain.market.deposit(chain.address, 5 * WAD)
    url, daemon = serve(settings)
    checked = Life(anvil, client, operator, order_of(check_rate=WAD))
    checked.drawn()
    slot = checked.answer(verifiers[0], ROOT) + 1
    checked.pass_checks()
    checked.reveal(operator)
    checked.reveal(verifiers[0], slot)
    lives = {"checked": checked, "convicted": Life(anvil, client, operator, order_of(check_rate=WAD))}
    lives["convicted"].drawn()  # and never reveals
    anvil.mine_past(client.node.block_number() + 400)
    while len(httpx.get(f"{url}/v1/tasks?state=convicted").json()["tasks"]) < 1:
        daemon.turn()
    for name in ("running", "open"):
        accept_by = client.node.block_number() + 500
        lives[name] = Life(anvil, client, operator, order_of(accept_by=accept_by, max_price=WAD // 50))
    lives["running"].committed()
    client.market.post(lives["open"].order)
    daemon.turn()
    decline = Decline(operator.address, lives["open"].task, HOSTILE, HOSTILE, "1 wei")
    signed = decline.sign(client.deployment.domain, anvil_account(OPERATORS[0]))
    assert httpx.post(f"{url}/v1/tasks/{lives['open'].task.hex()}/declines", json=signed).status_code == 201
    return url, {name: life.task.hex() for name, life in lives.items()} | {"operator": operator.address}


def test_every_page_looks_well_says_what_it_should_asks_nobody_else_and_needs_no_script(
    market: Served, browser: Browser, thorough: bool
) -> None:
    url, names = market
    pages = {
        "/": "Newest tasks",
        "/tasks?state=convicted": names["convicted"][-4:],
        f"/tasks/{names['checked']}": "A verifier agrees",
        f"/tasks/{names['convicted']}": "it was drawn and did not reveal",
        f"/tasks/{names['running']}": "Seed of block",
        f"/tasks/{names['open']}": f"eigentensor task cancel {names['open']}",
        "/operators": names["operator"][-4:],
        f"/operators/{names['operator']}": "Convictions",
        "/health": "Tasks by state",
    }
    faults = []
    for path, words in pages.items():
        with visiting(browser, url + path) as visit:
            expect(visit.page.locator("main")).to_contain_text(words)
            faults += visit.looks_well(thorough=thorough)
    with visiting(browser, f"{url}/tasks/{'3f' * 32}") as visit:
        expect(visit.page.locator("h1")).to_contain_text("No task 3f3f")
        visit.faults.clear()  # the console tells of the status
        faults += visit.looks_well(thorough=thorough)
    assert faults == []
    read_without_scripts(browser, url, names)


def read_without_scripts(browser: Browser, url: str, names: Mapping[str, str]) -> None:
    """From the market to an open task, and what others named there is text."""
    with visiting(browser, url, java_script_enabled=False) as visit:
        page = visit.page
        page.get_by_text("As a table").first.click()
        expect(page.locator("figure table").first).to_be_visible()
        page.get_by_role("link", name="All tasks").click()
        page.get_by_label("State").select_option("open")
        page.get_by_role("button", name="Show").click()
        assert page.url.startswith(f"{url}/tasks?state=open")
        page.locator("tbody a").first.click()
        assert page.url == f"{url}/tasks/{names['open']}"
        expect(page.get_by_text(HOSTILE).first).to_be_visible()
        assert page.locator("img[src=x]").count() == 0 and visit.faults == []
    assert HOSTILE not in httpx.get(f"{url}/operators/{names['operator']}", headers={"Accept": "text/html"}).text


def test_an_open_page_follows_the_market_also_after_a_restart(
    anvil: Anvil, client: Chain, order_of: Orders, settings: Settings, browser: Browser
) -> None:
    client.market.deposit(client.address, WAD)
    with ExitStack() as stack, ExitStack() as visits:
        url, _ = stack.enter_context(gateway(settings))
        visit = visits.enter_context(visiting(browser, f"{url}/tasks"))
        expect(visit.page.locator("main")).to_contain_text("No task is like that")
        client.market.post(order_of())
        expect(visit.page.locator("tbody tr")).to_have_count(1)
        assert visit.faults == []
        visit.quiet = True  # the console tells that nobody listens
        stack.close()
        client.market.post(order_of())
        port = re.fullmatch(r"http://127\.0\.0\.1:(\d+)", url)
        assert port is not None
        stack.enter_context(gateway(settings, int(port[1])))
        expect(visit.page.locator("tbody tr")).to_have_count(2, timeout=20_000)
