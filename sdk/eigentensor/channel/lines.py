"""Where a call stands: in its channel's tree, in a line, in a batch; what a commit brings, and what shows a call.

Deals.sol and Lines.sol by the same names; a `Place` of Deals.sol is a `CallPlace` here. `to_json` writes a value,
`from_json` reads it and raises TaskError for anything else.
"""

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Self

from eigentensor import merkle
from eigentensor.channel.deals import CallReceipt, Deal, Struct, Voucher
from eigentensor.channel.signed import channel_of, index_of, task_of
from eigentensor.economics import shares
from eigentensor.task.order import Domain, Order
from eigentensor.wire import Count, Data, Hash, Wei


@dataclass(frozen=True, slots=True)
class Tail(Struct):
    """A call that a voucher pays without acknowledging it."""

    order: Annotated[Hash, "bytes32"]
    """The hash of the call's order."""
    result: Annotated[Hash, "bytes32"]
    """sha256 of its outputs root."""

    @classmethod
    def of(cls, receipt: CallReceipt) -> Self:
        """The call of a receipt."""
        return cls(receipt.order, merkle.result_of(receipt.outputs_root))


@dataclass(frozen=True, slots=True)
class Sheet(Struct):
    """What a commit brings of one channel: the voucher with its signature; where calls are unacknowledged, also the
    frontier of the acknowledged ones, and these calls."""

    deal: Deal
    """The channel's terms."""
    count: Annotated[int, "uint64"]
    """Calls in all."""
    amount: Annotated[Wei, "uint256"]
    """Wei in all."""
    acked: Annotated[int, "uint64"]
    """Calls whose results the voucher acknowledges."""
    root: Annotated[Hash, "bytes32"]
    """The root of the tree over these calls."""
    signature: Data
    """The payer's, of the voucher."""
    frontier: tuple[Hash, ...] = ()
    """Of the acknowledged calls; empty where all are acknowledged."""
    tail: tuple[Tail, ...] = ()
    """The calls that are not."""

    @classmethod
    def of(
        cls, deal: Deal, voucher: Voucher, signature: bytes, frontier: merkle.Frontier, tail: Sequence[Tail] = ()
    ) -> Self:
        """The sheet of a channel's voucher. `frontier` is that of the calls that it acknowledges."""
        nodes = frontier.nodes if tail else ()
        owed = (voucher.count, voucher.amount, voucher.acked, voucher.root)
        return cls(deal, *owed, signature, nodes, tuple(tail))

    def leaves(self, channel: bytes) -> list[bytes]:
        """The leaves of the calls of its tail."""
        return [merkle.call_hash(channel, self.acked + n, t.order, t.result) for n, t in enumerate(self.tail)]

    def line(self, domain: Domain, first: int, paid: int, offset: int) -> "Line":
        """The line that a commit makes of it, after `first` calls and `paid` wei of the channel, and `offset` calls of
        the batch. Raises ValueError where the frontier is none of the acknowledged calls."""
        channel, root = channel_of(domain, self.deal), self.root
        if self.tail:
            frontier = merkle.Frontier(self.acked, self.frontier)
            for leaf in self.leaves(channel):
                frontier.append(leaf)
            root = frontier.root()
        return Line(channel, root, first, self.count - first, offset, self.amount - paid)


@dataclass(frozen=True, slots=True)
class Line(Struct):
    """A channel in a batch: calls `first` to `first + count` of it are numbers `offset` to `offset + count` there."""

    channel: Annotated[Hash, "bytes32"]
    """The hash of the deal."""
    root: Annotated[Hash, "bytes32"]
    """Over all leaves of the channel so far."""
    first: Annotated[int, "uint64"]
    """Calls of the channel that earlier batches have."""
    count: Annotated[int, "uint64"]
    """Calls of the channel in this batch."""
    offset: Annotated[int, "uint64"]
    """Calls of the batch before them."""
    amount: Annotated[Wei, "uint128"]
    """What they cost."""

    def hash(self) -> bytes:
        """Its leaf in the tree over the lines of its batch."""
        return merkle.line_hash(self.channel, self.root, self.first, self.count, self.offset, self.amount)

    def number_of(self, index: int) -> int:
        """The number in the batch of a call of the channel."""
        return index - self.first + self.offset

    def index_of(self, number: int) -> int | None:
        """The index in the channel of a call of the batch; None: it is another line's."""
        inside = 0 <= number - self.offset < self.count
        return number - self.offset + self.first if inside else None


@dataclass(frozen=True, slots=True)
class LineProof(Struct):
    """A line's way to the root of its batch."""

    line: Line
    """The line."""
    position: Annotated[int, "uint32"]
    """Among the lines."""
    path: tuple[Hash, ...]
    """Its siblings, upwards."""

    def leads_to(self, root: bytes) -> bool:
        """Whether the line stands in the batch that has this root over its lines."""
        return merkle.climb(self.line.hash(), self.position, self.path) == root


@dataclass(frozen=True, slots=True)
class CallProof(Struct):
    """A leaf of a channel, under its line."""

    index: Annotated[int, "uint64"]
    """Within the channel."""
    order: Annotated[Hash, "bytes32"]
    """The hash of the call's order."""
    outputs_root: Annotated[Hash, "bytes32"]
    """What the call gave."""
    path: tuple[Hash, ...]
    """Its siblings, upwards."""

    def leads_to(self, line: Line) -> bool:
        """Whether the call is among those of the line."""
        leaf = merkle.call_hash(line.channel, self.index, self.order, merkle.result_of(self.outputs_root))
        is_inside = line.first <= self.index < line.first + line.count
        return is_inside and merkle.climb(leaf, self.index, self.path) == line.root


@dataclass(frozen=True, slots=True)
class CallPlace(Struct):
    """A call of a batch, with all that leads to it."""

    line: LineProof
    """Its line."""
    call: CallProof
    """Its leaf."""
    order: Order
    """What it was to compute."""

    def leads_to(self, root: bytes, domain: Domain) -> bool:
        """Whether the call with this order stands in the batch that has this root over its lines."""
        is_there = self.line.leads_to(root) and self.call.leads_to(self.line.line)
        return is_there and task_of(domain, self.order) == self.call.order

    def is_named(self) -> bool:
        """Whether the order names its place: the channel, and its index there."""
        return self.order.operators == self.line.line.channel and index_of(self.order) == self.call.index


@dataclass(frozen=True, slots=True)
class Part(Struct):
    """A part of a share: its calls in the order in which they are drawn."""

    share: Annotated[Count, "uint256"]
    """Which share."""
    number: Annotated[Count, "uint256"]
    """Of the part within the share."""
    lines: tuple[LineProof, ...]
    """That the calls stand in."""
    at: tuple[int, ...]
    """The line of each call."""
    calls: tuple[CallProof, ...]
    """The calls."""
    path: tuple[Hash, ...]
    """From the part to the root of the share."""


@dataclass(frozen=True, slots=True)
class Entry(Struct):
    """An entry of an offer's programs, with its way to their root."""

    position: Annotated[int, "uint32"]
    """Among the programs, by their roots."""
    program: Annotated[Hash, "bytes32"]
    """The program root."""
    repeat: Annotated[int, "uint32"]
    """The most repeats."""
    path: tuple[Hash, ...]
    """Its siblings, upwards."""


def lines_root(lines: Sequence[Line]) -> bytes:
    """What an operator commits to: the root over the lines of a batch."""
    return merkle.tree_root([line.hash() for line in lines])


def open_line(lines: Sequence[Line], position: int) -> LineProof:
    """A line of a batch, and its way to the batch's root."""
    return LineProof(lines[position], position, merkle.path([line.hash() for line in lines], position))


def open_call(line: Line, leaves: Sequence[bytes], receipt: CallReceipt) -> CallProof:
    """The call of a receipt, under its line. `leaves` are those of the channel's life, the line's at least."""
    path = merkle.path(leaves[: line.first + line.count], receipt.index)
    return CallProof(receipt.index, receipt.order, receipt.outputs_root, path)


def open_program(programs: Mapping[bytes, int], program: bytes) -> Entry:
    """An entry of an offer's programs, which are given with their most repeats. Raises KeyError if it is none."""
    repeat, names = programs[program], sorted(programs)
    hashes = [merkle.entry_hash(name, programs[name]) for name in names]
    position = names.index(program)
    return Entry(position, program, repeat, merkle.path(hashes, position))


def open_outside(programs: Mapping[bytes, int], order: Order) -> tuple[Entry, ...] | None:
    """What shows that an offer with these programs does not allow an order: the entry of its program, which it repeats
    too often, or those between which that would stand. None: the offer allows it."""
    if (most := programs.get(order.program)) is not None:
        return (open_program(programs, order.program),) if order.repeat > most else None
    names = sorted(programs)
    place = bisect(names, order.program)
    return tuple(open_program(programs, name) for name in names[max(0, place - 1) : place + 1])


def share_root(outputs_roots: Sequence[bytes]) -> bytes:
    """The root of a share: of the tree over the outputs roots of its calls, in the order in which they are drawn."""
    return merkle.tree_root(outputs_roots)


def open_part(share: int, number: int, calls: Sequence[tuple[LineProof, CallProof]]) -> Part:
    """A part of a share, out of all calls of the share in the order in which they are drawn."""
    roots = [call.outputs_root for _, call in calls]
    subtrees = [_full_root(roots[start : start + shares.PART]) for start in range(0, len(roots), shares.PART)]
    # Beside full subtrees there is one of padding.
    subtrees += [_full_root([])] * (-len(subtrees) % (1 << (len(subtrees) - 1).bit_length()))
    some = calls[number * shares.PART : (number + 1) * shares.PART]
    lines = sorted({proof.position: proof for proof, _ in some}.values(), key=lambda proof: proof.position)
    places = {proof.position: place for place, proof in enumerate(lines)}
    at = tuple(places[proof.position] for proof, _ in some)
    return Part(share, number, tuple(lines), at, tuple(call for _, call in some), merkle.path(subtrees, number))


def _full_root(roots: Sequence[bytes]) -> bytes:
    """The root of a part's subtree, which has as many levels as if it were full."""
    return merkle.tree_root([*roots, *[merkle.NOTHING] * (shares.PART - len(roots))])
