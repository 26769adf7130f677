"""The room of pages: what is written how, what browsers get that other callers do not, and what pages are told."""

import asyncio
import re
import socket
import threading
import time
from typing import Annotated

import httpx
import pytest
from fastapi import FastAPI, Query, Request
from fastapi.testclient import TestClient
from starlette.responses import Response

from eigentensor.errors import TaskNotFound
from eigentensor.pace import Pace
from eigentensor.web import problems
from eigentensor.web.pages import browsers, words
from eigentensor.web.pages.feed import Feed
from eigentensor.web.pages.site import CSP, Link, Site
from eigentensor.web.pages.words import Money, Now
from eigentensor.web.server import server

HTML = {"Accept": "text/html,*/*;q=0.8"}
#: Markup, a mark that turns the line, a zero width space, and long enough that no line has it.
HOSTILE = "<script>alert(1)</script>\u202eevil\u200b" + "x" * 80


@pytest.fixture(scope="module")
def browser() -> TestClient:
    app, site = FastAPI(), Site("Test", [Link("/", "First"), Link("/tasks", "Tasks")])
    problems.install(app)

    @app.get("/tasks/{name}")
    def read(request: Request, name: str) -> Response:
        raise TaskNotFound(f"no task {name}", fix="Wait for it.")

    @app.get("/lists")
    def listed(
        state: Annotated[str | None, Query(pattern="^(open|final)$")] = None,
        client: Annotated[str | None, Query(pattern="^0x[0-9a-fA-F]{40}$|^$")] = None,
        program: Annotated[str | None, Query(pattern="^(0x)?[0-9a-f]{64}$")] = None,
    ) -> Response:
        return Response()

    @app.get("/")
    def first(request: Request, many: int = 0) -> Response:
        problem = {"title": "t" * many, "status": 200, "detail": HOSTILE, "code": "None", "fix": ""}
        return site.page(request, "error.html", problem=problem)

    browsers.install(app, site)
    return TestClient(app)


def test_values_are_written_so_that_people_see_all_of_them() -> None:
    assert words.short("0x" + "ab" * 20) == "0xababab…abab"
    assert words.short("58af0cd4" * 8) == "58af0c…0cd4" and words.short("block") == "block"
    assert words.visible("a\u202eb\x00\nc\u00e9\u200f") == r"a\u202eb\x00\x0ac" + "\u00e9" + r"\u200f"
    assert words.visible("\U000e0041") == r"\U000e0041"
    assert Money().number(10**18 // 3) == "~0.333333333" and len(Money().exact(10**18 // 3)) == 20
    assert Money(decimals=6).number("1500000") == "1.5"
    assert Now(10, Pace(2.0)).distance(40) == "in about 60 s" and Now(10).distance(9) == "1 block ago"
    assert Now(10, Pace(0.25)).distance(9) == "a moment ago" and Now(10, Pace(0.25)).distance(11) == "in a moment"
    assert [words.size(n) for n in (1, 1023, 1024, 3 << 20)] == ["1 byte", "1,023 bytes", "1.0 KiB", "3.0 MiB"]


def test_a_page_has_strict_headers_and_files_that_a_browser_keeps(browser: TestClient) -> None:
    page = browser.get("/", headers=HTML)
    assert page.headers["content-security-policy"] == CSP and "unsafe" not in CSP
    assert page.headers["x-content-type-options"] == "nosniff" and page.headers["referrer-policy"] == "no-referrer"
    files = re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)
    assert files and all(url.startswith("/") for url in re.findall(r'(?:src|href)="([^"#]+)"', page.text))
    for url in set(files):
        file = browser.get(url)
        assert file.status_code == 200 and "immutable" in file.headers["cache-control"]
        assert browser.get(url, headers={"If-None-Match": file.headers["etag"]}).status_code == 304
    assert browser.get("/static/pages.css").status_code == 404  # only under the name of its bytes


def test_a_page_that_did_not_change_is_not_sent_again_and_is_compressed(browser: TestClient) -> None:
    page = browser.get("/?many=5000", headers=HTML)
    assert page.headers["content-encoding"] == "gzip"
    again = HTML | {"If-None-Match": page.headers["etag"]}
    assert browser.get("/?many=5000", headers=again).status_code == 304
    assert browser.get("/?many=5001", headers=again).status_code == 200


def test_what_others_name_is_text(browser: TestClient) -> None:
    page = browser.get("/", headers=HTML).text
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page
    assert r"\u202eevil\u200b" in page and not set("\u202e\u200b") & set(page)
    assert '<bdi class="text">' in page


def test_a_refusal_is_a_page_for_browsers_and_a_problem_for_others(browser: TestClient) -> None:
    page = browser.get("/tasks/3f", headers=HTML)
    assert page.status_code == 404 and page.headers["content-type"].startswith("text/html")
    assert all(text in page.text for text in ("No task 3f", "Wait for it.", "TaskNotFound"))
    assert '<a href="/tasks" aria-current="page">' in page.text
    assert browser.get("/tasks/3f").json()["code"] == "TaskNotFound"
    assert browser.get("/?many=x", headers=HTML).headers["content-type"].startswith("text/html")
    assert browser.get("/nowhere", headers=HTML).headers["content-type"].startswith("text/html")
    assert browser.get("/nowhere").headers["content-type"] == problems.MEDIA_TYPE
    assert browser.get("/v1/nowhere", headers=HTML).headers["content-type"] == problems.MEDIA_TYPE
    assert "There is nothing at /nowhere" in browser.get("/nowhere", headers=HTML).text


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("state=asleep", "state: has to be one of open, final"),
        ("client=0x12", "client: has to be 0x and 40 hex digits"),
        ("program=ab", "program: has to be 64 hex digits"),
    ],
)
def test_what_is_wrong_in_a_query_is_said_in_words(browser: TestClient, query: str, says: str) -> None:
    assert browser.get(f"/lists?{query}").json()["detail"] == f"query.{says}"
    assert says.capitalize() in browser.get(f"/lists?{query}", headers=HTML).text
    assert browser.get("/lists?client=").status_code == 200


def test_a_page_that_many_look_at_is_made_once_as_long_as_nothing_happened() -> None:
    app, site, made = FastAPI(), Site("Test", []), []
    problems.install(app)

    @app.get("/")
    def first(request: Request, of: str = "") -> Response:
        made.append(of)
        problem = {"title": f"made {len(made)}", "status": 200, "detail": of * 2000, "code": "None", "fix": ""}
        return site.page(request, "error.html", problem=problem)

    browsers.install(app, site, lambda: len(made) // 3)
    browser = TestClient(app)
    plain = HTML | {"Accept-Encoding": "identity"}
    same = [browser.get("/", headers=HTML) for _ in range(3)]
    assert len({page.text for page in same}) == 1 and made == [""]
    assert browser.get("/", headers=HTML | {"If-None-Match": same[0].headers["etag"]}).status_code == 304
    packed, unpacked = browser.get("/?of=x", headers=HTML), browser.get("/?of=x", headers=plain)
    assert packed.headers["content-encoding"] == "gzip" and "content-encoding" not in unpacked.headers
    assert made == ["", "x", "x"] and packed.headers["content-security-policy"] == CSP
    assert "made 4" in browser.get("/", headers=HTML).text  # something happened


def test_a_feed_tells_its_listeners_what_is_new_and_nothing_twice() -> None:
    async def heard() -> list[str]:
        feed = Feed()
        feed.tell("block", "1")
        messages = feed.messages()
        first = await anext(messages)
        for topic, word in (("block", "2"), ("block", "3"), ("changed", "7"), ("changed", "7")):
            threading.Thread(target=feed.tell, args=(topic, word)).run()
        second = await anext(messages)
        feed.tell("changed", "7")
        feed.tell("block", "4")
        third = await anext(messages)
        await messages.aclose()  # type: ignore[attr-defined]
        return [first, second, third]

    assert asyncio.run(heard()) == [
        "retry: 2000\n\n",
        "event: block\ndata: 3\n\nevent: changed\ndata: 7\n\n",
        "event: block\ndata: 4\n\n",
    ]


def test_a_server_ends_without_waiting_for_who_listens() -> None:
    app, feed = FastAPI(), Feed()
    app.include_router(feed.router())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = server(app)
        thread = threading.Thread(target=running.run, args=([listening],))
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/events"
        with httpx.stream("GET", url, headers={"Accept-Encoding": "gzip"}) as events:
            assert events.headers["content-type"].startswith("text/event-stream")
            assert next(events.iter_text()) == "retry: 2000\n\n"
            began = time.monotonic()
            running.should_exit = True
            thread.join()
        assert time.monotonic() - began < 5  # uvicorn would wait for ten seconds
