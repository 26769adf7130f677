"""A digit that is drawn, in a paid and checked task: what a browser shows until it is final, and its receipt."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from eigentensor.chain import to_wei
from eigentensor.receipt import Receipt, prove
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms
from eigentensor_local.devnet import Devnet, Party
from eigentensor_serve.apps.deployment import deploy_paid
from eigentensor_serve.apps.registry import Apps
from eigentensor_serve.settings import Settings
from support import digits
from support.browsing import chromium, visiting
from support.stories.served import served

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=240_000)
    with chromium() as browser:
        yield browser


def test_a_drawn_digit_is_read_in_a_task_that_is_paid_checked_and_final(
    net: Devnet, operators: list[Party], browser: Browser, tmp_path: Path
) -> None:
    apps = Apps(tmp_path / "serve")
    terms = Terms(to_wei("0.05"), check_rate=10**18, exec=60, accept_within=100)
    with Client(net.network, store=apps.store) as deploying:
        deploy_paid(deploying, apps, "digits", digits.parts(apps), terms, "checked")
    settings = Settings(data=apps.root.parent, port=0, budget="1")
    with (
        served(settings, Client(net.network)) as url,
        visiting(browser, f"{url}/apps/digits") as at,
    ):
        page = at.page
        page.set_default_timeout(240_000)
        expect(page.locator(".lead")).to_contain_text("a paid task for at most 0.05")
        page.locator("canvas.paper").press("3")
        answer = page.locator("#answer")
        expect(answer).to_contain_text("What it answers stands here")  # nothing is paid before somebody asks
        page.get_by_role("button", name="Ask").click()
        expect(answer.locator(".way")).to_contain_text("accepted")
        expect(answer.locator(".verdict strong")).to_have_text("3")
        expect(answer.locator(".badge")).to_have_text("final, checked(1)")
        assert at.looks_well(thorough=True) == []
        with page.expect_download() as downloading:
            answer.get_by_role("link", name="Download").click()
        data = Path(downloading.value.path()).read_bytes()
        receipt = Receipt.from_bytes(data)
        assert prove(receipt) and 0 < receipt.life.price <= terms.max_price  # type: ignore[operator]
        answer.get_by_role("link", name="Check").click()
        expect(page.get_by_role("cell", name=receipt.life.executor).first).to_be_visible()
        assert page.locator("tbody tr").count() == len(prove(receipt))
        assert at.looks_well(thorough=True) == []
        at.size = 0
        page.goto(f"{url}/tasks?state=ended")
        row = page.locator("tbody tr")
        expect(row).to_contain_text("final, checked(1)")
        assert at.looks_well(thorough=True) == []
        page.goto(url)
        expect(page.locator(".figures")).to_contain_text("of 1 a day")
        assert at.looks_well(thorough=True) == []
        assert json.loads(data)["schema"].startswith("eigentensor.receipt/")
