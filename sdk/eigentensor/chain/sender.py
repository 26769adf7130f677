"""Sending transactions of one account: simulated first, journalled before they leave, replaced when they are stuck."""

import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from eigentensor import spending
from eigentensor.addresses import to_checksum_address
from eigentensor.chain.contracts import Contract
from eigentensor.chain.journal import Attempt, Intent, Journal, Status
from eigentensor.chain.logs import decode_log
from eigentensor.chain.node import Node
from eigentensor.chain.refusals import reverted, talking_to
from eigentensor.chain.transactions import fields_of, read_transaction, signed
from eigentensor.chain.units import GWEI
from eigentensor.errors import ChainError, FeeTooHigh, NotMined, Reverted, Unreachable
from eigentensor.keccak import keccak
from eigentensor.task.events import Event
from eigentensor.task.order import Signer

_GAS_MARGIN = 1.25
_GAS_MOST = 1 << 24  # of one transaction, EIP-7825
_GAS_OF_NOTHING = 21_000
#: Wei for a unit of gas: the tip that any node may ask for; above it no more than the base fee; and never more.
TIP_ALWAYS, TIP_MOST = 50 * GWEI, 1_000 * GWEI
_RARELY = 4  # times the usual pause is the longest between two looks at the same head
_LOOKS = 10  # for the receipt of what must be in the chain
_HARMLESS = ("already", "known", "nonce too low", "underpriced", "less than block base fee")


@dataclass(frozen=True, slots=True)
class Message:
    """A call of a contract: `name` for people, `data` for the contract. It takes at most `takes` wei of what the
    account has in the market and in tokens."""

    name: str
    to: str
    data: bytes
    takes: int = 0

    @classmethod
    def of(cls, contract: Contract, function: str, *arguments: Any, takes: int = 0) -> Self:
        """The call of a contract's function with these arguments. Raises ValueError for others than its ABI has."""
        return cls(function, contract.address, contract.function(function).data(arguments), takes)

    @property
    def key(self) -> str:
        """The intent of a message that makes sense once only: a hash of its receiver and data."""
        return keccak(bytes.fromhex(self.to[2:]) + self.data).hex()

    def call_of(self, sender: str) -> dict[str, Any]:
        """The call that it is when an account sends it, as JSON-RPC has it."""
        return {"from": to_checksum_address(sender), "to": to_checksum_address(self.to), "data": self.data}


@dataclass(frozen=True, slots=True)
class Mined:
    """A transaction in the chain and what it brought about."""

    transaction: bytes
    block: int
    block_hash: bytes
    gas_used: int
    events: tuple[Event, ...]


class Fee(NamedTuple):
    """Wei of the chain's coin for a unit of gas: the most of both parts, and of it the tip."""

    most: int
    tip: int


class Fees:
    """The fees of an account: enough for the next blocks, never more than its owner allows.

    `capped` says whether the fee wanted last was beyond the bound: what offers less may wait, or is not sent.
    """

    def __init__(self, node: Node, bound: int | None) -> None:
        """`bound` in wei for a unit of gas, tip included; None: as much as it takes."""
        self._node = node
        self._bound = bound
        self.capped = False

    def first(self) -> Fee:
        """The fee that a new transaction offers: it outlives some blocks of rising fees. Raises FeeTooHigh."""
        base, tip = self._asked()
        fee = self._bounded(2 * base + tip, tip)
        if base > fee.most:
            raise FeeTooHigh(
                f"gas costs {base / GWEI:.3g} gwei, at most {fee.most / GWEI:.3g} gwei is allowed for it",
                fix="Wait until it is cheaper, or allow more in the settings.",
            )
        return fee

    def next(self, last: Fee, *, waited: bool) -> Fee | None:
        """The fee that replaces one that has `waited` too long, or is less than the next block takes.

        None: nothing does. Nodes refuse a replacement unless both parts are a tenth more.
        """
        base, tip = self._asked()
        self.capped = False
        if not waited and last.most >= base:
            return None
        fee = self._bounded(max(2 * base + tip, last.most * 5 // 4 + 1), max(tip, last.tip * 5 // 4 + 1))
        return fee if all(10 * new >= 11 * old for new, old in zip(fee, last, strict=True)) else None

    def _asked(self) -> tuple[int, int]:
        """What the next block takes at least, and the tip that usually gets into it, as far as that is believed: a
        chain takes its own base fee, whatever a node says of it, but the tip that was signed."""
        base = self._node.base_fee()
        return base, min(self._node.usual_tip(), max(TIP_ALWAYS, base))

    def _bounded(self, most: int, tip: int) -> Fee:
        self.capped = self._bound is not None and most > self._bound
        most = most if self._bound is None else min(most, self._bound)
        return Fee(most, min(most, tip, TIP_MOST))


class Sender:
    """Sends each intent once: `send` with a key that is known waits for what was sent under it, also after a restart.

    A transaction that a reorganisation or the node threw out is offered to the chain again; one whose fee is less than
    the next block takes is replaced at once. Several senders of an account may share a journal; that of another account
    may take it over: what is in the chain is not sent again, what is not is sent anew.
    """

    def __init__(
        self,
        node: Node,
        account: Signer,
        journal: Journal,
        *,
        patience: float = 30,
        deadline: float = 600,
        poll: float = 0.1,
        max_fee: int | None = None,
    ) -> None:
        """After `patience` seconds without a receipt the fee is raised, after `deadline` NotMined is raised.

        `max_fee` is the most for a unit of gas, in wei of the chain's coin, tip included; None: as much as it takes.
        """
        self._node = node
        self._account = account
        self.journal = journal
        self._patience = patience
        self._deadline = deadline
        self._poll = poll
        self.fees = Fees(node, max_fee)

    @property
    def address(self) -> str:
        """The account's address, with its checksum."""
        return str(self._account.address)

    def send(self, message: Message, key: str | None = None) -> Mined:
        """Sends a message, unless it was sent before under this key (by default: the same bytes to the same contract).

        Returns when it is in the chain. Raises Reverted (before anything is spent, if the simulation shows it),
        FeeTooHigh (before anything is sent), ChainError, Unreachable, NotMined. After the last two the intent lives on:
        the same call takes it up again.
        """
        return self.wait(self.submit(message, key))

    def once(self, contract: Contract, function: str, *arguments: Any) -> Mined:
        """Sends a call that makes sense once: the same arguments are never sent again while they are in the chain."""
        return self.send(Message.of(contract, function, *arguments))

    def call(self, contract: Contract, function: str, *arguments: Any, once: str | None = None) -> Mined:
        """Sends a call that makes sense more than once: once under a key, else each time."""
        return self.send(Message.of(contract, function, *arguments), once or uuid.uuid4().hex)

    def together(self, contract: Contract, *calls: tuple[str, Sequence[Any]]) -> Mined:
        """Sends calls that make sense once, by their functions and arguments: several of them in one transaction."""
        messages = [Message.of(contract, function, *arguments) for function, arguments in calls]
        if len(messages) == 1:
            return self.send(messages[0])
        together = Message.of(contract, "multicall", [message.data for message in messages])
        return self.send(replace(together, name=" and ".join(message.name for message in messages)))

    def submit(self, message: Message, key: str | None = None) -> str:
        """Like `send`, but returns the intent's key when the transaction has left."""
        spending.check()
        key = key or message.key
        if (known := self._sent(key)) is not None:
            self._offer(known)
            return key
        begun = self._begin(message, key)
        try:
            self._broadcast(begun.attempts[-1])
        except Unreachable:
            raise
        except ChainError:
            # No node has it, so its nonce is free: nothing may wait behind it.
            self.journal.mark(key, Status.LOST)
            raise
        return key

    def is_sent(self, message: Message, key: str | None = None) -> bool:
        """Whether a message has left under this key, and can still get into the chain if it is not there."""
        return self._sent(key or message.key) is not None

    def in_flight(self) -> int:
        """Wei that messages on their way may take, of all threads and processes that share the journal.

        A message that gets into the chain while others are asked for more than this may be counted: never fewer.
        """
        waiting = [intent for intent in self.journal.pending() if intent.takes]
        mined = self._node.transaction_count(self.address)
        return sum(intent.takes for intent in waiting if intent.nonce >= mined)

    def wait(self, key: str) -> Mined:
        """Waits for an intent that was submitted."""
        started = offered = heard = time.monotonic()
        looked, pause = b"", self._poll
        while True:
            intent = self.journal.get(key)
            if intent is None:
                raise ChainError(f"nothing was sent under {key}")
            receipt, settles, failed, now = None, True, None, time.monotonic()
            try:
                receipt = self._receipt(intent)
                head = self._node.head().hash if receipt is None else looked
                if head != looked or now - offered > self._patience:
                    settles = self._settles(intent)
                    if settles:
                        self._fill(intent)
                        self._offer(intent)
                    looked, offered, pause = head, now, self._poll
                heard = now
            except (Reverted, FeeTooHigh):
                raise
            except ChainError as error:  # what has left goes on without a node that fails for a while
                failed = error
            if receipt is not None:
                return self._conclude(intent, receipt)
            if not settles:
                raise ChainError(f"{intent.name}: another transaction took nonce {intent.nonce}", fix="Try again.")
            if failed is not None and now - heard > self._patience:
                raise failed
            if now - started > self._deadline:
                raise failed or self._not_mined(intent)
            time.sleep(pause)
            pause = min(_RARELY * self._poll, 1.3 * pause)  # several may wait for the same block on one machine

    def _not_mined(self, intent: Intent) -> NotMined:
        costly = "It may pay no more for gas than it offers: allow more in the settings. " if self.fees.capped else ""
        return NotMined(
            f"{intent.name} is not in the chain after {self._deadline:.0f} s",
            fix=f"{costly}The same command takes it up again.",
        )

    def resume(self) -> None:
        """Offers everything that is pending to the chain again; to be called once after a start.

        What the node does not take now is offered again by whoever waits for it, or for what was sent after it.
        """
        for intent in self.journal.pending():
            with suppress(ChainError):
                if self._settles(intent):
                    self._offer(intent)

    def simulate(self, message: Message) -> None:
        """Raises Reverted if the message would be refused in the next block."""
        self._node.simulate(message.call_of(self.address))

    def _begin(self, message: Message, key: str) -> Intent:
        self.simulate(message)
        gas = self._node.gas_of(message.call_of(self.address))
        fee = self.fees.first()
        with self.journal.exclusive():
            begun = self.journal.get(key)
            if begun is not None and begun.status in (Status.PENDING, Status.MINED):
                return begun  # another thread or process was faster
            # The nonce belongs to the intent before anything is sent: a crash from here on repeats the same bytes.
            nonce = self.journal.free_nonce(self._node.transaction_count(self.address, "pending"))
            self.journal.begin(key, message.name, nonce, message.takes)
            self._sign(key, self._fields(nonce, message, min(int(gas * _GAS_MARGIN), _GAS_MOST)), fee)
        begun = self.journal.get(key)
        assert begun is not None
        return begun

    def _fill(self, intent: Intent) -> None:
        """Offers what the intent waits behind again, and closes the hole that a message leaves which no node took."""
        for waiting in self.journal.pending():
            if waiting.nonce < intent.nonce:
                with suppress(ChainError):
                    self._offer(waiting)
        if not self._is_stale(intent):
            return
        with self.journal.exclusive():
            nonce = self._node.transaction_count(self.address, "pending")
            if nonce >= intent.nonce or self.journal.free_nonce(nonce) != nonce:
                return
            fee, nothing = self.fees.first(), Message("nothing", self.address, b"")
            self.journal.begin(f"nothing {nonce}", nothing.name, nonce)
            attempt = self._sign(f"nothing {nonce}", self._fields(nonce, nothing, _GAS_OF_NOTHING), fee)
        self._broadcast(attempt)

    def _offer(self, intent: Intent) -> None:
        """Sees to it that the node has a transaction of an intent without receipt, which the next block can take."""
        if self._receipt(intent) is not None:
            return
        last = intent.attempts[-1]
        more = self.fees.next(Fee(last.fee, last.tip), waited=self._is_stale(intent))
        if more is not None:
            with self.journal.exclusive():
                newest = self.journal.get(intent.key)
                if newest is None or newest.attempts[-1] != last:
                    return  # another thread or process was faster
                last = self._sign(intent.key, fields_of(last.raw), more)
        self._broadcast(last)

    def _is_stale(self, intent: Intent) -> bool:
        """Whether it has waited so long that it must pay more; whose clock was set back since then has waited, too."""
        return not 0 <= time.time() - intent.attempts[-1].sent_at <= self._patience

    def _sign(self, key: str, fields: dict[str, Any], fee: Fee) -> Attempt:
        raw = signed({**fields, "maxFeePerGas": fee.most, "maxPriorityFeePerGas": fee.tip}, self._account)
        attempt = Attempt(keccak(raw), raw, fee.most, fee.tip, time.time())
        self.journal.attempt(key, attempt.hash, attempt.raw, fee.most, fee.tip)
        return attempt

    def _fields(self, nonce: int, message: Message, gas: int) -> dict[str, Any]:
        return {
            "chainId": self._node.deployment.chain_id,
            "nonce": nonce,
            "gas": gas,
            "to": message.to,
            "value": 0,
            "input": message.data,
            "accessList": (),
        }

    def _broadcast(self, attempt: Attempt) -> None:
        if self._node.knows(attempt.hash):
            return
        try:
            self._node.send(attempt.raw)
        except Reverted:
            raise
        except ChainError as error:
            # A sibling of it is mined, or its fee is too low by now: the receipt will show.
            if not any(text in str(error).lower() for text in _HARMLESS):
                raise

    def _sent(self, key: str) -> Intent | None:
        known = self.journal.get(key)
        if known is None or known.status not in (Status.PENDING, Status.MINED) or not self._settles(known):
            return None
        return known

    def _settles(self, intent: Intent) -> bool:
        """Whether one of the intent's transactions is, or can still get, into the chain; marks it lost if not."""
        if self._receipt(intent) is not None:
            return True
        if read_transaction(intent.attempts[-1].raw).sender != self.address:
            self.journal.mark(intent.key, Status.LOST)  # of the signer before this one, whose nonces are not ours
            return False
        if self._node.transaction_count(self.address) <= intent.nonce:
            if intent.status is not Status.PENDING:
                self.journal.mark(intent.key, Status.PENDING)
            return True
        for _ in range(_LOOKS):  # mined since the first question; a node counts before it has the receipt
            if self._receipt(intent) is not None:
                return True
            time.sleep(self._poll)
        if self._may_be_in(intent):
            return True
        self.journal.mark(intent.key, Status.LOST)
        return False

    def _may_be_in(self, intent: Intent) -> bool:
        """Whether a transaction whose nonce is taken is in the chain, though nodes have no receipt of it: they may be
        late with that, and what is sent anew would be sent twice."""
        try:
            block = self._node.block_of_nonce(self.address, intent.nonce)
        except ChainError:  # without the states of blocks before the newest it cannot say
            return not self._is_stale(intent)
        return any(attempt.hash in block for attempt in intent.attempts)

    def _receipt(self, intent: Intent) -> Mapping[str, Any] | None:
        for attempt in reversed(intent.attempts):
            if (receipt := self._node.receipt(attempt.hash)) is not None:
                return receipt
        return None

    def _conclude(self, intent: Intent, receipt: Mapping[str, Any]) -> Mined:
        if receipt["status"] == 1:
            self.journal.mark(intent.key, Status.MINED)
            with talking_to(self._node.network.rpc_url):
                channels = self._node.deployment.channels
                events = tuple(event for log in receipt["logs"] if (event := decode_log(log, channels)) is not None)
            return Mined(
                receipt["transactionHash"], receipt["blockNumber"], receipt["blockHash"], receipt["gasUsed"], events
            )
        self.journal.mark(intent.key, Status.REVERTED)
        # The state before the block explains most refusals; what it does not explain happened within the block.
        fields = fields_of(intent.attempts[-1].raw)
        message = Message(intent.name, to_checksum_address(fields["to"]), fields["input"])
        self._node.simulate(message.call_of(self.address), receipt["blockNumber"])
        raise reverted(b"")
