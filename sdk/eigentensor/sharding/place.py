"""Where each call of a program is computed: along which axis of its result it is cut, and over which workers.

Cost is what is moved between workers, in bytes, what the worker with most to compute evaluates of each call, and what
the worker that holds most holds. Calls are placed in order; of the ways to place those before, a few are kept, the
cheapest of those that leave the same for calls to come: so a choice that costs nothing now is held to what follows.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from eigentensor.regions.boxes import whole_box
from eigentensor.sharding.cluster import Cluster, Lies, candidates, lacking, likely
from eigentensor.sharding.layout import Layout, Place, volumes


def places(cluster: Cluster, weight: float, most: int) -> tuple[Place, ...]:
    """Where each call is computed, if at most so many ways are kept to place the calls before. `weight` is what a byte
    costs that all workers hold at once, beside one that is moved."""
    lies = {number: Lies(layout) for number, layout in cluster.layouts}
    ways = [_Way(None, 0.0, lies, (0,) * cluster.count, 0, 0)]
    for call in range(len(cluster.program.calls)):
        ways = _kept(cluster, call, ways, weight * cluster.count)[:most]
    found, placed = list[Place](), ways[0].placed
    while placed is not None:
        found.append(placed.place)
        placed = placed.before
    return tuple(reversed(found))


class _Placed(NamedTuple):
    """Where a call is, and the calls before."""

    place: Place
    before: "_Placed | None"


@dataclass(frozen=True, slots=True)
class _Way:
    """Calls up to one are placed: what all of that costs, what is where, what each worker holds, and held at most."""

    placed: _Placed | None
    cost: float
    lies: dict[int, Lies]
    held: tuple[int, ...]
    peak: int
    key: int  #: of what is where


def _kept(cluster: Cluster, call: int, ways: Iterable[_Way], weight: float) -> list[_Way]:
    """All ways on that differ in what is where, by cost, but the cheapest for each place of this call before others."""
    options, best = candidates(cluster, call), dict[int, tuple[float, _Way]]()
    for way in ways:
        for place in likely(options, way.held):
            on = _Going(cluster, way).on(call, place)
            score = on.cost + weight * on.peak
            if on.key not in best or score < best[on.key][0]:
                best[on.key] = score, on
    ordered = [on for _, on in sorted(best.values(), key=lambda item: item[0])]
    first = {on.placed and on.placed.place: on for on in reversed(ordered)}
    apart = {id(on) for on in first.values()}
    return [*(on for on in ordered if id(on) in apart), *(on for on in ordered if id(on) not in apart)]


class _Going:
    """A way that goes on by a call."""

    def __init__(self, cluster: Cluster, way: _Way) -> None:
        self.cluster, self.way = cluster, way
        self.lies, self.held, self.cost, self.key = dict(way.lies), list(way.held), way.cost, way.key

    def on(self, call: int, place: Place) -> _Way:
        """The way with this place of the call."""
        cluster, program = self.cluster, self.cluster.program
        buffer, layout = len(program.buffers) + call, cluster.layout(call, place)
        for argument, need in cluster.needs(call, layout):
            self._bring(argument, need)
        self.cost += cluster.work(call, layout)
        self._put(buffer, Lies(layout))
        self._hold(buffer, layout)
        if place.everywhere:
            all_of_it = whole_box(cluster.axes[buffer])
            self._bring(buffer, tuple(all_of_it if w in place.workers else None for w in range(cluster.count)))
        for state in cluster.renewed.get(buffer, ()):
            self._renew(state, layout)
        peak = max(self.way.peak, *self.held)
        for ended in cluster.ending[call]:
            self._drop(ended)
        return _Way(_Placed(place, self.way.placed), self.cost, self.lies, tuple(self.held), peak, self.key)

    def _bring(self, buffer: int, need: Layout) -> None:
        lies = self.lies.get(buffer, Lies(None))
        if missing := lacking(need, lies):
            if lies.made is not None:
                self._move(buffer, missing)
            brought = tuple(box if gets else None for box, (_, gets) in zip(need, missing, strict=True))
            self._hold(buffer, brought)
            self._put(buffer, lies._replace(brought=(*lies.brought, brought)))

    def _renew(self, state: int, layout: Layout) -> None:
        """Brings a new state to where the state lies."""
        made_or_given, brought = self.lies.get(state, Lies(None))
        for there in (made_or_given,) if made_or_given is not None else brought:
            self._move(state, lacking(there, Lies(layout)))

    def _move(self, buffer: int, missing: Iterable[tuple[int, int]]) -> None:
        link, each = self.cluster.link, [lacks * self.cluster.sizes[buffer] for lacks, _ in missing if lacks]
        self.cost += sum(each) + len(each) * link.message + bool(each) * link.latency

    def _hold(self, buffer: int, layout: Layout, sign: int = 1) -> None:
        size = sign * self.cluster.sizes[buffer]
        self.held = [has + elements * size for has, elements in zip(self.held, volumes(layout), strict=True)]

    def _put(self, buffer: int, lies: Lies) -> None:
        if (old := self.lies.get(buffer)) is not None:
            self.key ^= hash((buffer, old))
        self.key ^= hash((buffer, lies))
        self.lies[buffer] = lies

    def _drop(self, buffer: int) -> None:
        lies = self.lies.pop(buffer)
        self.key ^= hash((buffer, lies))
        for layout in (*([] if lies.made is None else [lies.made]), *lies.brought):
            self._hold(buffer, layout, -1)
