"""Names of graphs: equal for equal graphs, whatever the order in which their sums and products are written."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from weakref import WeakKeyDictionary

from eigentensor.graph.node import Form, Node, node, walk
from eigentensor.program.ops import Op

COMMUTATIVE = frozenset({Op.ADD, Op.MUL, Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR, Op.CMPNE, Op.CMPEQ})
ASSOCIATIVE = frozenset({Op.ADD, Op.MUL, Op.MAX, Op.MIN, Op.AND, Op.OR})
IDEMPOTENT = frozenset({Op.MAX, Op.MIN, Op.AND, Op.OR})
NAMED = frozenset({Form.INPUT, Form.WEIGHT, Form.STATE})

_with_names: "WeakKeyDictionary[Node, bytes]" = WeakKeyDictionary()
_without_names: "WeakKeyDictionary[Node, bytes]" = WeakKeyDictionary()


def digest(of: Node, *, names: bool = True) -> bytes:
    """16 bytes that name a tensor by how it is made; without names, inputs, weights and states of one kind are one."""
    known = _with_names if names else _without_names
    if of not in known:
        for n in walk(of):
            if n not in known:
                arg = None if n.op in NAMED and not names else n.arg
                own = repr((type(n.op).__name__, int(n.op), int(n.dtype), n.shape, arg))
                known[n] = blake2b(own.encode() + b"".join(known[s] for s in n.src), digest_size=16).digest()
    return known[of]


def terms(of: Node) -> Counter[Node]:
    """What a chain of one associative operation combines, and how often each; of another tensor, itself."""
    if of.op not in ASSOCIATIVE:
        return Counter((of,))
    operands: Counter[Node] = Counter()
    times = Counter((of,))
    for n in reversed(list(_post_order((of,), lambda n: n.src if n.op is of.op else ()))):
        for s in n.src if n.op is of.op else ():
            times[s] += times[n]
            if s.op is not of.op:
                operands[s] += times[n]
    return operands


def repeated(op: Op, of: Node, times: int) -> Node:
    """x op x op … op x, with as few operations as doubling needs."""
    total = of
    for bit in f"{times:b}"[1:]:
        total = node(op, total, total)
        total = node(op, total, of) if bit == "1" else total
    return total


def chain(op: Op, of: Counter[Node]) -> Node:
    """The terms combined in one order: that of their digests, those without names first."""
    parts = [
        repeated(op, n, 1 if op in IDEMPOTENT else of[n])
        for n in sorted(of, key=lambda n: (digest(n, names=False), digest(n)))
    ]
    total = parts[0]
    for part in parts[1:]:
        total = node(op, total, part)
    return total


def normal_form(roots: Sequence[Node]) -> tuple[Node, ...]:
    """The roots with every chain of +, ·, max, min, and, or in one order and association.

    Graphs that differ by commuting and re-associating alone have one normal form. Its bits may be other ones: it names
    a graph, and is not executed.
    """
    made: dict[Node, Node] = {}
    for n in _post_order(roots, lambda n: tuple(terms(n)) if n.op in ASSOCIATIVE else n.src):
        if n.op in ASSOCIATIVE:
            assert isinstance(n.op, Op)
            parts: Counter[Node] = Counter()
            for term, times in terms(n).items():
                # A maximum of equal terms is the term, which may continue this chain.
                for part, each in terms(made[term]).items() if made[term].op is n.op else [(made[term], 1)]:
                    parts[part] += times * each
            made[n] = chain(n.op, parts)
        else:
            src = [made[s] for s in n.src]
            if n.op in COMMUTATIVE:
                src.sort(key=lambda s: (digest(s, names=False), digest(s)))
            elif n.op is Op.MULACC:
                src[:2] = sorted(src[:2], key=lambda s: (digest(s, names=False), digest(s)))
            made[n] = n if tuple(src) == n.src else node(n.op, *src, arg=n.arg)
    return tuple(made[root] for root in roots)


def _post_order(roots: Sequence[Node], below: Callable[[Node], Sequence[Node]]) -> Iterator[Node]:
    """Every node that can be reached once, after all that is below it."""
    seen: set[Node] = set()
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        current, finished = stack.pop()
        if finished:
            yield current
        elif current not in seen:
            seen.add(current)
            stack.append((current, True))
            stack.extend((n, False) for n in reversed(below(current)) if n not in seen)
