"""What a challenger compares: trees that the executor opened, and tensors that it gave out, with its own."""

from collections.abc import Mapping

from eigentensor.dispute.moves import Descent, PickNode
from eigentensor.merkle import LEAF
from eigentensor.program.binding import Results
from eigentensor.program.model import Kind, Program
from eigentensor.tracing import Flat, Hashes, Opened


def first_other(opened: Opened, own: Hashes) -> int | None:
    """The number within its level of the first opened node that is another one than one's own."""
    mine = own.below(opened.bottom + opened.levels, opened.index, opened.levels)
    pairs = enumerate(zip(opened.nodes, mine, strict=True), opened.first)
    return next((number for number, (claimed, node) in pairs if claimed != node), None)


def pick(opened: Opened, number: int) -> PickNode:
    """One of the opened nodes, by its number within its level."""
    return PickNode(Descent(number, opened.node(opened.bottom, number), opened.path(number)))


def explained(opened: Opened, number: int, own: Hashes, roots: Mapping[int, bytes]) -> Opened | None:
    """All leaves below one of the opened nodes of a trace, if they are one's own but for the calls whose tensor roots
    are given: as good as opened, since they hash to the node. None: something else is claimed there."""
    leaves = list(own.below(opened.bottom, number, opened.bottom))
    first = number << opened.bottom
    for call in roots.keys() & range(first, first + len(leaves)):
        leaves[call - first] = roots[call]
    below = Opened(0, opened.bottom, number, tuple(leaves))
    return below if below.root == opened.node(opened.bottom, number) else None


def way_to(claimed: Hashes, own: Hashes) -> Descent:
    """To the first leaf that differs."""
    leaf = next(n for n, (a, b) in enumerate(zip(claimed.leaves, own.leaves, strict=True)) if a != b)
    return Descent(leaf, claimed.leaves[leaf], claimed.opening(leaf).path)


def first_element(claimed: Flat, own: Flat, leaf: int) -> int:
    """The first element of a leaf that is stored otherwise."""
    size = own.dtype.size
    pairs = enumerate(zip(claimed.leaf(leaf), own.leaf(leaf), strict=True), leaf * LEAF)
    return next(place for place, (a, b) in pairs if a != b) // size


def public_tensors(program: Program, repeat: int, results: Results) -> dict[int, Flat]:
    """The tensors of `Knowledge.claimed` that follow from results which an executor gave out, by executed call."""
    first = (repeat - 1) * len(program.calls) - len(program.buffers)
    by_kind = {Kind.OUTPUT: results.outputs, Kind.STATE: results.states}
    return {
        first + r.buffer: Flat(program.parameter(r.buffer).dtype, by_kind[r.kind][r.name].reshape(-1))
        for r in program.results
        if r.name in by_kind[r.kind]
    }
