"""The aggregator on a real chain: what it knows, what it sends, and that nothing confuses it."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import stamina
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlmodel import SQLModel, create_engine

from eigentensor import economics
from eigentensor.chain import Chain, Decline, Opening, PublishedAsk, anvil_account
from eigentensor.economics.pricing import Ask, Pricing, Speed
from eigentensor.errors import ConfigError
from eigentensor.store import GatewayClient, LocalStore
from eigentensor.task import Order, State, commitment, order_uuid, sign_order
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import PRUNE, Daemon
from eigentensor_aggregator.database import upgrade
from eigentensor_local.anvil import Anvil, pass_seed

Orders = Callable[..., Order]
Serve = Callable[[Settings], tuple[str, Daemon]]
ROOT, SALT = b"\2" * 32, b"\3" * 32


@pytest.fixture
def served(settings: Settings, serve: Serve) -> tuple[str, Daemon]:
    return serve(settings)


def get(url: str, path: str, status: int = 200) -> dict[str, Any]:
    answer = httpx.get(url + path)
    assert answer.status_code == status, answer.text
    value: dict[str, Any] = answer.json()
    return value


def post(client: Chain, order: Order) -> str:
    client.market.post(order)
    return order_uuid(order, client.deployment.domain).hex()


def execute(anvil: Anvil, operator: Chain, order: Order) -> int:
    """Up to the reveal; its block."""
    task = order_uuid(order, operator.deployment.domain)
    operator.market.accept(operator.address, order)
    c = commitment(operator.deployment.domain, task, operator.address, 0, ROOT, SALT)
    operator.market.commit(operator.address, task, c)
    pass_seed(anvil, operator, order, drawn=False)
    return operator.market.reveal(order, Opening(task, ROOT, SALT)).block


def escrow(order: Order) -> int:
    return order.max_price + order.verifiers * order.check_fee


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_a_task_is_followed_to_its_end_and_closed(
    anvil: Anvil, served: tuple[str, Daemon], client: Chain, operator: Chain, order_of: Orders
) -> None:
    url, daemon = served
    order = order_of()
    uuid = post(client, order)
    daemon.turn()
    view = get(url, f"/v1/tasks/{uuid}")
    assert (view["state"], view["client"], view["checked"]) == ("open", client.address, None)
    assert view["deadline"] == order.accept_by and Order.from_json(view["order"]) == order
    assert get(url, f"/v1/tasks/0x{uuid.upper()}")["task"] == uuid

    execute(anvil, operator, order)
    daemon.turn()
    view = get(url, f"/v1/tasks/{uuid}")
    assert (view["state"], view["executor"]) == ("revealed", operator.address)
    assert view["stage"] == view["checked"] == "unchecked" and view["draw"]["drawn"] is False
    assert view["outputs_root"] == ROOT.hex()
    assert view["deadline"] == client.market.deadline_of(bytes.fromhex(uuid))

    anvil.mine_past(view["deadline"])
    daemon.turn()
    daemon.turn()
    view = get(url, f"/v1/tasks/{uuid}")
    assert view["state"] == "final" and client.market.task_at(bytes.fromhex(uuid)).state is State.FINAL
    assert view["stage"] == "final" and view["checked"] == "unchecked"
    steps = [event["event"] for event in view["events"] if event["event"] not in ("Locked", "Unlocked")]
    assert steps == ["Posted", "Accepted", "Committed", "Revealed", "Closed"]
    assert next(event for event in view["events"] if event["event"] == "Closed")["paid"] == view["price"]
    listed = {row["operator"]: row for row in get(url, "/v1/operators")["operators"]}
    assert set(listed) == {anvil_account(i).address for i in (1, 6, 7)}
    row = listed[operator.address]
    assert row["member"] and row["signer"] == operator.address and row["tasks"] == {"final": 1}
    assert row["stake"] == str(operator.stake.of(operator.address)) and row["locked_shares"] == "0"
    assert row["seats"] == str(operator.stake.seats_of(operator.address)) != "0"
    price, blocks = (
        dict.fromkeys(("lowest_price", "median_price", "highest_price"), view["price"]),
        {event["event"]: event["block"] for event in view["events"]},
    )
    assert row["lately"] == {"tasks": 1, **price, "median_blocks": blocks["Committed"] - blocks["Accepted"]}
    assert listed[anvil_account(6).address]["lately"] is None
    metrics = httpx.get(url + "/metrics").text
    assert 'et_tasks{state="final"} 1.0' in metrics and 'et_tx_total{kind="close",outcome="mined"} 1.0' in metrics


def test_what_nobody_took_or_finished_is_ended(
    anvil: Anvil, served: tuple[str, Daemon], client: Chain, operator: Chain, order_of: Orders
) -> None:
    url, daemon = served
    lonely, silent = order_of(accept_by=client.node.block_number() + 5), order_of()
    uuids = [post(client, lonely), post(client, silent)]
    operator.market.accept(operator.address, silent)
    anvil.mine(20)
    daemon.turn()
    daemon.turn()
    assert [get(url, f"/v1/tasks/{uuid}")["state"] for uuid in uuids] == ["expired", "failed"]
    assert client.market.balance_of(client.address).balance == escrow(lonely) + escrow(silent)
    assert int(get(url, f"/v1/tasks/{uuids[1]}")["penalty"]) > 0


def test_many_due_tasks_are_closed_in_one_message(
    anvil: Anvil, settings: Settings, serve: Serve, client: Chain, operator: Chain, order_of: Orders
) -> None:
    url, daemon = serve(settings.model_copy(update={"poll": 60}))  # it must not look while blocks are mined
    orders = [order_of() for _ in range(3)]
    client.market.post_many(orders)
    for order in orders:
        execute(anvil, operator, order)
    anvil.mine(30)
    daemon.turn()
    assert 'et_tx_total{kind="close",outcome="mined"} 1.0' in httpx.get(url + "/metrics").text
    assert all(client.market.task_at(order_uuid(o, client.deployment.domain)).state is State.FINAL for o in orders)


def test_seats_without_stake_are_pruned_for_their_deposits(
    anvil: Anvil, settings: Settings, serve: Serve, operator: Chain, verifiers: list[Chain]
) -> None:
    _, daemon = serve(settings.model_copy(update={"poll": 60}))
    gone = verifiers[0]
    seats, owner = gone.stake.seats_of(gone.address), anvil_account(3).address
    daemon.turn()  # its first round prunes: later ones after PRUNE blocks only
    gone.stake.allocate(0)
    assert not gone.stake.covers_seats(gone.address) and operator.stake.covers_seats(operator.address)
    anvil.mine(PRUNE)
    daemon.turn()
    assert gone.stake.seats_of(gone.address) == 0 < operator.stake.seats_of(operator.address)
    deposits = seats * economics.seat_deposit(gone.deployment.parameters)
    assert gone.market.balance_of(owner).balance == deposits > 0
    daemon.turn()
    assert gone.market.balance_of(owner).balance == deposits


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_tasks_are_listed_newest_first_in_pages(
    served: tuple[str, Daemon], client: Chain, operator: Chain, order_of: Orders
) -> None:
    url, daemon = served
    uuids = [post(client, order_of()) for _ in range(3)]
    many = [order_of() for _ in range(2)]
    client.market.post_many(many)
    uuids += [order_uuid(order, client.deployment.domain).hex() for order in many]
    operator.market.accept(operator.address, many[1])
    daemon.turn()
    seen, cursor = [], ""
    while True:
        page = get(url, f"/v1/tasks?limit=2{cursor}")
        seen += [task["task"] for task in page["tasks"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == uuids[::-1]
    mine = get(url, f"/v1/tasks?executor={operator.address.lower()}&state=accepted")["tasks"]
    assert [task["task"] for task in mine] == [uuids[-1]]
    assert len(get(url, f"/v1/tasks?client={client.address}&state=open")["tasks"]) == 4
    assert get(url, f"/v1/tasks?client=0x{1:040x}")["tasks"] == []
    get(url, "/v1/tasks?client=nobody", 400)


def test_operators_say_why_they_do_not_accept_and_only_they(
    served: tuple[str, Daemon], client: Chain, operator: Chain, order_of: Orders, tmp_path: Path
) -> None:
    url, daemon = served
    order = order_of()
    task = post(client, order)
    daemon.turn()
    with GatewayClient(url, LocalStore(tmp_path)) as gateway:
        assert {row["reason"] for row in gateway.explain(task)["operators"]} == {"silent"}
        assert gateway.explain(task)["waits_for"] == f"an acceptance until block {order.accept_by}"
        decline = Decline(operator.address, bytes.fromhex(task), "price", "2 wei", "1 wei")
        domain = client.deployment.domain
        gateway.decline(task, decline.sign(domain, operator.account))
        (row,) = (row for row in gateway.explain(task)["operators"] if row["operator"] == operator.address)
        assert (row["reason"], row["needed"], row["offered"]) == ("price", "2 wei", "1 wei")

    forged = decline.sign(domain, anvil_account(7))
    refused = httpx.post(f"{url}/v1/tasks/{task}/declines", json=forged)
    assert refused.status_code == 403 and refused.json()["code"] == "NotAllowed"
    for path, body in ((task, {}), ("00" * 32, decline.sign(domain, operator.account)), ("x", {})):
        assert httpx.post(f"{url}/v1/tasks/{path}/declines", json=body).status_code in (400, 404)


def test_operators_say_what_they_reckon_with_and_only_they(
    served: tuple[str, Daemon], operator: Chain, tmp_path: Path
) -> None:
    url, daemon = served
    daemon.turn()
    ask = Ask(Pricing(min_price=3), Speed(1e9, 1e8, 0.35), 12.0, 3)
    domain = operator.deployment.domain

    def signed(block: int, one: Ask = ask, number: int | None = None) -> dict[str, Any]:
        account = operator.account if number is None else anvil_account(number)
        return PublishedAsk(operator.address, block, one).sign(domain, account)

    with GatewayClient(url, LocalStore(tmp_path)) as gateway:

        def asks() -> dict[str, Any] | None:
            (row,) = (row for row in gateway.operators()["operators"] if row["operator"] == operator.address)
            kept: dict[str, Any] | None = row["asks"]
            return kept

        assert asks() is None
        gateway.ask(operator.address, signed(7))
        assert asks() == ask.to_json()
        gateway.ask(operator.address, signed(7, replace(ask, reserve=5)))  # anybody could send an old one again
        assert asks() == ask.to_json()
        gateway.ask(operator.address, signed(8, replace(ask, reserve=4)))
        assert asks() == replace(ask, reserve=4).to_json()
    path = f"{url}/v1/operators/{operator.address}/asks"
    assert httpx.put(path, json=signed(9, number=7)).status_code == 403
    assert httpx.put(f"{url}/v1/operators/0x{'1' * 40}/asks", json=signed(9)).status_code == 400
    assert httpx.put(path, json={}).status_code == 400


def test_a_signed_order_is_posted_for_a_client_without_gas(
    served: tuple[str, Daemon], client: Chain, order_of: Orders, tmp_path: Path
) -> None:
    url, _ = served
    order = order_of()
    client.market.deposit(client.address, escrow(order))
    sent = client.node.transaction_count(client.address)
    signature = sign_order(order, client.deployment.domain, client.account)
    with GatewayClient(url, LocalStore(tmp_path)) as gateway:
        answer = gateway.post_order(order.to_json(), signature)
        assert answer["transaction"].startswith("0x")
        assert gateway.post_order(order.to_json(), signature)["task"] == answer["task"]
    assert client.market.task_at(bytes.fromhex(answer["task"])).state is State.OPEN
    assert client.node.transaction_count(client.address) == sent
    unpaid = order_of()
    body = {"order": unpaid.to_json(), "signature": sign_order(unpaid, client.deployment.domain, client.account).hex()}
    refused = httpx.post(f"{url}/v1/orders", json=body)
    assert refused.status_code == 409 and "InsufficientBalance" in refused.json()["detail"]
    refused = httpx.post(f"{url}/v1/orders", json=body | {"signature": "0x00"})
    assert refused.status_code == 409 and "WrongSignature" in refused.json()["detail"]


def test_an_aggregator_without_a_key_only_watches(
    anvil: Anvil, settings: Settings, serve: Serve, client: Chain, order_of: Orders
) -> None:
    url, daemon = serve(settings.model_copy(update={"keystore": None}))
    task = post(client, order_of())
    anvil.mine(30)
    daemon.turn()
    assert get(url, f"/v1/tasks/{task}")["state"] == "open"
    order = order_of()
    body = {"order": order.to_json(), "signature": "0x00"}
    refused = httpx.post(f"{url}/v1/orders", json=body)
    assert refused.status_code == 501 and refused.headers["content-type"] == "application/problem+json"
    assert "no account" in refused.json()["detail"] and refused.json()["fix"]


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_a_reorganised_accept_is_taken_back(
    anvil: Anvil, served: tuple[str, Daemon], client: Chain, operator: Chain, order_of: Orders
) -> None:
    url, daemon = served
    order = order_of()
    task = post(client, order)
    operator.market.accept(operator.address, order)
    anvil.mine(2)
    daemon.turn()
    assert get(url, f"/v1/tasks/{task}")["state"] == "accepted"
    anvil.rollback(3)
    anvil.mine()
    daemon.turn()
    view = get(url, f"/v1/tasks/{task}")
    assert (view["state"], view["executor"], len(view["events"])) == ("open", None, 1)
    client.market.cancel(order)
    daemon.turn()
    assert get(url, f"/v1/tasks/{task}")["state"] == "cancelled"
    anvil.rollback(3)
    anvil.mine()
    daemon.turn()
    get(url, f"/v1/tasks/{task}", 404)
    assert "et_reorganisations_total 2.0" in httpx.get(url + "/metrics").text


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_a_restarted_aggregator_goes_on_where_it_stopped(
    anvil: Anvil, settings: Settings, serve: Serve, client: Chain, operator: Chain, order_of: Orders
) -> None:
    order = order_of()
    _, first = serve(settings)
    task = post(client, order)
    first.turn()
    first.stop()
    revealed = execute(anvil, operator, order)
    anvil.rollback(client.node.block_number() + 1 - revealed)  # an aggregator may have sent a seed behind it
    anvil.mine(70)
    url, second = serve(settings)
    second.turn()
    second.turn()
    assert get(url, f"/v1/tasks/{task}")["state"] == "failed"


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_of_two_on_one_database_one_leads_and_the_other_serves_until_it_takes_over(
    anvil: Anvil, settings: Settings, serve: Serve, client: Chain, operator: Chain, order_of: Orders, tmp_path: Path
) -> None:
    order = order_of()
    url, first = serve(settings)
    shared = settings.database or settings.database_url
    other, second = serve(settings.model_copy(update={"data": tmp_path / "other", "database": shared}))
    task = post(client, order)
    first.turn()
    second.turn()
    assert get(other, f"/v1/tasks/{task}") == get(url, f"/v1/tasks/{task}")
    for page in ("/", "/?blocks=256", "/tasks?state=open&cursor=9999999-0", "/operators", "/health"):
        assert httpx.get(other + page).status_code == 200, page
    assert (get(url, "/healthz")["leads"], get(other, "/healthz")["leads"]) == (True, False)
    assert "et_leads 0.0" in httpx.get(other + "/metrics").text
    refused = httpx.put(f"{other}/v1/blobs/{'0' * 64}", content=b"")
    assert (refused.status_code, refused.json()["code"]) == (503, "StandsBy")
    revealed = execute(anvil, operator, order)
    anvil.rollback(client.node.block_number() + 1 - revealed)  # an aggregator may have sent a seed behind it
    anvil.mine(70)
    first.stop()
    second.turn()
    second.turn()
    assert get(other, "/healthz")["leads"] and get(other, f"/v1/tasks/{task}")["state"] == "failed"
    first.turn()
    assert not first.leads
    assert httpx.put(f"{url}/v1/blobs/{'0' * 64}", content=b"").json()["code"] == "StandsBy"


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_names_that_no_database_takes_are_refused(served: tuple[str, Daemon]) -> None:
    url, _ = served
    paths = httpx.get(f"{url}/openapi.json").json()["paths"]
    strange = ["%00", "%ED%A0%80"]
    asked = 0
    for path, verbs in paths.items():
        names = [p["name"] for p in verbs.get("get", {}).get("parameters", [])]
        queries = [name for name in names if f"{{{name}}}" not in path]
        for text in strange:
            place = re.sub(r"{\w+}", text, path)
            for query in ["", *(f"?{name}={text}" for name in queries)]:
                if query or place != path:
                    asked += 1
                    assert 400 <= httpx.get(f"{url}{place}{query}").status_code < 500, f"{place}{query}"
    assert asked > 20


@contextmanager
def process(settings: Settings) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """An aggregator in a process of its own, and its URL."""
    arguments = ["run", "--network", str(settings.network), "--data", str(settings.data), "--port", "0"]
    arguments += ["--keystore", str(settings.keystore), "--password-file", str(settings.password_file)]
    program = "import sys; from eigentensor_aggregator.cli import app; app(sys.argv[1:])"
    environment = os.environ | {"EIGENTENSOR_AGGREGATOR_POLL": "0.1"}
    if settings.database:
        environment["EIGENTENSOR_AGGREGATOR_DATABASE"] = settings.database
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        assert running.stderr is not None
        try:
            records = (json.loads(line) for line in running.stderr)
            yield running, next(line["url"] for line in records if line["event"] == "listening")
        finally:
            running.kill()


@stamina.retry(on=AssertionError, timeout=60, attempts=None, wait_max=0.2)
def eventually(url: str, task: str, state: str) -> None:
    assert get(url, f"/v1/tasks/{task}")["state"] == state


@pytest.mark.slow
def test_a_killed_process_resumes_and_a_told_one_ends_well(
    anvil: Anvil, settings: Settings, client: Chain, operator: Chain, order_of: Orders
) -> None:
    order = order_of()
    with process(settings) as (running, url):
        task = post(client, order)
        eventually(url, task, "open")
        running.send_signal(signal.SIGKILL)
    execute(anvil, operator, order)
    anvil.mine(30)
    with process(settings) as (running, url):
        eventually(url, task, "final")
        assert httpx.get(url + "/healthz").json()["status"] == "ok"
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    assert client.market.task_at(bytes.fromhex(task)).state is State.FINAL


@pytest.mark.slow
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_the_second_of_two_takes_over_within_ten_seconds_of_a_kill(settings: Settings, tmp_path: Path) -> None:
    with (
        process(settings) as (running, url),
        process(settings.model_copy(update={"data": tmp_path / "other"})) as (_, other),
    ):
        assert (get(url, "/healthz")["leads"], get(other, "/healthz")["leads"]) == (True, False)
        running.send_signal(signal.SIGKILL)
        for attempt in stamina.retry_context(on=AssertionError, timeout=60, attempts=None, wait_max=0.2):
            with attempt:
                assert get(other, "/healthz")["leads"]


def test_a_gateway_without_its_database_or_its_blobs_says_that_it_is_not_well(settings: Settings, serve: Serve) -> None:
    url, _ = serve(settings)

    def health() -> tuple[int, str]:
        answer = httpx.get(url + "/healthz")
        return answer.status_code, answer.json()["status"]

    assert health() == (200, "ok")
    for name in ("blobs", "aggregator.sqlite"):
        place = settings.data / name
        place.rename(place.with_suffix(".away"))
        assert health() == (503, "away")
        place.with_suffix(".away").rename(place)
        assert health() == (200, "ok")


def test_a_database_of_another_market_is_refused(
    settings: Settings, serve: Serve, client: Chain, tmp_path: Path
) -> None:
    serve(settings)
    values = json.loads(Path(str(settings.network)).read_text())
    values["deployment"]["taskMarket"] = client.deployment.token
    other = tmp_path / "other.json"
    other.write_text(json.dumps(values))
    with pytest.raises(ConfigError, match="about the market"):
        serve(settings.model_copy(update={"network": str(other)}))


def test_the_migrations_make_the_tables_that_the_code_knows(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'fresh.sqlite'}")
    upgrade(engine)
    upgrade(engine)
    with engine.connect() as connection:
        difference = compare_metadata(MigrationContext.configure(connection), SQLModel.metadata)
    engine.dispose()
    assert difference == []


def test_the_network_is_told(served: tuple[str, Daemon], client: Chain) -> None:
    url, _ = served
    answer = get(url, "/v1/network")
    assert answer["deployment"] == client.deployment.to_json() and answer["rpc_url"] == client.network.rpc_url
    assert get(url, "/openapi.json")["openapi"].startswith("3.1")
    assert httpx.get(f"{url}/docs").status_code == 404  # it would run scripts of strangers


@pytest.mark.parametrize(
    "body", [b"[" * 60_000, b"[" * 1_000_000, b'{"a":' * 10_000, b"\xff\xfe", b"1" * 60_000, b'{"order": NaN}']
)
def test_a_body_that_no_parser_likes_is_a_bad_request(served: tuple[str, Daemon], body: bytes) -> None:
    url, _ = served
    paths = ("/v1/orders", f"/v1/tasks/{'00' * 32}/declines", f"/v1/blobs/{'00' * 32}/pieces")
    for method, path in zip(("POST", "POST", "PUT"), paths, strict=True):
        answer = httpx.request(method, url + path, content=body, headers={"Content-Type": "application/json"})
        if len(body) > 64 << 10:  # bytes for two of them, values for the third
            assert answer.status_code == 413
            continue
        assert answer.status_code in (400, 422) and answer.headers["content-type"] == "application/problem+json"


WORDS = st.one_of(
    st.sampled_from(["0x" + "00" * 32, "ab" * 32, "..", "%2e%2e", "1-1", "-1", "999999999999999999999", "open", "\0"]),
    st.text(max_size=70),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
KEYS = ["order", "signature", "size", "blob", "pieces", "operator", "task", "reason", "needed", "offered"]


@pytest.fixture
def http(served: tuple[str, Daemon], client: Chain, order_of: Orders) -> Iterator[tuple[httpx.Client, dict[str, Any]]]:
    url, daemon = served
    order = order_of()
    post(client, order)
    daemon.turn()
    with httpx.Client(base_url=url) as http:
        yield http, order.to_json()


@hypothesis_settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    method=st.sampled_from(["GET", "PUT", "POST", "HEAD", "DELETE", "PATCH"]),
    route=st.sampled_from(
        ["/v1/blobs/{}", "/v1/blobs/{}/pieces", "/v1/tasks", "/v1/tasks/{}", "/v1/tasks/{}/explain",
         "/v1/tasks/{}/declines", "/v1/challenges", "/v1/challenges/{}", "/v1/orders", "/v1/{}", "/{}"]
    ),
    word=WORDS,
    query=st.dictionaries(
        st.sampled_from(["state", "client", "executor", "challenger", "task", "cursor", "limit"]), WORDS, max_size=3
    ),
    body=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6) | VALUES,
    header=st.sampled_from(["Range", "Content-Range", "Content-Type", "X"]),
    value=st.sampled_from(["bytes=0-99999999999999999999999", "bytes 0-0/1", "bytes 99999999999999999999-0/0",
                           "bytes=--1", "text/plain", "application/json", "bytes=٣-", "\x7f"]),
)  # fmt: skip
@example("PUT", "/v1/blobs/{}", "ab" * 32, {}, "x", "Content-Range", "bytes 0-0/1")
@example("POST", "/v1/orders", "", {}, {"order": {}, "signature": "0x"}, "X", "bytes=--1")
def test_no_request_makes_the_gateway_fail(
    http: tuple[httpx.Client, dict[str, Any]],
    method: str,
    route: str,
    word: str,
    query: dict[str, str],
    body: Any,
    header: str,
    value: str,
) -> None:
    connection, order = http
    if isinstance(body, dict) and "order" in body and isinstance(body["order"], dict):
        body["order"] = order | {key: body["order"][key] for key in body["order"] if key in order}
    try:
        path = route.format(httpx.URL(path="/" + word).raw_path.decode().lstrip("/"))
        request = connection.build_request(
            method, path, params=query, content=json.dumps(body).encode(), headers={header.encode(): value.encode()}
        )
    except (httpx.InvalidURL, UnicodeEncodeError, ValueError):
        return
    answer = connection.send(request)
    assert answer.status_code < 500 or answer.status_code == 501, answer.text
    if answer.status_code >= 400 and method != "HEAD":
        assert answer.headers["content-type"] == "application/problem+json"
        assert {"type", "title", "status", "code", "detail"} <= set(answer.json())
