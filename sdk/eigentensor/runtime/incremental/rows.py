"""Which results have rows that keep apart: row i of each depends on row i of what is given, and on no other row.

Decided call by call, whatever the tensors hold, with what `regions` knows of a body: in each load that has an influence
on a result with rows, the place along the loaded tensor's rows must be the counter of the result's. Where that cannot
be shown, rows are taken to be mixed.
"""

from collections.abc import Collection, Sequence

from eigentensor.errors import BindingError
from eigentensor.program.forms import Form, at_most, atom
from eigentensor.program.model import Body, Program, Role
from eigentensor.program.ops import Op
from eigentensor.runtime.incremental.narrowing import narrow
from eigentensor.runtime.incremental.regions import Dependence, shape_of


def rows_of(program: Program, names: Collection[str]) -> tuple[int, tuple[str, ...]]:
    """How many rows the inputs of these names have, which are along their first axes, and the outputs whose rows are
    theirs; no other output depends on any of their rows.

    Raises BindingError for inputs that have no rows in common, programs with states, and rows that are mixed.
    """
    inputs = program.named(Role.INPUT)
    if unknown := sorted(set(names) - inputs.keys()):
        raise BindingError(
            f"the program has no input {unknown[0]!r}", fix=f"Name some of {', '.join(inputs) or 'none'}."
        )
    extents = {inputs[name].shape[:1] for name in names}
    if len(extents) != 1 or (rows := next(iter(extents))) in ((), (0,), (1,)):
        each = ", ".join(f"{name} {list(inputs[name].shape)}" for name in names)
        raise BindingError(
            f"inputs with rows have the same first extent, two or more; these have {each}",
            fix="Capture the program for as many rows as one task may have.",
        )
    if program.new_states or program.named(Role.STATE):
        raise BindingError("a program with states has no rows: its states would be of all of them")
    (count,) = rows
    first = len(program.buffers)
    axes = {n: 0 for n, buffer in enumerate(program.buffers) if buffer.name in names and buffer.role is Role.INPUT}
    for number, call in enumerate(program.calls):
        body, shapes = program.bodies[call.body], tuple(shape_of(program, buffer) for buffer in call.arguments)
        dependence = Dependence.of(body, shapes)
        loads = {n: axis for n in dependence.axes if (axis := axes.get(_loaded(body, call.arguments, n))) is not None}
        if loads:
            axis = next(
                (a for a, e in enumerate(body.output_ranges) if e == count and _along(dependence, loads, a)), None
            )
            if axis is None:
                raise _mixed(names, f"the result of call {number} of {len(program.calls)}, {list(body.output_ranges)},")
            axes[first + number] = axis
    outputs = {name: result for name, result in program.outputs.items() if result.buffer in axes}
    for name, result in outputs.items():
        before = shape_of(program, result.buffer)[: axes[result.buffer]]
        if result.shape[:1] != rows or any(extent != 1 for extent in before):
            raise _mixed(names, f"the output {name!r}, {list(result.shape)}, which has them along another axis,")
    if not outputs:
        raise BindingError(f"no output depends on {', '.join(names)}", fix="Do without rows.")
    return count, tuple(outputs)


def _loaded(body: Body, arguments: Sequence[int], load: int) -> int:
    return arguments[body.instructions[load].a - 1]


def _along(dependence: Dependence, loads: dict[int, int], axis: int) -> bool:
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


def _mixed(names: Collection[str], where: str) -> BindingError:
    return BindingError(
        f"rows of {', '.join(names)} do not keep apart: {where} takes several of them, or cannot be shown not to",
        fix="Leave out what mixes rows, such as a mean over the batch; or do without rows.",
    )
