"""What a restart must not forget of paid calls, in SQLite: pools, deals, what the chain showed, every call until its
batch is over, and what it needs to be executed again.

What is written in one transaction is on disk together, when it returns: only then may anything of it be sent.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Row
from typing import Any
from urllib.parse import parse_qsl

from eigentensor import merkle
from eigentensor.channel import CallReceipt, Deal, Offer, Sheet, Voucher, events
from eigentensor.channel.calls import CallResponse, Computation, PaidCall, Payment
from eigentensor.errors import BlobNotFound, ConfigError
from eigentensor.store.database import Database
from eigentensor.task import Event, Place
from eigentensor.task.order import NONE, Domain
from eigentensor_operator.calls.interface import Conclusion
from eigentensor_operator.calls.recent import Patch, patched

_SCHEMA = """
CREATE TABLE IF NOT EXISTS owner (
    one INTEGER PRIMARY KEY CHECK (one = 1), chain INTEGER NOT NULL, market TEXT NOT NULL, operator TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS pools (pool BLOB PRIMARY KEY, offer TEXT NOT NULL, programs TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS deals (channel BLOB PRIMARY KEY, deal TEXT NOT NULL, open_by INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS events (
    block INTEGER, at INTEGER, hash BLOB NOT NULL, tx BLOB NOT NULL, kind TEXT NOT NULL, arguments TEXT NOT NULL,
    PRIMARY KEY (block, at)
);
CREATE TABLE IF NOT EXISTS drained (pool BLOB, number INTEGER, PRIMARY KEY (pool, number));
CREATE TABLE IF NOT EXISTS sheets (
    pool BLOB, number INTEGER, position INTEGER, channel BLOB NOT NULL, first INTEGER NOT NULL, sheet TEXT NOT NULL,
    PRIMARY KEY (pool, number, position)
);
CREATE TABLE IF NOT EXISTS calls (
    channel BLOB, at INTEGER, query TEXT NOT NULL, salt BLOB NOT NULL, inputs BLOB NOT NULL, states BLOB NOT NULL,
    amount TEXT NOT NULL, acked INTEGER NOT NULL, root BLOB NOT NULL, paid BLOB NOT NULL,
    task BLOB NOT NULL, outputs_root BLOB NOT NULL, number INTEGER NOT NULL, signature BLOB NOT NULL,
    new_states BLOB NOT NULL, PRIMARY KEY (channel, at)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leaves (
    channel BLOB, at INTEGER, leaf BLOB NOT NULL, PRIMARY KEY (channel, at)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS conclusions (
    channel BLOB PRIMARY KEY, voucher TEXT NOT NULL, payers BLOB NOT NULL, signers BLOB NOT NULL, since INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS blobs (root BLOB PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS patches (root BLOB PRIMARY KEY, base BLOB NOT NULL, data BLOB NOT NULL);
"""
_CALL = f"INSERT INTO calls VALUES ({', '.join('?' * 15)})"
_BLOB = "INSERT OR IGNORE INTO blobs SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM patches WHERE root = ?1)"
_PATCH = "INSERT OR IGNORE INTO patches SELECT ?1, ?2, ?3 WHERE NOT EXISTS (SELECT 1 FROM blobs WHERE root = ?1)"
_SALT = 24  # bytes


@dataclass(frozen=True, slots=True)
class Executed:
    """A call that was executed: what paid for it, and the receipt with its signature. `new_states` is the bindings root
    of the states that it left, zeros where it has none."""

    computation: Computation
    payment: Payment
    receipt: CallReceipt
    signature: bytes
    new_states: bytes = NONE

    @property
    def leaf(self) -> bytes:
        """Its leaf in its channel's tree."""
        receipt = self.receipt
        return merkle.call_hash(receipt.channel, receipt.index, receipt.order, merkle.result_of(receipt.outputs_root))

    def shown(self) -> PaidCall:
        """As its payer is shown it."""
        response = CallResponse(self.receipt, self.signature, self.new_states)
        return PaidCall(self.computation.text(), self.payment, response)


class Ledger:
    """Safe for several threads. Its methods raise sqlite3.Error where the disk does not do what it should."""

    def __init__(self, path: Path | None) -> None:
        """None keeps it in memory."""
        self._path = path
        self._database = Database(path)
        with self._database.together():
            for statement in filter(str.strip, _SCHEMA.split(";")):
                self._database.rows(statement)

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    def is_well(self) -> bool:
        """Whether it answers. Raises sqlite3.Error."""
        return self._database.is_well()

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is written inside is on disk together when this ends, or not at all."""
        with self._database.together():
            yield

    def claim(self, domain: Domain, operator: str) -> None:
        """Makes an empty ledger this operator's. Raises ConfigError if it is another one's, or of another market."""
        mine = (domain.chain_id, domain.market, operator)
        self._database.rows("INSERT OR IGNORE INTO owner VALUES (1, ?, ?, ?)", *mine)
        (row,) = self._database.rows("SELECT chain, market, operator FROM owner")
        if tuple(row) != mine:
            raise ConfigError(
                f"{self._path} is of another operator or market", fix="Choose another folder with --data-dir."
            )

    # ---- Pools and deals ----

    def keep_pool(self, pool: bytes, offer: Offer, programs: Mapping[bytes, int]) -> None:
        """Keeps an offer, and its programs with their most repeats."""
        listed = json.dumps({program.hex(): repeat for program, repeat in programs.items()})
        self._database.rows("INSERT OR IGNORE INTO pools VALUES (?, ?, ?)", pool, _text(offer), listed)

    def pools(self) -> dict[bytes, tuple[Offer, dict[bytes, int]]]:
        """The offers by their pools, each with its programs."""
        rows = self._database.rows("SELECT pool, offer, programs FROM pools")
        return {row[0]: (Offer.from_json(json.loads(row[1])), _programs(row[2])) for row in rows}

    def keep_deal(self, channel: bytes, deal: Deal) -> None:
        """Keeps a deal, before its signature is sent."""
        self._database.rows("INSERT OR IGNORE INTO deals VALUES (?, ?, ?)", channel, _text(deal), deal.open_by)

    def deals(self) -> dict[bytes, Deal]:
        """The deals that may still be opened."""
        rows = self._database.rows("SELECT channel, deal FROM deals")
        return {row[0]: Deal.from_json(json.loads(row[1])) for row in rows}

    def drop_deal(self, channel: bytes) -> None:
        """Forgets a deal; who has its signature can open it all the same."""
        self._database.rows("DELETE FROM deals WHERE channel = ?", channel)

    def drop_deals(self, block: int) -> None:
        """Forgets deals that were to be opened until this block."""
        self._database.rows("DELETE FROM deals WHERE open_by <= ?", block)

    # ---- What the chain showed ----

    def keep_event(self, event: Event) -> None:
        """Keeps an event of the market for paid calls."""
        place = event.place
        values = (place.block, place.index, place.block_hash, place.transaction, type(event).__name__)
        arguments = json.dumps(event.arguments())
        self._database.rows("REPLACE INTO events VALUES (?, ?, ?, ?, ?, ?)", *values, arguments)

    def events(self) -> Iterator[Event]:
        """The kept events in the order of the chain."""
        for block, at, hash_, tx, kind, arguments in self._database.rows("SELECT * FROM events ORDER BY block, at"):
            yield events.KINDS[kind].from_arguments(Place(block, at, hash_, tx), json.loads(arguments))

    def drop_events(self, after: int) -> None:
        """Forgets events after a block."""
        self._database.rows("DELETE FROM events WHERE block > ?", after)

    # ---- Batches ----

    def keep_sheets(self, pool: bytes, number: int, sheets: Sequence[tuple[bytes, int, Sheet]]) -> None:
        """Keeps what the commit of a batch brings: each channel with its first call in the batch, and its sheet."""
        with self.together():
            self._database.rows("INSERT INTO drained VALUES (?, ?)", pool, number)
            for position, (channel, first, sheet) in enumerate(sheets):
                values = (pool, number, position, channel, first, _text(sheet))
                self._database.rows("INSERT INTO sheets VALUES (?, ?, ?, ?, ?, ?)", *values)

    def sheets(self) -> dict[tuple[bytes, int], list[tuple[bytes, int, Sheet]]]:
        """The sheets of every batch that was drained, by pool and number."""
        drained = {(row[0], row[1]): list[tuple[bytes, int, Sheet]]() for row in self._database.rows(_DRAINED)}
        for pool, number, channel, first, sheet in self._database.rows(_SHEETS):
            drained[pool, number].append((channel, first, Sheet.from_json(json.loads(sheet))))
        return drained

    # ---- Conclusions ----

    def keep_conclusion(self, conclusion: Conclusion) -> None:
        """Keeps that both sides signed a channel's last voucher, before the operator's signature is sent."""
        voucher, signatures = conclusion.voucher, (conclusion.payers, conclusion.signers)
        values = (voucher.channel, _text(voucher), *signatures, conclusion.since)
        self._database.rows("INSERT OR IGNORE INTO conclusions VALUES (?, ?, ?, ?, ?)", *values)

    def conclusions(self) -> dict[bytes, Conclusion]:
        """What was concluded, by channel."""
        rows = self._database.rows("SELECT channel, voucher, payers, signers, since FROM conclusions")
        return {row[0]: Conclusion(Voucher.from_json(json.loads(row[1])), row[2], row[3], row[4]) for row in rows}

    # ---- Calls ----

    def keep_calls(self, calls: Iterable[Executed], files: Iterable[tuple[bytes, bytes | Patch]]) -> None:
        """Writes calls that were executed, and the files by their roots that they need to be executed again: of a patch
        the base is here, or before it among them. A file that is here stays as it is, so that no patches change each
        other in a circle."""
        with self._database.together():
            for root, file in files:
                if isinstance(file, Patch):
                    self._database.rows(_PATCH, root, *file)
                else:
                    self._database.rows(_BLOB, root, file)
            for call in calls:
                self._database.rows(_CALL, *_values(call))

    def call(self, channel: bytes, index: int) -> Executed | None:
        """A call of a channel; None: it has none, or its batch is over."""
        rows = self._database.rows("SELECT * FROM calls WHERE channel = ? AND at = ?", channel, index)
        return _executed(rows[0])[0] if rows else None

    def call_of(self, task: bytes) -> Executed:
        """The call whose order has this hash. Raises BlobNotFound if its batch is over."""
        # disputes alone ask for it: an index would be written with every call
        rows = self._database.rows("SELECT * FROM calls WHERE task = ?", task)
        if not rows:
            raise BlobNotFound(f"nothing is kept of a call {task.hex()}")
        return _executed(rows[0])[0]

    def calls(self, channel: bytes, first: int, count: int) -> list[Executed]:
        """Calls `first` to `first + count` of a channel."""
        rows = self._database.rows(_RANGE, channel, first, first + count)
        return [_executed(row)[0] for row in rows]

    def newest(self, channel: bytes) -> tuple[Voucher, bytes] | None:
        """The voucher of the newest call of a channel, with its signature; None: it never had one."""
        rows = self._database.rows("SELECT * FROM calls WHERE channel = ? ORDER BY at DESC LIMIT 1", channel)
        return _executed(rows[0])[1] if rows else None

    def leaves(self, channel: bytes) -> list[bytes]:
        """The leaves of all calls of a channel's life."""
        with self._database.lock:
            kept = [row[0] for row in self._database.rows(_LEAVES, channel)]
            return kept + [_executed(row)[0].leaf for row in self._database.rows(_RANGE, channel, len(kept), _END)]

    def forget(self, pool: bytes, number: int, lines: Iterable[tuple[bytes, int]]) -> None:
        """Deletes the calls of a batch that is over, before index `stop` of each channel, and files that no other call
        needs. Leaves stay, and what each channel goes on by: its newest call, and those that this does not
        acknowledge."""
        with self.together():
            for channel, stop in lines:
                have = len(self._database.rows(_LEAVES, channel))
                for at, leaf in enumerate(self.leaves(channel)[have:stop], have):
                    self._database.rows(_LEAF, channel, at, leaf)
                self._database.rows(_FORGET, channel, stop, channel)
            self._database.rows("DELETE FROM sheets WHERE pool = ? AND number = ?", pool, number)
            for table in ("patches", "blobs"):
                self._database.rows(_UNUSED.format(table))

    # ---- Files ----

    def has_blob(self, root: bytes) -> bool:
        """Whether the file of a bindings root is here."""
        return any(self._database.rows(f"SELECT 1 FROM {table} WHERE root = ?", root) for table in ("blobs", "patches"))

    def blob(self, root: bytes) -> bytes:
        """The safetensors file that has a bindings root. Raises BlobNotFound."""
        with self._database.lock:
            if rows := self._database.rows("SELECT data FROM blobs WHERE root = ?", root):
                return bytes(rows[0][0])
            if rows := self._database.rows("SELECT base, data FROM patches WHERE root = ?", root):
                return patched(self.blob(rows[0][0]), rows[0][1])
        raise BlobNotFound(f"there are no inputs or states {root.hex()} here")


_DRAINED = "SELECT pool, number FROM drained ORDER BY pool, number"
_SHEETS = "SELECT pool, number, channel, first, sheet FROM sheets ORDER BY pool, number, position"
_LEAF = "INSERT INTO leaves VALUES (?, ?, ?)"
_LEAVES = "SELECT leaf FROM leaves WHERE channel = ? ORDER BY at"
_END = (1 << 63) - 1  # of indices
_RANGE = "SELECT * FROM calls WHERE channel = ? AND at >= ? AND at < ? ORDER BY at"
_FORGET = """
DELETE FROM calls WHERE channel = ? AND at < ? AND at < (
    SELECT MIN(at, acked) FROM calls WHERE channel = ? ORDER BY at DESC LIMIT 1
)
"""
_UNUSED = """
WITH RECURSIVE used(root) AS (
    SELECT inputs FROM calls UNION SELECT states FROM calls UNION SELECT new_states FROM calls
    UNION SELECT patches.base FROM patches JOIN used ON patches.root = used.root
)
DELETE FROM {} WHERE root NOT IN (SELECT root FROM used)
"""


def _values(call: Executed) -> tuple[Any, ...]:
    """The row of a call."""
    computation, payment, receipt = call.computation, call.payment, call.receipt
    voucher = payment.voucher
    return (
        receipt.channel, receipt.index, computation.text(), payment.salt.to_bytes(_SALT, "big"),
        payment.inputs, computation.states, str(voucher.amount), voucher.acked, voucher.root, payment.signature,
        receipt.order, receipt.outputs_root, receipt.number, call.signature, call.new_states,
    )  # fmt: skip


def _executed(row: Row) -> tuple[Executed, tuple[Voucher, bytes]]:
    """The call of a row, and the voucher that paid for it with its signature."""
    voucher = Voucher(row["channel"], row["at"] + 1, int(row["amount"]), row["acked"], row["root"])
    computation = Computation.of_query(parse_qsl(row["query"], keep_blank_values=True))
    payment = Payment(int.from_bytes(row["salt"], "big"), row["inputs"], voucher, row["paid"])
    receipt = CallReceipt(row["channel"], row["at"], row["task"], row["outputs_root"], row["number"])
    call = Executed(computation, payment, receipt, row["signature"], row["new_states"])
    return call, (voucher, row["paid"])


def _programs(text: str) -> dict[bytes, int]:
    return {bytes.fromhex(program): repeat for program, repeat in json.loads(text).items()}


def _text(value: Offer | Deal | Sheet | Voucher) -> str:
    return json.dumps(value.to_json())
