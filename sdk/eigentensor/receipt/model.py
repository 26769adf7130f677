"""What a receipt holds, and its canonical file.

It holds an order, the events of its task, and what proves them: signed transactions, or parts of them. Everything else
in the file (who, how much, until when, checked or not) follows from these, and is written out for its reader: a file in
which it does not follow is refused when it is read.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import sha256
from typing import Any, Self

from eigentensor.addresses import is_checksum_address
from eigentensor.chain import Deployment, Head
from eigentensor.chain.transactions import Transaction, read_transaction
from eigentensor.economics import Parameters
from eigentensor.errors import ChainError, EigenTensorError, WrongReceipt
from eigentensor.merkle import outputs_root
from eigentensor.receipt import canonical
from eigentensor.receipt.events import event_from_json, event_to_json, proof_from_json
from eigentensor.receipt.evidence import SIGNED, Proof
from eigentensor.receipt.facts import facts, life_of
from eigentensor.task import Committed, Domain, Event, Life, Order, order_uuid, words

SCHEMA = "eigentensor.receipt/1"
_DECIMALS = 255
_WORDS = 64  # letters


@dataclass(frozen=True, slots=True)
class Market:
    """Where the task lived: what its uuid is bound to, what its amounts are of, and the formulas' parameters."""

    domain: Domain
    token: str
    token_symbol: str
    token_decimals: int
    parameters: Parameters

    @classmethod
    def of(cls, deployment: Deployment) -> Self:
        """The market of a deployment."""
        d = deployment
        return cls(d.domain, d.token, d.token_symbol, d.token_decimals, d.parameters)

    def to_json(self) -> dict[str, Any]:
        """The market as a receipt writes it: parameters as decimal strings."""
        return {
            "address": self.domain.market,
            "chain_id": self.domain.chain_id,
            "token": {"address": self.token, "symbol": self.token_symbol, "decimals": self.token_decimals},
            "parameters": {f.name: str(getattr(self.parameters, f.name)) for f in fields(Parameters)},
        }

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """The inverse of `to_json`. Raises ValueError, KeyError or TypeError for anything else."""
        token, numbers = value["token"], value["parameters"]
        parameters = Parameters(**{f.name: natural(int(numbers[f.name])) for f in fields(Parameters)})
        domain = Domain(natural(value["chain_id"]), _address(value["address"]))
        if natural(token["decimals"]) > _DECIMALS:
            raise ValueError("its token is malformed")
        return cls(domain, _address(token["address"]), _words(token["symbol"]), token["decimals"], parameters)


@dataclass(frozen=True)
class Receipt:
    """A task up to the block `head`: its order, its events in order, and what proves them.

    `seats` is how many there were at the commit; `parts` are the bindings roots of outputs and new states, where known;
    `proofs` has one entry for each event, None where the event's proof is a transaction, or the chain alone;
    `transactions` are signed, and in the order of the events that they prove. What is read of it raises WrongReceipt
    where the events are not a task's life, or the transactions not theirs.
    """

    market: Market
    order: Order
    seats: int
    parts: tuple[bytes, bytes] | None
    events: tuple[Event, ...]
    proofs: tuple[Proof | None, ...]
    transactions: tuple[bytes, ...]
    head: Head
    software: str

    def __repr__(self) -> str:
        return f"<Receipt of task {self.task[:10]}, as of block {self.head.number}>"

    @property
    def task(self) -> str:
        """The task's uuid."""
        return self.uuid.hex()

    @cached_property
    def uuid(self) -> bytes:
        """The task's uuid: the hash of the order, 32 bytes."""
        return order_uuid(self.order, self.market.domain)

    @cached_property
    def life(self) -> Life:
        """What the events come to: who, how much, until when, checked or not."""
        with _computed():
            return life_of(self.uuid, self.order, self.market.parameters, self.events, self.head)

    @property
    def state(self) -> str:
        """Where the task stands, in the words of the glossary."""
        return words.standing(self.life.counts)

    @cached_property
    def signed(self) -> dict[bytes, Transaction]:
        """The transactions by their hashes, in the order of their events. Raises WrongReceipt for any others."""
        proved = zip(self.events, self.proofs, strict=True)
        own = [event.place.transaction for event, proof in proved if type(event) in SIGNED and proof is None]
        listed = list(map(_transaction, self.transactions))
        signed = {transaction.hash: transaction for transaction in listed}
        if [each.hash for each in listed] != [hash_ for hash_ in dict.fromkeys(own) if hash_ in signed]:
            raise WrongReceipt("transactions", "they are not those that prove events, each once, in their order")
        return signed

    def _executor(self) -> dict[str, Any]:
        """Who executed: the operator, the signer of its commit where that is known, and what it committed to."""
        committed = next(event for event in self.events if isinstance(event, Committed))
        signer = self.signed.get(committed.place.transaction)
        return {
            "operator": self.life.executor,
            "signer": None if signer is None else signer.sender,
            "commitment": _hex(self.life.commitment),
        }

    def to_json(self) -> dict[str, Any]:
        """The file as a value: amounts as decimal strings, hashes and bytes as hex with 0x, times as blocks."""
        root = self.life.outputs_root
        with _computed():
            follows = facts(self.life, self.seats)
        if self.parts is not None and outputs_root(*self.parts) != root:
            raise WrongReceipt("result", "the bindings roots of outputs and states do not make the revealed root")
        outputs, states = map(_hex, self.parts or (None, None))
        senders = [{"hash": _hex(h), "from": sent.sender, "to": sent.to} for h, sent in self.signed.items()]
        pairs = zip(senders, self.transactions, strict=True)
        fields = {
            "schema": SCHEMA,
            "software": self.software,
            "task": self.task,
            "market": self.market.to_json(),
            "order": self.order.to_json(),
            "head": {"block": self.head.number, "hash": _hex(self.head.hash)},
            "events": list(map(event_to_json, self.events, self.proofs)),
            "transactions": [sender | {"raw": _hex(raw)} for sender, raw in pairs],
            "result": {"outputs_root": _hex(root), "outputs": outputs, "states": states},
            "executor": self._executor(),
            **follows,
        }
        return fields | {"digest": sha256(canonical.text(fields)).hexdigest()}

    def to_bytes(self) -> bytes:
        """The canonical file: `from_bytes` takes no other. `digest`, sha256 over the rest, finds damage, no forgery."""
        return canonical.text(self.to_json())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Reads a canonical file. Raises WrongReceipt for anything else, and where its parts do not fit together."""
        value = canonical.parse(data)
        receipt = cls.from_json(value)
        again = receipt.to_json()
        if (differs := canonical.difference(value | {"digest": again["digest"]}, again)) is not None:
            where, stated, follows = differs
            raise WrongReceipt(where, f"it says {_brief(stated)}, where {_brief(follows)} follows from the rest")
        if value.get("digest") != again["digest"]:
            raise WrongReceipt("digest", "it is not that of the rest: the file is damaged, or was changed")
        if canonical.text(again) != data:
            raise WrongReceipt("", "it is not in the canonical form: sorted keys, no spaces, ASCII")
        return receipt

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """What the value says, before it is held to what follows. Raises WrongReceipt for what is malformed."""
        if value.get("schema") != SCHEMA:
            raise WrongReceipt("schema", f"it is {_brief(value.get('schema'))}, not {SCHEMA}")
        try:
            result = value["result"]
            halves = [_bytes32(result[name]) for name in ("outputs", "states") if result[name] is not None]
            market, order = Market.from_json(value["market"]), Order.from_json(value["order"])
            task = order_uuid(order, market.domain)
            return cls(
                market=market,
                order=order,
                seats=natural(value["checks"]["seats"]),
                parts=(halves[0], halves[1]) if halves else None,
                events=tuple(event_from_json(entry, order, task) for entry in value["events"]),
                proofs=tuple(map(proof_from_json, value["events"])),
                transactions=tuple(bytes.fromhex(entry["raw"][2:]) for entry in value["transactions"]),
                head=Head(natural(value["head"]["block"]), _bytes32(value["head"]["hash"])),
                software=_words(value["software"]),
            )
        except EigenTensorError as error:
            raise WrongReceipt("", error.what) from None
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise WrongReceipt("", f"it is malformed: {type(error).__name__}: {_brief(str(error))}") from None


@contextmanager
def _computed() -> Iterator[None]:
    """The market's formulas are computed here."""
    try:
        yield
    except ArithmeticError:
        raise WrongReceipt("market.parameters", "no market has these") from None


def _transaction(raw: bytes) -> Transaction:
    try:
        return read_transaction(raw)
    except ChainError as error:
        raise WrongReceipt("transactions", error.what) from None


def natural(value: Any) -> int:
    """A number of 256 bits. Raises ValueError for anything else."""
    if type(value) is not int or not 0 <= value < 1 << 256:
        raise ValueError(f"{value!r} is no natural number of 256 bits")
    return value


def _address(value: Any) -> str:
    if not is_checksum_address(value):
        raise ValueError(f"{value!r} is no address")
    return str(value)


def _words(value: Any) -> str:
    """Text that is shown to people: a terminal must not take it for more."""
    if not isinstance(value, str) or len(value) > _WORDS or not value.isprintable():
        raise ValueError(f"{value!r} is no short text")
    return value


def _bytes32(value: Any) -> bytes:
    raw = bytes.fromhex(value[2:])
    if len(raw) != 32:
        raise ValueError(f"{value!r} has not 32 bytes")
    return raw


def _hex(value: bytes | None) -> str | None:
    return None if value is None else "0x" + value.hex()


def _brief(value: Any) -> str:
    words = str(value) if isinstance(value, str | int) or value is None else type(value).__name__
    words = words if words.isprintable() else ascii(words)
    return words if len(words) <= 80 else f"{words[:76]}…"
