"""The client of the package `x402`, unmodified but for our scheme, pays for calls at the real endpoint."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from x402 import x402Client
from x402.http.clients.httpx import PaymentError, x402HttpxClient
from x402.http.utils import decode_payment_required_header, decode_payment_response_header
from x402.schemas import PaymentRequired

from eigentensor.chain import Chain, Network, anvil_account
from eigentensor.channel import x402
from eigentensor.errors import CallRefused, WrongReceipt, WrongResult
from eigentensor_client.channels.channel import Channel
from eigentensor_client.channels.scheme import ChannelScheme
from eigentensor_client.client import Client
from eigentensor_local.anvil import Anvil
from support.screens.readme import ROOT, blocks
from support.stories.call_operators import until
from support.stories.calls_place import PRICE, RealPlace
from support.stories.game_table import CLIENT
from support.stories.paid_calls import inputs, output, program_root

Post = Callable[[float], Any]


@pytest.fixture
def channel(
    anvil: Anvil, operator: Chain, network: Network, client: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Channel]:
    """`client` is the same account, with tokens."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with ExitStack() as stack:
        paying = stack.enter_context(Client(network, anvil_account(CLIENT)))
        place = RealPlace(operator, paying, tmp_path / "channels", anvil, stack)
        stack.callback(place.ledger.close)
        channel = stack.enter_context(place.open())
        until(lambda: place.is_served(channel), "a channel that is served")
        yield channel


def calling(channel: Channel, scheme: ChannelScheme, *values: float) -> list[httpx.Response]:
    """The responses to calls that its client pays for."""

    async def call() -> list[httpx.Response]:
        paying = x402Client()
        paying.register(scheme.network, scheme).set_spend_controls(scheme.spend_controls)
        path, responses = f"/v1/channels/{channel.name}/calls", []
        async with x402HttpxClient(paying, base_url=channel.account.agreement.url) as http:
            for value in values:
                responses.append(await http.post(path, params={"program": program_root().hex()}, content=inputs(value)))
                if responses[-1].is_success:
                    scheme.received(responses[-1])
        return responses

    return asyncio.run(call())


def test_calls_are_paid_for_by_the_client_of_x402(channel: Channel) -> None:
    responses = calling(channel, ChannelScheme(channel, PRICE), *range(12))
    assert [output(one.content)[0] for one in responses] == [2.0 * value for value in range(12)]
    assert channel.payer.count == 12 and channel.payer.amount == 12 * PRICE
    settled = decode_payment_response_header(responses[-1].headers[x402.RESPONSE])
    assert settled.success and settled.payer == channel.account.agreement.deal.payer
    assert x402.read_response(responses[-1].headers[x402.RESPONSE]).receipt.index == 11
    assert [call.index for call in channel.ledger.responded(channel.account.agreement.channel)] == list(range(12))


def test_the_terms_of_a_call_are_those_of_the_protocol(channel: Channel) -> None:
    url = f"{channel.account.agreement.url}/v1/channels/{channel.name}/calls"
    response = httpx.post(url, params={"program": program_root().hex()}, content=inputs(1))
    required = decode_payment_required_header(response.headers[x402.REQUIRED])
    assert response.status_code == 402 and isinstance(required, PaymentRequired)
    (accepted,) = required.accepts
    assert (accepted.scheme, accepted.amount, accepted.network) == (x402.SCHEME, str(PRICE), "eip155:31337")
    assert required.resource is not None and required.resource.url == str(response.url)


def test_a_price_above_the_cap_is_not_paid(channel: Channel) -> None:
    with pytest.raises(PaymentError, match="rejected by spend_controls"):
        calling(channel, ChannelScheme(channel, PRICE - 1), 1)
    dear = SimpleNamespace(
        amount=str(PRICE), pay_to=channel.payer.domain.market, extra={"channel": "0x" + channel.name}
    )
    with pytest.raises(CallRefused, match="a call costs"):
        ChannelScheme(channel, PRICE - 1).create_payment_payload(dear)
    dear.extra = {"channel": "0x" + "00" * 32}
    with pytest.raises(CallRefused, match="is to pay"):
        ChannelScheme(channel, PRICE).create_payment_payload(dear)
    assert not channel.ledger.signed(channel.account.agreement.channel)


def test_a_response_that_was_lost_or_is_wrong_is_made_good_before_the_next_payment(
    channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheme = ChannelScheme(channel, PRICE)
    with pytest.raises(CallRefused, match="no call was paid for"):
        scheme.received(httpx.Response(200))
    with monkeypatch.context() as patch:
        patch.setattr(scheme, "received", lambda response: None)
        (lost,) = calling(channel, scheme, 1)
    request = lost.request
    with pytest.raises(WrongReceipt):
        scheme.received(httpx.Response(200, content=lost.content, request=request))
    with pytest.raises(WrongResult, match="the outputs have the root"):
        scheme.received(httpx.Response(200, content=inputs(9), headers=lost.headers, request=request))
    other = httpx.Request(request.method, request.url, content=inputs(8))
    with pytest.raises(WrongResult, match="another computation"):
        scheme.received(httpx.Response(200, content=lost.content, headers=lost.headers, request=other))
    assert channel.payer.count == 0
    calling(channel, scheme, 2, 3)
    assert channel.payer.count == 3 and channel.payer.amount == 3 * PRICE


def test_the_example_of_the_guide_runs(channel: Channel) -> None:
    page = ROOT / "client/docs/pages/guides/calls.md"
    (code,) = [text for _, kind, text in blocks(page) if kind == "python" and "x402Client" in text]
    names: dict[str, Any] = {"channel": channel, "program": program_root()}
    exec(compile(code, "calls.md, x402", "exec", dont_inherit=True), names)
    assert output(asyncio.run(names["call"](inputs(4))))[0] == 8
