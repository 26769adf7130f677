"""The pages of `eigentensor serve --local` in a browser: what people ask there, and what nobody else can."""

import asyncio
import base64
import json
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import Browser, Response, expect

from eigentensor.capture import TensorContext, capture
from eigentensor.store import save_safetensors
from eigentensor_local.ports import free_port
from eigentensor_serve.apps.deployment import deploy_local, read_parts
from eigentensor_serve.apps.registry import Apps
from eigentensor_serve.openai.completion import Completion
from eigentensor_serve.settings import Settings
from eigentensor_serve.tokens import Tokens
from support import digits
from support.browsing import Visit, chromium, visiting
from support.programs.texts import CHAT, ENCODER, Files, chatting, encoding
from support.stories.served import served

RED = """async () => {
  const canvas = new OffscreenCanvas(20, 30), context = canvas.getContext("2d");
  context.fillStyle = "red";
  context.fillRect(0, 0, 20, 30);
  const bytes = await (await canvas.convertToBlob()).bytes();
  return btoa(String.fromCharCode(...bytes));
}"""
REPLACED = """() => {  // as an answer does that is not final yet
  const answer = document.getElementById("answer");
  answer.replaceWith(answer.cloneNode(true));
}"""
REFUSED = """() => {  // what is asked next waits for refuse(), which comes just after the paper is cleared
  const real = fetch;
  window.fetch = () => new Promise((_, refused) => {
    window.fetch = real;
    window.refuse = () => {
      document.querySelector("[data-do=clear]").click();
      refused(new TypeError("nobody answers"));
    };
  });
}"""
HOSTILE = "<img src=x onerror=alert(1)>\"'&" + "x" * 96  # as long as a name may be


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=60_000)  # a loaded machine may be slow
    with chromium() as browser:
        yield browser


def opened(at: Visit, path: str) -> Response:
    """Goes to another page of the same service."""
    at.size = 0
    response = at.page.goto(f"http://{at.host}{path}")
    assert response is not None
    return response


def looked_at(at: Visit, thorough: bool) -> None:
    """Fails for what is wrong with a page."""
    assert (found := at.looks_well(thorough=thorough)) == [], "\n".join(found)


@pytest.fixture(scope="module", autouse=True)
def deployed(apps: Apps) -> None:
    """An app of each kind."""
    deploy_local(apps, "digits", digits.parts(apps))
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
    with visiting(browser, url) as at:
        yield at
        assert at.faults == []


def read(at: Visit, label: int, counts: digits.Values) -> bool:
    """Whether a digit that is painted is read as what it is."""
    digits.paint(at.page, counts)
    expect(at.page.locator("main [aria-busy=true]")).to_have_count(0)
    expect(at.page.locator("#answer .verdict")).to_be_visible()
    return at.page.locator("#answer .verdict strong").inner_text() == str(label)


def test_digits_that_nobody_learned_from_are_painted_and_read(at: Visit) -> None:
    opened(at, "/apps/digits")
    right = [read(at, label, counts) for label, counts in digits.held_out()[:5]]
    assert sum(right) >= 4, right


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_of_a_hundred_such_digits_eighty_five_are_read(at: Visit) -> None:
    opened(at, "/apps/digits")
    right = sum(read(at, label, counts) for label, counts in digits.held_out()[10:110])
    assert right >= 85, right


def test_digits_come_from_keys_and_from_pictures_too(at: Visit, thorough: bool) -> None:
    opened(at, "/apps/digits")
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
    looked_at(at, thorough)
    chooser.set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"no picture"})
    problem = at.page.locator("#problem")
    expect(problem).to_contain_text("no picture")
    at.page.evaluate(REFUSED)
    paper.press("3")
    expect(at.page.locator("form[aria-busy]")).to_have_count(1)
    paper.press("4")
    expect(at.page.locator("[data-widget][aria-busy]")).to_have_count(0)
    at.page.evaluate("refuse()")
    expect(problem).to_contain_text("does not answer")  # and not that nothing is drawn: nobody asked again
    paper.press("1")
    expect(verdict).to_have_text("1")


def test_a_chat_comes_as_it_is_written_until_somebody_stops_it(
    at: Visit, url: str, monkeypatch: pytest.MonkeyPatch, thorough: bool
) -> None:
    opened(at, "/apps/page")
    page, answer = at.page, at.page.locator("li.assistant")
    page.get_by_text("Settings").click()
    for label, value in (("Seed", "5"), ("Longest answer", "9"), ("Message", "a task")):
        page.get_by_label(label).fill(value)
    page.get_by_label("Message").press("Enter")
    expect(answer).not_to_have_attribute("aria-busy", "true")
    body = {"model": "page", "messages": [{"role": "user", "content": "a task"}], "seed": 5, "max_tokens": 9}
    whole = httpx.post(f"{url}/v1/chat/completions", json=body).json()
    assert answer.locator(".said").text_content() == whole["choices"][0]["message"]["content"]
    expect(answer.locator(".proof")).to_contain_text("seed 5")
    looked_at(at, thorough)
    page.get_by_role("button", name="New chat").click()
    expect(answer).to_have_count(0)

    stopped, pieces, written = threading.Event(), Completion.pieces, []

    async def slowly(self: Completion, *arguments: Any) -> AsyncGenerator[str]:
        async with aclosing(pieces(self, *arguments)) as whole:
            async for piece in whole:
                written.append(piece)
                yield "…"
                while not stopped.is_set():  # until nobody reads any more: that ends it here
                    await asyncio.sleep(0.02)

    monkeypatch.setattr(Completion, "pieces", slowly)
    page.get_by_label("Message").fill("a task")
    page.get_by_role("button", name="Send").click()
    expect(answer.locator(".said")).to_have_text("…")
    page.get_by_role("button", name="Stop").click()
    expect(answer.locator(".proof")).to_contain_text("stopped")
    expect(page.get_by_role("button", name="Send")).to_be_visible()
    stopped.set()
    assert len(written) == 1, "nothing more is written for nobody"


def test_an_app_is_asked_with_what_its_inputs_are(at: Visit, tmp_path: Path) -> None:
    page, answer = at.page, at.page.locator("#answer")
    opened(at, "/apps/double")
    assert page.locator("legend").inner_text().startswith(HOSTILE)
    page.locator("textarea").fill("1, 2 3\n4")
    page.get_by_role("button", name="Ask").click()
    expect(answer.locator(".bars td.number")).to_have_text(["2", "4", "6", "8"])
    page.route("**/tasks/*", lambda route: (page.evaluate(REPLACED), route.continue_()), times=1)
    page.locator("textarea").fill("1 2 3 5")
    page.get_by_role("button", name="Ask").click()
    expect(answer.locator(".bars td.number").last).to_have_text("10")
    page.locator("textarea").fill("1 2 3")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator("#problem")).to_contain_text("These are 3 numbers; it takes 4.")
    opened(at, "/apps/sum")
    x = np.arange(600, dtype=np.float32).reshape(2, 300)
    np.save(tmp_path / "x.npy", x)
    save_safetensors(tmp_path / "x.safetensors", {"x": x + 1, "y": x})
    (tmp_path / "x.json").write_text(json.dumps((x + 2).tolist()))
    for name, first in (("x.npy", 44850), ("x.safetensors", 45150), ("x.json", 45450)):
        page.locator("input.tensor").set_input_files(tmp_path / name)
        page.get_by_role("button", name="Ask").click()
        expect(answer.locator(".bars td.number").first).to_have_text(f"{first}")
    opened(at, "/apps/colours")
    red = page.evaluate(RED)
    page.locator("input.picture").set_input_files(
        {"name": "red.png", "mimeType": "image/png", "buffer": base64.b64decode(red)}
    )
    expect(answer.locator(".verdict strong")).to_have_text("0")
    opened(at, "/apps/words")
    page.get_by_label("Texts").fill("a task\na program\na task")
    page.get_by_role("button", name="Compare").click()
    cells = page.locator("#alike td")
    expect(cells).to_have_count(9)
    assert float(cells.nth(2).inner_text()) == pytest.approx(1, abs=1e-3) != float(cells.nth(1).inner_text())


PAGES = ("/", "/apps/digits", "/apps/page", "/apps/words", "/apps/double", "/tasks", "/tasks?app=digits&state=ended")


def test_pages_look_well_and_ask_nobody_else(at: Visit, url: str, thorough: bool) -> None:
    task = httpx.post(f"{url}/v1/apps/double", json={"inputs": {HOSTILE: [[1, 2], [3, 4]]}}).headers["eigentensor-task"]
    for path in (*PAGES, f"/tasks/{task}"):
        assert opened(at, path).status == 200
        looked_at(at, thorough)
    at.quiet = True  # a browser says that it was refused
    assert opened(at, "/apps/nothing").status == 404
    expect(at.page.locator("h1")).to_contain_text("There is no app")
    assert opened(at, "/tasks?state=asleep").status == 400


def test_pages_are_read_without_scripts(browser: Browser, url: str) -> None:
    task = httpx.post(f"{url}/v1/apps/double", json={"inputs": {HOSTILE: [[1, 2], [3, 4]]}}).headers["eigentensor-task"]
    with visiting(browser, url, java_script_enabled=False) as at:
        opened(at, "/")
        at.page.get_by_role("link", name="digits").first.click()
        assert not at.page.locator("form.ask").is_visible()
        assert at.page.locator("pre").inner_text().startswith("curl ")
        opened(at, f"/tasks/{task}")
        assert at.page.locator("#answer .bars td.number").all_inner_texts() == ["2", "4", "6", "8"]
        opened(at, "/tasks")
        at.page.get_by_label("App").select_option("double")
        at.page.get_by_role("button", name="Filter").click()
        assert "app=double" in at.page.url and at.page.locator("tbody tr").count() >= 1


# ---- Where there are tokens, and where strangers try ----

ATTACK = """async (url) => {
  const body = JSON.stringify({inputs: {x: [1, 2, 3, 4]}}), outcomes = [];
  for (const type of ["application/json", "text/plain"])
    for (const mode of ["cors", "no-cors"])
      for (const path of ["/v1/apps/small", "/v1/tasks", "/execute_graph_on_gpu", "/sign-out"])
        outcomes.push(await fetch(url + path, {method: "POST", mode, body, credentials: "include",
          headers: {"Content-Type": type}}).then((answer) => answer.type, () => "refused"));
  const form = document.createElement("form");
  Object.assign(form, {method: "post", enctype: "text/plain", action: url + "/v1/apps/small"});
  document.body.append(form);
  form.submit();
  return outcomes;
}"""


@contextmanager
def stranger() -> Iterator[str]:
    """A page of somebody else on this machine: another origin of the same site, so that Strict cookies are sent."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>A shop</title><body>")

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A service of its own, with the app `small`, at a port that it has again when it is started again."""
    home = tmp_path_factory.mktemp("house")
    context = TensorContext()
    graph = context.compile_to_graph(context.add_graph_input("x", (4,)) * 2)
    deploy_local(Apps(home), "small", read_parts(graph.program, None, None, None, Apps(home)))
    return Settings(local=True, data=home, port=free_port(), rate=1e6)


def tasks(url: str, token: str = "") -> int:
    """How many tasks a service was asked for."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return len(httpx.get(f"{url}/v1/tasks", headers=headers).json()["tasks"])


def attacked(at: Visit) -> None:
    """What a page of another origin can do to who has a service open."""
    with stranger() as elsewhere:
        page = at.page.context.new_page()
        page.goto(elsewhere)
        with page.expect_navigation():  # a page that is closed on its way to another is sometimes never closed
            outcomes = page.evaluate(ATTACK, f"http://{at.host}")
        assert set(outcomes) <= {"refused", "opaque"}, outcomes
        page.close()


def test_no_other_origin_spends_what_this_machine_may(browser: Browser, house: Settings) -> None:
    with served(house) as url, visiting(browser, url) as at:
        opened(at, "/apps/small")
        attacked(at)
        assert tasks(url) == 0
        at.page.locator("textarea").fill("1 2 3 4")
        at.page.get_by_role("button", name="Ask").click()
        expect(at.page.locator("#answer .bars td.number").last).to_have_text("8")
        assert tasks(url) == 1


def test_a_token_is_shown_once_in_a_tab_and_its_cookie_reads_alone(
    browser: Browser, house: Settings, thorough: bool
) -> None:
    name = "<b>alice</b>" + "\u00e9" * 52
    token = Tokens(house.tokens).new(name)
    url = f"http://127.0.0.1:{house.port}"
    with visiting(browser, "about:blank") as at:
        at.host, at.quiet, page = url.removeprefix("http://"), True, at.page
        with served(house):
            spend_with(at, token, name, thorough)
        with served(house):  # again, while its page is open
            page.locator("textarea").fill("1 2 3 5")
            page.get_by_role("button", name="Ask").click()
            expect(page.locator("#answer .bars td.number").last).to_have_text("10")
            assert page.reload().status == 200  # type: ignore[union-attr]
            page.get_by_role("button", name="Sign out").click()
            page.wait_for_url(f"{url}/sign-in")
            assert opened(at, "/tasks").status == 401


def spend_with(at: Visit, token: str, name: str, thorough: bool) -> None:
    """Signs in, is attacked, and spends."""
    page, url = at.page, f"http://{at.host}"
    assert opened(at, "/apps/small").status == 401
    looked_at(at, thorough)
    page.get_by_label("Token").fill("et_wrong")
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("alert")).to_have_text("This service knows no such token.")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Open").click()
    page.wait_for_url(f"{url}/apps/small")
    expect(page.locator("footer")).to_contain_text(f"Signed in as {name}")
    [cookie] = page.context.cookies()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and token not in cookie["value"]
    attacked(at)
    assert tasks(url, token) == 0 and page.context.cookies() == [cookie], "nor is anybody signed out"

    other = page.context.new_page()  # which has the cookie, and not the token
    other.goto(f"{url}/apps/small")
    other.locator("textarea").fill("1 2 3 4")
    other.get_by_role("button", name="Ask").click()
    expect(other.locator("#problem")).to_contain_text("may read, not spend")
    assert tasks(url, token) == 0
    other.close()

    page.locator("textarea").fill("1 2 3 4")
    page.get_by_role("button", name="Ask").click()
    last = page.locator("#answer .bars td.number").last
    expect(last).to_have_text("8")
    assert tasks(url, token) == 1
    looked_at(at, thorough)
