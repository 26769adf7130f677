"""Repeated parts of a graph, found by graph equality: each is planned once, and what was chosen goes everywhere."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigentensor.graph.node import Form, Graph, Node, leaf, remade, rewrite, walk
from eigentensor.planner.storage import HALVES, half_name, rounded_weights
from eigentensor.program.ops import REDUCTIONS, Op

NAMED = frozenset({Form.INPUT, Form.WEIGHT, Form.STATE})
LEAVES = NAMED | {Form.VARIABLE, Form.COUNTER, Form.DATA, Op.CONST}


@dataclass(frozen=True, eq=False)
class Occurrence:
    """Where a block stands: what its leaves are here, and the tensors that it gives, by name."""

    leaves: Mapping[str, Node]
    outputs: Mapping[str, Node]


@dataclass(frozen=True, eq=False)
class Block:
    """A part of a graph as a graph of its own, whose leaves are named by number; and all places where it stands.

    Two parts are one block if they are equal but for the names of what goes in. Its data are those of the first place.
    """

    graph: Graph
    places: list[Occurrence] = field(default_factory=list)


def blocks(graph: Graph) -> list[Block]:
    """The parts of a graph, in order: repeated ones once. Together they are the graph."""
    order = _computed(graph.roots)
    parts: dict[tuple[tuple[str, int], ...], Block] = {}
    last = _last_use(order, graph.roots)
    for start, end in _cuts(order, last):
        template, place = _part(order, last, start, end, graph)
        key = tuple((name, id(n)) for name, n in template.outputs.items())  # equal nodes are one
        parts.setdefault(key, Block(template)).places.append(place)
    return [_with_common_data(block, graph) for block in parts.values()]


def _with_common_data(block: Block, graph: Graph) -> Block:
    """The block with the data of weights that the author gave for all its places."""
    data = {n: a for n, a in block.graph.data.items() if all(p.leaves[n].arg in graph.data for p in block.places)}
    return replace(block, graph=replace(block.graph, data=data))


def collapsed(graph: Graph, parts: Sequence[Block]) -> dict[Node, Node]:
    """Every computed tensor as it would be if each block stood once: what comes out of it goes to all that follow.

    What goes into a block then costs as much to compute with many repetitions as with one, and is like it.
    """
    first = {
        of: block.places[0].outputs[name]
        for block in parts
        for place in block.places[1:]
        for name, of in place.outputs.items()
    }
    done: dict[Node, Node] = {}
    for n in walk(*graph.roots):
        stand_in = done.get(first[n]) if n in first else None
        done[n] = stand_in or remade(n, tuple(done[s] for s in n.src))
    return done


def assembled(graph: Graph, chosen: Sequence[tuple[Block, Graph]]) -> Graph:
    """The graph with another graph in all places of each block; weights in halves are rounded from its own data."""
    new: dict[Node, tuple[Node, Mapping[str, Node]]] = {}
    for block, variant in chosen:
        for place in block.places:
            new |= {of: (variant.outputs[name], place.leaves) for name, of in place.outputs.items()}
    done: dict[Node, Node] = {}
    for of in _computed(graph.roots):  # what a part needs stands before it
        if of in new:
            done[of] = _placed(*new[of], done)
    roots = tuple(done.get(root, root) for root in graph.roots)
    outputs = dict(zip(graph.outputs, roots, strict=False))
    data = rounded_weights(roots, graph.data)
    assert data is not None  # of the weights of blocks that are rounded, all places have data
    return Graph(outputs, dict(zip(graph.states, roots[len(outputs) :], strict=True)), data)


def _placed(variant: Node, leaves: Mapping[str, Node], done: Mapping[Node, Node]) -> Node:
    """A tensor of a block at one of its places."""

    def change(n: Node) -> Node:
        if n.op not in NAMED:
            return n
        for half in HALVES:
            whole = n.arg.removesuffix(half_name("", half))
            if n.dtype is half and whole != n.arg:
                return leaf(Form.WEIGHT, half_name(leaves[whole].arg, half), half, n.shape)
        return done.get(leaves[n.arg], leaves[n.arg])

    return rewrite((variant,), change)[0]


def _computed(roots: Sequence[Node]) -> list[Node]:
    """What is computed from something named, operands first. All else, as masks are, is a part of all that use it."""
    varying: dict[Node, None] = {}
    for n in walk(*roots):
        if n.op not in LEAVES and any(s in varying or s.op in NAMED for s in n.src):
            varying[n] = None
    return list(varying)


def _last_use(order: Sequence[Node], roots: Sequence[Node]) -> dict[Node, int]:
    """The place in the order of the last node that uses each; roots are used after all."""
    last = dict.fromkeys(order, -1)
    last |= {s: number for number, n in enumerate(order) for s in n.src if s in last}
    return last | {root: len(order) for root in roots if root in last}


def _cuts(order: Sequence[Node], last: Mapping[Node, int]) -> list[tuple[int, int]]:
    """Where parts begin and end: the repetition that covers most, then those before and after it."""
    kinds: dict[tuple[Any, ...], int] = {}
    own = set(order)
    codes = np.array([kinds.setdefault(_kind(n, own), len(kinds)) for n in order])
    crossing = np.zeros(len(order) + 1, np.int64)  # how many tensors are needed beyond each place
    for number, n in enumerate(order):
        crossing[number + 1 : last[n] + 1] += 1
    sums = np.cumsum([0, *(n.op in REDUCTIONS for n in order)])

    def within(start: int, end: int, least: int = 0) -> list[tuple[int, int]]:
        repetition = _repetition(codes[start:end], crossing[start : end + 1], sums[start : end + 1])
        if repetition is None or repetition[1] * repetition[2] < least:
            return [(start, end)] if end > start else []
        first, period, count = start + repetition[0], *repetition[1:]
        periods = [(first + k * period, first + (k + 1) * period) for k in range(count)]
        # five layers of one kind and one of another: what repeats most of a period is a block of its own
        middle = [part for a, b in periods for part in within(a, b, period // 2)]
        return [*within(start, first), *middle, *within(first + count * period, end)]

    return within(0, len(order))


def _kind(n: Node, own: Set[Node]) -> tuple[Any, ...]:
    """What equal parts have equal, node by node."""
    operands = tuple((s.dtype, s.shape, s.op is Form.WEIGHT, None if s in own or s.op in NAMED else s) for s in n.src)
    return n.op, n.dtype, n.shape, n.arg, operands


def _repetition(
    codes: NDArray[np.int64], crossing: NDArray[np.int64], sums: NDArray[np.int64]
) -> tuple[int, int, int] | None:
    """(start, period, count) of what covers most, begun where fewest tensors cross; it has a reduction, or is none."""
    best: tuple[int, int, int] | None = None
    for period in range(2, len(codes) // 2 + 1):
        if best is not None and best[1] * best[2] >= len(codes):
            break
        ends = np.flatnonzero(np.concatenate([codes[:-period] != codes[period:], [True]]))
        starts = np.concatenate([[0], ends[:-1] + 1])
        for run in np.flatnonzero(ends - starts >= period):
            start, length = int(starts[run]), int(ends[run] - starts[run]) + period
            is_best = best is None or length > best[1] * (best[2] + 1)
            if is_best and sums[start + period] > sums[start]:
                best = _begun(start, period, length, crossing)
    return best


def _begun(start: int, period: int, length: int, crossing: NDArray[np.int64]) -> tuple[int, int, int]:
    """The same run, begun within its first period where fewest tensors cross, if something is repeated still."""
    phases = range(period if length >= 3 * period else length - 2 * period + 1)
    phase = min(phases, key=lambda p: (crossing[start + p], -((length - p) // period), p))
    return start + phase, period, (length - phase) // period


def _part(
    order: Sequence[Node], last: Mapping[Node, int], start: int, end: int, graph: Graph
) -> tuple[Graph, Occurrence]:
    """The nodes from start to end as a graph of their own, and where they stand."""
    inside: dict[Node, Node] = {}
    leaves: dict[Node, Node] = {}
    names: dict[str, Node] = {}
    data: dict[str, NDArray[Any]] = {}

    def outer(n: Node) -> Node:
        known = inside.get(n) or leaves.get(n)
        if known is not None or (n not in last and n.op not in NAMED):
            return known or n
        name = str(len(names))
        is_weight = n.op is Form.WEIGHT
        leaves[n], names[name] = leaf(Form.WEIGHT if is_weight else Form.INPUT, name, n.dtype, n.shape), n
        if is_weight and n.arg in graph.data:
            data[name] = graph.data[n.arg]
        return leaves[n]

    for n in order[start:end]:
        inside[n] = remade(n, tuple(map(outer, n.src)))
    needed = [n for n in order[start:end] if last[n] >= end]
    outputs = {str(number): n for number, n in enumerate(needed)}
    return Graph({name: inside[n] for name, n in outputs.items()}, data=data), Occurrence(names, outputs)
