"""What is to be placed: a program, so many workers, what they have, what authors want; and what a placement costs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import NamedTuple

from eigentensor.program.cost import body_cost
from eigentensor.program.model import Body, Program, Role
from eigentensor.regions.boxes import Shape, covers, overlap, volume
from eigentensor.regions.needs import needed
from eigentensor.sharding.layout import Layout, Place, axes_of, made, volumes
from eigentensor.sharding.signals import Hint


class Link(NamedTuple):
    """What joins workers, by what could be done while a byte is moved: so many `evaluations` of instructions.

    In bytes that could be moved meanwhile: what each `message` takes of who sends it, and the `latency`, after which
    the first byte comes of what is exchanged, however many workers exchange it at once. It is 1.8 million for 360 GB/s
    and 5 µs.
    """

    evaluations: int = 16
    message: int = 64
    latency: int = 0


#: That of workers on one host, and of those of which nobody has said what joins them.
HERE = Link()


@dataclass(frozen=True)
class Cluster:
    """A program, how many workers there are, where tensors that are given lie already, by number of buffer, what
    authors want, by call, and what joins the workers. A tensor without a layout comes from outside: each worker is
    given what it reads of it."""

    program: Program
    count: int
    layouts: tuple[tuple[int, Layout], ...] = ()
    hints: tuple[Hint | None, ...] = ()
    link: Link = HERE

    @cached_property
    def axes(self) -> tuple[Shape, ...]:
        """The axes of each buffer."""
        return axes_of(self.program)

    @cached_property
    def shapes(self) -> tuple[tuple[Shape, ...], ...]:
        """The axes of what each call reads."""
        return tuple(tuple(self.axes[argument] for argument in call.arguments) for call in self.program.calls)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of an element of each buffer."""
        return tuple(self.program.parameter(number).dtype.size for number in range(len(self.axes)))

    @cached_property
    def evaluations(self) -> tuple[float, ...]:
        """Evaluations of instructions for an element of each call's result."""
        each = [body_cost(body).evaluations / max(1, body.parameters[0].elements) for body in self.program.bodies]
        return tuple(each[call.body] for call in self.program.calls)

    @cached_property
    def ending(self) -> tuple[tuple[int, ...], ...]:
        """Results of calls that nobody reads after each call."""
        program, kept = self.program, {r.buffer for r in self.program.results}
        last = {argument: n for n, call in enumerate(program.calls) for argument in call.arguments}
        ending: list[list[int]] = [[] for _ in program.calls]
        for buffer, number in last.items():
            if buffer >= len(program.buffers) and buffer not in kept:
                ending[number].append(buffer)
        return tuple(map(tuple, ending))

    @cached_property
    def renewed(self) -> dict[int, list[int]]:
        """The states that each result becomes, by number of buffer."""
        renewed: dict[int, list[int]] = {}
        for number, b in enumerate(self.program.buffers):
            if b.role is Role.STATE:
                renewed.setdefault(self.program.new_states[b.name].buffer, []).append(number)
        return renewed

    def needs(self, call: int, layout: Layout) -> tuple[tuple[int, Layout], ...]:
        """What each worker reads to make its box of a call's result, by buffer."""
        of = self.program.calls[call]
        needs = _needs(self.program.bodies[of.body], self.shapes[call], layout)
        return tuple(zip(of.arguments, needs, strict=True))

    def layout(self, call: int, place: Place) -> Layout:
        """What each worker makes of a call's result."""
        return made(place, self.axes[len(self.program.buffers) + call], self.count)

    def work(self, call: int, layout: Layout) -> float:
        """What the worker that has most to compute of a call takes for it, in bytes that are moved meanwhile."""
        return self.evaluations[call] * max(volumes(layout)) / self.link.evaluations


@lru_cache(maxsize=1 << 14)
def _needs(body: Body, shapes: tuple[Shape, ...], layout: Layout) -> tuple[Layout, ...]:
    each = [(None,) * len(shapes) if box is None else needed(body, shapes, box) for box in layout]
    return tuple(zip(*each, strict=True))


def candidates(cluster: Cluster, call: int) -> tuple[Place, ...]:
    """Where a call may be computed: cut along any axis, on each worker, on one alone; or as its author wants it."""
    shape = cluster.axes[len(cluster.program.buffers) + call]
    everyone = tuple(range(cluster.count))
    if not prod(shape):
        return (Place(None, ()),)
    hint = cluster.hints[call] if cluster.hints else None
    if hint is None:
        alone = tuple(Place(None, (worker,)) for worker in everyone)
        return (*_cuts(shape, everyone), *([Place(None, everyone)] if cluster.count > 1 else []), *alone)
    workers = tuple(dict.fromkeys(hint.workers))
    if hint.replicated:
        return (*_cuts(shape, workers, True), Place(None, workers))
    axis = hint.axis + len(shape) if hint.axis < 0 else hint.axis
    long = 0 <= axis < len(shape) and shape[axis] >= len(workers) > 1
    return (Place(axis, workers) if long else Place(None, workers[:1]),)


def _cuts(shape: Shape, workers: tuple[int, ...], everywhere: bool = False) -> Iterator[Place]:
    for axis, extent in enumerate(shape):
        if extent > 1 and len(workers) > 1:
            yield Place(axis, workers, everywhere)


def likely(options: Sequence[Place], held: Sequence[int]) -> Iterator[Place]:
    """Of several places those that are worth a look: of those on one worker alone, that on the first, and that on the
    one that holds least."""
    alone = (0, min(range(len(held)), key=held.__getitem__))
    for place in options:
        if len(options) == 1 or place.axis is not None or len(place.workers) != 1 or place.workers[0] in alone:
            yield place


class Lies(NamedTuple):
    """Where a buffer was made, or given, and the boxes of it that were brought to workers."""

    made: Layout | None
    brought: tuple[Layout, ...] = ()


@lru_cache(maxsize=1 << 16)
def lacking(need: Layout, lies: Lies) -> tuple[tuple[int, int], ...]:
    """For each worker how many elements it lacks of what it needs, and how many the box has that it gets; nothing if no
    worker gets any."""
    each = []
    for worker, box in enumerate(need):
        own = None if lies.made is None else lies.made[worker]
        there = (own, *(of[worker] for of in lies.brought))
        if box is None or any(has is not None and covers(has, box) for has in there):
            each.append((0, 0))
        else:
            common = None if own is None else overlap(box, own)
            each.append((volume(box) - (0 if common is None else volume(common)), volume(box)))
    return tuple(each) if any(gets for _, gets in each) else ()
