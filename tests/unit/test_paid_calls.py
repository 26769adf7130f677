"""The two sides of a channel, without a chain: what is signed, taken, owed and committed, and what is refused."""

import json
from base64 import b64encode
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor import merkle
from eigentensor.channel import Deal, Key, Offer, channel_of, index_of, message_of, pool_of, task_of, x402
from eigentensor.channel.calls import CallResponse, Computation, Payment, ProgramQuote, Quote
from eigentensor.channel.payee import Payee
from eigentensor.channel.payer import Payer
from eigentensor.errors import (
    BindingError,
    CallRefused,
    ChannelBusy,
    ChannelSpent,
    EigenTensorError,
    TaskError,
    WrongReceipt,
    WrongResult,
)
from eigentensor.task import NONE, Domain

SIGNER, PAYER = Key(b"\x11" * 32), Key(b"\x22" * 32)
DOMAIN = Domain(31337, "0x" + "77" * 20)
OFFER = Offer(
    operator="0x" + "01" * 20, signer=SIGNER.address, nonce=1, max_price=10, check_price=5, most=10**6, risk_each=0,
    risk_all=0, check_rate=10**17, verifiers=1, exec=4, epoch=50, tail=3, programs=b"P" * 32,
)  # fmt: skip
DEAL = Deal(pool_of(DOMAIN, OFFER), "0x" + "02" * 20, PAYER.address, 1, 500, 0, 900)
WORK = Computation(b"p" * 32, variables={"n": 3})
PRICE, SALT = 10, 99


class Both:
    """A client and an operator that exchange calls of one channel, in order."""

    def __init__(self, deposit: int = 1000) -> None:
        self.payer, self.payee = Payer.of(DOMAIN, OFFER, DEAL, deposit), Payee.of(DOMAIN, OFFER, DEAL, deposit)
        self.leaves: list[bytes] = []

    def payment(self, price: int = PRICE) -> Payment:
        """The next one of the client."""
        order = task_of(DOMAIN, WORK.order(DEAL, self.payer.channel, self.payer.next, SALT, b"i" * 32))
        self.payer, voucher = self.payer.called(order, price)
        return Payment(SALT, b"i" * 32, voucher, PAYER.sign(message_of(DOMAIN, voucher)))

    def take(self, payment: Payment, price: int = PRICE) -> None:
        order = WORK.order(DEAL, self.payee.channel, payment.voucher.count - 1, payment.salt, payment.inputs)
        self.payee = self.payee.taken(payment, task_of(DOMAIN, order), price)

    def execute(self, number: int = 1) -> CallResponse:
        outputs = bytes([self.payee.count % 251]) * 32
        self.payee, receipt = self.payee.executed(outputs, number)
        result = merkle.result_of(receipt.outputs_root)
        self.leaves.append(merkle.call_hash(receipt.channel, receipt.index, receipt.order, result))
        return CallResponse(receipt, SIGNER.sign(message_of(DOMAIN, receipt)))

    def receive(self, response: CallResponse) -> None:
        self.payer = self.payer.received(response, response.receipt.outputs_root)

    def call(self) -> None:
        self.take(self.payment())
        self.receive(self.execute())


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["call", "execute", "receive", "refuse", "commit"]), max_size=60), st.data())
def test_both_sides_agree_whatever_is_under_way(steps: list[str], data: st.DataObject) -> None:
    both, responses, committed = Both(), list[CallResponse](), (0, 0)
    for step in steps:
        if step == "call" and len(both.payer.sent) < OFFER.tail and both.payer.left >= PRICE:
            both.take(both.payment())
        elif step == "execute" and both.payee.pending:
            responses.append(both.execute())
        elif step == "receive" and responses:
            both.receive(responses.pop(0))
        elif step == "refuse" and both.payee.pending and not responses:
            both.payee, both.payer = both.payee.refused(), both.payer.refused()
        elif step == "commit" and (sheet := both.payee.sheet()):
            line = sheet.line(DOMAIN, committed[0], committed[1], 0)
            assert line.root == merkle.tree_root(both.leaves) and line.first + line.count == len(both.leaves)
            committed = sheet.count, sheet.amount
            assert sheet.amount - both.payee.paid == line.amount <= min(DEAL.most, both.payee.deposit)
            assert len(sheet.tail) == sheet.count - sheet.acked <= OFFER.tail
            both.payee, both.payer = both.payee.committed(*committed), both.payer.committed(sheet.amount)
    for response in responses:
        both.receive(response)
    assert both.payer.frontier.root() == merkle.tree_root(both.leaves) and both.payer.left == both.payee.left
    assert both.payer.amount == both.payee.amount == PRICE * len(both.leaves)


def test_an_order_names_its_place_and_nothing_else_of_its_terms() -> None:
    order = WORK.order(DEAL, channel_of(DOMAIN, DEAL), 5, SALT, b"i" * 32)
    assert index_of(order) == 5 and order.nonce >> 64 == SALT and order.operators == channel_of(DOMAIN, DEAL)
    assert order.variables == merkle.variables_root({"n": 3}) and order.escrow == 0


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"channel": NONE}, CallRefused, "another channel"),
        ({"count": 1}, CallRefused, "for 1 calls, the next one for 3"),
        ({"count": 4}, CallRefused, "for 4 calls"),
        ({"amount": 29}, CallRefused, "20 are owed, and the call costs 10"),
        ({"amount": 501}, ChannelSpent, "1 wei more"),
        ({"acked": 3}, CallRefused, "acknowledges 3 calls"),
        ({"acked": 1}, CallRefused, "root is not the one of the first 1"),
        ({"root": b"?" * 32}, CallRefused, "root is not"),
    ],
)
def test_a_voucher_that_does_not_go_on_is_refused(
    change: dict[str, Any], error: type[EigenTensorError], match: str
) -> None:
    both = Both()
    both.call()
    both.call()
    payment, before = both.payment(), both.payee
    voucher = replace(payment.voucher, **change)
    with pytest.raises(error, match=match):
        both.take(Payment(SALT, payment.inputs, voucher, PAYER.sign(message_of(DOMAIN, voucher))))
    with pytest.raises(CallRefused, match="did not sign"):
        both.take(replace(payment, signature=SIGNER.sign(message_of(DOMAIN, payment.voucher))))
    with pytest.raises(CallRefused, match="did not sign"):
        both.take(replace(payment, signature=b""))
    assert both.payee is before
    both.take(payment)


def test_calls_that_are_not_acknowledged_are_as_many_as_the_offer_lets() -> None:
    both = Both()
    payments = [both.payment() for _ in range(OFFER.tail)]
    with pytest.raises(ChannelBusy, match="3 calls are under way"):
        both.payment()
    for payment in payments:
        both.take(payment)
    both.execute()
    voucher = replace(payments[0].voucher, count=4, amount=4 * PRICE)
    with pytest.raises(ChannelBusy, match="4 calls would not be acknowledged, of 3"):
        both.take(Payment(SALT, b"i" * 32, voucher, PAYER.sign(message_of(DOMAIN, voucher))))


def test_a_channel_spends_its_deposit_and_no_more() -> None:
    both = Both(deposit=25)
    both.call()
    both.call()
    with pytest.raises(ChannelSpent, match="a call costs 10 wei, 5 are left") as raised:
        both.payment()
    assert raised.value.needed == 5
    both.payer, both.payee = both.payer.funded(5), both.payee.funded(5)
    both.call()
    assert both.payer.left == both.payee.left == 0
    rich = Payer.of(DOMAIN, OFFER, replace(DEAL, most=15), 1000)
    assert rich.left == 15


@pytest.mark.parametrize(
    ("change", "match"),
    [({"channel": NONE}, "channel"), ({"index": 0}, "index"), ({"order": NONE}, "order"), ({"number": 0}, "batch 0")],
)
def test_a_receipt_of_something_else_is_not_taken(change: dict[str, Any], match: str) -> None:
    both = Both()
    both.call()
    both.take(both.payment())
    response = both.execute()
    receipt = replace(response.receipt, **change)
    with pytest.raises(WrongReceipt, match=match):
        both.receive(CallResponse(receipt, SIGNER.sign(message_of(DOMAIN, receipt))))
    with pytest.raises(WrongReceipt, match="did not sign"):
        both.receive(replace(response, signature=PAYER.sign(message_of(DOMAIN, response.receipt))))
    with pytest.raises(WrongResult, match="the outputs have the root"):
        both.payer.received(response, b"o" * 32)
    with pytest.raises(WrongReceipt, match="batch 1 owes it, 2 is begun"):
        both.payer.begun(2).received(response, response.receipt.outputs_root)
    both.receive(response)


def test_computations_survive_a_url_and_anything_else_is_refused() -> None:
    whole = Computation(b"p" * 32, b"w" * 32, b"s" * 32, {"n": 3, "a:b": -1, "ä &=+%": 0}, 7)
    assert Computation.of_query(whole.query()) == whole
    assert parse_qsl(whole.text()) == whole.query()
    assert Computation(b"p" * 32).query() == [("program", (b"p" * 32).hex())]
    program = ("program", "70" * 32)
    wrong = [[], [program, program], [("program", "70")], [program, ("repeat", "x")], [program, ("more", "1")]]
    for pairs in [*wrong, [program, ("variable", "n:1"), ("variable", "n:2")], [program, ("variable", "n")]]:
        with pytest.raises(BindingError, match="names no computation"):
            Computation.of_query(pairs)


def test_payments_and_responses_survive_headers_and_anything_else_is_refused() -> None:
    both = Both()
    accepted = x402.requirements(DOMAIN, "0x" + "05" * 20, PRICE, 30, {"channel": both.payer.channel.hex()})
    payment = both.payment()
    header = x402.signature(payment, x402.read_required(x402.required("https://o/", accepted, "pay")))
    assert x402.read_signature(header) == payment
    both.take(payment)
    response = both.execute()
    assert x402.read_response(x402.response(DOMAIN, PAYER.address, PRICE, response)) == response

    def header_of(value: Any) -> str:
        return b64encode(json.dumps(value).encode()).decode()

    payload = {"x402Version": 2, "accepted": accepted, "payload": payment.to_json()}
    other = {**payload, "accepted": {**accepted, "scheme": "exact"}}
    for wrong in ("", "?", "W10=", header_of(3), header_of({**payload, "x402Version": 1}), header_of(other)):
        with pytest.raises(CallRefused):
            x402.read_signature(wrong)
        with pytest.raises(WrongReceipt):
            x402.read_response(wrong)
        with pytest.raises(CallRefused):
            x402.read_required(wrong)
    values: list[Any] = [None, [], "0x1", -1, {"a": 1}]
    for name in payment.to_json():
        for value in values:
            with pytest.raises(TaskError):
                x402.read_signature(header_of({**payload, "payload": {**payment.to_json(), name: value}}))


def test_quotes_survive_json_and_anything_else_is_refused() -> None:
    quote = Quote(
        31337, DOMAIN.market, DEAL.pool, OFFER, 1, 900, (ProgramQuote(b"p" * 32, 8, PRICE, True),), 1 << 20
    )  # fmt: skip
    values = json.loads(json.dumps(quote.to_json()))
    assert Quote.from_json(values) == quote
    program = quote.quote_of(b"p" * 32)
    assert program is not None and program.price_of(3) == 30 and quote.quote_of(b"q" * 32) is None
    for name in values:
        with pytest.raises(TaskError, match="quote is malformed"):
            Quote.from_json({key: value for key, value in values.items() if key != name})
    with pytest.raises(TaskError):
        Quote.from_json({**values, "schema": "eigentensor.quote/2"})
