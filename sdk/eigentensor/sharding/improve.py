"""A placement made better, call by call, and for all calls alike at once, as long as that costs less.

The cost is a sum over buffers, each of which depends on where it is made and on who reads it alone, so that of a change
only the buffers around it are looked at again.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from eigentensor.regions.boxes import whole_box
from eigentensor.sharding.cluster import MESSAGE, Cluster, Lies, candidates, lacking, likely
from eigentensor.sharding.layout import Layout, Place, volumes
from eigentensor.sharding.place import places

#: How often all calls are looked at again, at most.
SWEEPS = 4


class _Traffic(NamedTuple):
    """What a buffer takes: elements that are moved, in how many messages, and elements that each worker holds."""

    moved: int
    messages: int
    held: tuple[int, ...]


@lru_cache(maxsize=1 << 16)
def _traffic(made: Layout | None, needs: tuple[Layout, ...], renewed: Layout | None) -> _Traffic:
    """Of a buffer that is made so, or comes from outside, and is needed so, one call after the other; a state whose new
    one is made as `renewed` says."""
    lies, moved, messages = Lies(made), 0, 0
    count = len(made or renewed or needs[0]) if made or renewed or needs else 0
    held = [0] * count if made is None else list(volumes(made))
    for need in needs:
        if missing := lacking(need, lies):
            brought = tuple(box if gets else None for box, (_, gets) in zip(need, missing, strict=True))
            lies = lies._replace(brought=(*lies.brought, brought))
            held = [has + gets for has, (_, gets) in zip(held, missing, strict=True)]
            if made is not None:
                moved += sum(lacks for lacks, _ in missing)
                messages += sum(lacks > 0 for lacks, _ in missing)
    if renewed is not None:
        for there in lies.brought if made is None else (made,):
            missing = lacking(there, Lies(renewed))
            moved += sum(lacks for lacks, _ in missing)
            messages += sum(lacks > 0 for lacks, _ in missing)
    return _Traffic(moved, messages, tuple(held))


class _Board:
    """A placement of all calls, and what it costs."""

    def __init__(self, cluster: Cluster, chosen: Sequence[Place], weight: float) -> None:
        self.cluster, self.program, self.weight = cluster, cluster.program, weight * cluster.count
        self.first = len(self.program.buffers)
        self.places = list(chosen)
        calls = range(len(self.places))
        self.layouts = [cluster.layout(call, self.places[call]) for call in calls]
        self.needs = [cluster.needs(call, self.layouts[call]) for call in calls]
        self.work = sum(cluster.work(call, self.layouts[call]) for call in calls)
        self.readers: list[list[tuple[int, int]]] = [[] for _ in cluster.axes]
        for call, of in enumerate(self.program.calls):
            for place, argument in enumerate(of.arguments):
                self.readers[argument].append((call, place))
        self.given, self.held = dict(cluster.layouts), [0] * cluster.count
        self.new = {state: buffer for buffer, states in cluster.renewed.items() for state in states}
        self.traffic = [self._traffic(buffer) for buffer in range(len(cluster.axes))]
        self.bytes = sum(map(self._bytes, range(len(self.traffic)), self.traffic))
        for buffer, traffic in enumerate(self.traffic):
            self._hold(buffer, traffic, 1)

    @property
    def cost(self) -> float:
        """Of all of it, in bytes that are moved."""
        return self.bytes + self.work + self.weight * max(self.held)

    def move(self, changes: Iterable[tuple[int, Place]]) -> None:
        """Places some calls elsewhere."""
        around = set[int]()
        for call, place in changes:
            layout = self.cluster.layout(call, place)
            self.work += self.cluster.work(call, layout) - self.cluster.work(call, self.layouts[call])
            self.places[call], self.layouts[call], self.needs[call] = place, layout, self.cluster.needs(call, layout)
            buffer = self.first + call
            around.update((buffer, *self.program.calls[call].arguments, *self.cluster.renewed.get(buffer, ())))
        for buffer in around:
            before, now = self.traffic[buffer], self._traffic(buffer)
            if before != now:
                self.bytes += self._bytes(buffer, now) - self._bytes(buffer, before)
                self._hold(buffer, before, -1)
                self._hold(buffer, now, 1)
                self.traffic[buffer] = now

    def _traffic(self, buffer: int) -> _Traffic:
        needs = [self.needs[call][place][1] for call, place in self.readers[buffer]]
        made = self.given.get(buffer)
        if buffer >= self.first:
            made, place = self.layouts[buffer - self.first], self.places[buffer - self.first]
            if place.everywhere:
                whole = whole_box(self.cluster.axes[buffer])
                needs.insert(0, tuple(whole if w in place.workers else None for w in range(self.cluster.count)))
        new = self.new.get(buffer)
        return _traffic(made, tuple(dict.fromkeys(needs)), None if new is None else self.layouts[new - self.first])

    def _bytes(self, buffer: int, of: _Traffic) -> int:
        return of.moved * self.cluster.sizes[buffer] + of.messages * MESSAGE

    def _hold(self, buffer: int, of: _Traffic, sign: int) -> None:
        for worker, elements in enumerate(of.held):
            self.held[worker] += sign * elements * self.cluster.sizes[buffer]


def cheapest(cluster: Cluster, weight: float) -> tuple[Place, ...]:
    """Where each call is computed: the cheaper of two placements that were made better, one that was found call by call
    and one along the first axis of everything. `weight` is what a byte costs that all workers hold at once."""
    along = tuple(candidates(cluster, call)[0] for call in range(len(cluster.program.calls)))
    found = [improved(cluster, chosen, weight) for chosen in (places(cluster, weight), along)]
    return min(found, key=lambda pair: pair[1])[0]


def improved(cluster: Cluster, chosen: Sequence[Place], weight: float) -> tuple[tuple[Place, ...], float]:
    """A placement that costs no more than this one, and what it costs."""
    board = _Board(cluster, chosen, weight)
    options = [candidates(cluster, call) for call in range(len(chosen))]
    groups = [*_alike(cluster, options), *([call] for call in range(len(chosen)))]
    for _ in range(SWEEPS):
        before = board.cost
        for group in groups:
            _settle(board, group, options[group[0]])
        if board.cost >= before:
            break
    return tuple(board.places), board.cost


def _alike(cluster: Cluster, options: Sequence[Sequence[Place]]) -> Iterator[list[int]]:
    """Calls of one body on tensors with the same axes."""
    alike: dict[object, list[int]] = {}
    for call, of in enumerate(cluster.program.calls):
        key = of.body, tuple(cluster.axes[argument] for argument in of.arguments), options[call]
        alike.setdefault(key, []).append(call)
    return (group for group in alike.values() if len(group) > 1)


def _settle(board: _Board, group: Sequence[int], options: Sequence[Place]) -> None:
    """Places all calls of a group where it costs least."""
    best, least = [board.places[call] for call in group], board.cost
    start = best
    for place in tuple(likely(options, board.held)):
        if any(of != place for of in start):
            board.move([(call, place) for call in group])
            if board.cost < least:
                best, least = [place] * len(group), board.cost
    board.move(zip(group, best, strict=True))
