"""What a node must be: the shapes, types and arguments that each operation takes."""

from eigentensor.graph.node import Form, Node, walk
from eigentensor.lowering import functions
from eigentensor.lowering.graph_program import CONSTANT_BYTES
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.storage import STORAGE
from eigentensor.program import limits
from eigentensor.program.ops import ARITY, REDUCTIONS, Op
from eigentensor.program.signatures import UNIFORM, mismatch
from eigentensor.program.validity import is_name

#: Axes that a node may have, and elements.
AXES = 32
_NAMED = (Form.INPUT, Form.WEIGHT, Form.STATE)
_TENSORS = {*_NAMED, Form.DATA, Form.COUNTER, Form.GATHER, *REDUCTIONS}
_LEAVES = (*_NAMED, Form.VARIABLE, Form.DATA, Form.COUNTER)


def breach(n: Node) -> str:
    """What is wrong with a node whose operands are valid; empty if nothing is."""
    if not all(type(e) is int for e in n.shape):
        return "extents are whole numbers"
    if len(n.shape) > AXES or min(n.shape, default=0) < 0 or limits.volume(n.shape) > limits.ELEMENTS:
        return f"shape {n.shape} has too many axes or elements"
    wanted = 2 if n.op is Form.GATHER or (n.op is Form.FUNCTION and n.arg == "power") else 1
    wanted = 0 if n.op in _LEAVES else wanted if isinstance(n.op, Form) else ARITY[n.op]
    if len(n.src) != wanted and not _is_bounded(n):
        return f"{len(n.src)} operands, {wanted} are taken"
    if isinstance(n.op, Form):
        return _leaf(n) if n.op in _LEAVES else _form(n)
    if n.op in REDUCTIONS:
        is_known = n.op is not Op.REDUCE_MULACC and n.dtype in UNIFORM[n.op]
        return "" if is_known and _are_axes(n.arg, n.src[0]) else "no reduction over these axes"
    if n.op is Op.CONST:
        return "" if _is_constant(n) else f"{n.arg} is no {n.dtype.name.lower()}"
    if n.op not in UNIFORM and n.op not in (Op.WHERE, Op.CAST, Op.BITCAST):
        return "is no operation of whole tensors"
    if (n.arg is not None) != (n.op in (Op.CAST, Op.BITCAST)) or n.dtype is DType.INDEX:
        return f"argument {n.arg}"
    return mismatch(n.op, n.dtype, [s.dtype for s in n.src])


def _leaf(n: Node) -> str:
    if n.op is Form.COUNTER:
        return "" if type(n.arg) is int and 0 <= n.arg < len(n.shape) else f"there is no axis {n.arg}"
    if n.op is Form.DATA:
        fits = len(n.arg) == n.elements * n.dtype.size <= CONSTANT_BYTES and n.dtype is not DType.INDEX
        return "" if fits and (n.dtype is not DType.BOOL or not n.arg.translate(None, b"\0\1")) else "other bytes"
    if n.op is Form.VARIABLE:
        numbers = n.arg[1:]
        fits = all(type(v) is int and -(1 << 31) <= v < 1 << 31 for v in numbers) and n.arg.minimum <= n.arg.maximum
        return "" if fits and is_name(n.arg.name) else f"{n.arg} is no variable"
    return "" if is_name(n.arg) and n.dtype is not DType.INDEX else f"{n.arg!r} is no name of a tensor"


def _form(n: Node) -> str:
    x, rank = n.src[0], len(n.src[0].shape)
    pairs = isinstance(n.arg, tuple) and len(n.arg) == rank and all(isinstance(p, tuple) and len(p) == 2 for p in n.arg)
    match n.op:
        case Form.FUNCTION:
            known = isinstance(n.arg, str) and n.arg in functions.__all__
            return "" if known and x.dtype.is_float and n.src[-1].dtype is x.dtype else "no function of floats"
        case Form.PERMUTE:
            return "" if sorted(n.arg) == list(range(rank)) else "not each axis once"
        case Form.FLIP:
            return "" if _are_axes(n.arg, x) else "no such axes"
        case Form.SHRINK:
            inside = pairs and all(0 <= a <= b <= extent for (a, b), extent in zip(n.arg, x.shape, strict=True))
            return "" if inside else "bounds are not inside"
        case Form.PAD:
            return "" if pairs and all(min(p) >= 0 for p in n.arg) else "no widths to pad"
        case Form.GATHER:
            return "" if rank and n.src[1].dtype.is_integer and n.arg is None else "no rows by number"
    return ""  # RESHAPE and EXPAND are checked as they are made; CONTIGUOUS takes anything


def _is_bounded(n: Node) -> bool:
    """Whether a reduction has a bound for each of its axes, which may vary along those that have several elements."""
    if n.op not in REDUCTIONS or not n.src or not _are_axes(n.arg, n.src[0]) or len(n.src) != 1 + len(n.arg):
        return False
    x, *bounds = n.src
    of_variables = all(
        b.dtype is DType.INT32 and not b.shape and not _TENSORS & {s.op for s in walk(b)} for b in bounds
    )
    return of_variables and all(b.op is Op.CONST or x.shape[a] > 1 for a, b in zip(n.arg, bounds, strict=True))


def _are_axes(axes: object, x: Node) -> bool:
    """Whether they are axes of x, ascending."""
    if not isinstance(axes, tuple) or not all(type(a) is int and 0 <= a < len(x.shape) for a in axes):
        return False
    return list(axes) == sorted(set(axes))


def _is_constant(n: Node) -> bool:
    if type(n.arg) is not int or n.dtype is DType.INDEX:
        return False
    if n.dtype.is_float:
        return 0 <= n.arg < 1 << 8 * n.dtype.size
    bits = 1 if n.dtype is DType.BOOL else 8 * STORAGE[n.dtype].itemsize - n.dtype.is_signed
    return -(1 << bits) * n.dtype.is_signed <= n.arg < 1 << bits
