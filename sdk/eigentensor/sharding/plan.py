"""Which worker does what, and when: boxes of calls, and boxes that are sent and received, a list for each worker.

A plan is a function of a program, of where its tensors lie, of how many workers there are, of what authors want, and of
how much memory each has. It is no part of the program: a result has the same bits with any plan.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from eigentensor.errors import BindingError, LimitError
from eigentensor.program.model import Program
from eigentensor.regions.boxes import Box, covers, volume, whole_box
from eigentensor.regions.needs import is_found
from eigentensor.sharding.cluster import HERE, Cluster, Link
from eigentensor.sharding.improve import cheapest
from eigentensor.sharding.layout import Layout, Place, box_bytes, check_hints, check_layouts, made
from eigentensor.sharding.signals import Hint
from eigentensor.sharding.transfers import Part, gathered
from eigentensor.space import Space

#: Where pieces begin in memory.
ALIGNMENT = 64
#: What a byte costs that all workers hold, beside one that is moved: more, until a plan fits. Where messages are dear,
#: next to nothing at first: else it would outweigh them.
LEAST = 2.0**-20
WEIGHTS = (2.0**-10, 2**-4, 2**-1, 2**2, 2**5, 2**10)


class Piece(NamedTuple):
    """A box of a buffer in a worker's memory, its elements one after the other.

    `offset` is where it begins in the memory that pieces take turns in; None if it has memory of its own.
    """

    buffer: int
    box: Box
    offset: int | None


class Compute(NamedTuple):
    """The elements of a box of a call's result, from pieces for the body's parameters; None for what is not read."""

    call: int
    box: Box
    operands: tuple[int | None, ...]
    result: int


class Copy(NamedTuple):
    """A box, from one piece to another."""

    source: int
    target: int
    box: Box


class Send(NamedTuple):
    """A box of a piece, to another worker: message `number` of those that it gets from this one, from 0 on."""

    source: int
    box: Box
    worker: int
    number: int


class Receive(NamedTuple):
    """A box of a piece, from another worker: message `number` of those that this one gets from it, from 0 on."""

    target: int
    box: Box
    worker: int
    number: int


Step = Compute | Copy | Send | Receive


@dataclass(frozen=True)
class WorkerPlan:
    """What one worker does in an iteration, in order, and then so that new states become the states.

    `given` are the pieces that are there before, by number; `held` bytes are those of all pieces at once, without
    messages under way.
    """

    pieces: tuple[Piece, ...]
    given: tuple[int, ...]
    steps: tuple[Step, ...]
    renewing: tuple[Step, ...]
    shared: int  #: bytes of the memory that pieces take turns in
    held: int


@dataclass(frozen=True)
class Plan:
    """What all workers do. `results` say where each result of the program is, by buffer, each element once.

    `moved` are the bytes that workers send each other in an iteration, `renewed` those after it, for states.
    """

    places: tuple[Place, ...]
    workers: tuple[WorkerPlan, ...]
    results: Mapping[int, tuple[Part, ...]]
    moved: int
    renewed: int

    @property
    def held(self) -> int:
        """Bytes that the worker holds which holds most."""
        return max(worker.held for worker in self.workers)


def plan(
    program: Program,
    workers: int,
    layouts: tuple[tuple[str, Layout], ...] = (),
    hints: tuple[Hint | None, ...] = (),
    memory: int | None = None,
    link: Link = HERE,
) -> Plan:
    """The plan of a valid program for so many workers, each with so many bytes of memory, or with enough. Raises
    LimitError where no plan fits into the memory, and what `tightest` raises."""
    planned = tightest(program, workers, layouts, hints, memory, link)
    if memory is not None and planned.held > memory:
        raise LimitError(
            f"on {workers} workers the program needs {planned.held:,} bytes of memory on one of them, there are"
            f" {memory:,}",
            fix="Take more workers, or workers with more memory.",
        )
    return planned


@lru_cache(maxsize=64)
def tightest(
    program: Program,
    workers: int,
    layouts: tuple[tuple[str, Layout], ...] = (),
    hints: tuple[Hint | None, ...] = (),
    memory: int | None = None,
    link: Link = HERE,
) -> Plan:
    """The plan that `plan` has; where none fits into the memory, the one that takes least of one worker's.

    `layouts` say where tensors lie that are there already, by name, along `layout.axes_of` the program; others come
    from outside, to each worker what it reads. `hints` are for calls, one or None for each; without any the
    cheapest places are found, for workers that `link` joins. Raises BindingError for layouts and hints that do not
    fit.
    """
    if workers < 1:
        raise BindingError(f"a plan for {workers} workers", fix="Name one or more.")
    check_layouts(program, layouts, workers)
    check_hints(program, hints, workers)
    numbers = {b.name: number for number, b in enumerate(program.buffers) if b.name}
    cluster = Cluster(program, workers, tuple((numbers[name], layout) for name, layout in layouts), hints, link)
    least: Plan | None = None
    for weight in (LEAST, *WEIGHTS) if link.latency else WEIGHTS:
        planned = planned_with(cluster, cheapest(cluster, weight))
        if memory is None or planned.held <= memory:
            return planned
        least = planned if least is None or planned.held < least.held else least
    assert least is not None
    return least


def planned_with(cluster: Cluster, chosen: Sequence[Place]) -> Plan:
    """The plan with these places of calls."""
    return _Planning(cluster, chosen).plan()


class _Worker:
    """The lists of one worker as they grow."""

    def __init__(self) -> None:
        self.boxes: list[tuple[int, Box]] = []  #: of each piece: buffer and box
        self.there: dict[int, list[int]] = {}  #: pieces by buffer, of which the first was made here, or given
        self.given: list[int] = []
        self.wanted = set[int]()  #: pieces that an author wants here
        self.steps: list[Step] = []
        self.coming: list[Step] = []  #: what it does when it has sent what others wait for

    def add(self, buffer: int, box: Box) -> int:
        """The number of a new piece."""
        self.boxes.append((buffer, box))
        self.there.setdefault(buffer, []).append(len(self.boxes) - 1)
        return len(self.boxes) - 1

    def find(self, buffer: int, box: Box) -> int | None:
        """The piece that has exactly this box."""
        return next((n for n in self.there.get(buffer, ()) if self.boxes[n][1] == box), None)

    def parts(self, buffer: int, number: int) -> Iterator[Part]:
        """All that this worker, of this number, has of a buffer."""
        return (Part(number, piece, self.boxes[piece][1]) for piece in self.there.get(buffer, ()))


class _Planning:
    """One pass over the calls of a program."""

    def __init__(self, cluster: Cluster, chosen: Sequence[Place]) -> None:
        self.cluster, self.program, self.chosen = cluster, cluster.program, tuple(chosen)
        self.first = len(self.program.buffers)
        #: Where each buffer was made, or lies already; nowhere if it comes from outside.
        self.made = dict(cluster.layouts)
        for number, place in enumerate(self.chosen, self.first):
            self.made[number] = made(place, cluster.axes[number], cluster.count)
        self.workers = [_Worker() for _ in range(cluster.count)]
        self.numbers = Counter[tuple[int, int]]()  #: messages, by sender and receiver
        self.moved = 0
        self._give(cluster.layouts)
        self.reads = self._reads()

    def plan(self) -> Plan:
        """The steps of all calls, then those that renew states, then where everything lies."""
        for call in range(len(self.program.calls)):
            self._call(call)
        moved, done = self.moved, [len(worker.steps) for worker in self.workers]
        self._renew()
        kept = sorted({r.buffer for r in self.program.results})
        lasting = [
            {worker.there[b][0] for b in kept if self.made[b][n] is not None} | set(worker.given) | worker.wanted
            for n, worker in enumerate(self.workers)
        ]
        workers = tuple(map(self._placed, self.workers, done, lasting))
        return Plan(self.chosen, workers, {b: self._whole(b) for b in kept}, moved, self.moved - moved)

    def _give(self, layouts: Iterable[tuple[int, Layout]]) -> None:
        for number, layout in layouts:
            for worker, box in zip(self.workers, layout, strict=True):
                if box is not None:
                    worker.given.append(worker.add(number, box))

    def _reads(self) -> dict[tuple[int, int, int], Box]:
        """The box of the piece that a worker reads, by worker, call and place of the argument: one that it has, or the
        largest that it needs. Those of tensors from outside are given."""
        uses: dict[tuple[int, int], list[tuple[int, int, Box]]] = {}
        for call in range(len(self.program.calls)):
            for place, (buffer, layout) in enumerate(self.cluster.needs(call, self.made[self.first + call])):
                for worker, box in enumerate(layout):
                    if box is not None:
                        uses.setdefault((buffer, worker), []).append((call, place, box))
        reads: dict[tuple[int, int, int], Box] = {}
        for (buffer, worker), each in sorted(uses.items()):
            lying = self.made[buffer][worker] if buffer in self.made else None
            largest = sorted({box for *_, box in each}, key=volume, reverse=True)
            for call, place, need in each:
                options = largest if lying is None else [lying, *largest]
                box = next(box for box in options if covers(box, need) and self._is_found(call, place, box))
                reads[worker, call, place] = box
                if buffer not in self.made and self.workers[worker].find(buffer, box) is None:
                    self.workers[worker].given.append(self.workers[worker].add(buffer, box))
        return reads

    def _is_found(self, call: int, place: int, box: Box) -> bool:
        body = self.program.bodies[self.program.calls[call].body]
        return is_found(body, self.cluster.shapes[call], place + 1, box)

    def _call(self, call: int) -> None:
        buffer, of, place = self.first + call, self.program.calls[call], self.chosen[call]
        boxes = [(number, box) for number, box in enumerate(self.made[buffer]) if box is not None]
        read = {
            number: [(b, self.reads.get((number, call, n))) for n, b in enumerate(of.arguments)] for number, _ in boxes
        }
        for number, _ in boxes:
            for argument, box in read[number]:
                if box is not None:
                    self._bring(number, argument, box)
        self._exchanged()
        for number, box in boxes:
            worker = self.workers[number]
            operands = tuple(None if part is None else worker.find(b, part) for b, part in read[number])
            worker.steps.append(Compute(call, box, operands, worker.add(buffer, box)))
        if place.everywhere:
            for number in place.workers:
                self.workers[number].wanted.add(self._bring(number, buffer, whole_box(self.cluster.axes[buffer])))
            self._exchanged()

    def _exchanged(self) -> None:
        """All that is to be sent is sent before anybody waits: else each would wait for the one before it."""
        for worker in self.workers:
            worker.steps += worker.coming
            worker.coming = []

    def _bring(self, number: int, buffer: int, box: Box) -> int:
        """The piece of a worker with this box, of what it has itself and what others send."""
        worker = self.workers[number]
        if (there := worker.find(buffer, box)) is not None:
            return there
        own = list(worker.parts(buffer, number))
        piece = worker.add(buffer, box)
        self._fill(number, piece, box, own, buffer)
        return piece

    def _fill(self, number: int, piece: int, box: Box, own: Iterable[Part], buffer: int) -> None:
        """A piece, or a part of it, with the elements of a box of a buffer."""
        worker, size = self.workers[number], self.cluster.sizes[buffer]
        parts = gathered(box, own, [of for of in self._lying(buffer) if of.worker != number], number)
        assert parts is not None  # every element of a buffer is made or given before it is read
        for sender, source, part in parts:
            if sender == number:
                worker.coming.append(Copy(source, piece, part))
                continue
            message = self.numbers[sender, number]
            self.numbers[sender, number] += 1
            self.workers[sender].steps.append(Send(source, part, number, message))
            worker.coming.append(Receive(piece, part, sender, message))
            self.moved += box_bytes(part, size)

    def _lying(self, buffer: int) -> list[Part]:
        """What each worker has made of a buffer, or had from the beginning."""
        boxes = enumerate(self.made.get(buffer, ()))
        return [Part(n, self.workers[n].there[buffer][0], box) for n, box in boxes if box is not None]

    def _renew(self) -> None:
        """New states, to where the states lie."""
        for buffer, states in sorted(self.cluster.renewed.items()):
            for state in states:
                for number, worker in enumerate(self.workers):
                    for piece in [n for n in worker.there.get(state, ()) if n in worker.given]:
                        self._fill(number, piece, worker.boxes[piece][1], worker.parts(buffer, number), buffer)
        self._exchanged()

    def _whole(self, buffer: int) -> tuple[Part, ...]:
        """Where all of a buffer lies."""
        box = whole_box(self.cluster.axes[buffer])
        return tuple(gathered(box, (), self._lying(buffer), 0) or ()) if volume(box) else ()

    def _placed(self, worker: _Worker, done: int, lasting: set[int]) -> WorkerPlan:
        """A worker's lists, and where its pieces lie: over those that are read for the last time before."""
        space, offsets = Space(), dict[int, int]()
        sizes = [self._bytes(*of) for of in worker.boxes]
        last = {piece: n for n, step in enumerate(worker.steps) for piece in pieces_of(step)}
        for n, step in enumerate(worker.steps):
            passing = [piece for piece in pieces_of(step) if piece not in lasting]
            for piece in passing:
                if piece not in offsets:
                    offsets[piece] = space.take(sizes[piece])
            for piece in passing:
                if last[piece] == n:
                    space.release(offsets[piece], offsets[piece] + sizes[piece])
        pieces = tuple(Piece(*of, offsets.get(number)) for number, of in enumerate(worker.boxes))
        held = space.size + sum(size for number, size in enumerate(sizes) if number not in offsets)
        steps = tuple(worker.steps)
        return WorkerPlan(pieces, tuple(worker.given), steps[:done], steps[done:], space.size, held)

    def _bytes(self, buffer: int, box: Box) -> int:
        return -(-box_bytes(box, self.cluster.sizes[buffer]) // ALIGNMENT) * ALIGNMENT


def kept(planned: WorkerPlan, buffer: int) -> int | None:
    """The piece in which a worker has most of a result of the program when all is done; None if it has none of it."""
    lasting = [n for n, piece in enumerate(planned.pieces) if piece.buffer == buffer and piece.offset is None]
    return max(lasting, key=lambda n: volume(planned.pieces[n].box), default=None)


def pieces_of(step: Step) -> tuple[int, ...]:
    """The pieces that a step reads or writes, each once."""
    if isinstance(step, Compute):
        return tuple(dict.fromkeys((step.result, *(piece for piece in step.operands if piece is not None))))
    if isinstance(step, Copy):
        return step.source, step.target
    return (step.source if isinstance(step, Send) else step.target,)
