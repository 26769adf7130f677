"""Which results have rows that keep apart: row i of each depends on row i of what is given, and on no other row.

Decided call by call, whatever the tensors hold, with what `dependence` knows of a body: in each load that has an
influence on a result with rows, the place along the loaded tensor's rows must be the counter of the result's. Where
that cannot be shown, rows are taken to be mixed.
"""

from collections.abc import Collection

from eigentensor.errors import BindingError
from eigentensor.lowering.build import NAME as FINGERPRINT
from eigentensor.program.forms import Form, at_most, atom
from eigentensor.program.model import Program, Role
from eigentensor.program.ops import Op
from eigentensor.regions.dependence import Dependence, shape_of
from eigentensor.regions.narrowing import narrow


def rows_of(program: Program, names: Collection[str]) -> tuple[int, tuple[str, ...]]:
    """How many rows the inputs of these names have, which are along their first axes, and the outputs whose rows are
    theirs. No other output depends on any of their rows, but for the checksum of all that is computed.

    Raises BindingError for inputs that have no rows in common, programs with states, and rows that are mixed.
    """
    count = _count(program, names)
    if program.new_states or program.named(Role.STATE):
        raise BindingError("a program with states has no rows: its states would be of all of them")
    axes, mixed = _followed(program, names, count)
    outputs = {name: result for name, result in program.outputs.items() if name != FINGERPRINT}
    for name, result in outputs.items():
        if (number := mixed.get(result.buffer)) is not None:
            extents = list(program.bodies[program.calls[number].body].output_ranges)
            raise _refused(names, f"on the way to {name!r}, call {number} of {len(program.calls)}, {extents},")
        before = shape_of(program, result.buffer)[: (axis := axes.get(result.buffer, 0))]
        if result.buffer in axes and (result.shape[:1] != (count,) or any(extent != 1 for extent in before)):
            raise _refused(names, f"{name!r}, {list(result.shape)}, with rows along axis {axis} of what computes it,")
    if not (kept := tuple(name for name, result in outputs.items() if result.buffer in axes)):
        raise BindingError(f"no output depends on {', '.join(names)}", fix="Do without rows.")
    return count, kept


def _count(program: Program, names: Collection[str]) -> int:
    """The first extent that inputs have in common. Raises BindingError."""
    inputs = program.named(Role.INPUT)
    if unknown := sorted(set(names) - inputs.keys()):
        raise BindingError(
            f"the program has no input {unknown[0]!r}", fix=f"Name some of {', '.join(inputs) or 'none'}."
        )
    extents = {inputs[name].shape[:1] for name in names}
    count = max((extent for shape in extents for extent in shape), default=0)
    if extents != {(count,)} or count < 2:
        each = ", ".join(f"{name} {list(inputs[name].shape)}" for name in names)
        raise BindingError(
            f"inputs with rows have the same first extent, two or more; these have {each}",
            fix="Capture the program for as many rows as one task may have.",
        )
    return count


def _followed(program: Program, names: Collection[str], count: int) -> tuple[dict[int, int], dict[int, int]]:
    """Of each buffer that depends on rows: the axis along which its own are theirs, or the call that mixed them."""
    axes = {n: 0 for n, buffer in enumerate(program.buffers) if buffer.name in names and buffer.role is Role.INPUT}
    mixed: dict[int, int] = {}
    for number, call in enumerate(program.calls):
        body, result = program.bodies[call.body], len(program.buffers) + number
        dependence = Dependence.of(body, tuple(shape_of(program, buffer) for buffer in call.arguments))
        read = {n: call.arguments[body.instructions[n].a - 1] for n in dependence.axes}
        if origins := [mixed[buffer] for buffer in read.values() if buffer in mixed]:
            mixed[result] = origins[0]
        elif loads := {n: axes[buffer] for n, buffer in read.items() if buffer in axes}:
            kept = (a for a, e in enumerate(body.output_ranges) if e == count and _is_along(dependence, loads, a))
            if (axis := next(kept, None)) is None:
                mixed[result] = number
            else:
                axes[result] = axis
    return axes, mixed


def _is_along(dependence: Dependence, loads: dict[int, int], axis: int) -> bool:
    """Whether each load, with the axis of the rows that it reads, is of the row that the counter of a result's axis
    counts."""
    counters = [n for n, i in enumerate(dependence.body.instructions) if i.op is Op.RANGE and i.a == axis]
    return bool(counters) and all(
        any(
            _is_always(dependence, load, form.plus(atom(counters[0]), -1))
            for form, start, end in dependence.axes[load]
            if (start, end) == (rows, rows + 1)
        )
        for load, rows in loads.items()
    )


def _is_always(dependence: Dependence, load: int, difference: Form[int]) -> bool:
    """Whether a form is zero wherever a load has an influence."""
    known = [*dependence.read[load], *dependence.facts]
    other = (at_most(difference.times(sign), -1) for sign in (1, -1))
    return not any(narrow(list(dependence.prover.box), [*known, *facts]) for facts in other)


def _refused(names: Collection[str], where: str) -> BindingError:
    return BindingError(
        f"rows of {', '.join(names)} do not keep apart: {where} takes several of them, or cannot be shown not to",
        fix="Leave out what mixes rows, such as a mean over the batch; or do without rows.",
    )
