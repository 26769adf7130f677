"""Whatever comes over HTTP to the endpoint of paid calls is answered or refused, and costs the others nothing."""

import json
import random
import socket
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from eigentensor.channel import message_of, x402
from eigentensor.store.tensors import dump_safetensors
from eigentensor_operator.calls.interface import Load
from support.stories.calls import DOMAIN, PRICE, Endpoint, HttpClient, Programs, ones, programs, serving


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    some = programs(tmp_path_factory.mktemp("programs"))
    yield some
    some.close()


@pytest.fixture
def endpoint(tmp_path: Path, made: Programs) -> Iterator[Endpoint]:
    with serving(tmp_path, made) as running:
        yield running


CONTROLS = dict.fromkeys([*range(32), 127], "?")  # of which no client makes a header
VALUES: list[Any] = [
    None, True, -1, 0, 1, 2**63, 2**96, 2**256, 1e300, "", "0x", "0x" + "00" * 32, "0x" + "ff" * 32, "-1", "1" * 78,
    "x" * 5000, [], {}, [[]], {"a": {}}, "\u0000", "\ud800",
]  # fmt: skip


def mutated(source: random.Random, data: bytes) -> bytes:
    """Some bytes, changed."""
    kind = source.randrange(5)
    at = source.randrange(len(data) + 1)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + source.randbytes(source.randrange(1, 9)) + data[at:]
    if kind == 2 and data:
        changed = bytearray(data)
        changed[source.randrange(len(data))] ^= 1 << source.randrange(8)
        return bytes(changed)
    if kind == 3:
        return data[at:] + data[:at]
    return source.randbytes(source.randrange(200))


def reshaped(source: random.Random, value: Any) -> Any:
    """JSON, of which one part is another one."""
    if not isinstance(value, dict) or not value or source.random() < 0.2:
        return source.choice(VALUES)
    name = source.choice(sorted(value))
    if source.random() < 0.2:
        return {key: one for key, one in value.items() if key != name}
    return {**value, name: reshaped(source, value[name])}


def attack(endpoint: Endpoint, client: HttpClient, count: int, seed: int) -> Counter[int]:
    """Many requests that are each a little different from one that pays a wei too little."""
    source, x = random.Random(seed), {"x": ones(3)}
    work, body = client.computation(), dump_safetensors(x)
    payment = client.payment(work, x, PRICE - 1)
    whole = {"x402Version": 2, "accepted": {"scheme": x402.SCHEME}, "payload": payment.to_json()}
    statuses: Counter[int] = Counter()
    for _ in range(count):
        header, sent, query = b64encode(json.dumps(whole).encode()).decode(), body, dict(work.query())
        match source.randrange(5):
            case 0:
                header = b64encode(json.dumps(reshaped(source, whole)).encode()).decode()
            case 1:
                header = mutated(source, header.encode()).decode("latin-1").translate(dict.fromkeys((0, 10, 13), "?"))
            case 2:
                sent = mutated(source, body)
            case 3:
                query[source.choice(["program", "weights", "states", "repeat", "variable", "q"])] = str(
                    source.choice([*map(repr, VALUES[:8]), "00" * 32, mutated(source, b"program").hex()])
                )
            case 4:
                header = b64encode(mutated(source, json.dumps(whole).encode())).decode()
        headers = {x402.SIGNATURE.encode(): header.translate(CONTROLS).strip().encode("latin-1")}
        response = endpoint.http.post(client.path, params=query, content=sent, headers=headers)
        statuses[response.status_code] += 1
        assert response.status_code in (400, 402, 404, 409, 410, 422), (response.text, header, sent, query)
        problem = response.json()
        assert problem["status"] == response.status_code and problem["code"] and problem["detail"]
    return statuses


def test_fuzzed_requests_are_refused_in_words(endpoint: Endpoint) -> None:
    client = endpoint.client()
    before = client.payer
    statuses = attack(endpoint, client, 300, 1)
    assert len(statuses) >= 2 and endpoint.service.load(endpoint.pool) == Load()
    client.payer = before
    client.call()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_a_hundred_thousand_fuzzed_requests_are_refused_in_words(endpoint: Endpoint, seed: int) -> None:
    client = endpoint.client()
    before = client.payer
    attack(endpoint, client, 10_000, seed)
    assert endpoint.service.load(endpoint.pool) == Load()
    client.payer = before
    client.call()


def test_paths_that_name_nothing_are_refused(endpoint: Endpoint) -> None:
    for path in ("/v1/channels/x/calls", "/v1/channels/00/calls", f"/v1/channels/{'0' * 64}/calls", "/v1/nothing"):
        assert endpoint.http.post(path).status_code in (404, 405, 410, 422)
    for path in ("/v1/channels/x", f"/v1/channels/{'0' * 64}", "/v1/blobs/x", f"/v1/blobs/{'0' * 64}", "/v1/deals/1"):
        assert endpoint.http.get(path).status_code in (404, 405)
    for share in (-1, 2**256, 2**300):
        assert endpoint.http.get(f"/v1/batches/{'0' * 64}/shares/{share}?signature=").status_code in (400, 404, 422)


def test_two_clients_on_one_key_get_one_receipt_for_each_place(endpoint: Endpoint) -> None:
    first = endpoint.client()
    second = HttpClient(endpoint.http, first.key, endpoint.offer, endpoint.programs)
    x, work = {"x": ones(2)}, first.computation()
    receipts: dict[int, set[bytes]] = {}
    statuses: Counter[int] = Counter()
    for number in range(15):
        answers: list[httpx.Response] = []

        def post(client: HttpClient, salt: int, answers: list[httpx.Response] = answers) -> None:
            answers.append(client.post(work, client.payment(work, x, salt=salt), x))

        before = first.payer
        threads = [threading.Thread(target=post, args=[c, 2 * number + n]) for n, c in enumerate((first, second))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        statuses.update(answer.status_code for answer in answers)
        (taken,) = (answer for answer in answers if answer.status_code == 200)
        response = x402.read_response(taken.headers[x402.RESPONSE])
        receipts.setdefault(response.receipt.index, set()).add(response.receipt.order)
        payer = first.payer if first.payer.sent[-1].order == response.receipt.order else second.payer
        first.payer = second.payer = payer.received(response, response.receipt.outputs_root)
        assert first.payer.count == before.count + 1
    assert statuses == {200: 15, 409: 15} and all(len(orders) == 1 for orders in receipts.values())
    assert endpoint.service.load(endpoint.pool).leaves == 15


def test_indices_out_of_order_and_old_vouchers_are_refused(endpoint: Endpoint) -> None:
    client = endpoint.client()
    x, work = {"x": ones(2)}, client.computation()
    before = client.payer
    one, two = (client.payment(work, x) for _ in range(2))
    far = replace(two.voucher, count=two.voucher.count + endpoint.offer.tail)
    skipped = replace(two, voucher=far, signature=client.key.sign(message_of(DOMAIN, far)))
    assert client.post(work, skipped, x).status_code == 422
    client.payer = before
    for _ in range(5):
        client.call()
    for old in (one, two):
        assert client.post(work, old, x).status_code in (200, 409)  # the same order, or another one
    status = endpoint.service.status(client.payer.channel)
    assert status.count == 5 and endpoint.service.load(endpoint.pool).leaves == 5


def test_whoever_reads_or_sends_slowly_holds_up_nobody(endpoint: Endpoint) -> None:
    client = endpoint.client()
    host, port = "127.0.0.1", int(endpoint.url.rpartition(":")[2])
    head = f"POST {client.path}?program={'0' * 64} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    slow = [socket.create_connection((host, port)) for _ in range(50)]
    try:
        for number, connection in enumerate(slow):
            connection.sendall(head.encode()[: len(head) if number % 2 else 20] + b"x" * (number % 2))
        for _ in range(5):
            client.call()
    finally:
        for connection in slow:
            connection.close()
    client.call()
