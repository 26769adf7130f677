"""Calls through a channel: what is written, in which order, and what becomes of calls that others wait behind."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from eigentensor import merkle
from eigentensor.errors import (
    CallConflict,
    CallRefused,
    ChannelBusy,
    ChannelClosed,
    ChannelSpent,
    ConfigError,
    NoResponse,
    TaskNotFound,
    WrongReceipt,
    WrongResult,
)
from eigentensor_client.channels.caller import Caller
from eigentensor_client.channels.endpoint import Endpoint
from eigentensor_client.channels.ledger import Call, Ledger, Stage, root_of
from support.stories.paid_calls import PAYER, PRICE, SIGNER, TOKEN, Both, output, request

Handler = Callable[[httpx.Request], httpx.Response]


@pytest.fixture
def both(tmp_path: Path) -> Both:
    return Both(tmp_path / "channels")


def through(both: Both, around: Callable[[Handler, httpx.Request], httpx.Response]) -> Endpoint:
    """An endpoint with something between it and the operator."""
    handler = both.operator.transport().handler
    return Endpoint("http://operator", httpx.MockTransport(lambda r: around(handler, r)))  # type: ignore[arg-type]


def test_calls_are_computed_paid_for_and_kept(both: Both) -> None:
    with both.ledger() as ledger:
        caller = both.caller(ledger)
        for number in range(5):
            response = caller.call(request(number))
            assert list(output(response.outputs)) == [2.0 * number] * 4
            assert response.receipt.index == number
        calls = ledger.responded(both.channel)
        assert caller.payer.amount == 5 * PRICE and root_of(calls) == caller.payer.frontier.root()
        assert [call.body for call in calls] == [b""] * 5
        again = ledger.payer(ledger.account(both.channel.hex()))
        assert again.frontier.root() == caller.payer.frontier.root()
        assert replace(again, frontier=caller.payer.frontier) == caller.payer
    sheet = both.operator.channels[both.channel].sheet()
    assert sheet is not None and (sheet.count, sheet.amount) == (5, 5 * PRICE)


def test_as_many_are_under_way_as_the_offer_lets(both: Both) -> None:
    """They all have responses, in whichever order their requests come; the first one waits until two are under way."""
    many, lock, most, two = 0, threading.Lock(), 0, threading.Event()

    def around(handler: Handler, sent: httpx.Request) -> httpx.Response:
        nonlocal many, most
        with lock:
            many += 1
            most = max(most, many)
            if many == 2:
                two.set()
        assert two.wait(60)
        try:
            return handler(sent)
        finally:
            with lock:
                many -= 1

    with both.ledger() as ledger, ThreadPoolExecutor(8) as threads:
        caller = both.caller(ledger, through(both, around))
        responses = list(threads.map(lambda n: caller.call(request(n)), range(24)))
        assert [output(r.outputs)[0] for r in responses] == [2.0 * n for n in range(24)]
        assert 1 < most <= both.operator.offer.tail
        assert sorted(r.receipt.index for r in responses) == list(range(24))
        assert caller.payer.amount == 24 * PRICE
        assert not ledger.under_way(both.channel)


def test_a_call_that_arrives_before_the_one_before_it_is_sent_again(both: Both) -> None:
    """The first request waits until the second one was refused, because its voucher does not go on from the newest."""
    refused = threading.Event()
    first = threading.Lock()

    def around(handler: Handler, sent: httpx.Request) -> httpx.Response:
        if first.acquire(blocking=False):
            assert refused.wait(60)
            return handler(sent)
        response = handler(sent)
        if not response.is_success:
            refused.set()
        return response

    with both.ledger() as ledger, ThreadPoolExecutor(2) as threads:
        caller = both.caller(ledger, through(both, around))
        responses = list(threads.map(lambda n: caller.call(request(n)), range(2)))
        assert sorted(r.receipt.index for r in responses) == [0, 1]
        assert len(ledger.signed(both.channel)) == 2


def test_a_refusal_drops_those_behind_it_which_are_signed_anew(both: Both) -> None:
    both.operator.refuses = {request(2).body}
    with both.ledger() as ledger, ThreadPoolExecutor(6) as threads:
        caller = both.caller(ledger)
        running = [threads.submit(caller.call, request(n)) for n in range(9)]
        errors = [one.exception() for one in running]
        assert [type(error) for error in errors if error] == [CallRefused]
        responses = [one.result() for one in running if not one.exception()]
        assert sorted(r.receipt.index for r in responses) == list(range(8))
        assert caller.payer.amount == 8 * PRICE == both.operator.channels[both.channel].amount


def test_what_is_signed_is_on_disk_before_it_is_sent(both: Both) -> None:
    def around(handler: Handler, sent: httpx.Request) -> httpx.Response:
        with both.ledger() as other:
            assert [call.index for call in other.under_way(both.channel)] == [0]
        return handler(sent)

    with both.ledger() as ledger:
        both.caller(ledger, through(both, around)).call(request(1))


def test_a_broken_connection_is_tried_again_with_the_same_bytes(both: Both) -> None:
    bodies: list[bytes] = []

    def around(handler: Handler, sent: httpx.Request) -> httpx.Response:
        bodies.append(sent.content + sent.headers["PAYMENT-SIGNATURE"].encode())
        response = handler(sent)
        if len(bodies) == 1:
            raise httpx.ReadError("broken off")  # the operator has executed it
        if len(bodies) == 2:
            return httpx.Response(429, headers={"Retry-After": "0"})
        return response

    with both.ledger() as ledger:
        response = both.caller(ledger, through(both, around)).call(request(3))
        assert output(response.outputs)[0] == 6 and len(bodies) == 3 and len(set(bodies)) == 1
    assert both.operator.channels[both.channel].amount == PRICE


def test_without_a_response_a_call_stays_under_way_and_another_process_takes_it_up(both: Both) -> None:
    def away(handler: Handler, sent: httpx.Request) -> httpx.Response:
        handler(sent)
        raise httpx.ConnectError("nobody there")

    with both.ledger() as ledger:
        with pytest.raises(NoResponse, match="nobody there"):
            both.caller(ledger, through(both, away)).call(request(3), seconds=0.1)
        assert [call.index for call in ledger.under_way(both.channel)] == [0]
    with both.ledger() as ledger:
        caller = both.caller(ledger)
        (resumed,) = caller.resume()
        assert output(resumed.outputs)[0] == 6 and caller.resume() == []
        assert caller.call(request(4)).receipt.index == 1
        assert caller.payer.amount == 2 * PRICE == both.operator.channels[both.channel].amount


def test_what_the_operator_never_took_is_signed_anew(both: Both) -> None:
    def away(handler: Handler, sent: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody there")

    with both.ledger() as ledger:
        with pytest.raises(NoResponse):
            both.caller(ledger, through(both, away)).call(request(3), seconds=0.1)
        both.operator.refuses = {request(3).body}
        caller = both.caller(ledger)
        assert caller.call(request(4)).receipt.index == 0
        assert len(ledger.signed(both.channel)) == 2 and caller.payer.amount == PRICE


def elsewhere(both: Both, folder: Path) -> Ledger:
    """The ledger of another process with the same key, which knows of the channel, and of none of its calls."""
    other = Ledger(folder, durable=False)
    with both.ledger() as ledger:
        other.add(ledger.account(both.channel.hex()))
    return other


def test_two_processes_with_one_key_sign_each_place_once_and_each_call_is_paid_for_once(
    both: Both, tmp_path: Path
) -> None:
    with both.ledger() as ledger, elsewhere(both, tmp_path / "other") as other:
        first, second = both.caller(ledger), both.caller(other)
        for number in range(8):
            for caller in (first, second):
                response = caller.call(request(number))
                assert output(response.outputs)[0] == 2 * number
        first.call(request(9))
        payee = both.operator.channels[both.channel]
        assert payee.count == 17 and payee.amount == 17 * PRICE == first.payer.amount
        second.call(request(9))
        assert second.payer.amount == 18 * PRICE and second.payer.count == 18
        calls = other.responded(both.channel)
        assert [call.index for call in calls] == list(range(18)) and root_of(calls) == second.payer.frontier.root()
        again = other.payer(other.account(both.channel.hex()))
        assert again.amount == 18 * PRICE and again.frontier.root() == second.payer.frontier.root()


def test_several_threads_of_two_processes_with_one_key_call_at_once(both: Both, tmp_path: Path) -> None:
    with both.ledger() as ledger, elsewhere(both, tmp_path / "other") as other, ThreadPoolExecutor(6) as threads:
        callers = both.caller(ledger), both.caller(other)
        responses = list(threads.map(lambda n: callers[n % 2].call(request(n)), range(24)))
        assert [output(r.outputs)[0] for r in responses] == [2.0 * n for n in range(24)]
        assert len({r.receipt.index for r in responses}) == 24
        payee = both.operator.channels[both.channel]
        assert payee.count == 24 and payee.amount == 24 * PRICE


def test_calls_that_this_key_did_not_sign_are_not_taken(both: Both, tmp_path: Path) -> None:
    with both.ledger() as ledger, elsewhere(both, tmp_path / "other") as other:
        both.caller(ledger).call(request(1))
        (done,) = both.operator.done[both.channel]
        forged = replace(done.payment, signature=SIGNER.sign(b"?" * 32))
        both.operator.done[both.channel] = [replace(done, payment=forged)]
        caller = both.caller(other)
        with pytest.raises(WrongReceipt, match="not paid for with this key"):
            caller.call(request(2), seconds=2)
        assert caller.payer.amount == 0 and not other.responded(both.channel)


def test_where_nothing_is_shown_a_conflict_is_said(both: Both, tmp_path: Path) -> None:
    def silent(handler: Handler, sent: httpx.Request) -> httpx.Response:
        return httpx.Response(404) if sent.method == "GET" else handler(sent)

    with both.ledger() as ledger, elsewhere(both, tmp_path / "other") as other:
        both.caller(ledger).call(request(1))
        with pytest.raises(CallConflict):
            both.caller(other, through(both, silent)).call(request(2), seconds=2)


def test_a_call_under_way_whose_place_another_process_has_is_dropped_when_it_is_taken_up(
    both: Both, tmp_path: Path
) -> None:
    def away(handler: Handler, sent: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("nobody there")

    with both.ledger() as ledger, elsewhere(both, tmp_path / "other") as other:
        with pytest.raises(NoResponse):
            both.caller(other, through(both, away)).call(request(3), seconds=0.1)
        both.caller(ledger).call(request(1))
        caller = both.caller(other)
        assert caller.resume() == [] and caller.payer.count == 1
        assert caller.call(request(2)).receipt.index == 1
        assert caller.payer.amount == 2 * PRICE == both.operator.channels[both.channel].amount


def test_outputs_that_do_not_have_the_signed_root_are_not_taken(both: Both) -> None:
    with both.ledger() as ledger:
        both.operator.wrong = lambda index, root: b"\xee" * 32
        with pytest.raises(WrongResult, match="the outputs have the root"):
            both.caller(ledger).call(request(1), seconds=1)
        assert len(ledger.under_way(both.channel)) == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (httpx.Response(200, content=b"outputs"), WrongReceipt),
        (httpx.Response(200, headers={"PAYMENT-RESPONSE": "!"}), WrongReceipt),
        (httpx.Response(422, json={"detail": "no", "code": "CallRefused"}), CallRefused),
        (httpx.Response(404, content=b"\xff"), CallRefused),
        (httpx.Response(410, json={"detail": "over", "code": "ChannelClosed"}), ChannelClosed),
        (httpx.Response(402, json={"detail": "empty", "code": "ChannelSpent"}), ChannelSpent),
        (httpx.Response(429, json={"detail": "busy", "code": "ChannelBusy"}), NoResponse),
        (httpx.Response(307, headers={"Location": "http://elsewhere"}), CallRefused),
    ],
)
def test_whatever_is_answered_is_an_error_of_the_tree(
    both: Both, answer: httpx.Response, error: type[Exception]
) -> None:
    with both.ledger() as ledger:
        caller = both.caller(ledger, through(both, lambda handler, sent: answer))
        with pytest.raises(error):
            caller.call(request(1), seconds=0.2)


def test_nothing_is_signed_that_cannot_be_paid_or_is_of_a_channel_that_is_over(both: Both) -> None:
    with both.ledger() as ledger:
        caller = both.caller(ledger)
        with pytest.raises(ChannelSpent):
            caller.call(request(1, price=10**6))
        caller.update(lambda account, payer: (replace(account, stage=Stage.LEFT), payer))
        with pytest.raises(ChannelClosed, match="left"):
            caller.call(request(1))
        assert not ledger.signed(both.channel)


def test_one_process_has_a_channel(both: Both) -> None:
    with both.ledger() as ledger, ledger.lock(both.channel), pytest.raises(ChannelBusy, match="another process"):
        ledger.lock(both.channel)


def test_a_payers_key_is_its_owners_alone(both: Both) -> None:
    with both.ledger() as ledger:
        key = ledger.new_key()
        (path,) = (both.folder / "keys").iterdir()
        assert path.stat().st_mode & 0o777 == 0o600
        assert ledger.key(key.address).address == key.address
        with pytest.raises(ConfigError, match="cannot be read"):
            ledger.key("0x" + "09" * 20)
        with pytest.raises(TaskNotFound, match="0 channels"):
            ledger.account("ffff")


def test_chosen_calls_keep_their_inputs_until_they_were_executed_again(both: Both) -> None:
    with both.ledger() as ledger:
        caller = both.caller(ledger, recheck=1_000_000)
        caller.call(request(1))
        (call,) = ledger.chosen(both.channel, 0, 1)
        assert call.body and merkle.result_of(call.receipt.outputs_root)
        ledger.executed_again(both.channel, 0)
        assert not ledger.chosen(both.channel, 0, 1)


def test_a_call_is_found_by_its_salt_and_kept_before_its_response_is(both: Both) -> None:
    kept: list[tuple[int, bytes]] = []

    def keep(call: Call, outputs: bytes) -> None:
        with pytest.raises(TaskNotFound):  # the ledger does not have its response yet
            ledger.call(both.channel, call.index)
        kept.append((call.payment.salt, outputs))
        if len(kept) == 2:
            raise ConfigError("the disk is full")

    with both.ledger() as ledger:
        endpoint = Endpoint("http://operator", both.operator.transport())
        caller = Caller(ledger, ledger.account(both.channel.hex()), PAYER, endpoint, TOKEN, keep=keep)
        first = caller.call(replace(request(1), salt=7 << 150))
        assert ledger.calls_of(7 << 150) == [(both.channel, replace(first.call, body=b""))]
        with pytest.raises(ConfigError, match="full"):
            caller.call(replace(request(2), salt=8))
        ((_, left),) = ledger.calls_of(8)
        assert left.response is None and ledger.under_way(both.channel) == [left]
        (taken,) = caller.resume()
        assert (taken.call.index, kept) == (1, [(7 << 150, first.outputs), *[(8, taken.outputs)] * 2])
        both.operator.refuses.add(request(3).body)
        with pytest.raises(CallRefused):
            caller.call(replace(request(3), salt=9))
        assert ledger.calls_of(9) == [] and [call.payment.salt for call in ledger.signed(both.channel)][-1] == 9
