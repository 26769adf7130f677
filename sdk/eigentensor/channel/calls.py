"""A paid call over HTTP: what is to be computed, what pays for it, what comes back; prices of programs.

`POST /v1/channels/{channel}/calls` has the computation in its query, the inputs as its body and the payment in a header
(`x402`); the answer has the outputs as its body and the `CallResponse` in one. Both sides make the call's order of that
by themselves: its terms are the deal's, so it has none, and names its place alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Self, TypeVar
from urllib.parse import urlencode

from eigentensor import merkle
from eigentensor.channel.deals import CallReceipt, Deal, Offer, Struct, Voucher
from eigentensor.channel.signed import nonce_of
from eigentensor.errors import BindingError, TaskError
from eigentensor.program.codec import SEMANTICS
from eigentensor.task.order import NONE, Order
from eigentensor.wire import BOOLEAN, Address, Block, Count, Data, Hash, Object, Size, Wei, read, unhex

SALT = 192  #: random bits of an order's nonce
_HASH = 32  # bytes
_Kind = TypeVar("_Kind", bound=Object)


@dataclass(frozen=True, slots=True)
class Computation:
    """What a call computes, without its inputs: a program with the roots of what is bound to it."""

    program: bytes
    """The program root."""
    weights: bytes = NONE
    """The bindings root of the weights."""
    states: bytes = NONE
    """The bindings root of the states, which an earlier call left or the operator was given."""
    variables: Mapping[str, int] = field(default_factory=dict)
    """The values of the program's variables."""
    repeat: int = 1
    """How many times the program is executed."""

    def order(self, deal: Deal, channel: bytes, index: int, salt: int, inputs: bytes) -> Order:
        """The order of call `index` of a channel. Raises ValueError for what fits no order."""
        return Order(
            client=deal.client, nonce=nonce_of(index, salt), semantics=SEMANTICS, program=self.program, inputs=inputs,
            weights=self.weights, states=self.states, variables=merkle.variables_root(self.variables),
            repeat=self.repeat, min_price=0, max_price=0, ramp_start=0, ramp_length=0, check_fee=0, check_rate=0,
            verifiers=0, value_at_risk=0, exec=0, accept_by=0, operators=channel,
        )  # fmt: skip

    def query(self) -> list[tuple[str, str]]:
        """As a URL has it: roots in hex, `variable=NAME:NUMBER`; what is not there is left out."""
        roots = {"program": self.program, "weights": self.weights, "states": self.states}
        pairs = [(name, root.hex()) for name, root in roots.items() if root != NONE]
        pairs += [("variable", f"{name}:{value}") for name, value in sorted(self.variables.items())]
        return pairs + [("repeat", str(self.repeat))] * (self.repeat != 1)

    def text(self) -> str:
        """`query` as it stands in a URL."""
        return urlencode(self.query())

    @classmethod
    def of_query(cls, pairs: list[tuple[str, str]]) -> Self:
        """The inverse of `query`. Raises BindingError for what is none."""
        values: dict[str, Any] = {"variables": {}}
        try:
            for name, text in pairs:
                if name == "variable":
                    variable, _, value = text.rpartition(":")
                    _set(values["variables"], variable, int(value))
                elif name == "repeat":
                    _set(values, name, int(text))
                elif name in ("program", "weights", "states"):
                    _set(values, name, _root(text))
                else:
                    raise ValueError(f"{name!r} is no part of a computation")
            return cls(**values)
        except (TypeError, ValueError) as error:
            raise BindingError(
                f"the query names no computation: {error}",
                fix="Write program=ROOT, and where there are any weights=, states=, variable=NAME:NUMBER, repeat=.",
            ) from None


def _set(values: dict[str, Any], name: str, value: Any) -> None:
    if name in values:
        raise ValueError(f"{name!r} is there twice")
    values[name] = value


def _root(text: str) -> bytes:
    if len(root := unhex(text)) != _HASH:
        raise ValueError(f"{text!r} is no root")
    return root


@dataclass(frozen=True, slots=True)
class Payment(Struct):
    """What pays for a call, and makes its order what it is. The call's index is one less than the voucher's count."""

    salt: Count
    """The random part of the order's nonce."""
    inputs: Hash
    """The bindings root of the inputs."""
    voucher: Voucher
    """What the payer owes with this call."""
    signature: Data
    """The payer's, of the voucher."""

    def __post_init__(self) -> None:
        """Raises ValueError for values that do not fit."""
        if not 0 <= self.salt < 1 << SALT or len(self.inputs) != _HASH or not self.voucher.count:
            raise ValueError("salt, inputs or count of the payment are none")


@dataclass(frozen=True, slots=True)
class CallResponse(Struct):
    """What the operator answers beside the outputs."""

    receipt: CallReceipt
    """The result of the call."""
    signature: Data
    """The offer's signer's, of the receipt."""
    states: Hash = NONE
    """The bindings root of the new states, which another call may go on from; zeros: there are none."""

    def __post_init__(self) -> None:
        """Raises ValueError for values that do not fit."""
        if len(self.states) != _HASH:
            raise ValueError(f"states of the call response must not be {self.states!r}")


@dataclass(frozen=True, slots=True)
class ProgramQuote(Struct):
    """For which price an operator executes a program of its offer."""

    program: Annotated[Hash, "bytes32"]
    """The program root."""
    repeat: Annotated[int, "uint32"]
    """The most repeats."""
    price: Annotated[Wei, "uint256"]
    """Wei for each repeat."""
    is_warm: Annotated[bool, BOOLEAN]
    """Whether it is compiled and in memory."""

    def price_of(self, repeat: int) -> int:
        """Wei of a call with so many repeats."""
        return self.price * repeat


@dataclass(frozen=True, slots=True)
class DealRequest(Struct):
    """The terms under which somebody wants to open a channel: those of the deal, without nonce and last block."""

    pool: Annotated[Hash, "bytes32"]
    """The hash of the offer."""
    client: Annotated[Address, "address"]
    """Opens the channel, and gets back what is not spent."""
    payer: Annotated[Address, "address"]
    """Signs vouchers."""
    most: Annotated[Wei, "uint256"]
    """The most that the channel's calls cost in one batch."""
    value_at_risk: Annotated[Wei, "uint256"] = 0
    """What wrong results could gain in one batch beyond their prices."""


@dataclass(frozen=True, slots=True)
class SignedDeal(Struct):
    """A deal, and what its opening needs beside it."""

    deal: Deal
    """The terms of the channel."""
    signature: Data
    """The offer's signer's, of the deal."""


@dataclass(frozen=True, slots=True)
class SignedVoucher(Struct):
    """A voucher, and the signature of one of its sides: of a last one, by which both conclude the channel."""

    voucher: Voucher
    """What is owed in all."""
    signature: Data
    """The payer's, or the offer's signer's, of the voucher."""


@dataclass(frozen=True, slots=True)
class ChannelStatus(Object, schema="eigentensor.channel-status/1"):
    """`eigentensor.channel-status/1`: where a channel stands at its operator."""

    channel: Hash
    """The hash of the deal."""
    count: Size
    """Calls that were executed."""
    index: Size
    """Of the next call: those under way count."""
    left: Wei
    """Wei that calls of the batch at hand may still cost."""
    voucher: Voucher | None
    """The newest one that was taken; null: there is none."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads its members. Raises TaskError for anything else."""
        return _read(cls, values, "the status of the channel")


@dataclass(frozen=True, slots=True)
class PaidCall(Object):
    """A call that was executed, as both sides wrote it down."""

    query: str
    """The computation, as the URL of the call had it."""
    payment: Payment
    """What paid for it."""
    response: CallResponse
    """What the operator answered beside the outputs."""


@dataclass(frozen=True, slots=True)
class PaidCalls(Object, schema="eigentensor.paid-calls/1"):
    """`eigentensor.paid-calls/1`: calls of a channel, shown to whoever has its payer's key."""

    channel: Hash
    """The hash of the deal."""
    calls: tuple[PaidCall, ...]
    """One after the other, from the index on that was asked for; none: there are no more."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads its members. Raises TaskError for anything else."""
        return _read(cls, values, "the list of calls")


@dataclass(frozen=True, slots=True)
class Quote(Object, schema="eigentensor.quote/1"):
    """`eigentensor.quote/1`: what an operator offers to those who call it. Amounts are wei, times are blocks."""

    chain_id: Size
    """The chain."""
    channels: Address
    """The market for paid calls on it."""
    pool: Hash
    """The hash of the offer."""
    offer: Offer
    """The terms of all channels of the pool."""
    number: Size
    """The batch that calls stand in now; 0: none is begun."""
    commit_by: Block
    """The last block in which it is committed."""
    programs: tuple[ProgramQuote, ...]
    """What is executed, and for which price."""
    body_limit: Size
    """The most bytes of inputs of a call."""

    @property
    def listed(self) -> dict[bytes, int] | None:
        """The programs with their most repeats, as the offer names them: proven by its root. None: these are others, so
        that nobody could show that the operator executes what it does not offer."""
        most: dict[bytes, int] = {}
        for one in self.programs:  # of one program there is a quote for each of its weights
            most[one.program] = max(one.repeat, most.get(one.program, 0))
        return most if merkle.programs_root(most) == self.offer.programs else None

    def quote_of(self, program: bytes) -> ProgramQuote | None:
        """The quote of a program; None: it is not executed."""
        return next((one for one in self.programs if one.program == program), None)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads its members. Raises TaskError for anything else."""
        return _read(cls, values, "the quote")


@dataclass(frozen=True, slots=True)
class Quotes(Object, schema="eigentensor.quotes/1"):
    """`eigentensor.quotes/1`: all that an operator offers to those who call it."""

    quotes: tuple[Quote, ...]
    """One for each pool."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads its members. Raises TaskError for anything else."""
        return _read(cls, values, "the list of quotes")


def _read(kind: type[_Kind], values: Mapping[str, Any], what: str) -> _Kind:
    """An object out of its JSON."""
    try:
        if values["schema"] != kind.SCHEMA:
            raise ValueError(f"it is of {values['schema']!r}")
        return kind(**read(kind, values))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise TaskError(
            f"{what} is malformed: {error}", fix="Ask another operator, or this one in its version."
        ) from None
