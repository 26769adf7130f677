"""Kernels that the format admits: guards where no proof is found, several kernels where one is too large."""

from functools import lru_cache, reduce
from operator import or_

from eigentensor.errors import CaptureError
from eigentensor.lowering.kernel import Kernel, index, less
from eigentensor.lowering.passes import free_axes, take_out
from eigentensor.program import limits
from eigentensor.program.bounds import prove
from eigentensor.program.cost import body_cost, record_bytes
from eigentensor.program.expression import Axis, Lowered, Node, conjunction, load, rewrite, to_body, walk
from eigentensor.program.model import Body
from eigentensor.program.ops import REDUCTIONS, DType, Op

PARTS = 32  #: into how many kernels one of tinygrad's is cut at most, at each level


def lowered(kernel: Kernel) -> Lowered:
    """The canonical body of a kernel, of which the last few are remembered."""
    return _lowered(kernel.value, kernel.axes)


@lru_cache(maxsize=8)  # a kernel is lowered for its guards, its size and its call, one soon after the other
def _lowered(value: Node, axes: tuple[Axis, ...]) -> Lowered:
    return to_body(value, axes)


def guard(kernel: Kernel) -> Kernel:
    """The kernel with a condition on every load that cannot be proven to stay inside."""
    for _ in range(1 + sum(n.op is Op.LOAD for n in walk(kernel.value))):
        body = lowered(kernel).body
        outside = prove(body).outside
        if outside is None:
            return kernel
        loads = [i for i, instruction in enumerate(body.instructions) if instruction.op is Op.LOAD]
        ordinal = loads.index(outside[0])
        access = [n for n in walk(kernel.value) if n.op is Op.LOAD][ordinal]
        kernel = Kernel(kernel.result, kernel.axes, _guarded(kernel.value, access), kernel.origin)
    raise CaptureError(
        "an index cannot be proven to stay inside its tensor", fix="clip the index to the tensor's extent"
    )


def _guarded(value: Node, access: Node) -> Node:
    element = access.src[0]
    inside = [less(index(-1), element), less(element, index(access.arg.elements)), *access.src[1:]]
    return rewrite(value, lambda n: load(access.arg, element, conjunction(*inside)) if n is access else n)


def fits(body: Body) -> bool:
    """Whether a body stays within the limits of size and of judging."""
    return (
        len(body.instructions) <= limits.INSTRUCTIONS
        and len(body.parameters) <= limits.PARAMETERS
        and record_bytes(body) <= limits.RECORD_BYTES
        and body.reductions <= limits.REDUCTIONS
        and len(body.reduce_ranges) <= limits.REDUCE_RANGES
        and all(step.witness <= limits.WITNESS and step.gas <= limits.GAS for step in body_cost(body).steps)
    )


def split(kernel: Kernel) -> list[Kernel]:
    """Kernels that fit, in order; the last one writes the result."""
    parts: list[Kernel] = []
    while not fits(lowered(kernel).body):
        part = _half(kernel)
        if part is None or len(parts) == PARTS:
            raise CaptureError("an expression is too large for a kernel", fix="call .contiguous() on a part of it")
        first, kernel = take_out(part, kernel)
        parts += split(first)
    return [*parts, kernel]


def _half(kernel: Kernel) -> Node | None:
    """The sub-expression that comes nearest to half of the kernel's weight, outside of reductions if there is one.

    Loads weigh like the bytes of their openings, other nodes like those of an instruction.
    """
    order = list(walk(kernel.value))
    free = free_axes(kernel.value)
    bound = {axis for n in order if n.op in REDUCTIONS for axis in n.arg}
    loads = sum(1 << i for i, n in enumerate(order) if n.op is Op.LOAD)
    below: dict[Node, int] = {}  # as bits of a number: which nodes a node depends on
    candidates: list[tuple[bool, int, int]] = []
    for i, n in enumerate(order):
        below[n] = reduce(or_, (below[s] for s in n.src), 1 << i)
        opened = (below[n] & loads).bit_count()
        if n.src and n.op is not Op.LOAD and n.dtype is not DType.INDEX and opened and n is not kernel.value:
            weight = 1_400 * opened + 8 * below[n].bit_count()
            candidates.append((bool(bound.intersection(free[n])), weight, i))
    whole = 1_400 * loads.bit_count() + 8 * len(order)
    nearest = min(candidates, key=lambda c: (c[0], abs(2 * c[1] - whole)), default=None)
    return None if nearest is None else order[nearest[2]]
