"""The pages of `eigentensor serve --local` in a browser: what people ask there, and what nobody else can."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from eigentensor.capture import TensorContext, capture
from eigentensor.store import save_safetensors
from eigentensor_serve.apps.deployment import deploy_local, read_parts
from eigentensor_serve.apps.registry import Apps
from support import digits
from support.browsing import Visit, chromium, visit
from support.programs.texts import CHAT, ENCODER, Files, chatting, encoding

RED = """async () => {
  const canvas = new OffscreenCanvas(20, 30), context = canvas.getContext("2d");
  context.fillStyle = "red";
  context.fillRect(0, 0, 20, 30);
  const bytes = await (await canvas.convertToBlob()).bytes();
  return btoa(String.fromCharCode(...bytes));
}"""
HOSTILE = "<img src=x onerror=alert(1)>\"'&" + "x" * 96  # as long as a name may be


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module", autouse=True)
def deployed(apps: Apps) -> None:
    """An app of each kind."""
    digits.deploy(apps)
    home = apps.root.parent
    deploy_local(apps, "page", Files.written(home / "page", chatting(limits=True), CHAT % 3).parts(apps))
    deploy_local(apps, "words", Files.written(home / "words", encoding(), ENCODER).parts(apps))
    context = TensorContext()
    graphs = {
        "double": context.compile_to_graph(context.add_graph_input(HOSTILE, (2, 2)) * 2),
        "sum": capture(lambda x: x.sum(1), {"x": np.zeros((2, 300), np.float32)}),
        "colours": capture(lambda x: x.mean((2, 3)), {"x": np.zeros((1, 3, 16, 16), np.float32)}),
    }
    for name, graph in graphs.items():
        deploy_local(apps, name, read_parts(graph.program, None, None, None, apps))


@pytest.fixture
def at(browser: Browser, url: str) -> Iterator[Visit]:
    """A window at the service."""
    with visit(browser, url) as at:
        yield at
        assert at.faults == []


def read(at: Visit, label: int, counts: digits.Values) -> bool:
    """Whether a digit that is painted is read as what it is."""
    digits.paint(at.page, counts)
    expect(at.page.locator("form.ask")).not_to_have_attribute("aria-busy", "true")
    expect(at.page.locator("#answer .verdict")).to_be_visible()
    return at.page.locator("#answer .verdict strong").inner_text() == str(label)


def test_digits_that_nobody_learned_from_are_painted_and_read(at: Visit) -> None:
    at.open("/apps/digits")
    right = [read(at, label, counts) for label, counts in digits.held_out()[:10]]
    assert sum(right) >= 8, right


@pytest.mark.slow
def test_of_a_hundred_such_digits_eighty_five_are_read(at: Visit) -> None:
    at.open("/apps/digits")
    right = sum(read(at, label, counts) for label, counts in digits.held_out()[10:110])
    assert right >= 85, right


def test_digits_come_from_keys_and_from_pictures_too(at: Visit) -> None:
    at.open("/apps/digits")
    paper, verdict = at.page.locator("canvas.paper"), at.page.locator("#answer .verdict strong")
    for digit in "0123456789":
        paper.press(digit)
        expect(verdict).to_have_text(digit)
    picture = base64.b64decode(paper.evaluate("paper => paper.toDataURL()").partition(",")[2])
    paper.press("Delete")
    for keys in ("Space", *["ArrowDown"] * 9, "Space"):  # a one
        paper.press(keys)
    expect(verdict).to_have_text("1")
    chooser = at.page.locator("input.picture")
    chooser.set_input_files({"name": "nine.png", "mimeType": "image/png", "buffer": picture})
    expect(verdict).to_have_text("9")
    at.looked_at()
    chooser.set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"no picture"})
    expect(at.page.locator("#problem")).to_contain_text("no picture")


def test_a_chat_comes_as_it_is_written_until_somebody_stops_it(at: Visit, url: str) -> None:
    at.open("/apps/page")
    page = at.page
    page.get_by_text("Settings").click()
    page.get_by_label("Seed").fill("5")
    page.get_by_label("Longest answer").fill("9")
    page.get_by_label("Message").fill("a task")
    page.get_by_label("Message").press("Enter")
    answer = page.locator("li.assistant")
    expect(answer).not_to_have_attribute("aria-busy", "true")
    body = {"model": "page", "messages": [{"role": "user", "content": "a task"}], "seed": 5, "max_tokens": 9}
    whole = httpx.post(f"{url}/v1/chat/completions", json=body).json()
    assert answer.locator(".said").text_content() == whole["choices"][0]["message"]["content"]
    expect(answer.locator(".proof")).to_contain_text("seed 5")
    at.looked_at()
    page.get_by_role("button", name="New chat").click()
    expect(answer).to_have_count(0)


def test_an_app_is_asked_with_what_its_inputs_are(at: Visit, tmp_path: Path) -> None:
    page, answer = at.page, at.page.locator("#answer")
    at.open("/apps/double")
    assert page.locator("legend").inner_text().startswith(HOSTILE)
    page.locator("textarea").fill("1, 2 3\n4")
    page.get_by_role("button", name="Ask").click()
    expect(answer.locator(".bars td.number")).to_have_text(["2", "4", "6", "8"])
    page.locator("textarea").fill("1 2 3")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("#problem")).to_contain_text("These are 3 numbers; it takes 4.")
    at.open("/apps/sum")
    x = np.arange(600, dtype=np.float32).reshape(2, 300)
    np.save(tmp_path / "x.npy", x)
    save_safetensors(tmp_path / "x.safetensors", {"x": x + 1, "y": x})
    (tmp_path / "x.json").write_text(json.dumps((x + 2).tolist()))
    for name, first in (("x.npy", 44850), ("x.safetensors", 45150), ("x.json", 45450)):
        page.locator("input.tensor").set_input_files(tmp_path / name)
        page.get_by_role("button", name="Ask").click()
        expect(answer.locator(".bars td.number").first).to_have_text(f"{first}")
    at.open("/apps/colours")
    red = page.evaluate(RED)
    page.locator("input.picture").set_input_files(
        {"name": "red.png", "mimeType": "image/png", "buffer": base64.b64decode(red)}
    )
    expect(answer.locator(".verdict strong")).to_have_text("0")
    at.open("/apps/words")
    page.get_by_label("Texts").fill("a task\na program\na task")
    page.get_by_role("button", name="Compare").click()
    cells = page.locator("#alike td")
    expect(cells).to_have_count(9)
    assert float(cells.nth(2).inner_text()) == pytest.approx(1, abs=1e-3) != float(cells.nth(1).inner_text())


PAGES = ("/", "/apps/digits", "/apps/page", "/apps/words", "/apps/double", "/tasks", "/tasks?app=digits&state=ended")


def test_pages_look_well_and_ask_nobody_else(at: Visit, url: str) -> None:
    task = httpx.post(f"{url}/v1/apps/double", json={"inputs": {HOSTILE: [[1, 2], [3, 4]]}}).headers["eigentensor-task"]
    for path in (*PAGES, f"/tasks/{task}"):
        assert at.open(path).status == 200
        at.looked_at()
    at.expected = {404, 400}
    assert at.open("/apps/nothing").status == 404
    expect(at.page.locator("h1")).to_contain_text("there is no app")
    assert at.open("/tasks?state=asleep").status == 400


def test_pages_are_read_without_scripts(browser: Browser, url: str) -> None:
    task = httpx.post(f"{url}/v1/apps/double", json={"inputs": {HOSTILE: [[1, 2], [3, 4]]}}).headers["eigentensor-task"]
    with visit(browser, url, java_script_enabled=False) as at:
        at.open("/")
        at.page.get_by_role("link", name="digits").first.click()
        assert not at.page.locator("form.ask").is_visible()
        assert at.page.locator("pre").inner_text().startswith("curl ")
        at.open(f"/tasks/{task}")
        assert at.page.locator("#answer .bars td.number").all_inner_texts() == ["2", "4", "6", "8"]
        at.open("/tasks")
        at.page.get_by_label("App").select_option("double")
        at.page.get_by_role("button", name="Filter").click()
        assert "app=double" in at.page.url and at.page.locator("tbody tr").count() >= 1
