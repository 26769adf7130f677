"""The endpoint of paid calls with a payer on the other side; what happens on chain is shown to it by hand."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from eigentensor import merkle
from eigentensor.channel import (
    Key,
    Voucher,
    batch_of,
    channel_of,
    events,
    hash_of,
    is_signed_by,
    message_of,
    task_of,
    x402,
)
from eigentensor.channel.calls import (
    CallResponse,
    ChannelStatus,
    DealRequest,
    PaidCalls,
    Payment,
    Quotes,
    SignedVoucher,
)
from eigentensor.channel.shown import CallsRequest, ShareRequest, ShownShare
from eigentensor.channel.state import BatchState, Breach
from eigentensor.errors import BlobNotFound, CallConflict, ChannelClosed, ChannelSpent, ServiceBusy
from eigentensor.program import Role
from eigentensor.reexecution.confined import execute, limits
from eigentensor.runtime.sandbox.warm import WarmProgram
from eigentensor.store.tensors import dump_safetensors, parse_flat
from eigentensor_operator.calls.interface import DrawnShare, Load
from eigentensor_operator.calls.ledger import Ledger
from eigentensor_operator.calls.recent import CHAIN
from eigentensor_operator.calls.service import CONCLUSIONS, Rules
from support.stories.calls import (
    DOMAIN,
    ELEMENTS,
    PRICE,
    SIGNER,
    Endpoint,
    HttpClient,
    Programs,
    ones,
    programs,
    serving,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    some = programs(tmp_path_factory.mktemp("programs"))
    yield some
    some.close()


@pytest.fixture
def endpoint(tmp_path: Path, made: Programs) -> Iterator[Endpoint]:
    with serving(tmp_path, made) as running:
        yield running


def test_calls_are_paid_executed_and_acknowledged(endpoint: Endpoint) -> None:
    client = endpoint.client()
    for value in range(5):
        assert client.call(value)["y"].tolist() == [value * value] * ELEMENTS
    assert client.payer.count == 5 and client.payer.amount == 5 * PRICE
    status = ChannelStatus.from_json(client.http.get(f"/v1/channels/{client.payer.channel.hex()}").json())
    assert (status.count, status.index) == (5, 5) and status.voucher is not None and status.voucher.acked == 4
    assert endpoint.service.load(endpoint.pool) == Load(5, 5 * PRICE, 1, 1)


def test_states_go_on_from_call_to_call_by_their_root(endpoint: Endpoint) -> None:
    client = endpoint.client()
    program = endpoint.programs.served["counting"].program
    total = {"total": ones(1)}
    root = merkle.role_root(program, Role.STATE, total)
    expected, brought = 1.0, dict[str, Any](total)
    for value in (2, 5):
        x = {"x": ones(value)}
        work = client.computation("counting", states=root, repeat=2)
        payment = client.payment(work, x, 2 * PRICE)
        outputs = client.receive(client.post(work, payment, x | brought), program)
        expected += 2 * 3 * value
        assert outputs["y"].tolist() == [expected] * ELEMENTS
        root, brought = client.responses[-1].states, {}
    assert len(endpoint.service.sheets(endpoint.pool, 1)) == 1
    for call in endpoint.service.calls_of(endpoint.pool, 1):
        bound = endpoint.service.bound_of(call.receipt.order)
        results = execute(bound, limits(1 << 30, 60), b"seed")
        assert merkle.results_root(program, results) == call.receipt.outputs_root
    unknown = client.computation("counting", states=b"?" * 32)
    response = client.post(unknown, None, {"x": ones(1)})
    assert response.status_code == 422 and "states are not here" in response.json()["detail"]


def test_states_of_which_a_call_changes_little_are_kept_as_what_it_changes(tmp_path: Path) -> None:
    """More calls than a chain of changes has; the ledger has all states, also when what is over was deleted."""
    elements, calls = 1 << 13, 2 * CHAIN + 3
    some = programs(tmp_path, elements=elements)
    program, total = some.served["counting"].program, np.zeros(elements, np.float32)
    root, brought = merkle.role_root(program, Role.STATE, {"total": total}), {"total": total}
    with closing(some), serving(tmp_path, some) as endpoint:
        client, roots = endpoint.client(), [root]
        for place in range(calls):
            x = np.zeros(elements, np.float32)
            x[place * 7] = place
            work = client.computation("counting", states=root)
            payment = client.payment(work, {"x": x}, PRICE)
            client.receive(client.post(work, payment, {"x": x, **brought}), program)
            root, brought = client.responses[-1].states, {}
            roots.append(root)
        for place, one in enumerate(roots):
            if place:
                total[(place - 1) * 7] += 3 * (place - 1)
            _, array = parse_flat(endpoint.service.blob(one))["total"]
            assert array.tobytes() == total.tobytes()
    assert (tmp_path / "calls.sqlite").stat().st_size < calls * total.nbytes * 3 // 2  # with whole inputs
    with closing(Ledger(tmp_path / "calls.sqlite")) as ledger:
        last = calls - 1
        ledger.forget(endpoint.pool, 1, [(client.payer.channel, last)])
        assert ledger.call(client.payer.channel, last - 2) is None and not ledger.has_blob(roots[0])
        assert ledger.call(client.payer.channel, last) is not None
        _, array = parse_flat(ledger.blob(roots[-1]))["total"]
        assert array.tobytes() == total.tobytes()


def test_an_unpaid_call_says_what_pays_for_it(endpoint: Endpoint) -> None:
    client = endpoint.client()
    client.call()
    work, x = client.computation(repeat=2), {"x": ones(1)}
    response = client.post(work, None, x)
    assert response.status_code == 402 and response.json()["code"] == "PaymentRequired"
    accepted = x402.read_required(response.headers[x402.REQUIRED])
    extra = accepted["extra"]
    assert accepted["amount"] == str(2 * PRICE) and extra["index"] == 1
    root = merkle.role_root(endpoint.programs.served["scaling"].program, Role.INPUT, x)
    assert extra["inputs"] == "0x" + root.hex() and extra["voucher"]["count"] == 1
    payment = client.payment(work, x, int(accepted["amount"]))
    headers = {x402.SIGNATURE: x402.signature(payment, accepted)}
    paid = client.http.post(client.path, params=tuple(work.query()), content=dump_safetensors(x), headers=headers)
    client.receive(paid, endpoint.programs.served["scaling"].program)


def test_deals_are_signed_for_what_is_offered_alone(endpoint: Endpoint) -> None:
    client = endpoint.client()
    (quote,) = Quotes.from_json(client.http.get("/v1/deals").json()).quotes
    assert quote.offer == endpoint.offer and quote.number == 1 and all(one.is_warm for one in quote.programs)
    request = DealRequest(quote.pool, "0x" + "02" * 20, client.key.address, 500)
    signed = client.request_deal(request)
    channel = channel_of(DOMAIN, signed.deal)
    assert is_signed_by(SIGNER.address, channel, signed.signature) and signed.deal.most == 500
    assert client.request_deal(request).deal.nonce != signed.deal.nonce and endpoint.service.is_wanted(endpoint.pool)
    wrong = (replace(request, pool=b"?" * 32), replace(request, most=0), replace(request, value_at_risk=10**6 + 1))
    for one in wrong:
        assert client.http.post("/v1/deals", json=one.to_json()).status_code == 422
    for body in (b"", b"[]", b"{}", b"[" * 10_000, json.dumps({**request.to_json(), "more": 1}).encode()):
        assert client.http.post("/v1/deals", content=body).status_code in (400, 422)


def test_a_channel_that_may_cost_no_more_goes_on_after_a_commit(endpoint: Endpoint) -> None:
    service, pool = endpoint.service, endpoint.pool
    poor = endpoint.client(0x31, deposit=5 * PRICE)
    for _ in range(5):
        poor.call()
    assert not service.is_short(pool), "a commit would not let it pay for more"
    client = endpoint.client(0x32, most=5 * PRICE)
    for spent in range(1, 5):
        assert not service.is_short(pool)
        client.call(spent)
    assert service.is_short(pool)
    client.call()
    with pytest.raises(ChannelSpent):
        client.call()
    endpoint.chain.commit(pool, 1, service.sheets(pool, 1))
    assert not service.is_short(pool)


def test_calls_under_way_are_taken_in_their_order_however_they_arrive(endpoint: Endpoint) -> None:
    client = endpoint.client()
    program = endpoint.programs.served["scaling"].program
    work = client.computation()
    for _ in range(5):
        some = [({"x": ones(value)}, None) for value in range(endpoint.offer.tail)]
        payments = [(x, client.payment(work, x)) for x, _ in some]
        responses: dict[int, httpx.Response] = {}

        def post(
            at: int, x: dict[str, Any], payment: Payment, responses: dict[int, httpx.Response] = responses
        ) -> None:
            responses[at] = client.post(work, payment, x)

        threads = [threading.Thread(target=post, args=[at, *payments[at]]) for at in reversed(range(len(payments)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for at in range(len(payments)):
            assert client.receive(responses[at], program)["y"].tolist() == [at * at] * ELEMENTS
    assert client.payer.count == 5 * endpoint.offer.tail


def test_a_repeated_payment_has_the_same_receipt_and_another_order_is_refused(endpoint: Endpoint) -> None:
    client = endpoint.client()
    work, x = client.computation(), {"x": ones(3)}
    payment = client.payment(work, x)
    first, again = client.post(work, payment, x), client.post(work, payment, x)
    assert first.status_code == again.status_code == 200
    assert first.content == again.content and first.headers[x402.RESPONSE] == again.headers[x402.RESPONSE]
    client.receive(first, endpoint.programs.served["scaling"].program)
    other = client.post(work, replace(payment, salt=8), x)
    assert other.status_code == 409 and other.json()["code"] == "CallConflict"
    assert other.json()["channel"]["voucher"]["count"] == 1
    assert endpoint.service.load(endpoint.pool).leaves == 1
    client.call()


@pytest.mark.parametrize(
    ("change", "status", "match"),
    [
        ({"count": 3}, 422, "the next one for 1"),
        ({"amount": PRICE - 1}, 422, "the call costs 10"),
        ({"amount": 10**7}, 402, "more than deposit or deal allow"),
        ({"acked": 1}, 422, "acknowledges 1 calls"),
        ({"channel": b"?" * 32}, 422, "another channel"),
    ],
)
def test_what_does_not_pay_is_refused_and_owes_nothing(
    endpoint: Endpoint, change: dict[str, Any], status: int, match: str
) -> None:
    client = endpoint.client()
    work, x = client.computation(), {"x": ones(3)}
    before = client.payer
    payment = client.payment(work, x)
    voucher = replace(payment.voucher, **change)
    wrong = replace(payment, voucher=voucher, signature=client.key.sign(message_of(DOMAIN, voucher)))
    response = client.post(work, wrong, x)
    assert response.status_code == status and match in response.json()["detail"], response.text
    stranger = replace(payment, signature=SIGNER.sign(message_of(DOMAIN, payment.voucher)))
    assert client.post(work, stranger, x).status_code == 422
    assert client.post(work, payment, {"x": ones(4)}).status_code == 422
    assert endpoint.service.load(endpoint.pool) == Load()
    client.payer = before
    client.call()


def test_inputs_and_programs_that_do_not_fit_are_refused(endpoint: Endpoint) -> None:
    client = endpoint.client()
    work, x = client.computation(), {"x": ones(3)}
    for tensors in ({}, {"y": ones(1)}, x | {"y": ones(1)}, {"x": ones(3)[:4]}, {"x": ones(3).astype(np.float16)}):
        assert client.post(work, None, tensors).status_code == 422
    for other in (client.computation(repeat=5), replace(work, program=b"?" * 32), replace(work, weights=b"?" * 32)):
        assert client.post(other, None, x).status_code == 422
    assert client.post(replace(work, variables={"n": 1}), None, x).status_code == 422
    assert client.http.post(client.path, params=tuple(work.query()), content=b"nonsense").status_code == 422
    assert client.http.post(client.path, content=dump_safetensors(x)).status_code == 422
    large = client.http.post(client.path, params=tuple(work.query()), content=bytes(endpoint.service.rules.body + 1))
    assert large.status_code == 413


def test_only_channels_that_are_open_are_served(tmp_path: Path, made: Programs) -> None:
    with serving(tmp_path, made) as endpoint:
        client = HttpClient(endpoint.http, Key(b"\x22" * 32), endpoint.offer, made)
        x, work = {"x": ones(1)}, client.computation()
        payment = client.payment(work, x)
        assert client.post(work, payment, x).status_code == 410
        channel = endpoint.chain.open(client.deal, 1000)
        assert client.post(work, payment, x).status_code == 410
        endpoint.chain.mine()
        endpoint.chain.mine()
        client.receive(client.post(work, payment, x), made.served["scaling"].program)
        endpoint.chain.show(events.Left, channel, 1)
        endpoint.chain.mine()
        response = client.post(work, client.payment(work, x), x)
        assert response.status_code == 410 and response.json()["code"] == "ChannelClosed"
        assert endpoint.service.load(endpoint.pool).leaves == 1


def test_an_opening_that_is_taken_back_is_none(endpoint: Endpoint) -> None:
    client = endpoint.client()
    client.call()
    endpoint.service.rolled_back(101)
    assert client.post(client.computation(), None, {"x": ones(1)}).status_code == 410
    assert endpoint.service.load(endpoint.pool) == Load()
    endpoint.chain.open(client.deal, client.payer.deposit)
    endpoint.chain.mine()
    client.call()  # it goes on: the receipt of the first call still binds
    assert endpoint.service.load(endpoint.pool).leaves == 2


def test_a_batch_is_drained_committed_shown_and_forgotten(endpoint: Endpoint) -> None:
    one, two = endpoint.client(0x22), endpoint.client(0x33)
    for client in (one, two, one):
        client.call()
    pool, service, chain = endpoint.pool, endpoint.service, endpoint.chain
    sheets = service.sheets(pool, 1)
    assert service.sheets(pool, 1) == sheets and [sheet.count for sheet in sheets] == [2, 1]
    assert service.load(pool) == Load()
    x = {"x": ones(1)}
    work = one.computation()
    before = one.payer
    refused = one.post(work, one.payment(work, x), x)
    assert refused.status_code == 503 and refused.headers["Retry-After"] == "1"
    one.payer = before
    lines = chain.commit(pool, 1, sheets)
    chain.begin(pool, 2)
    chain.mine()
    for client in (one, two):
        client.payer = client.payer.committed(client.payer.amount).begun(2)
        client.call()
    assert service.load(pool) == Load(2, 2 * PRICE, 2, 2)
    calls = service.calls_of(pool, 1)
    assert [(call.receipt.index, call.receipt.number) for call in calls] == [(0, 1), (1, 1), (0, 1)]
    for call in calls:
        bound = service.bound_of(call.receipt.order)
        results = execute(bound, limits(1 << 30, 60), b"seed")
        assert merkle.results_root(bound.program, results) == call.receipt.outputs_root
        assert task_of(DOMAIN, call.order) == call.receipt.order
    assert merkle.tree_root(service.leaves_of(one.payer.channel)[:2]) == lines[0].root
    chain.close(pool, 1)
    chain.mine(100)
    assert service.calls_of(pool, 1) == []
    assert merkle.tree_root(service.leaves_of(one.payer.channel)[:2]) == lines[0].root
    assert len(service.leaves_of(one.payer.channel)) == 3
    with pytest.raises(BlobNotFound):
        service.bound_of(calls[0].receipt.order)
    assert len(service.calls_of(pool, 2)) == 0 and service.load(pool).leaves == 2


def test_a_lapsed_batch_is_owed_by_the_next(endpoint: Endpoint) -> None:
    client = endpoint.client()
    client.call()
    pool = endpoint.pool
    assert len(endpoint.service.sheets(pool, 1)) == 1 and endpoint.service.load(pool) == Load()
    endpoint.chain.mine(60)
    endpoint.chain.close(pool, 1, BatchState.LAPSED)
    assert endpoint.service.load(pool).leaves == 1
    endpoint.chain.begin(pool, 2)
    endpoint.chain.mine()
    client.call()
    assert [sheet.count for sheet in endpoint.service.sheets(pool, 2)] == [2]


def test_nothing_is_served_at_the_end_of_an_epoch_or_after_a_conviction(endpoint: Endpoint) -> None:
    client = endpoint.client()
    x, work = {"x": ones(1)}, client.computation()
    payment = client.payment(work, x)
    endpoint.chain.mine(60)
    assert client.post(work, payment, x).status_code == 503
    endpoint.chain.begin(endpoint.pool, 2)
    endpoint.chain.mine()
    client.receive(client.post(work, payment, x), endpoint.programs.served["scaling"].program)
    assert client.responses[-1].receipt.number == 2
    endpoint.chain.show(events.Convicted, batch_of(endpoint.pool, 1), Breach.OMISSION, client.deal.client)
    assert client.post(work, client.payment(work, x), x).status_code == 410


def test_a_full_batch_takes_no_call(tmp_path: Path, made: Programs) -> None:
    with serving(tmp_path, made, most=3 * PRICE) as endpoint:
        client = endpoint.client(most=3 * PRICE)
        other = endpoint.client(0x33, most=3 * PRICE)
        for _ in range(3):
            client.call()
        x, work = {"x": ones(1)}, client.computation()
        response = other.post(work, other.payment(work, x), x)
        assert response.status_code == 503 and "batch at hand is full" in response.json()["detail"]


def test_too_many_calls_wait_their_turn(tmp_path: Path, made: Programs) -> None:
    with serving(tmp_path, made, Rules(each=0)) as endpoint:
        client = endpoint.client()
        x, work = {"x": ones(1)}, client.computation()
        response = client.post(work, client.payment(work, x), x)
        assert response.status_code == 429 and response.headers["Retry-After"] == "1"
        assert endpoint.service.load(endpoint.pool) == Load()


def test_a_restart_goes_on_as_it_was(tmp_path: Path, made: Programs) -> None:
    with serving(tmp_path, made) as endpoint:
        client = endpoint.client()
        work, x = client.computation(), {"x": ones(3)}
        client.call()
        payment = client.payment(work, x)
        first = client.post(work, payment, x)
        sheets, load = endpoint.service.sheets(endpoint.pool, 1), endpoint.service.load(endpoint.pool)
        block = endpoint.chain.block
    with serving(tmp_path, made, chain=False) as endpoint:
        endpoint.chain.block, endpoint.chain.index = block, 100
        assert endpoint.service.sheets(endpoint.pool, 1) == sheets and endpoint.service.load(endpoint.pool) == load
        client.http = endpoint.http
        assert client.post(work, payment, x).status_code == 503  # the chain is not read yet
        endpoint.chain.commit(endpoint.pool, 1, sheets)
        endpoint.chain.begin(endpoint.pool, 2)
        endpoint.chain.mine()
        again = client.post(work, payment, x)
        assert again.headers[x402.RESPONSE] == first.headers[x402.RESPONSE] and again.content == first.content
        client.receive(again, made.served["scaling"].program)
        client.call()
        assert endpoint.service.load(endpoint.pool).leaves == 1


def test_a_failed_call_refuses_those_behind_it(
    endpoint: Endpoint, made: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program's process is killed while it executes the first of three."""
    client = endpoint.client()
    x, work = {"x": ones(1)}, client.computation()
    before = client.payer
    payments = [client.payment(work, x) for _ in range(3)]
    execution = made.served["scaling"].execution
    run, hold = execution.execute_all_async, threading.Event()

    async def killed(*arguments: Any) -> Any:
        await asyncio.to_thread(hold.wait, 30)
        monkeypatch.setattr(execution, "execute_all_async", run)
        warm = execution._warm
        assert isinstance(warm, WarmProgram) and warm._child is not None
        with warm._lock:
            warm._closed += 1  # else one that has become wider meanwhile would take its place
            warm._child.process.kill()
            warm._child.ended.wait(30)
        return await run(*arguments)

    monkeypatch.setattr(execution, "execute_all_async", killed)
    refusals: list[str] = []

    def post(payment: Payment) -> None:
        refusals.append(client.post(work, payment, x).json()["detail"])

    threads = [threading.Thread(target=post, args=[payment]) for payment in payments]
    for thread in threads:
        thread.start()
    while endpoint.service.status(client.payer.channel).index < 3:
        pass
    hold.set()
    for thread in threads:
        thread.join()
    assert sorted(refusals)[:2] == ["a call before it was refused, and it with it"] * 2
    assert "killed" in sorted(refusals)[2] and endpoint.service.load(endpoint.pool) == Load()
    client.payer = before
    client.call()


def test_a_share_is_shown_to_its_candidates_alone_and_its_calls_lead_to_the_batch(endpoint: Endpoint) -> None:
    verifier = Key(b"\x44" * 32)
    clients = [endpoint.client(0x22), endpoint.client(0x33)]
    for client in (*clients, *clients):
        client.call()
    pool, batch = endpoint.pool, batch_of(endpoint.pool, 1)
    lines = endpoint.chain.commit(pool, 1, endpoint.service.sheets(pool, 1))
    root = merkle.tree_root([line.hash() for line in lines])
    endpoint.chain.shares[batch, 0, verifier.address] = DrawnShare(pool, 1, (3, 0, 2))
    request = ShareRequest(batch, 0)
    url = f"{endpoint.url}/v1/batches/{batch.hex()}/shares/0"
    response = httpx.get(url, params={"signature": verifier.sign(request.message(DOMAIN)).hex()})
    shown = ShownShare.from_json(response.json())
    assert shown.leads_to(root, DOMAIN) and [call.index for call in shown.calls] == [1, 0, 0]
    assert not replace(shown, calls=(replace(shown.calls[0], index=0),)).leads_to(root, DOMAIN)
    assert "outputs" not in response.text
    blob = httpx.get(f"{endpoint.url}/v1/blobs/{shown.calls[0].order.inputs.hex()}")
    assert list(parse_flat(blob.content)) == ["x"]
    for signature in ("", "00" * 65, verifier.sign(b"?" * 32).hex(), SIGNER.sign(request.message(DOMAIN)).hex()):
        assert httpx.get(url, params={"signature": signature}).status_code in (404, 422)
    assert httpx.get(f"{endpoint.url}/v1/blobs/{'0' * 64}").status_code == 404


def test_whoever_is_ill_says_so(endpoint: Endpoint) -> None:
    assert httpx.get(f"{endpoint.url}/healthz").status_code == 200
    endpoint.service.stop("the device is faulty")
    ill = httpx.get(f"{endpoint.url}/healthz")
    assert ill.status_code == 503 and "faulty" in ill.text
    client = endpoint.client()
    x, work = {"x": ones(1)}, client.computation()
    assert client.post(work, client.payment(work, x), x).status_code == 503


def test_refusals_are_errors_of_the_service_before_they_are_problems(endpoint: Endpoint) -> None:
    client, service = endpoint.client(), endpoint.service
    work, x = client.computation(), {"x": ones(3)}
    payment = client.payment(work, x)
    inputs = service.read(endpoint.programs.served["scaling"].program, work, dump_safetensors(x))
    service.take(client.payer.channel, work, payment, inputs, "me").result(60)
    with pytest.raises(CallConflict, match="call 0 of the channel is another one"):
        service.take(client.payer.channel, work, replace(payment, salt=8), inputs, "me")
    with pytest.raises(ChannelClosed, match="no such channel"):
        service.take(b"?" * 32, work, payment, inputs, "me")


def last_of(client: HttpClient) -> SignedVoucher:
    voucher = client.payer.last()
    return SignedVoucher(voucher, client.key.sign(message_of(DOMAIN, voucher)))


def conclude(client: HttpClient, last: SignedVoucher) -> httpx.Response:
    return client.http.post(f"/v1/channels/{client.payer.channel.hex()}/conclusion", json=last.to_json())


def test_a_last_voucher_is_signed_by_both_sides_and_no_batch_has_its_calls(endpoint: Endpoint) -> None:
    client, other = endpoint.client(), endpoint.client(0x33)
    for _ in range(3):
        client.call()
    other.call()
    last = last_of(client)
    response = conclude(client, last)
    theirs = SignedVoucher.from_json(response.json())
    assert theirs.voucher == last.voucher and is_signed_by(
        SIGNER.address, hash_of(DOMAIN, theirs.voucher), theirs.signature
    )
    assert conclude(client, last).json() == response.json()
    x, work = {"x": ones(2)}, client.computation()
    assert client.post(work, client.payment(work, x), x).status_code == 410
    service, pool = endpoint.service, endpoint.pool
    assert service.load(pool) == Load(1, PRICE, 1, 1) and list(service.concluding(pool)) == [client.payer.channel]
    with pytest.raises(ServiceBusy, match="being concluded"):
        service.sheets(pool, 1)
    endpoint.chain.show(events.Concluded, client.payer.channel, 3, 3 * PRICE, 10**6 - 3 * PRICE)
    endpoint.chain.mine()
    assert not service.concluding(pool)
    (sheet,) = service.sheets(pool, 1)
    assert sheet.deal == other.deal


def test_what_is_no_last_voucher_is_not_signed(endpoint: Endpoint) -> None:
    client = endpoint.client()
    client.call()
    last = last_of(client).voucher
    for change in ({"count": 2}, {"amount": PRICE - 1}, {"amount": 10**9}, {"acked": 0}, {"root": b"?" * 32}):
        wrong = replace(last, **change)
        signed = SignedVoucher(wrong, client.key.sign(message_of(DOMAIN, wrong)))
        assert conclude(client, signed).status_code == 422, change
    forged = SignedVoucher(last, SIGNER.sign(message_of(DOMAIN, last)))
    assert conclude(client, forged).status_code == 422
    endpoint.service.sheets(endpoint.pool, 1)
    busy = conclude(client, last_of(client))
    assert busy.status_code == 503 and "being committed" in busy.json()["detail"]
    assert not endpoint.service.concluding(endpoint.pool)


def test_conclusions_do_not_put_off_a_commit(endpoint: Endpoint) -> None:
    """They are few at a time, and none begins when a commit is due; who is owed nothing may conclude at any time."""
    service, pool = endpoint.service, endpoint.pool
    clients = [endpoint.client(seed) for seed in range(0x40, 0x40 + CONCLUSIONS + 2)]
    for client in clients[:-1]:
        client.call()
    for client in clients[:CONCLUSIONS]:
        assert conclude(client, last_of(client)).status_code == 200
    late = clients[CONCLUSIONS]
    busy = conclude(late, last_of(late))
    assert busy.status_code == 503 and "about to be committed" in busy.json()["detail"]
    for client in clients[:CONCLUSIONS]:
        endpoint.chain.show(events.Concluded, client.payer.channel, 1, PRICE, 10**6 - PRICE)
    endpoint.chain.mine(endpoint.offer.epoch // 2)
    assert not service.concluding(pool)
    assert conclude(late, last_of(late)).status_code == 503
    assert conclude(clients[-1], last_of(clients[-1])).status_code == 200
    assert not service.concluding(pool)
    (sheet,) = service.sheets(pool, 1)
    assert sheet.count == 1


def test_a_conclusion_outlives_a_restart(tmp_path: Path, made: Programs) -> None:
    with serving(tmp_path, made) as endpoint:
        client = endpoint.client()
        client.call()
        first, last = conclude(client, last_of(client)).json(), last_of(client)
    with serving(tmp_path, made, chain=False) as again:
        again.service.advance(120)
        client.http = again.http
        assert conclude(client, last).json() == first
        assert list(again.service.concluding(again.pool)) == [client.payer.channel]
        assert again.service.load(again.pool) == Load()


def test_a_payer_is_shown_its_calls_and_nobody_else(endpoint: Endpoint) -> None:
    client = endpoint.client()
    for value in range(3):
        client.call(value)
    channel = client.payer.channel

    def asked(first: int, key: Key) -> httpx.Response:
        signature = key.sign(CallsRequest(channel, first).message(DOMAIN)).hex()
        return client.http.get(f"/v1/channels/{channel.hex()}/calls", params={"first": first, "signature": signature})

    shown = PaidCalls.from_json(asked(1, client.key).json())
    assert [one.response for one in shown.calls] == client.responses[1:]
    assert PaidCalls.from_json(asked(3, client.key).json()).calls == ()
    assert asked(0, SIGNER).status_code == 422


def test_receipts_are_signed_for_what_the_voucher_paid(endpoint: Endpoint) -> None:
    client = endpoint.client()
    client.call()
    response: CallResponse = client.responses[0]
    assert is_signed_by(SIGNER.address, hash_of(DOMAIN, response.receipt), response.signature)
    assert isinstance(endpoint.service.status(client.payer.channel).voucher, Voucher)
