"""What a run has to compute again, where most of what it is given is as it was: decided call by call.

What is given is compared with what was given before; the boxes that differ go through the calls in order
(`regions.dependence`). Of each result the boxes that can differ are computed again by the same body over shorter loops
(`program.restriction`), or all of it where that takes less time; they are compared with what was there: where no bit
differs, nothing goes on. Once all that later calls read has changed, those are computed without a further look.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eigentensor.program.intervals import Interval
from eigentensor.program.model import Body
from eigentensor.program.restriction import Restricted, loops_of, restrict, zeros
from eigentensor.regions.boxes import (
    BOXES,
    Box,
    Shape,
    boxes_of,
    extents_of_box,
    inside,
    merged,
    rounded_box,
    slices,
    volume,
    whole_box,
    within,
)
from eigentensor.regions.dependence import Touch, shape_of, touched
from eigentensor.runtime.incremental.outline import Outline, Product, Work

Values = NDArray[Any]

#: Once more than this share has changed of what changes at all and is read by later calls, these are computed whole.
SPREAD = 0.9
#: Seconds that it takes to compare a box and to put it in its place, and for each of its elements; and how much longer
#: than their share of the whole it takes to compute these, as long as that was not measured.
BOX, ELEMENT, PART = 1e-4, 1e-9, 1.3
#: Seconds that all calls which are left must take, lest they are computed without a further look.
SHORT = 1e-3


class Machine(Protocol):
    """What computes calls on the kept buffers."""

    def seconds(self, body: Body) -> float | None:
        """The least that a call took until now; None if none was timed."""

    def calls(self, numbers: Sequence[int], values: Sequence[int]) -> None:
        """Computes the whole results of calls, in order, where they are kept, with values of all variables."""

    def part(self, restricted: Restricted, inputs: Sequence[Values], values: tuple[int, ...]) -> Values:
        """The result of a restricted call, shaped. The next part, or copy, may be written over it."""

    def copy(self, array: Values) -> Values:
        """A copy, over which the next one, or part, may be written."""


class Recomputation:
    """One run over the flat buffers that a run before has left, which it changes.

    `values` are those of the program's variables, `moved` each with what it was before, the smaller first.
    """

    def __init__(
        self,
        outline: Outline,
        buffers: Sequence[Values],
        values: Sequence[int],
        moved: Sequence[Interval],
        machine: Machine,
    ) -> None:
        self.outline, self.program = outline, outline.program
        self.values, self.moved, self.machine = values, moved, machine
        self.flat = buffers
        self.changed: dict[int, tuple[Box, ...]] = {}
        self.finite: dict[int, bool] = {}  #: whether all floats that changed are finite, and were, by buffer
        self.waiting: list[int] = []  #: calls that are computed whole before anybody reads their results
        self.calls = self.evaluations = 0

    def run(self, inputs: Mapping[int, Values]) -> Work:
        """What was computed for what is given now, by number of buffer."""
        left = self._left()
        for number, array in inputs.items():
            shape = shape_of(self.program, number)
            self._take(number, whole_box(shape), array.reshape(shape), BOXES if left[0] >= SHORT else 1)
        if not self.changed and all(low == high for low, high in self.moved):
            return Work(0, 0)
        for number, ((buffers, elements), seconds) in enumerate(zip(self.outline.live, left, strict=True)):
            if seconds < SHORT or sum(map(self._changed, buffers)) > SPREAD * elements:
                self._all(range(number, len(self.program.calls)))
                break
            if touches := touched(self.program, number, self.changed, self.moved):
                self._again(number, touches)
        self._flush()
        return Work(self.calls, self.evaluations)

    def _kept(self, buffer: int) -> Values:
        return self.flat[buffer].reshape(shape_of(self.program, buffer))

    def _left(self) -> list[float]:
        """Seconds that each call and those after it take, computed whole."""
        each = [self.machine.seconds(body) or 0.0 for body in self.program.bodies]
        return list(accumulate(each[call.body] for call in reversed(self.program.calls)))[::-1]

    def _changed(self, buffer: int) -> int:
        """How many elements lie in the boxes of a buffer that changed."""
        return sum(map(volume, self.changed.get(buffer, ())))

    def _again(self, number: int, touches: Sequence[Touch]) -> None:
        """Computes what may have changed of the result of a call."""
        body, buffer = self.program.bodies[self.program.calls[number].body], len(self.program.buffers) + number
        boxes = merged(self._needed(number, body, touches))
        if not boxes:
            return
        kept = self._kept(buffer)
        if parts := self._parts(body, boxes, kept.shape):
            self.calls += 1
            for box, around, restricted in parts:
                new = self._compute(number, restricted, [low for low, _ in around]).reshape(extents_of_box(around))
                self._take(buffer, box, new[slices(within(around, box))])
            return
        self._all([number])
        short = body.parameters[0].dtype.is_float and (self.machine.seconds(body) or 0.0) < BOX
        if short or number in self.outline.spreading:  # of integers and bools, many are what they were
            self.changed[buffer] = boxes
            return
        copy = self.machine.copy(kept)
        before = [copy[slices(box)] for box in boxes]
        self._flush()
        for box, old in zip(boxes, before, strict=True):
            self._note(buffer, box, old, kept[slices(box)])
        if self._changed(buffer) >= sum(map(volume, boxes)):
            self.outline.spreading.add(number)

    def _parts(self, body: Body, boxes: Sequence[Box], shape: Shape) -> list[tuple[Box, Box, Restricted]]:
        """Boxes to compute one by one, each with one around it, and how; none if computing all takes less time."""
        whole, parts = self.machine.seconds(body) or 0.0, []
        left = whole
        for box in boxes:
            around = rounded_box(box, shape)
            left -= BOX + ELEMENT * volume(box)
            if left <= 0 or volume(around) == body.parameters[0].elements:
                return []
            restricted = restrict(body, extents_of_box(around) if body.output_ranges else ())
            known = self.machine.seconds(restricted.program.bodies[0])
            left -= PART * whole * volume(around) / body.parameters[0].elements if known is None else known
            parts.append((box, around, restricted))
        return parts if left > 0 else []

    def _all(self, numbers: Iterable[int]) -> None:
        """Calls that are computed whole when the next part is, or at the end."""
        for number in numbers:
            self.waiting.append(number)
            self.calls += 1
            self.evaluations += self.outline.evaluations[number]

    def _flush(self) -> None:
        if self.waiting:
            self.machine.calls(self.waiting, self.values)
            self.waiting = []

    def _take(self, buffer: int, box: Box, new: Values, most: int = 1) -> None:
        """Puts new elements of a box where they belong, and notes where they differ."""
        kept = self._kept(buffer)[slices(box)]
        if self._note(buffer, box, kept, new, most):
            kept[...] = new

    def _note(self, buffer: int, box: Box, old: Values, new: Values, most: int = 1) -> bool:
        """Notes where the elements of a box differ; whether any do."""
        around = most == 1 and _differ_all_around(old, new)
        boxes = (whole_box(old.shape),) if around else boxes_of(_bits(old) != _bits(new), most)
        if boxes:
            self.changed[buffer] = merged((*self.changed.get(buffer, ()), *(inside(box, inner) for inner in boxes)))
            if buffer in self.outline.multiplied:
                finite = bool(np.isfinite(old).all() and np.isfinite(new).all())
                self.finite[buffer] = finite and self.finite.get(buffer, True)
        return bool(boxes)

    def _compute(self, number: int, restricted: Restricted, starts: Mapping[int, int] | Sequence[int]) -> Values:
        self._flush()
        call = self.program.calls[number]
        values = tuple(self.values[call.variables[v]] if v >= 0 else starts[-1 - v] for v in restricted.variables)
        self.evaluations += restricted.evaluations
        return self.machine.part(restricted, [self.flat[call.arguments[p - 1]] for p in restricted.parameters], values)

    def _needed(self, number: int, body: Body, touches: Sequence[Touch]) -> Iterator[Box]:
        """The boxes of what may have changed, less what is multiplied with zeros where it did."""
        of_load = {product.load: product for product in self.outline.products(number)}
        for touch in touches:
            product = of_load.get(touch.instruction)
            if product is None:
                yield touch.outputs
            else:
                yield from self._beside_zeros(number, body, product, touch)

    def _beside_zeros(self, number: int, body: Body, product: Product, touch: Touch) -> Iterable[Box]:
        """Where a finite load that changed is multiplied with something else than a zero, or where the sum is a zero.

        All that may have changed, if that is less work.
        """
        outputs, loops = len(body.output_ranges), loops_of(body)
        steps = tuple(touch.reduced[n - outputs] for n in loops if n >= outputs)
        box = (*touch.outputs[:outputs], *steps)  # one element alone has an axis that the body does not have
        around = rounded_box(box, tuple(loops.values()))
        restricted = zeros(body, product.factor, extents_of_box(around))
        again = self.outline.evaluations[number] * volume(touch.outputs) // body.parameters[0].elements
        argument = self.program.calls[number].arguments[body.instructions[product.load].a - 1]
        if 4 * restricted.evaluations > again or not self.finite.get(argument, argument not in self.changed):
            return [touch.outputs]
        is_zero = self._compute(number, restricted, [low for low, _ in around])
        part = [
            slice(low - start, high + 1 - start) if extent > 1 else slice(None)
            for (low, high), (start, _), extent in zip(box, around, is_zero.shape, strict=True)
        ]
        alone = is_zero[tuple(part)].all(axis=tuple(range(outputs, len(loops))))
        kept = self._kept(len(self.program.buffers) + number)[slices(touch.outputs)]
        return [inside(touch.outputs, needed) for needed in boxes_of(~alone | (kept == 0))]


def _differ_all_around(old: Values, new: Values) -> bool:
    """Whether something differs at both ends of every axis: then the one box around all that does is known."""
    ends = [(*[slice(None)] * axis, end) for axis, extent in enumerate(old.shape) if extent > 1 for end in (0, -1)]
    return bool(ends) and all((_bits(old[end]) != _bits(new[end])).any() for end in ends)


def _bits(array: Values) -> Values:
    return array.view(f"u{array.itemsize}")
