"""What clients, operators and channels say to each other about paid calls; Deals.sol by the same names.

Prices and values are wei of the market's token below 2^96, times are blocks, rates are WAD. `to_json` writes a value,
`from_json` reads it and raises TaskError for anything else.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Self, get_args, get_origin

from eigentensor.errors import TaskError
from eigentensor.task import typed
from eigentensor.wire import Address, Block, Count, Hash, Object, Rate, Wei, hints, read

_HASH = 32  # bytes
_PLACES = range(1 << 32)


class Struct(Object):
    """What is exchanged about channels: fields that are a contract's, too, fit their Solidity types."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Raises ValueError for values that do not fit their Solidity type."""
        kind: Any = type(self)
        what = f"the {_words(kind)}"
        typed.fit(self, what)
        for name in _lists(kind):
            for item in getattr(self, name):
                if not (len(item) == _HASH if isinstance(item, bytes) else item in _PLACES):
                    raise ValueError(f"{name} of {what} must not have {item!r}")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads its members. Raises TaskError for anything else."""
        kind: Any = cls
        try:
            if set(values) != set(hints(kind)):
                raise ValueError(f"fields missing or unknown: {', '.join(sorted(set(values) ^ set(hints(kind))))}")
            return cls(**read(kind, values))
        except (TypeError, ValueError, KeyError) as error:
            raise TaskError(
                f"the {_words(kind)} is malformed: {error}", fix="Ask whoever sent it to say it again, in this version."
            ) from None


@cache
def _lists(kind: Any) -> tuple[str, ...]:
    """The fields that are lists of hashes or of places."""
    items = {name: get_args(hint)[0] for name, hint in hints(kind).items() if get_origin(hint) is tuple}
    return tuple(name for name, item in items.items() if item is int or get_origin(item) is Annotated)


@cache
def _words(kind: type) -> str:
    """A class's name in words."""
    return re.sub("(?<!^)(?=[A-Z])", " ", kind.__name__).lower()


@dataclass(frozen=True, slots=True)
class Offer(Struct):
    """What an operator offers on chain: the terms of all channels of one pool. Its EIP-712 hash is the pool."""

    operator: Annotated[Address, "address"]
    """Executes the calls; its stake and its collateral answer for them."""
    signer: Annotated[Address, "address"]
    """Signs deals and call receipts."""
    nonce: Annotated[Count, "uint256"]
    """Makes otherwise equal offers different pools."""
    max_price: Annotated[Wei, "uint256"]
    """P: the most that one call costs."""
    check_price: Annotated[Wei, "uint256"]
    """By which a verifier is paid for each call that it checks."""
    most: Annotated[Wei, "uint256"]
    """M: the most that the calls of a batch cost."""
    risk_each: Annotated[Wei, "uint256"]
    """The most that a deal puts at risk beyond the prices."""
    risk_all: Annotated[Wei, "uint256"]
    """The most that all open channels put at risk."""
    check_rate: Annotated[Rate, "uint64"]
    """α: the probability with which each call is checked."""
    verifiers: Annotated[int, "uint8"]
    """n: into how many shares the checked calls of a batch are divided."""
    exec: Annotated[int, "uint32"]
    """Blocks that the execution of one share may take."""
    epoch: Annotated[int, "uint32"]
    """Blocks from the begin of a batch to its commit at most."""
    tail: Annotated[int, "uint8"]
    """Calls that a voucher may pay without acknowledging them."""
    programs: Annotated[Hash, "bytes32"]
    """The root of the programs that are executed, with their most repeats."""


@dataclass(frozen=True, slots=True)
class Deal(Struct):
    """The terms of one channel, signed by the offer's signer. Its EIP-712 hash is the channel."""

    pool: Annotated[Hash, "bytes32"]
    """The hash of the offer."""
    client: Annotated[Address, "address"]
    """Opens the channel, and gets back what is not spent."""
    payer: Annotated[Address, "address"]
    """Signs vouchers."""
    nonce: Annotated[Count, "uint256"]
    """Makes otherwise equal deals different channels."""
    most: Annotated[Wei, "uint256"]
    """The most that the channel's calls cost in one batch."""
    value_at_risk: Annotated[Wei, "uint256"]
    """X: what wrong results could gain in one batch beyond their prices."""
    open_by: Annotated[Block, "uint64"]
    """The last block in which it is opened."""


@dataclass(frozen=True, slots=True)
class Voucher(Struct):
    """What the payer owes, signed by it: `amount` in all for the first `count` calls.

    It acknowledges the results of the first `acked` of them: the tree over their leaves has this root.
    """

    channel: Annotated[Hash, "bytes32"]
    """The hash of the deal."""
    count: Annotated[int, "uint64"]
    """Calls in all."""
    amount: Annotated[Wei, "uint256"]
    """Wei in all."""
    acked: Annotated[int, "uint64"]
    """Calls whose results it acknowledges."""
    root: Annotated[Hash, "bytes32"]
    """The root of the tree over these calls."""


@dataclass(frozen=True, slots=True)
class CallReceipt(Struct):
    """The result of one call, signed by the offer's signer: batch `number` of the pool owes it."""

    channel: Annotated[Hash, "bytes32"]
    """The hash of the deal."""
    index: Annotated[int, "uint64"]
    """Which call of the channel, from zero."""
    order: Annotated[Hash, "bytes32"]
    """The hash of the call's order."""
    outputs_root: Annotated[Hash, "bytes32"]
    """What the call gave."""
    number: Annotated[int, "uint32"]
    """Of the batch that owes it."""
