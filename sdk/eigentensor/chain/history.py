"""The history of a market: its events in order, reorganisations included."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from eigentensor.chain.logs import decode_log
from eigentensor.chain.node import Head, Node
from eigentensor.chain.refusals import talking_to
from eigentensor.errors import ChainError, Unreachable
from eigentensor.task.events import Event, Posted, Seeded
from eigentensor.task.order import Order

#: Blocks whose logs are asked for at once.
SPAN = 2_000
#: Events that news are to have at once: where more come, fewer blocks are asked for.
EVENTS = 8_000
_FIRST = 64  # blocks that are asked for while nobody knows how much happens
#: Blocks by which a node may be behind all that is remembered: more than that is another chain.
LATE = 64
#: For each topic of a log what it may be.
Topics = Sequence[Sequence[bytes] | None]


@dataclass(frozen=True, slots=True)
class Changes:
    """News since `known`: first forget everything above block `rolled_back_to` (None: nothing), then add.

    `heads` are to be remembered and passed to the next call. `complete` is False when there is more already.
    """

    rolled_back_to: int | None
    events: tuple[Event, ...]
    heads: tuple[Head, ...]
    complete: bool


def spans(first: int, last: int) -> Iterator[tuple[int, int]]:
    """The blocks `first` to `last` in parts of at most SPAN, ends included."""
    return ((start, min(start + SPAN - 1, last)) for start in range(first, last + 1, SPAN))


def spans_back(last: int, first: int) -> Iterator[tuple[int, int]]:
    """The same from the newest to the oldest."""
    return ((max(stop - SPAN + 1, first), stop) for stop in range(last, first - 1, -SPAN))


class History:
    """The events of one market's contracts, in blocks whose numbers are inclusive. Raises what `Node` raises."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._span = _FIRST

    def events(self, from_block: int, to_block: int | None = None) -> Iterator[Event]:
        """All events of these blocks (to the newest by default), in order. It does not wait for more."""
        last = self._node.block_number() if to_block is None else to_block
        for start, stop in spans(max(from_block, self._node.deployment.block), last):
            yield from self.logs(start, stop)

    def changes(self, known: Sequence[Head] = (), *, calls: bool = False) -> Changes:
        """News since the caller asked last, reorganisations included; of the market for paid `calls` as well, if so.

        `known` are the heads that earlier calls returned, ascending; older ones may be dropped, a reorganisation deeper
        than all of them starts again from the deployment. A call covers a bounded number of blocks. Raises ChainError
        where the node is behind what is known, too.
        """
        newest, parent = self._node.newest()
        if known and newest == known[-1]:
            return Changes(None, (), (), complete=True)
        if known and parent == known[-1].hash:  # its logs are asked for by its hash: no other block can slip in
            events = tuple(self._asked({"blockHash": newest.hash}, self._contracts(calls)))
            return Changes(None, events, (newest,), complete=True)
        return self._caught_up(newest, known, self._contracts(calls))

    def _caught_up(self, newest: Head, known: Sequence[Head], contracts: Sequence[str]) -> Changes:
        ancestor = self._ancestor(newest, known)
        base = ancestor.number if ancestor else self._node.deployment.block - 1
        rolled_back = base if known and ancestor != known[-1] else None
        if newest.number <= base:
            return Changes(rolled_back, (), (), complete=True)
        last, events = self._read(newest, ancestor, base, contracts)
        places = [Head(e.place.block, e.place.block_hash) for e in events]
        heads = [a for a, b in pairwise([*places, last]) if a != b]
        return Changes(rolled_back, events, (*heads, last), complete=last.number == newest.number)

    def _ancestor(self, newest: Head, known: Sequence[Head]) -> Head | None:
        """The newest known head that is in the chain. A node that has no other blocks, only fewer, was not reorganised:
        it is behind, and ChainError says so."""
        below = [head for head in known if head.number <= newest.number]
        there = (h for h in reversed(below) if h == newest or self._node.head(h.number) == h)
        ancestor = next(there, None)
        if not known or newest.number >= known[-1].number:
            return ancestor
        if ancestor == below[-1] if below else known[0].number - newest.number <= LATE:
            raise ChainError(
                f"the node is at block {newest.number}, and block {known[-1].number} was read already",
                fix="It goes on when the node has caught up; or name another one.",
            )
        return ancestor

    def _read(
        self, newest: Head, ancestor: Head | None, base: int, contracts: Sequence[str]
    ) -> tuple[Head, tuple[Event, ...]]:
        """The events behind `ancestor`, or behind block `base` where there is none, up to the block returned: of fewer
        blocks where a node refuses so many, or where much happens."""
        while True:
            to = min(newest.number, base + min(self._span, SPAN))
            try:
                last, logs = self._node.logs_to(to, ancestor, {"address": list(contracts)})
            except Unreachable:
                raise
            except ChainError:
                if to == base + 1:
                    raise
                self._span = max(1, (to - base) // 2)
                continue
            events = tuple(self._decoded(logs))
            self._paced(len(events))
            return last, events

    def _paced(self, events: int) -> None:
        """Asks for so many blocks next that about EVENTS happen in them."""
        if events > EVENTS:
            self._span = max(1, self._span // 2)
        elif events < EVENTS // 4:
            self._span = min(SPAN, 2 * self._span)

    def events_of(self, task: bytes, first: int, last: int | None = None) -> list[Event]:
        """The events of a task and of its slash in these blocks (to the newest by default), in order; the moves of its
        games are apart."""
        last, events = self._node.block_number() if last is None else last, []
        for start, stop in spans(first, last):
            events += [*self.logs(start, stop, (None, [task])), *self.logs(start, stop, (None, None, [task]))]
        return sorted(events, key=lambda event: event.place)

    def order_of(self, task: bytes) -> Order:
        """The order that is an accepted task. Raises ChainError if there is none."""
        return self.posted(task).order

    def posted(self, task: bytes) -> Posted:
        """How an accepted task was posted. Raises ChainError if there is none."""
        accepted = int(self._node.call(self._node.market, "taskAt", task)[2])
        for start, stop in spans_back(accepted, self._node.deployment.block):
            for event in self.logs(start, stop, (None, [task])):
                if isinstance(event, Posted) and event.task == task:
                    return event
        raise ChainError(f"task {task.hex()} was never accepted")

    def seeded(self, block: int, last: int) -> Seeded | None:
        """The record of a seed block's randomness, if it was made until block `last`."""
        events = self.logs(block + 1, last, (None, [block.to_bytes(32, "big")])) if last > block else []
        return next((event for event in events if isinstance(event, Seeded)), None)

    def calls(self, from_block: int, to_block: int | None = None, topics: Topics = ()) -> Iterator[Event]:
        """The events of the market for paid calls and of its games in these blocks (to the newest by default), in
        order, with these topics. What tasks have of the same contracts is not among them, nor the reverse."""
        d = self._node.deployment
        last = self._node.block_number() if to_block is None else to_block
        for start, stop in spans(from_block, last):
            asked = {"fromBlock": start, "toBlock": stop, "topics": topics}
            yield from self._asked(asked, (d.channels, d.channels_game))

    def logs(self, start: int, stop: int, topics: Topics = ()) -> list[Event]:
        """The events of these blocks, at most SPAN, with these topics: None is any, a list one of several."""
        return self._asked({"fromBlock": start, "toBlock": stop, "topics": topics})

    def _contracts(self, calls: bool) -> tuple[str, ...]:
        d = self._node.deployment
        tasks = (d.task_market, d.service_manager, d.dispute_game, d.bounty)
        return (*tasks, d.channels, d.channels_game) if calls else tasks

    def _asked(self, which: Mapping[str, Any], of: Sequence[str] = ()) -> list[Event]:
        return self._decoded(self._node.logs({**which, "address": list(of or self._contracts(calls=False))}))

    def _decoded(self, logs: Iterable[Mapping[str, Any]]) -> list[Event]:
        with talking_to(self._node.network.rpc_url):
            channels = self._node.deployment.channels
            return [event for log in logs if (event := decode_log(log, channels)) is not None]
