"""Kernels that the format's limits and proofs admit: guards where no proof is found, several kernels where one is too large."""

from eigentensor.capture.kernel import Kernel, index, less
from eigentensor.capture.passes import arrays, free_axes, take_out
from eigentensor.errors import CaptureError
from eigentensor.program import limits
from eigentensor.program.bounds import prove
from eigentensor.program.cost import body_cost, record_bytes
from eigentensor.program.expression import Lowered, Node, conjunction, load, rewrite, to_body, walk
from eigentensor.program.model import Body
from eigentensor.program.ops import REDUCTIONS, DType, Op


def lowered(kernel: Kernel) -> Lowered:
    return to_body(kernel.value, kernel.axes)


def guard(kernel: Kernel) -> Kernel:
    """The kernel with a condition on every load that cannot be proven to stay inside."""
    for _ in range(1 + sum(n.op is Op.LOAD for n in walk(kernel.value))):
        body = lowered(kernel).body
        outside = prove(body).outside
        if outside is None:
            return kernel
        loads = [i for i, instruction in enumerate(body.instructions) if instruction.op is Op.LOAD]
        ordinal = loads.index(outside[0])
        found = [n for n in walk(kernel.value) if n.op is Op.LOAD][ordinal]
        kernel = Kernel(kernel.result, kernel.axes, _guarded(kernel.value, found), kernel.origin)
    raise CaptureError("an index cannot be proven to stay inside its tensor", fix="clip the index to the tensor's extent")


def _guarded(value: Node, found: Node) -> Node:
    element = found.src[0]
    inside = [less(index(-1), element), less(element, index(found.arg.elements)), *found.src[1:]]
    return rewrite(value, lambda n: load(found.arg, element, conjunction(*inside)) if n is found else n)


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
    if fits(lowered(kernel).body):
        return [kernel]
    part = _half(kernel)
    if part is None:
        raise CaptureError("an expression is too large for a kernel", fix="call .contiguous() on an intermediate tensor")
    first, rest = take_out(part, kernel)
    return [*split(first), *split(rest)]


def _half(kernel: Kernel) -> Node | None:
    """The sub-expression outside of reductions, or the reduction, that comes nearest to half of the kernel's weight."""
    weight = _weight(kernel.value)
    candidates = []
    bound = {axis for n in walk(kernel.value) if n.op in REDUCTIONS for axis in n.arg}
    free = free_axes(kernel.value)
    for n in walk(kernel.value):
        if n is not kernel.value and n.dtype is not DType.INDEX and len(n.src) and n.op is not Op.LOAD and arrays(n):
            inside = bool(set(free[n]) & bound)
            candidates.append((inside, abs(2 * _weight(n) - weight), n))
    return min(candidates, key=lambda c: c[:2])[2] if candidates else None


def _weight(value: Node) -> int:
    """Loads count like the bytes of their openings, others like those of an instruction."""
    return sum(1_400 if n.op is Op.LOAD else 8 for n in walk(value))


