"""What an operator gives a drawn verifier of its share: each call without its result, of which only a hash is there.

`GET /v1/batches/{batch}/shares/{share}?operator=0x…&signature=0x…` answers a `Share` to whoever signs for a candidate
of it; `GET /v1/blobs/{root}` what its orders name. The calls come in the order in which they are drawn, so that
their numbers, and with the batch's lines their places, are known: what a call brings is its order and its path.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

from eigentensor import merkle
from eigentensor.channel.deals import Struct
from eigentensor.channel.life import BatchLife
from eigentensor.channel.lines import CallPlace, CallProof, open_line
from eigentensor.channel.signed import index_of, task_of
from eigentensor.errors import TaskError, WrongReceipt
from eigentensor.task import typed
from eigentensor.task.order import Domain, Order
from eigentensor.wire import Address, Hash, Object, Size, read


@dataclass(frozen=True, slots=True)
class ShareRequest(Struct):
    """Who asks for which share; the operator's signer signs it."""

    batch: Annotated[Hash, "bytes32"]
    """The batch."""
    share: Annotated[int, "uint64"]
    """Which share of it."""
    operator: Annotated[Address, "address"]
    """A candidate of the share."""

    def digest(self, domain: Domain) -> bytes:
        """What is signed, in the domain of the market for paid calls."""
        return domain.hash_of(typed.struct_hash(self))


@dataclass(frozen=True, slots=True)
class SharedCall(Struct):
    """A call of a share, as its verifier sees it before it answers."""

    order: Order
    """What was to be computed."""
    result: Hash
    """sha256 of the outputs root."""
    path: tuple[Hash, ...]
    """The siblings of its leaf under its line, upwards."""
    variables: Mapping[str, int] = field(default_factory=dict)
    """The values that the order's variables root binds."""


@dataclass(frozen=True, slots=True)
class Share(Object, schema="eigentensor.share/1"):
    """`eigentensor.share/1`: the calls that one verifier is drawn for."""

    batch: Hash
    """The batch."""
    share: Size
    """Which share of it."""
    calls: tuple[SharedCall, ...]
    """In the order in which they are drawn."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads its members. Raises TaskError for anything else."""
        try:
            if values["schema"] != cls.SCHEMA:
                raise ValueError(f"it is of {values['schema']!r}")
            return cls(**read(cls, values))
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise TaskError(
                f"the share is malformed: {error}", fix="Ask again, or demand its calls on chain."
            ) from None


@dataclass(frozen=True, slots=True)
class Placed:
    """A call of a share with its number in the batch, its hash as a task, and its index in its channel."""

    number: int
    task: bytes
    index: int
    line: int
    """The position of its line."""
    shared: SharedCall

    def place(self, life: BatchLife, outputs_root: bytes) -> CallPlace:
        """All that leads to the call, once its result is known."""
        proof = CallProof(self.index, self.task, outputs_root, self.shared.path)
        return CallPlace(open_line(life.lines, self.line), proof, self.shared.order)


def placed(share: Share, life: BatchLife, domain: Domain) -> list[Placed]:
    """The calls of a share, each of which leads to the root of the batch. Raises WrongReceipt for the first that does
    not, and for another number of calls."""
    numbers = life.numbers(share.share)
    if share.batch != life.batch or len(share.calls) != len(numbers):
        raise WrongReceipt("calls", f"the share has {len(numbers)} calls, {len(share.calls)} are shown")
    return list(_placed(share.calls, numbers, life, domain))


def _placed(calls: Sequence[SharedCall], numbers: Sequence[int], life: BatchLife, domain: Domain) -> Iterator[Placed]:
    for number, shared in zip(numbers, calls, strict=True):
        position, task = life.line_of(number), task_of(domain, shared.order)
        line = life.lines[position]
        index = number - line.offset + line.first
        leaf = merkle.call_hash(line.channel, index, task, shared.result)
        if merkle.climb(leaf, index, shared.path) != line.root:
            raise WrongReceipt("path", f"call {number} does not lead to the batch's root")
        if shared.order.variables not in (bytes(32), merkle.variables_root(shared.variables)):
            raise WrongReceipt("variables", f"those of call {number} are not its order's")
        yield Placed(number, task, index, position, shared)


def is_named(call: Placed, life: BatchLife) -> bool:
    """Whether the order of a call names its place, as every order has to."""
    order = call.shared.order
    return order.operators == life.lines[call.line].channel and index_of(order) == call.index
