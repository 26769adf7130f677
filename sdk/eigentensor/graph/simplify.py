"""The same bits with fewer nodes: what a careful author would not have written.

Equal nodes are one object and only what results depend on is looked at, so common sub-expressions and dead code are
gone before any rule. A rule gives a node with the same value for every element, whatever its operands hold: NaN, zeros
of both signs, infinities. A float32 sum rounds once per step where its term is a product, so the one thing that a rule
may not do by itself, make a product of such a term or unmake one, is refused for it here.
"""

from collections.abc import Iterable
from dataclasses import replace

from eigentensor.graph import index_rules, move_rules, value_rules  # noqa: F401 - they register themselves
from eigentensor.graph.node import Form, Graph, Node, is_bounded, is_single, remade, walk
from eigentensor.graph.rules import RULES
from eigentensor.graph.schedule import TERM_MOVES
from eigentensor.program.ops import DType, Op


def simplified(graph: Graph) -> Graph:
    """The graph with all rules applied until none applies."""
    roots = graph.roots
    while True:
        terms = _terms(roots)
        changed = _pass(roots, terms)
        if changed == roots:
            break
        roots = changed
    outputs = dict(zip(graph.outputs, roots, strict=False))
    return replace(graph, outputs=outputs, states=dict(zip(graph.states, roots[len(outputs) :], strict=True)))


def _pass(roots: tuple[Node, ...], terms: set[Node]) -> tuple[Node, ...]:
    done: dict[Node, Node] = {}
    for current in walk(*roots):
        rebuilt = remade(current, tuple(done[s] for s in current.src))
        done[current] = _simpler(rebuilt, current in terms)
    return tuple(done[root] for root in roots)


def _simpler(n: Node, is_term: bool) -> Node:
    for apply in () if is_bounded(n) else RULES.get(n.op, ()):
        changed = apply(n)
        if changed is not None and not (is_term and _is_another_term(n, changed)):
            return changed
    return n


def _terms(roots: Iterable[Node]) -> set[Node]:
    """What float32 sums add up: their operands, and what these only move."""
    terms: set[Node] = set()
    for n in walk(*roots):
        if n.op is Op.REDUCE_ADD and n.dtype is DType.FLOAT32:
            term = n.src[0]
            terms.add(term)
            while is_moved(term):
                term = term.src[0]
                terms.add(term)
    return terms


def is_moved(n: Node) -> bool:
    """Whether a sum of this node is one of what it moves."""
    return n.op in TERM_MOVES or is_single(n)


def _head(n: Node) -> Node:
    while is_moved(n):
        n = n.src[0]
    return n


def _is_another_term(n: Node, changed: Node) -> bool:
    old, new = _head(n), _head(changed)
    products = (Op.MUL, Form.FUNCTION)
    return new is not old and (new.op in products or (old.op in products and new.op is Op.CONST))
