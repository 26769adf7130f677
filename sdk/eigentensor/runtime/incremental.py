"""Running a program again where little of what it is given has changed: only what depends on that is computed.

All results of calls are kept. What is given is compared with what was given before; the boxes that differ go through
the calls in order (`program.regions`). Of each result the boxes that can differ are computed again by the same body
over shorter loops (`program.restriction`), and compared with what was there: where no bit differs, nothing goes on.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eigentensor.cache import Cache, default_folder
from eigentensor.errors import ExecutionError
from eigentensor.program.binding import Results, bind, iteration_values
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
from eigentensor.program.model import Body, Kind, Program, Result, Role
from eigentensor.program.regions import Touch, shape_of, touched
from eigentensor.program.restriction import Product, Restricted, loops_of, products, restrict, zeros
from eigentensor.runtime import devices
from eigentensor.runtime.kernels import Compiler
from eigentensor.runtime.memory import HOST, estimate_memory_requirements, refuse_over

Values = NDArray[Any]

#: Kernels of boxes that are held loaded, those last used.
LOADED = 512
#: When calls of whose results most has changed are this share of all evaluations, the change has spread everywhere.
SPREAD = 1 / 16


class Work(NamedTuple):
    """Calls, and evaluations of instructions as `program.cost` counts them."""

    calls: int
    evaluations: int


@dataclass(frozen=True, slots=True)
class Rerun(Results):
    """Results, and what was computed for them, `of` what a full run computes."""

    computed: Work
    of: Work


class Incremental:
    """A program that is compiled for a processor and keeps what it computed, to compute only what changes.

    Bits are those of a full run, whatever changes: the first run is full, and so is one whose change spreads. `weights`
    (or any other tensors) given here stay bound and must not change; states given here are what every run starts from
    that is not given others. What is held in memory is `memory_of(program)`; more than `memory_limit` bytes, by
    default what the host has, are refused: LimitError. Only for devices that compute in the host's memory.
    """

    def __init__(
        self,
        program: Program,
        weights: Mapping[str, ArrayLike] | None = None,
        *,
        device: str = HOST,
        threads: int | None = None,
        memory_limit: int | None = None,
        cache: Cache | None = None,
        toolchain: Compiler | None = None,
    ) -> None:
        if device.partition(":")[0] != HOST:
            raise ExecutionError(
                f"{device} has memory of its own, and what is kept between incremental runs lies in the host's",
                fix="Use CompiledGraph there, or Incremental on CPU.",
            )
        self.program = program
        self.shown = _all_shown(program)
        refuse_over(memory_limit, self.shown, device, 1)
        self.load = partial(
            devices.load, device=device, cache=cache or Cache(default_folder()), toolchain=toolchain, threads=threads
        )
        self.loaded = self.load(self.shown)
        self.parts: OrderedDict[Body, devices.Loaded] = OrderedDict()
        self.lock = Lock()
        bound = dict(weights or {})
        self.first_states = {name: bound.pop(name) for name in program.named(Role.STATE) if name in bound}
        closed = [n for n, b in enumerate(program.buffers) if b.role is Role.CONSTANT or b.name in bound]
        without = replace(program, buffers=tuple(program.buffers[n] for n in closed), variables=())
        self.closed = dict(zip(closed, bind(without, bound), strict=True))
        self.loaded.bind(self.closed)
        self.open_numbers = [n for n in range(len(program.buffers)) if n not in self.closed]
        self.open = replace(program, buffers=tuple(program.buffers[n] for n in self.open_numbers))
        each = [body_cost(body).evaluations for body in program.bodies]
        self.all = Work(len(program.calls), sum(each[call.body] for call in program.calls))
        self.shapes = [shape_of(program, number) for number in range(len(program.buffers) + len(program.calls))]
        self.kept: _Kept | None = None

    def run(self, tensors: Mapping[str, ArrayLike], variables: Mapping[str, int] | None = None) -> Rerun:
        """One iteration on the tensors that are not bound; as CompiledGraph.run, from any thread.

        Raises BindingError if they do not fit the program. After a run that was interrupted, the next is full.
        """
        given = bind(self.open, {**self.first_states, **tensors}, variables or {})
        values = iteration_values(self.program, variables or {})
        with self.lock:
            kept, self.kept = self.kept, None
            computed = kept and _Pass(self, kept, values).run(given)
            if kept is None or computed is None:
                kept, computed = None, self.all  # what was kept is given back before there is more
                kept = self._in_full(given, values)
            self.kept = kept._replace(values=values)
            outputs, states = (
                {name: self._copy(kept, result) for name, result in kind.items()}
                for kind in (self.program.outputs, self.program.new_states)
            )
            return Rerun(outputs, states, computed, self.all)

    def _in_full(self, given: Sequence[Values], values: tuple[int, ...]) -> "_Kept":
        arrays = {number: array.copy() for number, array in zip(self.open_numbers, given, strict=True)}
        self.loaded.run(arrays, [values])
        written = [self.loaded.read(result) for result in self.shown.results]
        everything = self.closed | arrays
        return _Kept([*(everything[n] for n in range(len(everything))), *written], values)

    def shaped(self, buffers: Sequence[Values], number: int) -> Values:
        """A buffer as its boxes see it."""
        return buffers[number].reshape(self.shapes[number])

    def _copy(self, kept: "_Kept", result: Result) -> Values:
        return kept.buffers[result.buffer].reshape(result.shape).copy()

    def compute(self, restricted: Restricted, inputs: Sequence[Values], values: tuple[int, ...]) -> Values:
        """The result of a restricted call, shaped."""
        (body,) = restricted.program.bodies
        if body not in self.parts:
            loaded = self.load(restricted.program)
            loaded.bind({})
            self.parts[body] = loaded
            if len(self.parts) > LOADED:
                self.parts.popitem(last=False)
        self.parts.move_to_end(body)
        loaded = self.parts[body]
        loaded.run(dict(enumerate(inputs)), [values])
        return loaded.read(restricted.program.results[0])


def memory_of(program: Program) -> int:
    """Bytes that `Incremental` holds of a valid program: all tensors, all results of calls, and a copy of what goes
    out. Kernels are not counted."""
    return estimate_memory_requirements(_all_shown(program), HOST, 1)[HOST]


def _all_shown(program: Program) -> Program:
    """One iteration of the program, with the results of all its calls as outputs, flat; states are inputs."""
    first = len(program.buffers)
    numbers = range(first, first + len(program.calls))
    shown = (Result(Kind.OUTPUT, f"{n}", n, (program.parameter(n).elements,)) for n in numbers)
    buffers = (b._replace(role=Role.INPUT) if b.role is Role.STATE else b for b in program.buffers)
    return replace(program, buffers=tuple(buffers), results=tuple(shown), max_repeat=1)


class _Kept(NamedTuple):
    """The flat arrays of all buffers as the last run left them, and the values of its variables."""

    buffers: list[Values]
    values: tuple[int, ...]


class _Pass:
    """One run over what is kept, which it changes."""

    def __init__(self, owner: Incremental, kept: _Kept, values: tuple[int, ...]) -> None:
        self.owner, self.program = owner, owner.program
        self.buffers, self.values = kept.buffers, values
        self.moved = tuple((min(pair), max(pair)) for pair in zip(kept.values, values, strict=True))
        self.changed: dict[int, tuple[Box, ...]] = {}
        self.replaced: dict[int, list[Values]] = {}  #: what stood in the boxes that changed
        self.evaluations = 0

    def run(self, given: Sequence[Values]) -> Work | None:
        """What was computed; None, whatever has become of what was kept, where a full run is less work."""
        for number, array in zip(self.owner.open_numbers, given, strict=True):
            shape = self.owner.shapes[number]
            self._take(number, whole_box(shape), array.reshape(shape), BOXES)
        if 2 * sum(map(self._changed, self.owner.open_numbers)) > sum(array.size for array in given):
            return None
        calls = spread = 0
        for number, call in enumerate(self.program.calls):
            if touches := touched(self.program, number, self.changed, self.moved):
                calls += 1
                self._again(number, touches)
                body = self.program.bodies[call.body]
                if 2 * self._changed(len(self.program.buffers) + number) > body.parameters[0].elements:
                    spread += body_cost(body).evaluations
                if spread > SPREAD * self.owner.all.evaluations:
                    return None
        return Work(calls, self.evaluations)

    def _changed(self, buffer: int) -> int:
        """How many elements lie in the boxes of a buffer that changed."""
        return sum(map(volume, self.changed.get(buffer, ())))

    def _again(self, number: int, touches: Sequence[Touch]) -> None:
        """Computes what may have changed of the result of a call."""
        body, buffer = self.program.bodies[self.program.calls[number].body], len(self.program.buffers) + number
        for box in rounded(merged(self._needed(number, body, touches)), self.owner.shapes[buffer]):
            extents = extents_of_box(box)
            new = self._compute(number, restrict(body, extents if body.output_ranges else ()), [low for low, _ in box])
            self._take(buffer, box, new.reshape(extents))

    def _take(self, buffer: int, box: Box, new: Values, most: int = 1) -> None:
        """Puts new elements of a box where they belong, and notes where they differ."""
        kept = self.owner.shaped(self.buffers, buffer)[slices(box)]
        if found := boxes_of(_bits(kept) != _bits(new), most):
            self.changed[buffer] = merged((*self.changed.get(buffer, ()), *(inside(box, inner) for inner in found)))
            self.replaced.setdefault(buffer, []).append(kept.copy())
            kept[...] = new

    def _is_finite(self, buffer: int) -> bool:
        """Whether all that changed in a buffer of floats is finite, and was."""
        kept = self.owner.shaped(self.buffers, buffer)
        old, new = self.replaced.get(buffer, ()), (kept[slices(box)] for box in self.changed.get(buffer, ()))
        return all(np.isfinite(array).all() for array in (*old, *new))

    def _compute(self, number: int, restricted: Restricted, starts: Mapping[int, int] | Sequence[int]) -> Values:
        call = self.program.calls[number]
        values = tuple(self.values[call.variables[v]] if v >= 0 else starts[-1 - v] for v in restricted.variables)
        self.evaluations += body_cost(restricted.program.bodies[0]).evaluations
        return self.owner.compute(
            restricted, [self.buffers[call.arguments[p - 1]] for p in restricted.parameters], values
        )

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
        if 4 * body_cost(restricted.program.bodies[0]).evaluations > again or not self._is_finite(argument):
            return [touch.outputs]
        found = self._compute(number, restricted, [low for low, _ in around])
        part = [
            slice(low - start, high + 1 - start) if extent > 1 else slice(None)
            for (low, high), (start, _), extent in zip((*touch.outputs, *steps), around, found.shape, strict=True)
        ]
        alone = found[tuple(part)].all(axis=tuple(range(outputs, len(loops))))
        kept = self.owner.shaped(self.buffers, len(self.program.buffers) + number)[slices(touch.outputs)]
        return [inside(touch.outputs, box) for box in boxes_of(~alone | (kept == 0))]


def _bits(array: Values) -> Values:
    return array.view(f"u{array.itemsize}")
