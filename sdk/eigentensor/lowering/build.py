"""Kernels in single assignment → a valid program."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from eigentensor.errors import CaptureError, RuleError
from eigentensor.lowering.indices import affine
from eigentensor.lowering.kernel import Kernel, cast, flat, fresh_array, fresh_axis, located
from eigentensor.lowering.limits import lowered
from eigentensor.lowering.passes import arrays
from eigentensor.lowering.patterns import admitted, fitted, simplest
from eigentensor.lowering.shards import Sharding, Shards
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Lowered, Named, Node, binary, const, counter, load, node, reduction
from eigentensor.program.forms import Form
from eigentensor.program.model import Bounds, Buffer, Kind, Program, Variable
from eigentensor.program.ops import DType, Op
from eigentensor.talk import doing, each

NAME = "fingerprint"
SMALL = 1024  #: results of fewer bytes in all get a fingerprint; intermediates of fewer bytes do not count as large
ARRAYS = 8
_UNSIGNED = {1: DType.UINT8, 2: DType.UINT16, 4: DType.UINT32, 8: DType.UINT64}


@dataclass(frozen=True, slots=True)
class Draft:
    """A function as kernels, before they are what the format admits.

    `externals` are arrays that come from outside, `results` name what goes out with its shape. With `fingerprint` an
    output of that name stands beside small results. Reductions over axes that `shards` name are cut by shards.
    """

    kernels: Sequence[Kernel]
    externals: Mapping[Array, Buffer]
    results: Mapping[tuple[Kind, str], tuple[Array, tuple[int, ...]]]
    variables: Sequence[Variable] = ()
    fingerprint: bool = True
    shards: Shards = 1


def build(draft: Draft) -> Program:
    """The program of a draft. Raises CaptureError, with the line of the user's code where it is known."""
    return traced(draft)[0]


def traced(draft: Draft) -> tuple[Program, tuple[str, ...]]:
    """The program of a draft, and for each of its calls the origin of the kernel that it comes from. Raises as
    `build`."""
    kernels, aliases = without_copies(draft.kernels)
    results = {name: (aliases.get(array, array), shape) for name, (array, shape) in draft.results.items()}
    kernels = live(kernels, {array for array, _ in results.values()})
    if draft.fingerprint and (extra := fingerprint(kernels, [array for array, _ in results.values()])):
        kernels += extra
        results[Kind.OUTPUT, NAME] = extra[-1].result, ()
    sharding = Sharding(draft.shards, draft.externals)
    of_kernels = [(kernel.origin, _calls(kernel, sharding)) for kernel in each("lowering kernels", kernels)]
    calls = [call for _, calls in of_kernels for call in calls]
    require_known([variable for _, part in calls for variable in part.variables], draft.variables)
    externals = {array.key: buffer for array, buffer in draft.externals.items()}
    named = {name: (array.key, shape) for name, (array, shape) in results.items()}
    doing("checking the program")
    try:
        return assemble(calls, externals, named, draft.variables), tuple(
            origin for origin, calls in of_kernels for _ in calls
        )
    except RuleError as error:
        fix = error.fix or "keep to the limits of the format, which sdk/README.md has"
        raise CaptureError(f"no valid program: {error.what}", fix=fix) from error


def require_known(used: Iterable[Named], variables: Iterable[Variable]) -> None:
    """Raises CaptureError for a variable that is used and is none of the program's."""
    own = {Named(v.name, Bounds(v.minimum, v.maximum)) for v in variables}
    for name, bounds in used:
        if (name, bounds) not in own:
            what = f"the variable {name!r} from {bounds.minimum} to {bounds.maximum} is none of this graph"
            raise CaptureError(what, fix="use variables that the graph's own context, or `variables`, made")


def _calls(kernel: Kernel, sharding: Sharding) -> list[tuple[Hashable, Lowered]]:
    """The calls that compute a kernel within the rules of the format, by the keys of their results."""
    if not sharding.is_asked_for:
        return admitted(kernel)
    with located(kernel.origin):
        parts = [part for one in simplest(kernel) for short in sharding.cut(one) for part in fitted(short)]
        return [(part.result.key, lowered(part)) for part in parts]


def without_copies(kernels: Iterable[Kernel]) -> tuple[list[Kernel], dict[Array, Array]]:
    """The kernels without those that only copy the result of another, and whose result stands for that of each one."""
    kept: dict[Array, Kernel] = {}
    aliases: dict[Array, Array] = {}
    for kernel in kernels:
        if not aliases.keys().isdisjoint(arrays(kernel.value)):
            kernel = kernel.reading(aliases)
        if _is_copy(kernel) and kernel.value.arg in kept:
            aliases[kernel.result] = kernel.value.arg
        else:
            kept[kernel.result] = kernel
    return list(kept.values()), aliases


def _is_copy(kernel: Kernel) -> bool:
    value = kernel.value
    if value.op is not Op.LOAD or len(value.src) != 1 or value.arg.elements != kernel.result.elements:
        return False
    return affine(value.src[0]).plus(affine(flat(kernel.axes)), -1) == Form(0)


def live(kernels: Sequence[Kernel], wanted: set[Array]) -> list[Kernel]:
    """The kernels that a result depends on, in order."""
    needed = set(wanted)
    kept = []
    for kernel in reversed(kernels):
        if kernel.result in needed:
            kept.append(kernel)
            needed |= set(arrays(kernel.value))
    return kept[::-1]


def size(array: Array) -> int:
    """Bytes of an array."""
    return array.elements * array.dtype.size


def fingerprint(kernels: Sequence[Kernel], results: Sequence[Array]) -> list[Kernel]:
    """Kernels that compute a checksum, the last one as a single uint32; none if nothing large lies between.

    Only those who computed the large intermediates know it: without it, small answers could be guessed. It is the
    exclusive or, over the eight largest intermediates, of Σ word[i] · (2i + 1) modulo 2³².
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
