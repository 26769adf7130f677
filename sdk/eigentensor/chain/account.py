"""An account that acts in a market: its money, and how its messages are sent once."""

import uuid
from pathlib import Path
from typing import Any, Self

from eth_account.signers.local import LocalAccount
from web3.contract import Contract

from eigentensor.chain.journal import Journal
from eigentensor.chain.keys import check_account
from eigentensor.chain.network import Network, state_folder
from eigentensor.chain.sender import Message, Mined, Sender
from eigentensor.chain.survey import Survey
from eigentensor.errors import Reverted

_ALLOWANCE = "ERC20InsufficientAllowance"


class Account(Survey):
    """One market, and an account that acts in it.

    Messages that make sense once (those of a task; the others under a `once` key) are never sent twice: repeating one
    after a crash or a reorganisation waits for, or takes up, what was sent. They raise what `Sender.send` raises.
    """

    def __init__(
        self,
        network: Network,
        account: LocalAccount,
        journal: Path | None = None,
        *,
        timeout: float = 10,
        patience: float = 30,
        deadline: float = 600,
        max_fee: int | None = None,
    ) -> None:
        """The journal lies in the user's state folder unless a path is given; for the rest see `Sender`. Asks the node
        which chain it is."""
        super().__init__(network, timeout=timeout)
        check_account(account, network)
        self.check()
        self.account = account
        self.journal = Journal(journal or self._default_journal())
        self.sender = Sender(self, account, self.journal, patience=patience, deadline=deadline, max_fee=max_fee)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.close()

    @property
    def address(self) -> str:
        """The account's address, with its checksum."""
        return self.sender.address

    def approve(self, spender: str, amount: int, *, once: str | None = None) -> Mined:
        """Lets `spender` take `amount` of the account's tokens."""
        return self._send(self.token, "approve", self._address(spender), amount, once=once)

    def mint(self, to: str, amount: int, *, once: str | None = None) -> Mined:
        """Makes test tokens: only on a local chain, whose token anybody mints."""
        return self._send(self.token, "mint", self._address(to), amount, once=once)

    def deposit(self, account: str, amount: int, *, once: str | None = None) -> Mined:
        """Pays tokens into the market for `account`; approves what the market may not take yet."""
        message = self._message(self.market, "deposit", self._address(account), amount, takes=amount)
        return self._pay(message, once or uuid.uuid4().hex, of_balance=False)

    def withdraw(self, to: str, amount: int, *, once: str | None = None) -> Mined:
        """Pays `amount` wei of the account's balance in the market out to `to`. Raises Reverted if it has less."""
        return self._send(self.market, "withdraw", self._address(to), amount, once=once)

    def ensure_allowance(self, spender: str, amount: int) -> None:
        """Lets `spender` take `amount` wei of the account's tokens, unless it may already."""
        if self.allowance(self.address, spender) < amount:
            self.approve(spender, amount)

    def _pay(self, message: Message, key: str | None = None, *, of_balance: bool = True) -> Mined:
        """Sends a message that takes tokens, once; approves before what the market may not take yet.

        An allowance is for all that is on its way, of whatever process of this user with this account: one at a time
        sees to it and sends, and none waits for the others' transactions. `of_balance`: it takes what the balance in
        the market has first.
        """
        if not message.takes:
            return self.sender.send(message, key)
        for again in (False, True):
            try:
                with self.journal.in_turn():
                    if not self.sender.is_sent(message, key):
                        self._allow(message, of_balance=of_balance, again=again)
                    sent = self.sender.submit(message, key)
                return self.sender.wait(sent)
            except Reverted as error:  # somebody with the same key on another machine took it
                if again or error.name != _ALLOWANCE:
                    raise
        raise AssertionError

    def _allow(self, message: Message, *, of_balance: bool, again: bool) -> None:
        """Lets the market take what a message takes, beside what is on its way. Several at once approve ahead: each
        time as much more as is on its way already. `again`: what the market may take is not there for this message.
        Raises Reverted, before that costs gas, where it would be in vain.
        """
        amount, market, others = message.takes, self.deployment.task_market, self.sender.in_flight()
        balance = self.balance_of(self.address).balance
        missing = max(0, others + amount - balance) if of_balance else max(0, others - balance) + amount
        if not again and missing <= self.allowance(self.address, market):
            return
        try:
            self.sender.simulate(message)
        except Reverted as error:
            if error.name != _ALLOWANCE:
                raise
        self.approve(market, missing + others)

    def _send_once(self, contract: Contract, function: str, *arguments: Any) -> Mined:
        return self.sender.send(self._message(contract, function, *arguments))

    def _send(self, contract: Contract, function: str, *arguments: Any, once: str | None = None) -> Mined:
        return self.sender.send(self._message(contract, function, *arguments), once or uuid.uuid4().hex)

    def _message(self, contract: Contract, function: str, *arguments: Any, takes: int = 0) -> Message:
        data = bytes.fromhex(contract.encode_abi(function, list(arguments))[2:])
        return Message(function, contract.address, data, takes)

    def _default_journal(self) -> Path:
        return state_folder() / "journals" / f"{self.genesis()[:8].hex()}-{self.account.address.lower()}.sqlite"
