"""What a run has to compute again, where most of what it is given is as it was: decided call by call.

What is given is compared with what was given before; the boxes that differ go through the calls in order
(`program.regions`). Of each result the boxes that can differ are computed again by the same body over shorter loops
(`program.restriction`), or all of it where that takes less time; they are compared with what was there: where no bit
differs, nothing goes on. Once all that later calls read has changed, those are computed without a further look.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

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
from eigentensor.program.ops import NO_GUARD, Op
from eigentensor.program.regions import Touch, shape_of, touched
from eigentensor.program.restriction import Product, Restricted, loops_of, products, restrict, zeros

Values = NDArray[Any]

#: Once more than this share has changed of what changes at all and is read by later calls, these are computed whole.
SPREAD = 0.9
#: What is computed whole is not compared where more than this share of it can differ.
COMPARED = 1 / 2
#: Seconds that a box takes besides its elements, to compare it and to put it in its place; and how much longer than
#: their share of the whole these take, as long as that was not measured.
BOX, PART = 1e-4, 1.3


class Work(NamedTuple):
    """Calls, and evaluations of instructions as `program.cost` counts them."""

    calls: int
    evaluations: int


class Live(NamedTuple):
    """Buffers that may change and that a call or later ones read, and how many elements they have."""

    buffers: tuple[int, ...]
    elements: int


@dataclass(frozen=True)
class Outline:
    """A program, the numbers of the tensors that never change, and of those of them that have no zeros."""

    program: Program
    closed: frozenset[int] = frozenset()
    nonzero: frozenset[int] = frozenset()

    @cached_property
    def evaluations(self) -> tuple[int, ...]:
        """Of each call."""
        each = [body_cost(body).evaluations for body in self.program.bodies]
        return tuple(each[call.body] for call in self.program.calls)

    @property
    def work(self) -> Work:
        """That of a full run of one iteration."""
        return Work(len(self.evaluations), sum(self.evaluations))

    @cached_property
    def live(self) -> tuple[Live, ...]:
        """What is live before each call."""
        program, first = self.program, len(self.program.buffers)
        last = {argument: number for number, call in enumerate(program.calls) for argument in call.arguments}
        may_change = set(range(first)).difference(self.closed)
        current, found = may_change.intersection(last), list[Live]()
        for number, call in enumerate(program.calls):
            found.append(Live(tuple(sorted(current)), sum(program.parameter(b).elements for b in current)))
            if call.variables or not may_change.isdisjoint(call.arguments):
                may_change.add(first + number)
                current |= {first + number}.intersection(last)
            current -= {argument for argument in call.arguments if last[argument] == number}
        return tuple(found)


class Machine(Protocol):
    """What computes calls on the kept buffers."""

    def seconds(self, body: Body) -> float | None:
        """The least that a call took until now; None if none was timed."""

    def calls(self, numbers: Sequence[int], values: Sequence[int]) -> None:
        """Computes the whole results of calls, in order, where they are kept, with values of all variables."""

    def part(self, restricted: Restricted, inputs: Sequence[Values], values: tuple[int, ...]) -> Values:
        """The result of a restricted call, shaped, which may be written over by what is computed next."""


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
        self.shaped = [array.reshape(shape_of(self.program, number)) for number, array in enumerate(buffers)]
        self.changed: dict[int, tuple[Box, ...]] = {}
        self.replaced: dict[int, list[Values]] = {}  #: what stood in the boxes that changed, where that is known
        self.waiting: list[int] = []  #: calls that are computed whole before anybody reads their results
        self.calls = self.evaluations = 0

    def run(self, given: Mapping[int, Values]) -> Work:
        """What was computed for what is given now, by number of buffer."""
        for number, array in given.items():
            shape = self.shaped[number].shape
            self._take(number, whole_box(shape), array.reshape(shape), BOXES)
        for number, (buffers, elements) in enumerate(self.outline.live):
            if sum(self._changed(b) for b in buffers) > SPREAD * elements:
                self._all(range(number, len(self.program.calls)))
                break
            if touches := touched(self.program, number, self.changed, self.moved):
                self._again(number, touches)
        self._flush()
        return Work(self.calls, self.evaluations)

    def _changed(self, buffer: int) -> int:
        """How many elements lie in the boxes of a buffer that changed."""
        return sum(map(volume, self.changed.get(buffer, ())))

    def _again(self, number: int, touches: Sequence[Touch]) -> None:
        """Computes what may have changed of the result of a call."""
        body, buffer = self.program.bodies[self.program.calls[number].body], len(self.program.buffers) + number
        boxes = merged(self._needed(number, body, touches))
        if not boxes:
            return
        kept = self.shaped[buffer]
        if parts := self._parts(body, boxes, kept.shape):
            self.calls += 1
            for box, restricted in parts:
                new = self._compute(number, restricted, [low for low, _ in box])
                self._take(buffer, box, new.reshape(extents_of_box(box)))
            return
        self._all([number])
        if sum(map(volume, boxes)) > COMPARED * kept.size:
            self.changed[buffer] = boxes
            return
        before = [kept[slices(box)].copy() for box in boxes]
        self._flush()
        for box, old in zip(boxes, before, strict=True):
            self._note(buffer, box, old, kept[slices(box)])

    def _parts(self, body: Body, boxes: Iterable[Box], shape: tuple[int, ...]) -> list[tuple[Box, Restricted]]:
        """The boxes to compute one by one, and how; none if computing all takes less time."""
        whole, found = self.machine.seconds(body) or 0.0, []
        left = whole
        for box in rounded(boxes, shape):
            left -= BOX
            if left <= 0 or volume(box) == body.parameters[0].elements:
                return []
            restricted = restrict(body, extents_of_box(box) if body.output_ranges else ())
            known = self.machine.seconds(restricted.program.bodies[0])
            left -= PART * whole * volume(box) / body.parameters[0].elements if known is None else known
            found.append((box, restricted))
        return found if left > 0 else []

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
        kept = self.shaped[buffer][slices(box)]
        if self._note(buffer, box, kept, new, most):
            kept[...] = new

    def _note(self, buffer: int, box: Box, old: Values, new: Values, most: int = 1) -> bool:
        """Notes where the elements of a box differ; whether any do."""
        found = boxes_of(_bits(old) != _bits(new), most)
        if found:
            self.changed[buffer] = merged((*self.changed.get(buffer, ()), *(inside(box, inner) for inner in found)))
            self.replaced.setdefault(buffer, []).append(old.copy())
        return bool(found)

    def _is_finite(self, buffer: int) -> bool:
        """Whether all that changed in a buffer of floats is finite, and was, as far as that is known."""
        if buffer in self.changed and buffer not in self.replaced:
            return False
        kept = self.shaped[buffer]
        old, new = self.replaced.get(buffer, ()), (kept[slices(box)] for box in self.changed.get(buffer, ()))
        return all(np.isfinite(array).all() for array in (*old, *new))

    def _compute(self, number: int, restricted: Restricted, starts: Mapping[int, int] | Sequence[int]) -> Values:
        self._flush()
        call = self.program.calls[number]
        values = tuple(self.values[call.variables[v]] if v >= 0 else starts[-1 - v] for v in restricted.variables)
        self.evaluations += restricted.evaluations
        return self.machine.part(restricted, [self.flat[call.arguments[p - 1]] for p in restricted.parameters], values)

    def _needed(self, number: int, body: Body, touches: Sequence[Touch]) -> Iterator[Box]:
        """The boxes of what may have changed, less what is multiplied with zeros where it did."""
        of_load = {product.load: product for product in products(body) if self._has_zeros(number, body, product)}
        for touch in touches:
            product = of_load.get(touch.instruction)
            if product is None:
                yield touch.outputs
            else:
                yield from self._beside_zeros(number, body, product, touch)

    def _has_zeros(self, number: int, body: Body, product: Product) -> bool:
        """Whether a factor may be a zero."""
        factor = body.instructions[product.factor]
        alone = factor.op is Op.LOAD and factor.c == NO_GUARD
        return not alone or self.program.calls[number].arguments[factor.a - 1] not in self.outline.nonzero

    def _beside_zeros(self, number: int, body: Body, product: Product, touch: Touch) -> Iterable[Box]:
        """Where a finite load that changed is multiplied with something else than a zero, or where the sum is a zero.

        All that may have changed, if that is less work.
        """
        outputs, loops = len(body.output_ranges), loops_of(body)
        steps = tuple(touch.reduced[n - outputs] for n in loops if n >= outputs)
        around = rounded_box((*touch.outputs, *steps), tuple(loops.values()))
        restricted = zeros(body, product.factor, extents_of_box(around))
        again = self.outline.evaluations[number] * volume(touch.outputs) // body.parameters[0].elements
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
