"""The reference on many sets of tensors at once: elements of a call are independent of each other, and so are sets."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigentensor.numerics.floats import canonical
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.binding import bind, iteration_values
from eigentensor.program.model import Program, Role
from eigentensor.reference import LANES, Evaluation, loaded

Values = NDArray[Any]
#: Is given the number (iteration · calls + call) of each executed call and its results, a row for each set.
Observe = Callable[[int, Values], None]


def observe_sets(
    program: Program,
    sets: Sequence[Mapping[str, ArrayLike]],
    variables: Mapping[str, int],
    repeat: int,
    observe: Observe,
) -> None:
    """What `reference.execute` lets observe for each of the sets, by the same evaluation, for all of them together."""
    bound = zip(*(bind(program, tensors, variables, repeat) for tensors in sets), strict=True)
    start: list[Values] = [np.stack(arrays) for arrays in bound]
    states = [(i, buffer.name) for i, buffer in enumerate(program.buffers) if buffer.role is Role.STATE]
    for iteration in range(repeat):
        buffers = list(start)
        values = iteration_values(program, variables, iteration)
        for number in range(len(program.calls)):
            buffers.append(_results(program, buffers, number, len(sets), values))
            observe(iteration * len(program.calls) + number, buffers[-1])
        for i, name in states:
            start[i] = buffers[program.new_states[name].buffer]


def _results(program: Program, buffers: Sequence[Values], number: int, sets: int, variables: Sequence[int]) -> Values:
    call = program.calls[number]
    body = program.bodies[call.body]
    (dtype, count), *parameters = body.parameters
    flat = [buffers[i].reshape(-1) for i in call.arguments]

    def some(places: Values) -> Values:
        which = places // count

        def load(parameter: int, element: Values, guard: Values | None) -> Values:
            return loaded(flat[parameter - 1], element + which * parameters[parameter - 1].elements, guard)

        value = Evaluation(body, load, [variables[v] for v in call.variables], places % count).stored()
        return canonical(dtype, np.array(np.broadcast_to(value, places.shape), order="C"))

    parts = [some(np.arange(start, min(start + LANES, sets * count))) for start in range(0, sets * count, LANES)]
    return np.concatenate([np.empty(0, STORAGE[dtype]), *parts]).reshape(sets, count)
