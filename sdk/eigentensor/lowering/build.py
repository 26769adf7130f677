"""Kernels in single assignment → a valid program."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from eigentensor.errors import CaptureError, RuleError
from eigentensor.lowering.fingerprint import NAME, fingerprint
from eigentensor.lowering.indices import affine
from eigentensor.lowering.kernel import Kernel, flat, located
from eigentensor.lowering.limits import guard, lowered, split
from eigentensor.lowering.passes import arrays, tidy, unnest
from eigentensor.lowering.spans import cut
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Named
from eigentensor.program.forms import Form
from eigentensor.program.model import Bounds, Buffer, Kind, Program, Variable
from eigentensor.program.ops import Op


@dataclass(frozen=True, slots=True)
class Draft:
    """A function as kernels, before they are what the format admits.

    `externals` are arrays that come from outside, `results` name what goes out with its shape. With `fingerprint` an
    output of that name stands beside small results.
    """

    kernels: Sequence[Kernel]
    externals: Mapping[Array, Buffer]
    results: Mapping[tuple[Kind, str], tuple[Array, tuple[int, ...]]]
    variables: Sequence[Variable] = ()
    fingerprint: bool = True


def build(draft: Draft) -> Program:
    """The program of a draft. Raises CaptureError, with the line of the user's code where it is known."""
    kernels, aliases = without_copies(draft.kernels)
    results = {name: (aliases.get(array, array), shape) for name, (array, shape) in draft.results.items()}
    kernels = live(kernels, {array for array, _ in results.values()})
    if draft.fingerprint and (extra := fingerprint(kernels, [array for array, _ in results.values()])):
        kernels += extra
        results[Kind.OUTPUT, NAME] = extra[-1].result, ()
    calls = [(part.result.key, lowered(part)) for kernel in kernels for part in _admitted(kernel)]
    require_known([variable for _, part in calls for variable in part.variables], draft.variables)
    externals = {array.key: buffer for array, buffer in draft.externals.items()}
    named = {name: (array.key, shape) for name, (array, shape) in results.items()}
    try:
        return assemble(calls, externals, named, draft.variables)
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


def _admitted(kernel: Kernel) -> Iterable[Kernel]:
    """The kernels that compute the same within the rules of the format."""
    with located(kernel.origin):
        for simple in unnest(Kernel(kernel.result, kernel.axes, tidy(kernel.value), kernel.origin)):
            for short in cut(simple):
                yield from split(guard(short))


def without_copies(kernels: Iterable[Kernel]) -> tuple[list[Kernel], dict[Array, Array]]:
    """The kernels without those that only copy the result of another, and whose result stands for that of each one."""
    kept: dict[Array, Kernel] = {}
    aliases: dict[Array, Array] = {}
    for kernel in kernels:
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
