"""Every message of the market and of the service manager, typed, sent once, with what it brought about."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from eth_account.signers.local import LocalAccount
from web3.contract import Contract

from eigentensor.chain.journal import Journal
from eigentensor.chain.keys import check_account
from eigentensor.chain.network import Network, state_folder
from eigentensor.chain.order import Order
from eigentensor.chain.reader import Reader
from eigentensor.chain.sender import Message, Receipt, Sender


@dataclass(frozen=True, slots=True)
class Admission:
    """An operator's place in the sorted list of those that an order admits; empty where the order admits everybody."""

    index: int = 0
    count: int = 0
    path: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Opening:
    """What opens a commitment. Slot 0 is the executor's."""

    task: bytes
    outputs_root: bytes
    salt: bytes
    slot: int = 0


class Chain(Reader):
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
    ) -> None:
        """The journal lies in the user's state folder unless a path is given. Asks the node which chain it is."""
        super().__init__(network, timeout=timeout)
        check_account(account, network)
        self.check()
        self.account = account
        self.journal = Journal(journal or self._default_journal())
        self.sender = Sender(self, account, self.journal, patience=patience, deadline=deadline)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.close()

    @property
    def address(self) -> str:
        return self.sender.address

    # ---- Money ----

    def approve(self, spender: str, amount: int, *, once: str | None = None) -> Receipt:
        """Lets `spender` take `amount` of the account's tokens."""
        return self._send(self.token, "approve", self._address(spender), amount, once=once)

    def mint(self, to: str, amount: int, *, once: str | None = None) -> Receipt:
        """Makes test tokens: only on a local chain, whose token anybody mints."""
        return self._send(self.token, "mint", self._address(to), amount, once=once)

    def deposit(self, account: str, amount: int, *, once: str | None = None) -> Receipt:
        """Pays tokens into the market for `account`; approves what the market may not take yet."""
        self.ensure_allowance(self.deployment.task_market, amount)
        return self._send(self.market, "deposit", self._address(account), amount, once=once)

    def withdraw(self, to: str, amount: int, *, once: str | None = None) -> Receipt:
        return self._send(self.market, "withdraw", self._address(to), amount, once=once)

    def ensure_allowance(self, spender: str, amount: int) -> None:
        if self.allowance(self.address, spender) < amount:
            self.approve(spender, amount)

    # ---- Orders ----

    def post(self, order: Order, signature: bytes = b"") -> Receipt:
        """Makes the order a task.

        The client itself needs no signature, and what its balance lacks is taken from its tokens.
        """
        return self._send_once(self.market, "post", order.as_tuple(), signature)

    def post_many(self, orders: Sequence[Order], signatures: Sequence[bytes] = ()) -> Receipt:
        signatures = signatures or [b""] * len(orders)
        return self._send_once(self.market, "postMany", [o.as_tuple() for o in orders], list(signatures))

    def cancel(self, order: Order) -> Receipt:
        return self._send_once(self.market, "cancel", order.as_tuple())

    def expire(self, order: Order) -> Receipt:
        return self._send_once(self.market, "expire", order.as_tuple())

    # ---- Execution ----

    def accept(self, operator: str, order: Order, admission: Admission | None = None) -> Receipt:
        arguments = (self._address(operator), order.as_tuple(), _admission(admission))
        return self._send_once(self.market, "accept", *arguments)

    def accept_many(self, operator: str, orders: Sequence[Order], admissions: Sequence[Admission] = ()) -> Receipt:
        proofs = [_admission(a) for a in admissions] or [_admission(None)] * len(orders)
        return self._send_once(
            self.market, "acceptMany", self._address(operator), [o.as_tuple() for o in orders], proofs
        )

    def commit(self, operator: str, task: bytes, commitment: bytes) -> Receipt:
        return self._send_once(self.market, "commit", self._address(operator), task, commitment)

    def commit_many(self, operator: str, tasks: Sequence[bytes], commitments: Sequence[bytes]) -> Receipt:
        return self._send_once(self.market, "commitMany", self._address(operator), list(tasks), list(commitments))

    def reveal(self, opening: Opening) -> Receipt:
        return self._send_once(self.market, "reveal", _opening(opening))

    def reveal_many(self, openings: Sequence[Opening]) -> Receipt:
        return self._send_once(self.market, "revealMany", [_opening(o) for o in openings])

    # ---- Ends ----

    def fail(self, order: Order) -> Receipt:
        return self._send_once(self.market, "fail", order.as_tuple())

    def close(self, order: Order) -> Receipt:
        return self._send_once(self.market, "close", order.as_tuple())

    def close_many(self, orders: Sequence[Order]) -> Receipt:
        return self._send_once(self.market, "closeMany", [o.as_tuple() for o in orders])

    # ---- Operators ----

    def set_signer(self, signer: str, collateral_cap: int, *, once: str | None = None) -> Receipt:
        """Names the account's hot signer, and what it may hold as collateral."""
        return self._send(self.manager, "setSigner", self._address(signer), collateral_cap, once=once)

    def register_as_operator(self) -> Receipt:
        """Makes the account an operator of EigenLayer that stakes for itself. There is no way back."""
        zero = self._address("0x" + "00" * 20)
        return self._send_once(self.delegation_manager, "registerAsOperator", zero, 0, "")

    def deposit_stake(self, amount: int, *, once: str | None = None) -> Receipt:
        """Deposits tokens as stake into the market's strategy; approves what the strategy manager may not take yet."""
        self.ensure_allowance(self.deployment.strategy_manager, amount)
        arguments = (self._address(self.deployment.strategy), self._address(self.deployment.token), amount)
        return self._send(self.strategy_manager, "depositIntoStrategy", *arguments, once=once)

    def join_operator_set(self) -> Receipt:
        """Registers the account, an operator of EigenLayer, for the market's operator set."""
        avs = self._address(self.deployment.service_manager)
        arguments = (self._address(self.address), (avs, [self._call(self.manager, "OPERATOR_SET")], b""))
        return self._send(self.allocation_manager, "registerForOperatorSets", *arguments)

    def _send_once(self, contract: Contract, function: str, *arguments: Any) -> Receipt:
        return self.sender.send(self._message(contract, function, *arguments))

    def _send(self, contract: Contract, function: str, *arguments: Any, once: str | None = None) -> Receipt:
        return self.sender.send(self._message(contract, function, *arguments), once or uuid.uuid4().hex)

    def _message(self, contract: Contract, function: str, *arguments: Any) -> Message:
        return Message(function, contract.address, bytes.fromhex(contract.encode_abi(function, list(arguments))[2:]))

    def _default_journal(self) -> Path:
        return state_folder() / "journals" / f"{self.genesis()[:8].hex()}-{self.account.address.lower()}.sqlite"


def _admission(admission: Admission | None) -> tuple[int, int, list[bytes]]:
    given = admission or Admission()
    return given.index, given.count, list(given.path)


def _opening(opening: Opening) -> tuple[bytes, int, bytes, bytes]:
    return opening.task, opening.slot, opening.outputs_root, opening.salt
