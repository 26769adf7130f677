"""A client of a channel that is killed anywhere, and taken up again: it never pays for a call twice."""

import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor.errors import ChannelError
from eigentensor_client.channels.endpoint import Endpoint
from eigentensor_client.channels.ledger import Ledger
from support.stories.paid_calls import PRICE, Both, output, request


class Killed(BaseException):
    """The process ends here, whatever it was about to do."""


class Mortal:
    """Ends a process at one of its steps: before or after it writes, or a request is served."""

    def __init__(self, both: Both, step: int) -> None:
        self.left = step
        handler: Any = both.operator.transport().handler

        def around(sent: httpx.Request) -> httpx.Response:
            self.step()
            response: httpx.Response = handler(sent)
            self.step()
            return response

        self.endpoint = Endpoint("http://operator", httpx.MockTransport(around))

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed

    def ledger(self, both: Both) -> Ledger:
        """The ledger of the process that is to end."""
        ledger, rows = both.ledger(), Ledger.sign

        def sign(*arguments: Any) -> None:
            self.step()
            rows(ledger, *arguments)
            self.step()

        def receive(*arguments: Any) -> None:
            self.step()
            Ledger.receive(ledger, *arguments)
            self.step()

        vars(ledger).update(sign=sign, receive=receive)
        return ledger


def agree(both: Both, computed: int) -> None:
    """Both sides owe the same, and each index was paid for once."""
    payee = both.operator.channels[both.channel]
    with both.ledger() as ledger:
        payer = ledger.payer(ledger.account(both.channel.hex()))
        calls, signed = ledger.responded(both.channel), ledger.signed(both.channel)
    assert payer.sent == () and payer.amount == payee.amount == PRICE * len(calls)
    assert payer.frontier.leaves == payee.count == len(calls) >= computed
    served = {done.response.receipt.order: done for done in both.operator.done[both.channel]}
    assert {call.order for call in calls} == served.keys()
    # What was signed twice for an index is no more than what one process had under way when it was refused or killed.
    for index in {call.index for call in signed}:
        amounts = {call.payment.voucher.amount for call in signed if call.index == index}
        assert max(amounts) <= PRICE * (index + 1)
    sheet = payee.sheet()
    assert sheet is None or sheet.amount == payer.amount


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 25), max_size=6), st.integers(0, 2**32))
def test_a_channel_goes_on_wherever_its_process_was_killed(steps: list[int], seed: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        both, computed = Both(Path(folder)), 0
        for step in [*steps, 10**9]:
            both.operator.refuses = {request(7).body} if chance.random() < 0.5 else set()
            mortal = Mortal(both, step)
            with mortal.ledger(both) as ledger, suppress(Killed):
                caller = both.caller(ledger, mortal.endpoint)
                for number in range(chance.randrange(1, 10)):
                    with suppress(ChannelError):
                        response = caller.call(request(number), seconds=5)
                        assert output(response.outputs)[0] == 2 * number
                        computed += 1
                caller.resume(seconds=5)
        agree(both, computed)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 60), max_size=3), st.integers(0, 2**32))
def test_so_it_does_where_several_threads_call(steps: list[int], seed: int) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        both, computed = Both(Path(folder)), 0

        def one(caller: Any, number: int) -> bool:
            with suppress(Killed, ChannelError):
                return bool(output(caller.call(request(number), seconds=5).outputs)[0] == 2 * number)
            return False

        for step in [*steps, 10**9]:
            both.operator.refuses = {request(7).body} if chance.random() < 0.5 else set()
            mortal = Mortal(both, step)
            with mortal.ledger(both) as ledger, ThreadPoolExecutor(5) as threads:
                caller = both.caller(ledger, mortal.endpoint)
                results = [threads.submit(one, caller, number) for number in range(chance.randrange(1, 16))]
                computed += sum(result.result() for result in results)
                if step == 10**9:
                    caller.resume(seconds=5)
        agree(both, computed)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.lists(st.integers(1, 60), max_size=10), st.integers(0, 2**32))
def test_hundreds_of_such_lives(steps: list[int], seed: int) -> None:
    test_a_channel_goes_on_wherever_its_process_was_killed.hypothesis.inner_test(steps, seed)  # type: ignore[attr-defined]
