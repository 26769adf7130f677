"""Messages that take tokens: a market takes what an account's balance in it lacks, and no more than approved."""

from collections.abc import Callable
from typing import Any

from eigentensor.chain.contracts import Contract
from eigentensor.chain.sender import Message, Mined, Sender
from eigentensor.chain.token import TokenMessages
from eigentensor.errors import Reverted

_ALLOWANCE = "ERC20InsufficientAllowance"


class Payments:
    """What an account pays one market. Raises what `Sender.send` raises."""

    def __init__(
        self, token: TokenMessages, sender: Sender, market: Contract, balance_of: Callable[[str], int]
    ) -> None:
        """`market` is the contract that takes the tokens, `balance_of` what an account has in it, in wei."""
        self._token, self._sender, self._market, self._balance_of = token, sender, market, balance_of

    def pay(
        self, function: str, *arguments: Any, takes: int, once: str | None = None, of_balance: bool = True
    ) -> Mined:
        """Sends a call of the market that takes at most `takes` wei of tokens, once: the same arguments, unless a key
        `once` tells repeated ones apart. Approves before what the market may not take yet.

        An allowance is for all that is on its way, of whatever process of this user with this account: one at a time
        sees to it and sends, and none waits for the others' transactions. `of_balance`: it takes what the balance in
        the market has first.
        """
        message = Message.of(self._market, function, *arguments, takes=takes)
        if not takes:
            return self._sender.send(message, once)
        for again in (False, True):
            try:
                with self._sender.journal.in_turn():
                    if not self._sender.is_sent(message, once):
                        self._allow(message, of_balance=of_balance, again=again)
                    sent = self._sender.submit(message, once)
                return self._sender.wait(sent)
            except Reverted as error:  # somebody with the same key on another machine took it
                if again or error.name != _ALLOWANCE:
                    raise
        raise AssertionError

    def _allow(self, message: Message, *, of_balance: bool, again: bool) -> None:
        """Lets the market take what a message takes, beside what is on its way. Several at once approve ahead: each
        time as much more as is on its way already. `again`: what the market may take is not there for this message.
        Raises Reverted, before that costs gas, where it would be in vain.
        """
        amount, others = message.takes, self._sender.in_flight()
        balance = self._balance_of(self._sender.address)
        missing = max(0, others + amount - balance) if of_balance else max(0, others - balance) + amount
        if not again and missing <= self._token.allowance(self._sender.address, self._market.address):
            return
        try:
            self._sender.simulate(message)
        except Reverted as error:
            if error.name != _ALLOWANCE:
                raise
        self._token.approve(self._market.address, missing + others)
