"""What a run has to compute again, where most of what it is given is as it was: decided call by call.

What is given is compared with what was given before; the boxes that differ go through the calls in order
(`program.regions`). Of each result the boxes that can differ are computed again by the same body over shorter loops
(`program.restriction`), and compared with what was there: where no bit differs, nothing goes on.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigentensor.program.boxes import (
    BOXES,
    Box,
    boxes_of,
    extents_of_box,
    inside,
    merged,
    rounded,
    rounded_box,
    slices,
    volume,
    whole_box,
)
from eigentensor.program.cost import body_cost
from eigentensor.program.intervals import Interval
from eigentensor.program.model import Body, Program
from eigentensor.program.regions import Touch, shape_of, touched
from eigentensor.program.restriction import Product, Restricted, loops_of, products, restrict, zeros

Values = NDArray[Any]
Compute = Callable[[Restricted, Sequence[Values], tuple[int, ...]], Values]

#: More than this share of the evaluations of all calls so far is not computed again, once that is ENOUGH of all there
#: are: a full run takes less time, since it compares nothing.
SPREAD, ENOUGH = 1 / 3, 1 / 16


class Work(NamedTuple):
    """Calls, and evaluations of instructions as `program.cost` counts them."""

    calls: int
    evaluations: int


def work_of(program: Program) -> Work:
    """That of a full run of one iteration."""
    each = [body_cost(body).evaluations for body in program.bodies]
    return Work(len(program.calls), sum(each[call.body] for call in program.calls))


class Recomputation:
    """One run over the flat buffers that a run before has left, which it changes.

    `values` are those of the program's variables, `moved` each with what it was before, the smaller first. `compute`
    gives the result of a restricted call, which may be written over when it is asked for the next.
    """

    def __init__(
        self,
        program: Program,
        buffers: Sequence[Values],
        values: Sequence[int],
        moved: Sequence[Interval],
        compute: Compute,
    ) -> None:
        self.program, self.values, self.moved, self.compute = program, values, moved, compute
        self.flat = buffers
        self.shaped = [array.reshape(shape_of(program, number)) for number, array in enumerate(buffers)]
        self.changed: dict[int, tuple[Box, ...]] = {}
        self.replaced: dict[int, list[Values]] = {}  #: what stood in the boxes that changed
        self.evaluations = 0

    def run(self, given: Mapping[int, Values]) -> Work | None:
        """What was computed for what is given now, by number of buffer.

        None where a full run is less work; then the buffers are as good as lost.
        """
        everything = work_of(self.program).evaluations
        for number, array in given.items():
            shape = self.shaped[number].shape
            self._take(number, whole_box(shape), array.reshape(shape), BOXES)
        if 2 * sum(map(self._changed, given)) > sum(array.size for array in given.values()):
            return None
        calls = done = 0
        for number, call in enumerate(self.program.calls):
            if touches := touched(self.program, number, self.changed, self.moved):
                if self.evaluations > max(SPREAD * done, ENOUGH * everything):
                    return None
                calls += 1
                self._again(number, touches)
            done += body_cost(self.program.bodies[call.body]).evaluations
        return Work(calls, self.evaluations)

    def _changed(self, buffer: int) -> int:
        """How many elements lie in the boxes of a buffer that changed."""
        return sum(map(volume, self.changed.get(buffer, ())))

    def _again(self, number: int, touches: Sequence[Touch]) -> None:
        """Computes what may have changed of the result of a call."""
        body, buffer = self.program.bodies[self.program.calls[number].body], len(self.program.buffers) + number
        for box in rounded(merged(self._needed(number, body, touches)), self.shaped[buffer].shape):
            extents = extents_of_box(box)
            new = self._compute(number, restrict(body, extents if body.output_ranges else ()), [low for low, _ in box])
            self._take(buffer, box, new.reshape(extents))

    def _take(self, buffer: int, box: Box, new: Values, most: int = 1) -> None:
        """Puts new elements of a box where they belong, and notes where they differ."""
        kept = self.shaped[buffer][slices(box)]
        if found := boxes_of(_bits(kept) != _bits(new), most):
            self.changed[buffer] = merged((*self.changed.get(buffer, ()), *(inside(box, inner) for inner in found)))
            self.replaced.setdefault(buffer, []).append(kept.copy())
            kept[...] = new

    def _is_finite(self, buffer: int) -> bool:
        """Whether all that changed in a buffer of floats is finite, and was."""
        kept = self.shaped[buffer]
        old, new = self.replaced.get(buffer, ()), (kept[slices(box)] for box in self.changed.get(buffer, ()))
        return all(np.isfinite(array).all() for array in (*old, *new))

    def _compute(self, number: int, restricted: Restricted, starts: Mapping[int, int] | Sequence[int]) -> Values:
        call = self.program.calls[number]
        values = tuple(self.values[call.variables[v]] if v >= 0 else starts[-1 - v] for v in restricted.variables)
        self.evaluations += restricted.evaluations
        return self.compute(restricted, [self.flat[call.arguments[p - 1]] for p in restricted.parameters], values)

    def _needed(self, number: int, body: Body, touches: Sequence[Touch]) -> Iterator[Box]:
        """The boxes of what may have changed, less what is multiplied with zeros where it did."""
        of_load = {product.load: product for product in products(body)}
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
        around = rounded_box((*touch.outputs, *steps), tuple(loops.values()))
        restricted = zeros(body, product.factor, extents_of_box(around))
        again = body_cost(body).evaluations * volume(touch.outputs) // body.parameters[0].elements
        argument = self.program.calls[number].arguments[body.instructions[product.load].a - 1]
        if 4 * restricted.evaluations > again or not self._is_finite(argument):
            return [touch.outputs]
        found = self._compute(number, restricted, [low for low, _ in around])
        part = [
            slice(low - start, high + 1 - start) if extent > 1 else slice(None)
            for (low, high), (start, _), extent in zip((*touch.outputs, *steps), around, found.shape, strict=True)
        ]
        alone = found[tuple(part)].all(axis=tuple(range(outputs, len(loops))))
        kept = self.shaped[len(self.program.buffers) + number][slices(touch.outputs)]
        return [inside(touch.outputs, box) for box in boxes_of(~alone | (kept == 0))]


def _bits(array: Values) -> Values:
    return array.view(f"u{array.itemsize}")
