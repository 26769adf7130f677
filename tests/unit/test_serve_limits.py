"""Who may call a service, and how often."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Response
from fastapi.testclient import TestClient

from eigentensor.errors import BindingError, ConfigError
from eigentensor_serve import limits
from eigentensor_serve.limits import Rate
from eigentensor_serve.server import assembled
from eigentensor_serve.service import Metrics
from eigentensor_serve.settings import Settings
from eigentensor_serve.tokens import Tokens

PAGE = "https://shop.example"


def guarded(tokens: Tokens, **settings: Any) -> TestClient:
    app = FastAPI()
    app.get("/healthz")(lambda: "well")
    app.get("/")(lambda: "hello")
    limits.install(
        app, tokens, Settings(**{"rate": 1000, "origins": (PAGE,), **settings}), Metrics(), lambda _: Response()
    )
    return TestClient(app, base_url="http://localhost:8700")


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "tokens.json")


def test_a_bucket_lets_twice_the_rate_through_and_then_the_rate() -> None:
    time = [0.0]
    rate = Rate(10, lambda: time[0])
    assert [rate.wait("a") for _ in range(20)] == [0] * 20
    assert rate.wait("a") == pytest.approx(0.1) and rate.wait("b") == 0
    time[0] = 0.25
    assert [rate.wait("a") > 0 for _ in range(3)] == [False, False, True]
    time[0] = 100
    assert [rate.wait("a") > 0 for _ in range(21)] == [False] * 20 + [True]


def test_strangers_cannot_fill_the_memory() -> None:
    rate = Rate(10, lambda: 0.0)
    for caller in range(10_000):
        rate.wait(str(caller))
    assert len(rate._buckets) <= 4096


def test_too_many_requests_are_told_when_to_come_again(tokens: Tokens) -> None:
    client = guarded(tokens, rate=0.5)
    assert client.get("/").status_code == 200
    refused = client.get("/")
    assert refused.status_code == 429 and refused.headers["retry-after"] == "2"
    assert refused.headers["content-type"] == "application/problem+json"
    assert client.get("/healthz").status_code == 200


def test_where_there_are_tokens_only_their_holders_come_in(tokens: Tokens, tmp_path: Path) -> None:
    client = guarded(Tokens(tmp_path / "tokens.json"))
    assert client.get("/").status_code == 200
    token = tokens.new("alice")  # by another process
    assert token not in (tmp_path / "tokens.json").read_text()
    assert (tmp_path / "tokens.json").stat().st_mode & 0o077 == 0
    for authorization in ("", "Bearer", "Bearer et_nonsense", f"Basic {token}", f"Bearer {token}x"):
        refused = client.get("/", headers={"authorization": authorization})
        assert refused.status_code == 401 and refused.headers["www-authenticate"].startswith("Bearer")
    assert client.get("/", headers={"authorization": f"Bearer {token}"}).status_code == 200
    assert client.get("/healthz").status_code == 200
    tokens.new("bob")
    tokens.remove("alice")
    assert client.get("/", headers={"authorization": f"Bearer {token}"}).status_code == 401


def test_names_of_tokens_are_unique_and_printable(tokens: Tokens) -> None:
    tokens.new("alice")
    for name in ("alice", "", "a\nb", "x" * 65):
        with pytest.raises(BindingError):
            tokens.new(name)
    with pytest.raises(BindingError, match="no token 'bob'"):
        tokens.remove("bob")
    assert list(tokens) == ["alice"]


def test_a_damaged_file_of_tokens_lets_nobody_in(tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_text("{}")
    with pytest.raises(ConfigError, match="no file of tokens"):
        Tokens(tmp_path / "tokens.json")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": PAGE}, 200),
        ({"origin": "http://localhost:8700"}, 200),
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example", "origin": "http://evil.example"}, 421),
        ({"host": "[::1]:8700"}, 200),
        ({"host": "[::1"}, 421),
        ({"origin": "http://[localhost:8700"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_pages_of_others_cannot_spend_the_money(tokens: Tokens, headers: dict[str, str], status: int) -> None:
    assert guarded(tokens).get("/", headers=headers).status_code == status


def test_when_the_last_token_is_gone_nobody_comes_in_from_elsewhere(tokens: Tokens) -> None:
    token, client = tokens.new("alice"), guarded(tokens, host="0.0.0.0")
    assert client.get("/", headers={"authorization": f"Bearer {token}"}).status_code == 200
    tokens.remove("alice")
    assert client.get("/", headers={"host": "localhost"}).status_code == 401


def test_a_file_of_tokens_that_is_damaged_meanwhile_lets_nobody_in(tokens: Tokens, tmp_path: Path) -> None:
    client = guarded(tokens)
    (tmp_path / "tokens.json").write_text("{}")
    refused = client.get("/")
    assert refused.status_code == 501 and refused.json()["code"] == "ConfigError"


def test_tokens_that_are_made_at_once_are_all_kept(tmp_path: Path) -> None:
    def make(name: str) -> str:
        return Tokens(tmp_path / "tokens.json").new(name)

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(make, (f"caller {number}" for number in range(32))))
    assert all(map(Tokens(tmp_path / "tokens.json").holder, made))


def test_one_caller_has_so_many_requests_open_and_no_more(tokens: Tokens) -> None:
    both, held = threading.Barrier(3), threading.Event()

    def wait() -> None:
        both.wait()
        held.wait()

    client = guarded(tokens, max_open=2)
    assert isinstance(client.app, FastAPI)
    client.app.get("/wait")(wait)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(client.get, "/wait") for _ in range(2)]
        both.wait()
        refused = client.get("/")
        assert refused.status_code == 429 and "2 requests of this caller are open" in refused.json()["detail"]
        assert client.get("/healthz").status_code == 200
        held.set()
        assert [answer.result().status_code for answer in waiting] == [200, 200]
    assert client.get("/").status_code == 200


def test_without_tokens_a_service_stays_on_this_machine(tmp_path: Path) -> None:
    settings = Settings(local=True, data=tmp_path, host="0.0.0.0")
    with pytest.raises(ConfigError, match="could spend its money"), assembled(settings):
        pass
    assert Settings(host="localhost").is_loopback and not Settings(host="example.org").is_loopback
