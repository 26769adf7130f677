"""All paths to the same mathematics: graphs that rules lead to, each with the rules that led there."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

from eigentensor.graph.node import Form, Graph, Node, rewrite, walk
from eigentensor.planner.normal import digest, normal_form
from eigentensor.planner.rewrites import GROUPING, RULES, Rule
from eigentensor.planner.storage import STORAGE_RULES, rounded_weights

ALL_RULES: dict[str, Rule] = {**RULES, **STORAGE_RULES}


@dataclass(frozen=True, eq=False)
class Path:
    """A graph that computes what the given one does; `rules` led to it, none for the given one itself.

    `key` is equal for paths that differ only by the order of sums and products, unless a rule chose that order.
    """

    graph: Graph
    rules: tuple[str, ...]
    key: bytes
    grouped: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, graph: Graph) -> "Path":
        """The path of no step, where a search begins."""
        return cls(graph, (), _key(graph.roots, ()))


def neighbours(path: Path) -> Iterator[Path]:
    """The paths that one rule leads to at one tensor, rule after rule in turn, each at the largest tensor first.

    Some of them may be the same.
    """
    roots, graph = path.graph.roots, path.graph
    for name, old, new in _moves(roots):
        changed = _replaced(roots, old, new)
        if changed == roots or (data := rounded_weights(changed, graph.data)) is None:
            continue
        outputs = dict(zip(graph.outputs, changed, strict=False))
        states = dict(zip(graph.states, changed[len(outputs) :], strict=True))
        grouped = (*path.grouped, digest(new)) if name in GROUPING else path.grouped
        yield Path(Graph(outputs, states, data), (*path.rules, name), _key(changed, grouped), grouped)


def _moves(roots: tuple[Node, ...]) -> Iterator[tuple[str, Node, Node]]:
    """What every rule makes of every tensor."""
    nodes = sorted(walk(*roots), key=lambda n: -max([n.elements, *(s.elements for s in n.src)]))

    def of(rule: Rule) -> Iterator[tuple[Node, Node]]:
        return ((old, new) for old in nodes for new in rule(old))

    left = deque((name, of(rule)) for name, rule in ALL_RULES.items())
    while left:
        name, made = left.popleft()
        if (move := next(made, None)) is not None:
            yield name, *move
            left.append((name, made))


def paths(graph: Graph, most: int | None = None) -> Iterator[Path]:
    """All distinct paths from a graph, itself first, then by the number of rules applied; at most `most` of them.

    Lazy: there may be very many.
    """
    first = Path.of(graph)
    seen, waiting, count = {first.key}, deque([first]), 0
    while waiting and (most is None or count < most):
        current = waiting.popleft()
        yield current
        count += 1
        for path in neighbours(current) if most is None or count + len(waiting) < most else ():
            if path.key not in seen:
                seen.add(path.key)
                waiting.append(path)


def _replaced(roots: tuple[Node, ...], old: Node, new: Node) -> tuple[Node, ...]:
    """The roots with `new` for `old`; what is stored is not stored twice."""

    def change(n: Node) -> Node:
        n = new if n is old else n
        return n.src[0] if n.op is Form.CONTIGUOUS and n.src[0].op is Form.CONTIGUOUS else n

    return rewrite(roots, change)


def _key(roots: tuple[Node, ...], grouped: tuple[bytes, ...]) -> bytes:
    return blake2b(b"".join([*map(digest, normal_form(roots)), *sorted(grouped)]), digest_size=16).digest()
