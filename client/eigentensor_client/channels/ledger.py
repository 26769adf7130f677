"""What a client signed and what it was answered, in SQLite: written, and on disk, before anything is sent.

Killed at any point, a client sends the same bytes again: so it pays for no call twice, and the most that it loses are
the prices of the calls that were under way.
"""

import json
import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, Self
from urllib.parse import parse_qsl

from eigentensor import merkle, system
from eigentensor.chain.network import state_folder
from eigentensor.channel import CallReceipt, Deal, Key, Line, LineProof, Offer, channel_of
from eigentensor.channel.calls import CallResponse, Computation, Payment
from eigentensor.channel.payer import Payer, Sent
from eigentensor.errors import ChannelBusy, ConfigError, TaskNotFound
from eigentensor.merkle import Frontier, call_hash, result_of
from eigentensor.receipt.calls import CommittedCall, Confirmation, SignedCall
from eigentensor.store.database import Database
from eigentensor.task import Domain, Order
from eigentensor.wire import read


class Stage(StrEnum):
    """Of a channel, as its client knows it. `agreed`: its opening may be under way."""

    AGREED = "agreed"
    OPEN = "open"
    LEFT = "left"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Agreement:
    """What both sides signed before the first call, and where the operator takes calls."""

    url: str
    domain: Domain
    offer: Offer
    deal: Deal
    signature: bytes
    """The offer's signer's, of the deal."""

    @property
    def channel(self) -> bytes:
        """The channel's name."""
        return channel_of(self.domain, self.deal)


@dataclass(frozen=True, slots=True)
class Account:
    """A channel as its client remembers it. Amounts are wei. `begun` is the oldest batch whose receipts count still,
    `first` the first one that may have calls of it."""

    agreement: Agreement
    deposit: int
    stage: Stage
    paid: int = 0
    begun: int = 0
    first: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A call that was signed: with its response once that came. `body` are its inputs, as they are sent."""

    index: int
    computation: Computation
    payment: Payment
    order: bytes
    price: int
    body: bytes
    response: CallResponse | None = None
    chosen: bool = False
    """Whether it is to be executed again once it is committed."""

    def leaf(self) -> bytes:
        """Its leaf in the tree over the channel's calls. It has a response."""
        receipt = self.receipt
        return call_hash(receipt.channel, receipt.index, receipt.order, result_of(receipt.outputs_root))

    @property
    def receipt(self) -> CallReceipt:
        """The receipt of its response. It has one."""
        assert self.response is not None
        return self.response.receipt

    def order_in(self, deal: Deal, channel: bytes) -> Order:
        """Its order."""
        payment = self.payment
        return self.computation.order(deal, channel, self.index, payment.salt, payment.inputs)


@dataclass(frozen=True, slots=True)
class Check:
    """A call of a batch that was drawn, by its number there, and the verifiers that confirm it."""

    number: int
    confirmed: tuple[Confirmation, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """A channel's line in a batch, and where that stands: `state` is that of the chain, in small letters. `checks` are
    of calls of the line."""

    number: int
    proof: LineProof
    block: int
    state: str = "committed"
    refunded: bool = False
    checks: tuple[Check, ...] = ()

    @property
    def line(self) -> Line:
        """The channel's line."""
        return self.proof.line

    def confirmed(self, index: int) -> tuple[Confirmation, ...]:
        """The verifiers that confirm a call of the channel."""
        number = self.line.number_of(index)
        return next((check.confirmed for check in self.checks if check.number == number), ())

    def has(self, index: int) -> bool:
        """Whether a call of the channel is among those of the line."""
        return self.line.first <= index < self.line.first + self.line.count

    def words(self, index: int) -> str:
        """How a call of the line stands."""
        count = len(self.confirmed(index))
        checked = f"checked({count})" if count else ""
        if self.state == "final":
            return f"final, {checked or 'unchecked'}"
        return checked or self.state if self.state == "committed" else self.state


_TABLES = (
    """CREATE TABLE IF NOT EXISTS channels (
    channel TEXT PRIMARY KEY, url TEXT NOT NULL, chain_id INTEGER NOT NULL, market TEXT NOT NULL, offer TEXT NOT NULL,
    deal TEXT NOT NULL, signature BLOB NOT NULL, deposit TEXT NOT NULL, paid TEXT NOT NULL, begun INTEGER NOT NULL,
    first INTEGER NOT NULL, stage TEXT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS calls (
    number INTEGER PRIMARY KEY, channel TEXT NOT NULL, place INTEGER NOT NULL, dropped INTEGER NOT NULL DEFAULT 0,
    computation TEXT NOT NULL, payment TEXT NOT NULL, order_hash BLOB NOT NULL, price TEXT NOT NULL,
    body BLOB NOT NULL, chosen INTEGER NOT NULL, response TEXT)""",
    "CREATE UNIQUE INDEX IF NOT EXISTS places ON calls (channel, place) WHERE dropped = 0",
    "CREATE INDEX IF NOT EXISTS salts ON calls (json_extract(payment, '$.salt')) WHERE dropped = 0",
    """CREATE TABLE IF NOT EXISTS lines (
    channel TEXT NOT NULL, number INTEGER NOT NULL, proof TEXT NOT NULL, block INTEGER NOT NULL, state TEXT NOT NULL,
    refunded INTEGER NOT NULL, checks TEXT NOT NULL, PRIMARY KEY (channel, number))""",
)
_COLUMNS = "place, computation, payment, order_hash, price, body, response, chosen"


class Ledger:
    """Of all channels of a user on this machine; safe for several threads and processes."""

    def __init__(self, folder: Path | None = None, *, durable: bool = True) -> None:
        """In the user's state folder unless one is named. `durable`: what is written outlives a power cut, too. Raises
        ConfigError where it cannot be written."""
        self.folder = folder or state_folder() / "channels"
        self._leaves: dict[bytes, list[bytes]] = {}
        with self._usable():
            self.database = Database(self.folder / "ledger.sqlite", durable=durable)
            for statement in _TABLES:
                self.database.rows(statement)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self.database.close()

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(f"cannot use {self.folder}: {error}", fix="Make room, or move it away.") from None

    # ---- Who has a channel ----

    def lock(self, channel: bytes) -> BinaryIO:
        """A file that this process alone has as long as it is open. Raises ChannelBusy if another one has it."""
        with self._usable():
            file = (self.folder / f"{channel.hex()}.lock").open("ab")
        try:
            system.lock(file.fileno())
        except OSError:
            file.close()
            raise ChannelBusy(
                f"another process, or another part of this one, has channel {channel.hex()}",
                fix="Let it end, or open another channel: each caller at once wants its own.",
            ) from None
        return file

    def new_key(self) -> Key:
        """A new payer's key, in a file of its own that nobody else may read."""
        secret = secrets.token_bytes(32)
        key = Key(secret)
        with self._usable():
            path = self._key_file(key.address)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with open(path, "x", opener=_for_owner) as file:
                file.write(secret.hex())
                file.flush()
                os.fsync(file.fileno())
        return key

    def key(self, address: str) -> Key:
        """The key of a payer. Raises ConfigError where it is not here."""
        path = self._key_file(address)
        try:
            return Key(bytes.fromhex(path.read_text()))
        except (OSError, ValueError) as error:
            raise ConfigError(f"the key of payer {address} cannot be read: {error}", fix=_KEYLESS) from None

    def _key_file(self, address: str) -> Path:
        return self.folder / "keys" / f"{address.lower()}.key"

    # ---- Channels ----

    def add(self, account: Account) -> None:
        """Writes a channel, before its opening is sent."""
        agreed = account.agreement
        with self._usable():
            self.database.rows(
                "INSERT INTO channels VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                agreed.channel.hex(), agreed.url, agreed.domain.chain_id, agreed.domain.market,
                json.dumps(agreed.offer.to_json()), json.dumps(agreed.deal.to_json()), agreed.signature,
                str(account.deposit), str(account.paid), account.begun, account.first, account.stage,
            )  # fmt: skip

    def update(self, account: Account) -> None:
        """Writes what changes of a channel."""
        with self._usable():
            self.database.rows(
                "UPDATE channels SET deposit = ?, paid = ?, begun = ?, first = ?, stage = ? WHERE channel = ?",
                *(str(account.deposit), str(account.paid), account.begun, account.first, account.stage),
                account.agreement.channel.hex(),
            )

    def accounts(self, domain: Domain | None = None) -> list[Account]:
        """All channels, oldest first; of one market alone, if it is named."""
        with self._usable():
            rows = self.database.rows("SELECT * FROM channels ORDER BY rowid")
        accounts = [_account(row) for row in rows]
        return [one for one in accounts if domain is None or one.agreement.domain == domain]

    def account(self, name: str, domain: Domain | None = None) -> Account:
        """A channel by its name, or the beginning of it. Raises TaskNotFound."""
        name = name.lower().removeprefix("0x")
        some = [one for one in self.accounts(domain) if one.agreement.channel.hex().startswith(name)]
        if len(some) != 1:
            raise TaskNotFound(
                f"{len(some)} channels of this user begin with {name!r}", fix="`eigentensor channel list` lists them."
            )
        return some[0]

    def payer(self, account: Account) -> Payer:
        """The client's side of a channel, as it was when this was written last."""
        agreed, frontier, amount = account.agreement, Frontier(), 0
        for row in self._calls(agreed.channel, "response IS NOT NULL"):
            call = _call(row)
            frontier.append(call.leaf())
            amount = call.payment.voucher.amount
        under_way = self.under_way(agreed.channel)
        sent = tuple(Sent(call.order, call.payment.voucher) for call in under_way)
        payer = Payer.of(agreed.domain, agreed.offer, agreed.deal, account.deposit)
        return replace(
            payer, paid=account.paid, amount=amount, frontier=frontier, number=account.begun, sent=sent
        )  # fmt: skip

    # ---- Calls ----

    def sign(self, channel: bytes, call: Call) -> None:
        """Writes a call that was signed: it is on disk when this returns."""
        with self._usable():
            self.database.rows(
                "INSERT INTO calls (channel, place, computation, payment, order_hash, price, body, chosen) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                channel.hex(), call.index, call.computation.text(), json.dumps(call.payment.to_json()),
                call.order, str(call.price), call.body, call.chosen,
            )  # fmt: skip

    def receive(self, channel: bytes, call: Call, response: CallResponse) -> None:
        """Writes the response to a call; inputs are kept of calls alone that are to be executed again."""
        with self._usable():
            self.database.rows(
                "UPDATE calls SET response = ?, body = CASE WHEN chosen THEN body ELSE x'' END "
                "WHERE channel = ? AND place = ? AND dropped = 0",
                *(json.dumps(response.to_json()), channel.hex(), call.index),
            )

    def drop(self, channel: bytes, first: int) -> None:
        """Writes that the operator took none of the calls under way, from this one on. They stay readable: what was
        signed was signed."""
        with self._usable():
            self.database.rows(
                "UPDATE calls SET dropped = 1 WHERE channel = ? AND place >= ? AND dropped = 0 AND response IS NULL",
                *(channel.hex(), first),
            )

    def adopt(self, channel: bytes, calls: Sequence[Call]) -> None:
        """Writes calls that another process made with the same key, in the place of those under way from the first of
        them on, of which the operator took none."""
        with self._usable(), self.database.together():
            self.drop(channel, calls[0].index)
            for call in calls:
                assert call.response is not None
                self.sign(channel, call)
                self.receive(channel, call, call.response)

    def executed_again(self, channel: bytes, *indices: int) -> None:
        """Writes that chosen calls were executed again."""
        with self._usable(), self.database.together():
            for index in indices:
                self.database.rows(
                    "UPDATE calls SET chosen = 0, body = x'' WHERE channel = ? AND place = ? AND dropped = 0",
                    *(channel.hex(), index),
                )

    def under_way(self, channel: bytes) -> list[Call]:
        """Calls that wait for their response, in order."""
        return [_call(row) for row in self._calls(channel, "response IS NULL")]

    def responded(self, channel: bytes, first: int = 0) -> list[Call]:
        """Calls whose responses came, in order, from an index on."""
        return [_call(row) for row in self._calls(channel, f"response IS NOT NULL AND place >= {int(first)}")]

    def chosen(self, channel: bytes, first: int, stop: int) -> list[Call]:
        """Calls of these indices that are to be executed again."""
        where = f"response IS NOT NULL AND chosen AND place >= {int(first)} AND place < {int(stop)}"
        return [_call(row) for row in self._calls(channel, where)]

    def call(self, channel: bytes, index: int) -> Call:
        """A call whose response came. Raises TaskNotFound."""
        for row in self._calls(channel, f"response IS NOT NULL AND place = {int(index)}"):
            return _call(row)
        raise TaskNotFound(f"channel {channel.hex()} has no call {index} that was responded to")

    def calls_of(self, salt: int) -> list[tuple[bytes, Call]]:
        """The calls of this salt, each with its channel, oldest first: those that were dropped are not among them."""
        with self._usable():
            query = f"SELECT channel, {_COLUMNS} FROM calls WHERE dropped = 0 AND json_extract(payment, '$.salt') = ?"
            rows = self.database.rows(f"{query} ORDER BY number", str(salt))
        return [(bytes.fromhex(row["channel"]), _call(row)) for row in rows]

    def signed(self, channel: bytes) -> list[Call]:
        """All calls that were ever signed, those too that were dropped, in the order in which they were."""
        with self._usable():
            query = f"SELECT {_COLUMNS} FROM calls WHERE channel = ? ORDER BY number"
            return [_call(row) for row in self.database.rows(query, channel.hex())]

    def _calls(self, channel: bytes, where: str) -> list[sqlite3.Row]:
        with self._usable():
            query = f"SELECT {_COLUMNS} FROM calls WHERE channel = ? AND dropped = 0 AND {where} ORDER BY place"
            return self.database.rows(query, channel.hex())

    # ---- Batches ----

    def commit(self, account: Account, committed: Committed) -> None:
        """Writes a line that was committed, or how it stands now, and the channel with it."""
        with self._usable(), self.database.together():
            self.update(account)
            self.database.rows(
                "INSERT OR REPLACE INTO lines VALUES (?, ?, ?, ?, ?, ?, ?)",
                account.agreement.channel.hex(), committed.number, json.dumps(committed.proof.to_json()),
                committed.block, committed.state, committed.refunded,
                json.dumps([[check.number, [one.to_json() for one in check.confirmed]] for check in committed.checks]),
            )  # fmt: skip

    def lines(self, channel: bytes) -> list[Committed]:
        """The channel's lines, in the order of their batches."""
        with self._usable():
            rows = self.database.rows("SELECT * FROM lines WHERE channel = ? ORDER BY number", channel.hex())
        return [_committed(row) for row in rows]

    def state_of(self, channel: bytes, index: int) -> str:
        """How a call stands as far as its batch was looked at: `signed`, `committed`, `checked(k)`, `final, …`."""
        with self._usable():
            rows = self.database.rows("SELECT * FROM lines WHERE channel = ? ORDER BY number DESC", channel.hex())
        for committed in map(_committed, rows):
            line = committed.line
            if index >= line.first:
                return committed.words(index) if index < line.first + line.count else "signed"
        return "signed"

    def receipt(self, account: Account, index: int) -> SignedCall:
        """The receipt of a call, with its place in its batch if that was looked at. Raises TaskNotFound."""
        agreed, call = account.agreement, self.call(account.agreement.channel, index)
        assert call.response is not None
        committed = next((one for one in self.lines(agreed.channel) if one.has(index)), None)
        place = None
        if committed is not None:
            stop = committed.line.first + committed.line.count
            path = merkle.path(self._leaves_of(agreed.channel, stop), index)
            root = merkle.climb(committed.line.hash(), committed.proof.position, committed.proof.path)
            place = CommittedCall(root, committed.proof, path, committed.block, committed.confirmed(index))
        return SignedCall(
            agreed.domain.chain_id, agreed.domain.market, agreed.offer, agreed.deal, agreed.signature,
            call.order_in(agreed.deal, agreed.channel), call.response.receipt, call.response.signature, place,
        )  # fmt: skip

    def _leaves_of(self, channel: bytes, stop: int) -> list[bytes]:
        """The leaves of a channel's first calls, which never change: each is read once."""
        with self.database.lock:
            known = self._leaves.setdefault(channel, [])
            if len(known) < stop:
                known += leaves(self.responded(channel, len(known)))
            return known[:stop]


def leaves(calls: Sequence[Call]) -> list[bytes]:
    """The leaves of calls that were responded to."""
    return [call.leaf() for call in calls]


def root_of(calls: Sequence[Call]) -> bytes:
    """The root over the leaves of a channel's first calls."""
    return merkle.tree_root(leaves(calls))


_KEYLESS = "Calls need it, and `eigentensor channel leave` does not: what is left of the deposit comes back by that."


def _account(row: Any) -> Account:
    agreement = Agreement(
        row["url"],
        Domain(row["chain_id"], row["market"]),
        Offer.from_json(json.loads(row["offer"])),
        Deal.from_json(json.loads(row["deal"])),
        row["signature"],
    )
    deposit, paid = int(row["deposit"]), int(row["paid"])
    return Account(agreement, deposit, Stage(row["stage"]), paid, row["begun"], row["first"])


def _call(row: Any) -> Call:
    response = None if row["response"] is None else CallResponse.from_json(json.loads(row["response"]))
    return Call(
        row["place"],
        Computation.of_query(parse_qsl(row["computation"], keep_blank_values=True)),
        Payment.from_json(json.loads(row["payment"])),
        row["order_hash"],
        int(row["price"]),
        row["body"],
        response,
        bool(row["chosen"]),
    )


def _committed(row: Any) -> Committed:
    proof = LineProof.from_json(json.loads(row["proof"]))
    checks = tuple(
        Check(number, tuple(Confirmation(**read(Confirmation, one)) for one in confirmed))
        for number, confirmed in json.loads(row["checks"])
    )
    return Committed(row["number"], proof, row["block"], row["state"], bool(row["refunded"]), checks)


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
