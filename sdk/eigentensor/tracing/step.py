"""One element of a call: the results of its reductions, their accumulators, and the value of any one step."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from eigentensor.errors import WitnessError
from eigentensor.numerics.dtypes import DType
from eigentensor.numerics.floats import canonical, patterns
from eigentensor.numerics.operations import from_pattern
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.model import Body
from eigentensor.program.ops import REDUCTIONS
from eigentensor.program.structure import cone, extents_of, reductions
from eigentensor.reference import LANES, Evaluation, Load, Values, loaded
from eigentensor.tracing.computed import checkpoints, computed_results, is_worth, stride_of
from eigentensor.tracing.execution import Execution

#: The pattern of an element of a parameter; it is asked in the order of the LOADs, and only where the guard holds.
Read = Callable[[int, int], int]


@dataclass(frozen=True, slots=True)
class Point:
    """What one verdict is about: one step of a reduction of an element, or its final expression (`reduction` None).

    `results` are the patterns that are claimed for the element's reductions, by number; `accumulator` is the pattern
    before the step.
    """

    element: int
    results: tuple[int, ...] = ()
    reduction: int | None = None
    step: int = 0
    accumulator: int = 0


def evaluate_point(
    body: Body, point: Point, variables: Sequence[int], read: Read, *, seen: dict[int, int] | None = None
) -> int:
    """The pattern of the accumulator after the step, or of the stored element, if everything else is as claimed.

    Only the cone of the step is evaluated, by the reference's own operations. `seen` is told the patterns of its
    instructions, by number. Raises WitnessError when the body has no such point.
    """
    numbers = reductions(body)
    if len(point.results) != len(numbers) or not 0 <= point.element < body.parameters[0].elements:
        raise WitnessError(f"element {point.element} with {len(point.results)} results is none of this body")

    def load(parameter: int, element: Values, guard: Values | None) -> Values:
        dtype = body.parameters[parameter].dtype
        if guard is not None and not guard.all():
            return np.zeros((), STORAGE[dtype])
        return from_pattern(dtype, read(parameter, int(element.reshape(-1)[0])))

    at = Evaluation(body, load, variables, np.array([point.element]))
    last = len(body.instructions) - 1
    roots = (last,) if point.reduction is None else body.instructions[_reduce_of(body, point.reduction)].values
    used = set(cone(body, roots))  # what is claimed of other reductions does not matter
    for number, result in zip(numbers, point.results, strict=True):
        if number in used:
            at.values[number] = _claimed(body.instructions[number].dtype, result)
    if point.reduction is None:
        at.evaluate(_expression(body, roots))
        _tell(seen, at, used)
        return _pattern(body.parameters[0].dtype, at.values[last])
    number = _reduce_of(body, point.reduction)
    at.evaluate(_expression(body, extents_of(body, point.reduction)))
    steps = int(np.prod(at.extents(number), dtype=object))
    if not 0 <= point.step < steps:
        raise WitnessError(f"step {point.step} of a reduction that takes {steps}")
    dtype = body.instructions[number].dtype
    terms = at.terms(number, np.array([point.step]), _expression(body, roots))
    _tell(seen, at, used)
    return _pattern(dtype, at.accumulate(number, [term[0] for term in terms], _claimed(dtype, point.accumulator)))


def _tell(seen: dict[int, int] | None, at: Evaluation, numbers: Collection[int]) -> None:
    if seen is not None:
        seen.update((n, _pattern(at.body.instructions[n].dtype, at.values[n])) for n in sorted(numbers))


def trips_of(body: Body, variables: Sequence[int], reduction: int) -> tuple[int, ...]:
    """How often each loop of a reduction is taken. Raises WitnessError if there is none."""
    at = Evaluation(body, _nothing, variables, np.zeros(1, np.int64))
    number = _reduce_of(body, reduction)
    at.evaluate(_expression(body, extents_of(body, reduction)))
    return tuple(at.extents(number))


def length_of(body: Body, variables: Sequence[int], reduction: int) -> int:
    """The steps that a reduction takes; none leave it at its identity. Raises WitnessError if there is none."""
    return prod(trips_of(body, variables, reduction))


def identity_of(body: Body, reduction: int) -> int:
    """The pattern that a reduction starts from."""
    number = _reduce_of(body, reduction)
    value = Evaluation(body, _nothing, (), np.zeros(1, np.int64)).identity(number)
    return _pattern(body.instructions[number].dtype, value)


def reduction_dtypes(body: Body) -> tuple[DType, ...]:
    """The accumulators' dtypes, by the number of the reduction."""
    return tuple(body.instructions[number].dtype for number in reductions(body))


def is_canonical(dtype: DType, pattern: int) -> bool:
    """Whether a value is stored so: of the dtype's width, and of its one NaN."""
    return _pattern(dtype, from_pattern(dtype, pattern)) == pattern


def results_of(execution: Execution, number: int, elements: range) -> list[tuple[int, ...]]:
    """The patterns of the results of the reductions of some elements of a call, which the account remembers."""
    key = "results", number, elements
    return execution.remembered(key, lambda: _results_of(execution, number, elements))


def _results_of(execution: Execution, number: int, elements: range) -> list[tuple[int, ...]]:
    body, numbers = execution.body(number), reductions(execution.body(number))
    if not numbers:
        return [()] * len(elements)
    if execution.compute is not None and is_worth(body, len(elements)):
        results = computed_results(execution, number, elements)
        if results is not None and _are_those(execution, number, elements, results):
            return results
    arrays = [argument.array for argument in execution.arguments(number)]
    each = Evaluation(body, reading(arrays), execution.bound(number), np.array(elements, np.int64))
    each.stored()
    columns = []
    for n in numbers:
        dtype = body.instructions[n].dtype
        total = np.ascontiguousarray(np.broadcast_to(each.values[n], len(elements)))
        columns.append([int(p) for p in patterns(dtype, canonical(dtype, total))])
    return list(zip(*columns, strict=True))


def _are_those(execution: Execution, number: int, elements: range, results: Sequence[tuple[int, ...]]) -> bool:
    """Whether what the call wrote follows from the results that a device gave."""
    body, written = execution.body(number), execution.written(number).array
    arrays = [argument.array for argument in execution.arguments(number)]

    def read(parameter: int, element: int) -> int:
        return _pattern(body.parameters[parameter].dtype, arrays[parameter - 1][element : element + 1])

    return all(
        evaluate_point(body, Point(element, result), execution.bound(number), read)
        == _pattern(body.parameters[0].dtype, written[element : element + 1])
        for element, result in zip(elements, results, strict=True)
    )


class Element:
    """An element of an executed call, over the tensors that an account gives for it.

    It remembers the accumulators that it was asked for, and some between them, from which it goes on.
    """

    def __init__(self, execution: Execution, number: int, element: int) -> None:
        self.execution = execution
        self.body = execution.body(number)
        self.number = number
        self.element = element
        self.variables = execution.bound(number)
        self._arrays = [argument.array for argument in execution.arguments(number)]
        self._known = [{0: identity_of(self.body, k)} for k in range(self.body.reductions)]

    @cached_property
    def stored(self) -> int:
        """The pattern that the call writes."""
        return evaluate_point(self.body, Point(self.element, self.results), self.variables, self.read)

    @cached_property
    def results(self) -> tuple[int, ...]:
        """The patterns of the element's reductions."""
        return tuple(self._accumulator(k, self.length(k)) for k in range(self.body.reductions))

    def length(self, reduction: int) -> int:
        """The steps that a reduction takes; none leave it at its identity."""
        return length_of(self.body, self.variables, reduction)

    def accumulators(self, reduction: int, after: Collection[int]) -> dict[int, int]:
        """The patterns of the accumulator after so many steps; 0 is the identity, `length` the result."""
        return {steps: self._accumulator(reduction, steps) for steps in sorted(after)}

    def read(self, parameter: int, element: int) -> int:
        """The pattern of an element of an operand."""
        return _pattern(self.body.parameters[parameter].dtype, self._arrays[parameter - 1][element : element + 1])

    def _accumulator(self, reduction: int, steps: int) -> int:
        known = self._known[reduction]
        if steps not in known:
            if len(known) == 1:
                known.update(self._computed(reduction))
            self._go_on(reduction, steps)
        return known[steps]

    def _computed(self, reduction: int) -> dict[int, int]:
        """Accumulators that kernels gave, if there are any and it is worth asking for them."""
        if self.execution.compute is None or not is_worth(self.body):
            return {}
        of = self.execution, self.number
        trips = trips_of(self.body, self.variables, reduction)
        accumulators = checkpoints(*of, self.element, reduction, trips)
        (result,) = results_of(*of, range(self.element, self.element + 1))
        return accumulators if accumulators.get(prod(trips)) == result[reduction] else {}

    def _go_on(self, reduction: int, end: int) -> None:
        """Makes the accumulator known after `end` steps, and every so many on the way, by the reference."""
        known, stride = self._known[reduction], stride_of(self.length(reduction))
        if end in known:
            return
        start = max(steps for steps in known if steps < end)
        at = Evaluation(self.body, reading(self._arrays), self.variables, np.array([self.element]))
        number = _reduce_of(self.body, reduction)
        roots, dtype = self.body.instructions[number].values, self.body.instructions[number].dtype
        used = set(cone(self.body, roots))
        for k, other in enumerate(reductions(self.body)):
            if other in used:
                at.values[other] = _claimed(self.body.instructions[other].dtype, self._accumulator(k, self.length(k)))
        at.evaluate(_expression(self.body, extents_of(self.body, reduction)))
        total, inner = _claimed(dtype, known[start]), _expression(self.body, roots)
        for first in range(start, end, LANES):
            terms = at.terms(number, np.arange(first, min(first + LANES, end)), inner)
            for n, steps in enumerate(range(first + 1, min(first + LANES, end) + 1)):
                total = at.accumulate(number, [term[n] for term in terms], total)
                if steps == end or steps % stride == 0:
                    known[steps] = _pattern(dtype, total)


def element_of(execution: Execution, number: int, element: int) -> Element:
    """The element, which the account remembers."""
    return execution.remembered(("element", number, element), lambda: Element(execution, number, element))


def reading(arrays: Sequence[Values]) -> Load:
    """Loads from the flat tensors of parameters 1, 2, …"""

    def load(parameter: int, element: Values, guard: Values | None) -> Values:
        return loaded(arrays[parameter - 1], element, guard)

    return load


def _nothing(parameter: int, element: Values, guard: Values | None) -> Values:
    raise WitnessError("an extent loads an element")


def _reduce_of(body: Body, reduction: int) -> int:
    numbers = reductions(body)
    if not 0 <= reduction < len(numbers):
        raise WitnessError(f"the body has no reduction {reduction}")
    return numbers[reduction]


def _expression(body: Body, roots: Sequence[int]) -> list[int]:
    """The cone of some instructions without the reductions in it, whose results are claimed."""
    return [number for number in cone(body, roots) if body.instructions[number].op not in REDUCTIONS]


def _claimed(dtype: DType, pattern: int) -> Values:
    """The value of a pattern that somebody claims: of the dtype's width, and of its one NaN."""
    if not is_canonical(dtype, pattern):
        raise WitnessError(f"{pattern:#x} is no canonical {dtype.name.lower()}")
    return from_pattern(dtype, pattern)


def _pattern(dtype: DType, value: Values) -> int:
    flat = np.ascontiguousarray(value).reshape(-1)
    return int(patterns(dtype, canonical(dtype, flat))[0])
