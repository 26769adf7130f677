"""Functions found again in the operations that lowering composes them of. Pure."""

from collections.abc import Iterator
from functools import cache

from eigentensor.errors import CaptureError
from eigentensor.graph.lower import lower
from eigentensor.graph.node import Form, Graph, Node, leaf, node, remade, walk
from eigentensor.lowering import functions
from eigentensor.numerics.dtypes import DType
from eigentensor.planner.lifted import lifted
from eigentensor.program.ops import Op

_NAMES = ("x", "y")  # of what a function is of
_Bound = dict[str, Node]


def recognised(graph: Graph) -> Graph:
    """A graph as `lifted` gives it, with functions where their compositions stood. Raises CaptureError where bits are
    looked at still: what is done with them means nothing over the reals."""
    done: dict[Node, Node] = {}
    roots = tuple(_with_functions(root, done) for root in graph.roots)
    if any(n.op is Op.BITCAST and (n.dtype.is_float or n.src[0].dtype.is_float) for n in walk(*roots)):
        raise CaptureError("it computes with the bits of floats")
    outputs = dict(zip(graph.outputs, roots, strict=False))
    return Graph(outputs, dict(zip(graph.states, roots[len(outputs) :], strict=True)), graph.data)


def _with_functions(root: Node, done: dict[Node, Node]) -> Node:
    """The node with the largest compositions below it replaced; `done` are those that were looked at."""
    stack = [root]
    while stack:
        n = stack[-1]
        if n in done:
            stack.pop()
            continue
        found = _function(n)
        operands = n.src if found is None else tuple(found[1].values())
        if left := [s for s in operands if s not in done]:
            stack.extend(left)
            continue
        new = tuple(done[s] for s in operands)
        done[n] = remade(n, new) if found is None else node(Form.FUNCTION, *new, arg=found[0])
    return done[root]


def _function(n: Node) -> tuple[str, _Bound] | None:
    """The function that a node is the composition of, and of what, by name."""
    for name, pattern in _patterns().get((n.op, n.dtype), ()):
        bound: _Bound = {}
        if _matches(pattern, n, bound) and len({s.shape for s in bound.values()} | {n.shape}) == 1:
            return name, {key: bound[key] for key in _NAMES if key in bound}
    return None


def _matches(pattern: Node, n: Node, bound: _Bound) -> bool:
    """Whether a node is the composition of a pattern, whatever its shape; `bound` becomes what its leaves stand for."""
    known: set[tuple[int, int]] = set()
    stack = [(pattern, n)]
    while stack:
        wanted, there = stack.pop()
        if (id(wanted), id(there)) in known:
            continue
        known.add((id(wanted), id(there)))
        if wanted.op is Form.INPUT:
            if wanted.dtype is not there.dtype or bound.setdefault(wanted.arg, there) is not there:
                return False
        elif (wanted.op, wanted.dtype, wanted.arg) != (there.op, there.dtype, there.arg):
            return False
        else:
            stack.extend(zip(wanted.src, there.src, strict=True))
    return True


@cache
def _patterns() -> dict[tuple[Op | Form, DType], list[tuple[str, Node]]]:
    """What each function is composed of, by the last operation; those of most operations first."""
    ordered = sorted(_compositions(), key=lambda one: -sum(1 for _ in walk(one[1])))
    patterns: dict[tuple[Op | Form, DType], list[tuple[str, Node]]] = {}
    for name, root in ordered:
        patterns.setdefault((root.op, root.dtype), []).append((name, root))
    return patterns


def _compositions() -> Iterator[tuple[str, Node]]:
    for name in functions.__all__:
        of = _NAMES if name == "power" else _NAMES[:1]
        leaves = [leaf(Form.INPUT, key, DType.FLOAT32, (2,)) for key in of]
        made = lower(Graph({"out": node(Form.FUNCTION, *leaves, arg=name)}), fingerprint=False)
        if len(made.program.calls) == 1:
            yield name, lifted(made.program).outputs["out"]
