"""A placement made better, call by call, and for all calls alike at once, as long as that costs less.

The cost is a sum over buffers, each of which depends on where it is made and on who reads it alone, so that of a change
only the buffers around it are looked at again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from eigentensor.regions.boxes import whole_box
from eigentensor.sharding.cluster import Cluster, Lies, candidates, lacking, likely
from eigentensor.sharding.layout import Layout, Place, volumes
from eigentensor.sharding.place import places

#: How often calls are looked at again, at most.
SWEEPS = 4
#: How many ways are kept where calls are placed in order, tried one number after the other. Of more calls than a few,
#: the first number alone, and calls around those that moved are looked at again, no others.
WAYS, FEW = (1, 2, 4), 250


class _Traffic(NamedTuple):
    """What a buffer takes: elements that are moved, in how many messages, how often, and elements that each worker
    holds."""

    moved: int
    messages: int
    exchanges: int
    held: tuple[int, ...]


@lru_cache(maxsize=1 << 16)
def _traffic(count: int, made: Layout | None, needs: tuple[Layout, ...], renewed: Layout | None) -> _Traffic:
    """Of a buffer on so many workers that is made so, or comes from outside, and is needed so; a state whose new one is
    made as `renewed` says. What is needed most is brought first: what is part of it need not be."""
    lies, moves = Lies(made), list[list[int]]()
    held = [0] * count if made is None else list(volumes(made))
    for need in sorted(needs, key=lambda need: (-sum(volumes(need)), [box or () for box in need])):
        if missing := lacking(need, lies):
            brought = tuple(box if gets else None for box, (_, gets) in zip(need, missing, strict=True))
            lies = lies._replace(brought=(*lies.brought, brought))
            held = [has + gets for has, (_, gets) in zip(held, missing, strict=True)]
            if made is not None:
                moves.append([lacks for lacks, _ in missing if lacks])
    if renewed is not None:
        for there in lies.brought if made is None else (made,):
            moves.append([lacks for lacks, _ in lacking(there, Lies(renewed)) if lacks])
    return _Traffic(sum(map(sum, moves)), sum(map(len, moves)), sum(map(bool, moves)), tuple(held))


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
        self.asked = [Counter[Layout]() for _ in cluster.axes]  #: what is needed of each buffer, by how many calls
        self.readers: list[list[int]] = [[] for _ in cluster.axes]
        for call, needs in enumerate(self.needs):
            self._ask(needs, 1)
            for argument, _ in needs:
                self.readers[argument].append(call)
        self.given, self.held = dict(cluster.layouts), [0] * cluster.count
        self.new = {state: buffer for buffer, states in cluster.renewed.items() for state in states}
        self.traffic = [self._traffic(buffer) for buffer in range(len(cluster.axes))]
        self.bytes = 0
        for buffer, traffic in enumerate(self.traffic):
            self._account(buffer, None, traffic)

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
            self._ask(self.needs[call], -1)
            self.places[call], self.layouts[call], self.needs[call] = place, layout, self.cluster.needs(call, layout)
            self._ask(self.needs[call], 1)
            buffer = self.first + call
            around.update((buffer, *self.program.calls[call].arguments, *self.cluster.renewed.get(buffer, ())))
        for buffer in around:
            before, now = self.traffic[buffer], self._traffic(buffer)
            if before != now:
                self._account(buffer, before, now)
                self.traffic[buffer] = now

    def _ask(self, needs: Iterable[tuple[int, Layout]], sign: int) -> None:
        for buffer, need in needs:
            asked = self.asked[buffer]
            asked[need] += sign
            if not asked[need]:
                del asked[need]

    def _traffic(self, buffer: int) -> _Traffic:
        needs, made = [*self.asked[buffer]], self.given.get(buffer)
        if buffer >= self.first:
            made, place = self.layouts[buffer - self.first], self.places[buffer - self.first]
            if place.everywhere:
                whole = whole_box(self.cluster.axes[buffer])
                needs.append(tuple(whole if w in place.workers else None for w in range(self.cluster.count)))
        new = self.new.get(buffer)
        return _traffic(self.cluster.count, made, tuple(needs), None if new is None else self.layouts[new - self.first])

    def _account(self, buffer: int, before: _Traffic | None, now: _Traffic) -> None:
        size = self.cluster.sizes[buffer]
        self.bytes += self._price(now, size)
        if before is None:
            self.held = [held + has * size for held, has in zip(self.held, now.held, strict=True)]
        else:
            self.bytes -= self._price(before, size)
            changes = zip(self.held, now.held, before.held, strict=True)
            self.held = [held + (has - had) * size for held, has, had in changes]

    def _price(self, of: _Traffic, size: int) -> int:
        link = self.cluster.link
        return of.moved * size + of.messages * link.message + of.exchanges * link.latency

    def around(self, calls: Iterable[int]) -> set[int]:
        """These, the calls that write what they read, and those that read what they write, as a state, too."""
        near = set[int]()
        for call in calls:
            buffer = self.first + call
            near.add(call)
            near.update(argument - self.first for argument in self.program.calls[call].arguments)
            for read in (buffer, *self.cluster.renewed.get(buffer, ())):
                near.update(self.readers[read])
        return near


def cheapest(cluster: Cluster, weight: float) -> tuple[Place, ...]:
    """Where each call is computed: the cheapest of some placements that were made better, those that are found call by
    call and one along the first axis of everything. `weight` is what a byte costs that all workers hold at once."""
    calls = len(cluster.program.calls)
    begun = [places(cluster, weight, ways) for ways in (WAYS if calls <= FEW else WAYS[:1])]
    begun.append(tuple(candidates(cluster, call)[0] for call in range(calls)))
    if cluster.link.latency:
        begun.append(tuple(_alone(candidates(cluster, call)) for call in range(calls)))
    found = [improved(cluster, chosen, weight) for chosen in dict.fromkeys(begun)]
    return min(found, key=lambda pair: pair[1])[0]


def _alone(options: Sequence[Place]) -> Place:
    """The first worker, if a call may be left to it."""
    return next((place for place in options if place.workers == (0,)), options[0])


def improved(cluster: Cluster, chosen: Sequence[Place], weight: float) -> tuple[tuple[Place, ...], float]:
    """A placement that costs no more than this one, and what it costs."""
    board = _Board(cluster, chosen, weight)
    options = [candidates(cluster, call) for call in range(len(chosen))]
    groups = everything = [*_alike(cluster, options), *([call] for call in range(len(chosen)))]
    for _ in range(SWEEPS):
        moved = [call for group in groups if _settle(board, group, options[group[0]]) for call in group]
        if not moved:
            break
        groups = everything if len(chosen) <= FEW else [[n] for n in sorted(board.around(moved)) if n >= 0]
    return tuple(board.places), board.cost


def _alike(cluster: Cluster, options: Sequence[Sequence[Place]]) -> Iterator[list[int]]:
    """Calls of one body on tensors with the same axes."""
    alike: dict[object, list[int]] = {}
    for call, of in enumerate(cluster.program.calls):
        key = of.body, tuple(cluster.axes[argument] for argument in of.arguments), options[call]
        alike.setdefault(key, []).append(call)
    return (group for group in alike.values() if len(group) > 1)


def _settle(board: _Board, group: Sequence[int], options: Sequence[Place]) -> bool:
    """Places all calls of a group where it costs least; whether that is elsewhere."""
    best, least = [board.places[call] for call in group], board.cost
    start = best
    for place in tuple(likely(options, board.held)):
        if any(of != place for of in start):
            board.move([(call, place) for call in group])
            if board.cost < least:
                best, least = [place] * len(group), board.cost
    board.move(zip(group, best, strict=True))
    return best != start
