"""Where each call of a program is computed: along which axis of its result it is cut, and over which workers.

Cost is what is moved between workers, in bytes, what the worker with most to compute evaluates of each call, and what
the worker that holds most holds. Calls are placed in order; of the ways to place those before, a few are kept, the
cheapest of those that leave the same for calls to come: so a choice that costs nothing now is held to what follows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from typing import NamedTuple

from eigentensor.program.cost import body_cost
from eigentensor.program.model import Body, Program, Role
from eigentensor.regions.boxes import Shape, covers, overlap, volume, whole_box
from eigentensor.regions.needs import needed
from eigentensor.sharding.layout import Hint, Layout, Place, axes_of, box_bytes, made

#: Evaluations of instructions that take as long as moving a byte; bytes that take as long as beginning to move some.
EVALUATIONS, MESSAGE = 16, 64
#: Ways to place the calls before that are kept.
WAYS = 8


@dataclass(frozen=True)
class Cluster:
    """A program, how many workers there are, where tensors that are given lie already, by number of buffer, and what
    authors want, by call. A tensor without a layout comes from outside: each worker is given what it reads of it."""

    program: Program
    count: int
    layouts: tuple[tuple[int, Layout], ...] = ()
    hints: tuple[Hint | None, ...] = ()

    @cached_property
    def axes(self) -> tuple[Shape, ...]:
        """The axes of each buffer."""
        return axes_of(self.program)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of an element of each buffer."""
        return tuple(self.program.parameter(number).dtype.size for number in range(len(self.axes)))

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
        shapes = tuple(self.axes[argument] for argument in of.arguments)
        needs = _needs(self.program.bodies[of.body], shapes, layout)
        return tuple(zip(of.arguments, needs, strict=True))


@lru_cache(maxsize=1 << 14)
def _needs(body: Body, shapes: tuple[Shape, ...], layout: Layout) -> tuple[Layout, ...]:
    each = [(None,) * len(shapes) if box is None else needed(body, shapes, box) for box in layout]
    return tuple(zip(*each, strict=True))


def places(cluster: Cluster, weight: float) -> tuple[Place, ...]:
    """Where each call is computed. `weight` is what a byte costs that all workers hold at once, beside one moved."""
    held = [0] * cluster.count
    for number, layout in cluster.layouts:
        for worker, box in enumerate(layout):
            held[worker] += box_bytes(box, cluster.sizes[number])
    lies = {number: _Lies(layout) for number, layout in cluster.layouts}
    ways = [_Way((), None, 0.0, lies, tuple(held), max(held), 0)]
    for call in range(len(cluster.program.calls)):
        ways = _kept(cluster, call, ways, weight * cluster.count)
    found, way = list[Place](), ways[0]
    while way.before is not None:
        found.extend(way.place)
        way = way.before
    return tuple(reversed(found))


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
    if hint.axis is None:
        return tuple(_cuts(shape, workers)) or (Place(None, workers[:1]),)
    axis = hint.axis + len(shape) if hint.axis < 0 else hint.axis
    long = 0 <= axis < len(shape) and shape[axis] >= len(workers) > 1
    return (Place(axis, workers) if long else Place(None, workers[:1]),)


def _cuts(shape: Shape, workers: tuple[int, ...], everywhere: bool = False) -> Iterator[Place]:
    for axis, extent in enumerate(shape):
        if extent > 1 and len(workers) > 1:
            yield Place(axis, workers, everywhere)


class _Lies(NamedTuple):
    """Where a buffer was made, or given, and the boxes of it that were brought to workers."""

    made: Layout | None
    brought: tuple[Layout, ...] = ()


@lru_cache(maxsize=1 << 16)
def _lacking(need: Layout, lies: _Lies) -> tuple[tuple[int, int], ...]:
    """For each worker how many elements it lacks of what it needs, and how many the box has that it gets."""
    each = []
    for worker, box in enumerate(need):
        own = None if lies.made is None else lies.made[worker]
        there = (own, *(of[worker] for of in lies.brought))
        if box is None or any(has is not None and covers(has, box) for has in there):
            each.append((0, 0))
        else:
            common = None if own is None else overlap(box, own)
            each.append((volume(box) - (0 if common is None else volume(common)), volume(box)))
    return tuple(each)


@dataclass(frozen=True, slots=True)
class _Way:
    """Calls up to one are placed: where that one is, what all of it costs, what is where, what each worker holds."""

    place: tuple[Place, ...]
    before: "_Way | None"
    cost: float
    lies: dict[int, _Lies]
    held: tuple[int, ...]
    peak: int
    key: int  #: of what is where


def _kept(cluster: Cluster, call: int, ways: Iterable[_Way], weight: float) -> list[_Way]:
    """The cheapest ways on, among them the cheapest for each place of this call."""
    options, best = candidates(cluster, call), dict[int, tuple[float, _Way]]()
    for way in ways:
        for place in _worth_a_look(cluster, options, way):
            on = _Going(cluster, way).on(call, place)
            score = on.cost + weight * on.peak
            if on.key not in best or score < best[on.key][0]:
                best[on.key] = score, on
    ordered = [on for _, on in sorted(best.values(), key=lambda item: item[0])]
    first = {on.place: on for on in reversed(ordered)}
    apart = {id(on) for on in first.values()}
    return [*(on for on in ordered if id(on) in apart), *(on for on in ordered if id(on) not in apart)][:WAYS]


def _worth_a_look(cluster: Cluster, options: Sequence[Place], way: _Way) -> Iterator[Place]:
    """All places; but of those on one worker alone, where nothing is asked for, that on the one that holds least."""
    hinted = bool(cluster.hints) and len(options) == 1
    least = min(range(cluster.count), key=way.held.__getitem__)
    for place in options:
        if hinted or place.axis is not None or len(place.workers) != 1 or place.workers[0] in (0, least):
            yield place


class _Going:
    """A way that goes on by a call."""

    def __init__(self, cluster: Cluster, way: _Way) -> None:
        self.cluster, self.way = cluster, way
        self.lies, self.held, self.cost, self.key = dict(way.lies), list(way.held), way.cost, way.key

    def on(self, call: int, place: Place) -> _Way:
        """The way with this place of the call."""
        cluster, program = self.cluster, self.cluster.program
        buffer, body = len(program.buffers) + call, program.bodies[program.calls[call].body]
        layout = made(place, cluster.axes[buffer], cluster.count)
        for argument, need in cluster.needs(call, layout):
            self._bring(argument, need)
        most = max((volume(box) for box in layout if box is not None), default=0)
        if most:
            self.cost += body_cost(body).evaluations * most / (EVALUATIONS * body.parameters[0].elements)
        self._put(buffer, _Lies(layout))
        self._hold(buffer, layout)
        if place.everywhere:
            all_of_it = whole_box(cluster.axes[buffer])
            self._bring(buffer, tuple(all_of_it if w in place.workers else None for w in range(cluster.count)))
        for state in cluster.renewed.get(buffer, ()):
            self._renew(state, layout)
        peak = max(self.way.peak, *self.held)
        for ended in cluster.ending[call]:
            self._drop(ended)
        return _Way((place,), self.way, self.cost, self.lies, tuple(self.held), peak, self.key)

    def _bring(self, buffer: int, need: Layout) -> None:
        lies = self.lies.get(buffer, _Lies(None))
        lacking = _lacking(need, lies)
        if any(gets for _, gets in lacking):
            if lies.made is not None:
                self._move(buffer, lacking)
            brought = tuple(box if gets else None for box, (_, gets) in zip(need, lacking, strict=True))
            self._hold(buffer, brought)
            self._put(buffer, lies._replace(brought=(*lies.brought, brought)))

    def _renew(self, state: int, layout: Layout) -> None:
        """Brings a new state to where the state lies."""
        made_or_given, brought = self.lies.get(state, _Lies(None))
        for there in (made_or_given,) if made_or_given is not None else brought:
            self._move(state, _lacking(there, _Lies(layout)))

    def _move(self, buffer: int, lacking: Iterable[tuple[int, int]]) -> None:
        self.cost += sum(MESSAGE + lacks * self.cluster.sizes[buffer] for lacks, _ in lacking if lacks)

    def _hold(self, buffer: int, layout: Layout, sign: int = 1) -> None:
        for worker, box in enumerate(layout):
            self.held[worker] += sign * box_bytes(box, self.cluster.sizes[buffer])

    def _put(self, buffer: int, lies: _Lies) -> None:
        if (old := self.lies.get(buffer)) is not None:
            self.key ^= hash((buffer, old))
        self.key ^= hash((buffer, lies))
        self.lies[buffer] = lies

    def _drop(self, buffer: int) -> None:
        lies = self.lies.pop(buffer)
        self.key ^= hash((buffer, lies))
        for layout in (*([] if lies.made is None else [lies.made]), *lies.brought):
            self._hold(buffer, layout, -1)
