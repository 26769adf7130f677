"""What an operator shows over HTTP to those that sign for it: shares of its batches to whoever is drawn to check them,
a channel's calls to its payer.

`GET /v1/batches/{batch}/shares/{share}?signature=…` is answered with a `ShownShare`, where the signature is a
candidate's, or its signer's, of the `ShareRequest`. Inputs, states and weights come by `GET /v1/blobs/{root}`. Outputs
do not: a verifier that knew them could answer without executing anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

from eigentensor import merkle
from eigentensor.channel.deals import Struct
from eigentensor.channel.lines import Line, LineProof
from eigentensor.channel.signed import index_of, task_of
from eigentensor.errors import TaskError
from eigentensor.task import typed
from eigentensor.task.order import Domain, Order
from eigentensor.wire import INTEGER, Count, Hash, Object, Size, read


@dataclass(frozen=True, slots=True)
class ShareRequest(Struct):
    """That a candidate wants to see a share."""

    batch: Annotated[Hash, "bytes32"]
    """The batch."""
    share: Annotated[Count, "uint256"]
    """Which of its shares."""

    def message(self, domain: Domain) -> bytes:
        """What the candidate signs."""
        return domain.message(typed.struct_hash(self))


@dataclass(frozen=True, slots=True)
class CallsRequest(Struct):
    """That a payer wants to see the calls of its channel from an index on: `GET /v1/channels/{channel}/calls?first=…
    &signature=…` is answered with `PaidCalls`."""

    channel: Annotated[Hash, "bytes32"]
    """The channel."""
    first: Annotated[Count, "uint256"]
    """The index of the first call."""

    def message(self, domain: Domain) -> bytes:
        """What the payer signs."""
        return domain.message(typed.struct_hash(self))


@dataclass(frozen=True, slots=True)
class ShownCall(Object):
    """A call of a share: what it was to compute, and where it stands."""

    at: Size
    """Which of the shown lines it stands in."""
    index: Size
    """Within its channel."""
    order: Order
    """What it was to compute."""
    variables: Mapping[str, Annotated[int, INTEGER]]
    """The values of the program's variables, whose root the order has."""
    result: Hash
    """sha256 of its outputs root."""
    path: tuple[Hash, ...]
    """From its leaf to the root of the line."""

    def leads_to(self, line: Line, domain: Domain) -> bool:
        """Whether the call is among those of the line, at the place that its order names."""
        leaf = merkle.call_hash(line.channel, self.index, task_of(domain, self.order), self.result)
        is_inside = line.first <= self.index < line.first + line.count
        is_named = self.order.operators == line.channel and index_of(self.order) == self.index
        is_bound = merkle.variables_root(self.variables) == self.order.variables
        return is_inside and is_named and is_bound and merkle.climb(leaf, self.index, self.path) == line.root


@dataclass(frozen=True, slots=True)
class ShownShare(Object, schema="eigentensor.share/1"):
    """`eigentensor.share/1`: the calls of a share in the order in which they are drawn, and the lines they stand in."""

    batch: Hash
    """The batch."""
    share: Size
    """Which of its shares."""
    lines: tuple[LineProof, ...]
    """The lines, in the order of their positions."""
    calls: tuple[ShownCall, ...]
    """The calls."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads its members. Raises TaskError for anything else."""
        try:
            if values["schema"] != cls.SCHEMA:
                raise ValueError(f"it is of {values['schema']!r}")
            return cls(**read(cls, values))
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise TaskError(f"the share is malformed: {error}", fix="Demand its calls on chain.") from None

    def leads_to(self, root: bytes, domain: Domain) -> bool:
        """Whether all calls stand in the batch that has this root over its lines."""
        lines = all(proof.leads_to(root) for proof in self.lines)
        return lines and all(
            call.at < len(self.lines) and call.leads_to(self.lines[call.at].line, domain) for call in self.calls
        )
