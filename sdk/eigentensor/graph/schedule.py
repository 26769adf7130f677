"""Which nodes get a kernel of their own, and where the others are computed: users decide before their operands."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from eigentensor.graph.accesses import Access, operands, own
from eigentensor.graph.node import Form, Node, is_bounded, is_single, walk
from eigentensor.lowering.kernel import fresh_axis
from eigentensor.lowering.spans import shape
from eigentensor.program.expression import Axis
from eigentensor.program.ops import REDUCTIONS, DType, Op

TENSORS = frozenset({Form.INPUT, Form.WEIGHT, Form.STATE, Form.DATA})
LEAVES = TENSORS | {Form.VARIABLE, Form.COUNTER, Op.CONST}
#: Moves of which a sum is a sum of what they move.
TERM_MOVES = frozenset({Form.RESHAPE, Form.PERMUTE, Form.EXPAND, Form.SHRINK, Form.FLIP})
MOVES = TERM_MOVES | {Form.PAD, Form.GATHER}
#: Instructions of an operation, by which computing again is weighed against storing and loading; all others are one.
COST = {
    Form.FUNCTION: 24,
    Op.DIV: 8,
    Op.SQRT: 8,
    Op.RECIPROCAL: 8,
    Op.CAST: 0,
    Op.BITCAST: 0,
    Form.CONTIGUOUS: 0,
    Form.ROUNDED: 0,
}
#: So many instructions are worth storing a value.
STORING = 32
#: Of so many instructions an expression is cut; a function is counted as 60 of them.
SIZE, FUNCTION_SIZE = 600, 60
#: So often the schedule is made again with what was stored before.
ROUNDS = 6


@dataclass(frozen=True)
class Schedule:
    """Nodes below the roots, operands first; the loops of each node that has a kernel; where each node is computed.

    `steps` are the axes of reductions, and of a GATHER what stands for the row.
    """

    order: Sequence[Node]
    kernels: dict[Node, tuple[Axis, ...]]
    accesses: dict[Node, list[Access]]
    steps: dict[Node, tuple[Axis, ...]]


def schedule(roots: Sequence[Node]) -> Schedule:
    """The schedule of the nodes that the roots depend on."""
    order = list(walk(*roots))
    steps = {n: _steps(n) for n in order}
    wanted, stored = set(roots), set[Node]()
    for _ in range(ROUNDS):  # what is stored makes what is computed from it cheaper, and smaller
        plan = _placed(order, steps, wanted, _costs(order, stored))
        large = _large(order, plan.kernels)
        if not large and stored == plan.kernels.keys():
            break
        wanted |= large
        stored = set(plan.kernels)
    return plan


def _placed(
    order: Sequence[Node], steps: dict[Node, tuple[Axis, ...]], wanted: set[Node], costs: dict[Node, float]
) -> Schedule:
    """The schedule in which the wanted nodes are stored, and others where they cost more to compute again."""
    uses: dict[Node, dict[Access, None]] = {n: {} for n in order}
    kernels: dict[Node, tuple[Axis, ...]] = {}
    indices = _indices(order)
    for n in reversed(order):
        is_cheap = n in indices and costs[n] < COST[Form.FUNCTION]
        if n in wanted or n.op is Form.CONTIGUOUS or (not is_cheap and _is_stored(n, list(uses[n]), costs)):
            kernels[n] = tuple(fresh_axis(extent) for extent in n.shape)
            uses[n] = {own(n, kernels[n]): None} | {p: None for p in uses[n] if not is_loaded(n, p)}
        for access in uses[n]:
            for operand, at in zip(n.src, operands(n, access, steps[n]) if n.src and n.elements else (), strict=False):
                uses[operand][at] = None
    return Schedule(order, kernels, {n: list(accesses) for n, accesses in uses.items()}, steps)


def is_loaded(n: Node, access: Access) -> bool:
    """Whether a node with a kernel is loaded by another one.

    A product that a sum accumulates is computed there, so that it is one with the sum whatever else it is used for;
    so is a function, which may end in a product.
    """
    passes = n.op in (Op.MUL, Form.FUNCTION) or n.op in MOVES or is_single(n)
    return access.kernel is not n and n.op not in LEAVES and not (access.term and passes)


def _steps(n: Node) -> tuple[Axis, ...]:
    if n.op is Form.GATHER:
        return (fresh_axis(n.src[0].shape[0], is_reduce=True),)
    return tuple(fresh_axis(n.src[0].shape[axis], is_reduce=True) for axis in n.arg) if n.op in REDUCTIONS else ()


def _is_stored(n: Node, accesses: Sequence[Access], costs: dict[Node, float]) -> bool:
    if n.op in LEAVES or n.op in MOVES or not n.elements:
        return False
    loading = [access for access in accesses if is_loaded(n, access)]
    if not loading:
        return False
    if n.op in REDUCTIONS and not is_single(n):
        return len(accesses) > 1 or not _is_fused(n, accesses[0])
    again = sum(access.evaluations for access in loading) / n.elements - 1
    return again * costs[n] > STORING


def _is_fused(n: Node, access: Access) -> bool:
    """Whether a reduction is computed where it is used: once for each element, and cut into spans as it would be."""
    terms = n.src[0].elements // n.elements
    is_cut = n.dtype.is_float and not is_bounded(n)
    alike = not is_cut or shape(terms, access.evaluations) == shape(terms, n.elements)
    return access.whole and access.evaluations <= n.elements and alike


def _indices(order: Sequence[Node]) -> set[Node]:
    """Nodes that depend on no tensor: arithmetic of counters and variables."""
    indices: set[Node] = set()
    for n in order:
        if (n.op in LEAVES and n.op not in TENSORS) or (n.src and all(s in indices for s in n.src)):
            indices.add(n)
    return indices


def _costs(order: Sequence[Node], stored: Collection[Node]) -> dict[Node, float]:
    """Instructions for an element of each node, without what is stored below it or is surely going to be."""
    costs: dict[Node, float] = {}
    for n in order:
        below = sum(0 if s in stored else costs[s] for s in dict.fromkeys(n.src))
        if n.op in REDUCTIONS and not is_single(n):
            costs[n] = (below + 1) * n.src[0].elements / max(n.elements, 1) if n.src[0].elements else 0
        elif n.op in LEAVES or n.op in MOVES:
            grows = n.op in (Form.EXPAND, Form.GATHER) and n.elements > n.src[0].elements
            costs[n] = 0 if grows and (n.elements / n.src[0].elements - 1) * below > STORING else below
        else:
            costs[n] = 0 if n.op is Form.CONTIGUOUS else COST.get(n.op, 1) + below
    return costs


def _large(order: Sequence[Node], stored: Collection[Node]) -> set[Node]:
    """Nodes at which expressions are cut because they become too large for a kernel."""
    cut: set[Node] = set()
    sizes: dict[Node, int] = {}

    def exact(n: Node) -> int:
        seen, stack, total = {n}, [n], 0
        while stack and total <= SIZE:
            current = stack.pop()
            total += _size(current)
            for s in current.src:
                if s not in seen and s not in cut and s not in stored:
                    seen.add(s)
                    stack.append(s)
        return total

    for n in order:
        sizes[n] = _size(n) + sum(1 if s in cut or s in stored else sizes[s] for s in n.src)
        if sizes[n] > SIZE:
            sizes[n] = exact(n)
            if sizes[n] > SIZE and n.op not in MOVES and n not in stored:
                cut.add(n)
    return cut


def _size(n: Node) -> int:
    return FUNCTION_SIZE if n.op is Form.FUNCTION else 1 + (n.dtype in (DType.FLOAT16, DType.BFLOAT16))
