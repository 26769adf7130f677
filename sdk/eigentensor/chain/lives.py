"""Lives of single tasks: what is read of one is remembered, and read on from there."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from eigentensor.chain.history import spans
from eigentensor.chain.node import Head
from eigentensor.chain.reader import Reader
from eigentensor.errors import ChainError
from eigentensor.task import due
from eigentensor.task.events import Event, Opened, Seeded, TaskEvent
from eigentensor.task.life import Life
from eigentensor.task.order import Order, order_uuid
from eigentensor.task.state import State

_MOST = 1024  #: tasks that are remembered: those that were asked for last
_TRIES = 3  #: reorganisations while one reads
_AHEAD = 512  #: blocks before its price rises in which an order is posted as a rule: it is looked for from there on


class Lives:
    """The tasks of one market, by their orders; for any threads. A task that was read before costs a few requests,
    whatever its age: logs by its topics since then, and whether what was read is still in the chain."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: OrderedDict[bytes, tuple[Life, Head]] = OrderedDict()
        self._lock = Lock()

    def of(self, order: Order) -> tuple[Life, int]:
        """The task of an order as of the newest block, and that block.

        Raises ChainError where the chain cannot be asked, or does not hold still.
        """
        d = self._reader.deployment
        blank = Life(order_uuid(order, d.domain), order, d.parameters)
        for _ in range(_TRIES):
            head = self._reader.node.head()
            life, first = self._before(blank, head)
            life = self._read(life, first, head.number)
            if first <= head.number and life.state is State.NONE and self._is_older(life, first):
                life = self._read(blank, d.block, head.number)
            if first > head.number or self._reader.node.is_canonical(head):
                self._keep(life, head)
                return life, head.number
        raise ChainError(f"block {head.number} left the chain while task {blank.uuid.hex()} was read", fix="Try again.")

    def _before(self, blank: Life, head: Head) -> tuple[Life, int]:
        """What is known of a task and still in the chain, and the first block that is to be read on top of it."""
        d = self._reader.deployment
        with self._lock:
            life, seen = self._known.get(blank.uuid, (blank, None))
        if seen is not None and (seen == head or (seen.number < head.number and self._reader.node.is_canonical(seen))):
            return life, seen.number + 1
        places = [Head(event.place.block, event.place.block_hash) for event in life.events]
        for place in dict.fromkeys(reversed(places)):
            if self._reader.node.is_canonical(place):
                return life.rolled_back(place.number), place.number + 1
        return blank, max(d.block, min(blank.order.ramp_start - _AHEAD, head.number))

    def _is_older(self, life: Life, first: int) -> bool:
        """Whether the task was in the chain before the blocks in which it was looked for."""
        return first > self._reader.deployment.block and self._reader.market.task_at(life.uuid).state is not State.NONE

    def _read(self, life: Life, first: int, last: int) -> Life:
        for start, stop in spans(first, last):
            if _is_over(life, start):
                break
            life = self._read_span(life, start, stop)
        return life

    def _read_span(self, before: Life, start: int, stop: int) -> Life:
        task = before.uuid
        events = self._reader.history.logs(start, stop, [None, None, [task]])
        games = {*before.games, *(event.game_id for event in events if isinstance(event, Opened))}
        events += self._reader.history.logs(
            start, stop, [None, [task, *(number.to_bytes(32, "big") for number in games)]]
        )
        life = _after(before, events)
        if life.committed_at is None or life.mix is not None or life.seed_block >= stop:
            return life
        seeded = self._reader.history.seeded(life.seed_block, min(life.record_by, stop))
        return life if seeded is None else _after(before, [*events, seeded])

    def _keep(self, life: Life, head: Head) -> None:
        with self._lock:
            self._known[life.uuid] = life, head
            self._known.move_to_end(life.uuid)
            while len(self._known) > _MOST:
                self._known.popitem(last=False)


def _is_over(life: Life, block: int) -> bool:
    """Whether nothing can happen to the task from this block on."""
    if life.state is State.NONE:
        return block > life.order.accept_by
    played = any(game.executor_lost is None for game in life.games.values())
    return life.state.is_terminal and due.awake(life) is None and not played


def _after(life: Life, events: Sequence[Event]) -> Life:
    for event in sorted(events, key=lambda event: event.place):
        if isinstance(event, Seeded) or (isinstance(event, TaskEvent) and event.task == life.uuid):
            life = life.step(event)
    return life
