"""A checksum known only to those who computed the large intermediates: without it, small answers could be guessed."""

from collections.abc import Sequence
from functools import reduce

from eigentensor.lowering.kernel import Kernel, cast, fresh_array, fresh_axis
from eigentensor.program.expression import Array, Node, binary, const, counter, load, node, reduction
from eigentensor.program.ops import DType, Op

NAME = "fingerprint"
SMALL = 1024  #: results of fewer bytes in all get a fingerprint; intermediates of fewer bytes do not count as large
ARRAYS = 8
_UNSIGNED = {1: DType.UINT8, 2: DType.UINT16, 4: DType.UINT32, 8: DType.UINT64}


def size(array: Array) -> int:
    return array.elements * array.dtype.size


def fingerprint(kernels: Sequence[Kernel], results: Sequence[Array]) -> list[Kernel]:
    """Kernels that compute the checksum, the last one as a single uint32; none if nothing large lies between.

    It is the exclusive or, over the eight largest intermediates, of Σ word[i] · (2i + 1) modulo 2³².
    """
    if sum(map(size, results)) >= SMALL:
        return []
    large = [k.result for k in kernels if k.result not in results and size(k.result) >= SMALL]
    chosen = sorted(sorted(large, key=size, reverse=True)[:ARRAYS], key=large.index)
    sums = [_checksum(array) for array in chosen]
    if not sums:
        return []
    words = [load(kernel.result, const(DType.INDEX, 0)) for kernel in sums]
    value = reduce(lambda a, b: binary(Op.XOR, a, b), words)
    return [*sums, Kernel(fresh_array(DType.UINT32, 1), (), value, NAME)]


def _checksum(array: Array) -> Kernel:
    axis = fresh_axis(array.elements, is_reduce=True)
    one = const(DType.UINT32, 1)
    odd = binary(Op.OR, binary(Op.SHL, cast(DType.UINT32, counter(axis)), one), one)
    term = binary(Op.MUL, _word(load(array, counter(axis))), odd)
    return Kernel(fresh_array(DType.UINT32, 1), (), reduction(Op.REDUCE_ADD, (axis,), term), NAME)


def _word(value: Node) -> Node:
    """The bits of an element as a uint32; the halves of a wide one are mixed."""
    if value.dtype is DType.BOOL:
        return cast(DType.UINT32, value)
    unsigned = _UNSIGNED[value.dtype.size]
    bits = value if value.dtype is unsigned else node(Op.BITCAST, unsigned, value)
    if unsigned is DType.UINT64:
        bits = binary(Op.XOR, bits, binary(Op.SHR, bits, const(DType.UINT64, 32)))
    return cast(DType.UINT32, bits)
