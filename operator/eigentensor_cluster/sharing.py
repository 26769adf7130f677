"""One run on several workers: when, by which plan, what each has to be brought before, and what lies where afterwards.

A plan is the one that `eigentensor.sharding` makes for a program, where its tensors lie, how many slots there are, what
signals say and how much memory a slot has; it is made once for all of these. Each worker gets its lists of steps in one
message, and then one message for each run. What is made stays in boxes where it is made, until somebody looks at it.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eigentensor.cluster.log import Event, Log
from eigentensor.errors import WorkerLost
from eigentensor.numerics.storage import STORAGE
from eigentensor.program.model import Program, Role
from eigentensor.regions.boxes import Box, Shape, covers, reshaped, slices, volume, whole_box
from eigentensor.sharding.cluster import HERE, Link
from eigentensor.sharding.layout import Layout, axes_of
from eigentensor.sharding.plan import Compute, Plan, Send, kept, plan, tightest
from eigentensor.sharding.signals import Hint
from eigentensor.sharding.transfers import Part as Taken
from eigentensor.sharding.transfers import gathered
from eigentensor_cluster.engine.interface import Part, Spent, Work, Worker
from eigentensor_cluster.sessions import Session
from eigentensor_cluster.tensors import Defined, Job, Lying, Tensor
from eigentensor_cluster.threads import aside

PLANS = 32  #: of one program that are known at a time
Values = NDArray[Any]


class Slot(NamedTuple):
    """A slot of a worker, of which it is that number."""

    worker: Worker
    number: int


@dataclass(eq=False, slots=True)
class Shared:
    """A plan of a program over some slots, by the cluster's number of it."""

    number: int
    program: Program
    plan: Plan
    slots: tuple[Slot, ...]
    parts: dict[Worker, Part]

    @property
    def seats(self) -> Counter[Worker]:
        """How many slots of each worker have something to do."""
        return Counter({worker: len(part.parts) for worker, part in self.parts.items()})


def slots_of(workers: Iterable[Worker]) -> tuple[Slot, ...]:
    """The slots that execute programs together, in the order in which their workers came: all that take part and can
    reach each other."""
    able = [worker for worker in workers if worker.addresses is not None]
    if len({worker.host for worker in able}) > 1:
        able = [worker for worker in able if any(not at.startswith("unix:") for at in worker.addresses or ())]
    elif len(able) > 1:
        able = [worker for worker in able if worker.addresses]
    return tuple(Slot(worker, number) for worker in able for number in range(worker.slots))


class Room(NamedTuple):
    """Bytes that a program holds at the worker where it holds most, and those that there are for it: not less where it
    finds room."""

    held: int
    memory: int


def hints_of(session: Session, defined: Defined, slots: Sequence[Slot]) -> tuple[Hint | None, ...]:
    """What a session's signals say about a program's calls, if so many slots are there."""
    return session.signals.hints(dict(defined.signals), len(defined.program.calls), range(len(slots)))


def is_shared(session: Session, job: Job, slots: Sequence[Slot]) -> bool:
    """Whether a run is shared out: its signals say so, what it reads lies in boxes, or it is too large for one slot."""
    if len(slots) < 2:
        return False
    if any(tensor.is_in_boxes for tensor in job.recipe.inputs):
        return True
    return is_program_shared(session, job.recipe.defined, slots)


def is_program_shared(session: Session, defined: Defined, slots: Sequence[Slot]) -> bool:
    """The same of a run that reads nothing that lies in boxes."""
    if len(slots) < 2:
        return False
    return bool(hints_of(session, defined, slots)) or size_of(defined) > memory_of(slots)


def size_of(defined: Defined) -> int:
    """Bytes of all buffers of a program, counted once."""
    defined.size = defined.size or bytes_of(defined.program)
    return defined.size


def room_at_one(defined: Defined, workers: Iterable[Worker]) -> Room:
    """The room for a program that one of these executes whole, whichever it is. Raises WorkerLost where nobody is."""
    memory = min((worker.memory for worker in workers), default=0)
    if not memory:
        raise WorkerLost("no worker has joined the cluster", fix="Let one join it.", topic="cluster")
    return Room(size_of(defined), memory)


def memory_of(slots: Sequence[Slot]) -> int:
    """Bytes that the slot has which has least."""
    return min(slot.worker.memory for slot in slots)


def bytes_of(program: Program) -> int:
    """Bytes of all buffers of a program, results of calls among them."""
    given = sum(b.elements * b.dtype.size for b in program.buffers)
    made = (program.bodies[call.body].parameters[0] for call in program.calls)
    return given + sum(parameter.elements * parameter.dtype.size for parameter in made)


def layout_of(tensor: Tensor, slots: Sequence[Slot], axes: Shape) -> Layout | None:
    """Where a tensor lies, a box for each slot along its axes in a program; None if it comes from outside."""
    at = {slot: number for number, slot in enumerate(slots)}
    boxes: list[Box | None] = [None] * len(slots)
    lying = tensor.lying
    if not prod(axes):
        return None
    for worker, number, box in lying:
        own = reshaped(box, tensor.axes, axes)
        if own is None or (worker, number) not in at:
            return None
        boxes[at[Slot(worker, number)]] = own
    if not lying and tensor.copy is None:
        for worker in tensor.places:
            if not worker.is_lost and (worker, 0) in at:
                boxes[at[Slot(worker, 0)]] = whole_box(axes)
    return tuple(boxes) if any(box is not None for box in boxes) else None


def left(program: Program, planned: Plan, renewed: Iterable[tuple[int, int]]) -> tuple[tuple[str, Layout], ...]:
    """Where inputs lie that were results of the last run: `renewed` are both, by number."""
    axes, names = axes_of(program), tuple(program.named(Role.INPUT))
    layouts = dict[str, Layout]()
    for result, name in renewed:
        _, _, buffer, shape = program.results[result]
        held = [(part, kept(part, buffer)) for part in planned.workers]
        boxes = [
            None if piece is None else reshaped(part.pieces[piece].box, axes[buffer], shape or (1,))
            for part, piece in held
        ]
        whole = all(piece is None or box is not None for (_, piece), box in zip(held, boxes, strict=True))
        if prod(shape) and whole and any(box is not None for box in boxes):
            layouts[names[name]] = tuple(boxes)
    return tuple(sorted(layouts.items()))


class Sharing:
    """Makes runs of several workers, which `link` joins. `elements` gives a tensor's, from wherever it lies."""

    def __init__(self, log: Log, elements: Callable[[Session, Tensor], Awaitable[Values]], link: Link = HERE) -> None:
        self._log, self._elements, self._link, self._numbers = log, elements, link, count(1)

    async def shared(self, session: Session, job: Job, slots: tuple[Slot, ...]) -> Shared:
        """The plan of a run. Raises LimitError if it has no room on these slots."""
        defined, hints = job.recipe.defined, hints_of(session, job.recipe.defined, slots)
        program, layouts = defined.program, dict[str, Layout]()
        for name, tensor in zip(program.named(Role.INPUT), job.recipe.inputs, strict=True):
            if (layout := layout_of(tensor, slots, tensor.shape or (1,))) is not None:
                layouts[name] = layout
        key = slots, tuple(sorted(layouts.items())), hints, self._link
        if key not in defined.shared:
            planned = await aside(partial(plan, program, len(slots), key[1], hints, memory_of(slots), self._link))
            while len(defined.shared) >= PLANS:
                del defined.shared[next(iter(defined.shared))]
            defined.shared[key] = made = self._made(program, planned, slots)
            self._record(session, job, made)
        shared: Shared = defined.shared[key]
        return shared

    async def fit(
        self, session: Session, defined: Defined, slots: tuple[Slot, ...], renewed: Sequence[tuple[int, int]]
    ) -> Room:
        """The room for a program that is shared out, its inputs from outside, and for runs that go on from its
        results."""
        hints, memory, held = hints_of(session, defined, slots), memory_of(slots), 0
        layouts: tuple[tuple[str, Layout], ...] = ()
        known = set[tuple[tuple[str, Layout], ...]]()
        while layouts not in known:
            known.add(layouts)
            planned = await aside(partial(tightest, defined.program, len(slots), layouts, hints, memory, self._link))
            held, layouts = max(held, planned.held), left(defined.program, planned, renewed)
        return Room(held, memory)

    async def execute(self, session: Session, job: Job, shared: Shared, work: Work, run: int) -> Spent:
        """Executes a run, whose results lie in boxes then. Raises what the first part raises that failed."""
        await self._bring(session, job, shared)
        name, of = work.root.hex()[:8], {"segment": run, "session": session.number, "frame": job.recipe.sequence}
        of["plan"] = shared.number
        asked = []
        for worker, part in shared.parts.items():
            self._log.record(Event.WORKER_SEND, f"WORKER {worker.name}", name, **of, slots=len(part.parts))
            asked.append(asyncio.ensure_future(self._part(worker, work, run, part, name)))
        try:
            for done in asyncio.as_completed(asked):
                await done
        except BaseException:
            for worker in shared.parts:
                worker.stop(run)
            await asyncio.gather(*asked, return_exceptions=True)
            raise
        self._moved(shared, name, run)
        for tensor in job.outputs:
            self._lay(tensor, shared)
        spent = [one.result() for one in asked]
        return Spent(
            sum(one.seconds for one in spent), sum(one.compiled for one in spent), sum(one.sent for one in spent)
        )

    async def _part(self, worker: Worker, work: Work, run: int, part: Part, name: str) -> Spent:
        spent = await worker.share(work, run, part)
        self._log.record(Event.WORKER_RECV, f"WORKER {worker.name}", name, segment=run, sent=spent.sent)
        return spent

    def _made(self, program: Program, planned: Plan, slots: tuple[Slot, ...]) -> Shared:
        workers = list(dict.fromkeys(slot.worker for slot in slots))
        where = tuple(workers.index(slot.worker) for slot in slots)
        addresses, number = tuple(" ".join(worker.addresses or ()) for worker in workers), next(self._numbers)
        parts = {}
        for worker in workers:
            own = {n: planned.workers[n] for n, slot in enumerate(slots) if slot.worker is worker}
            if busy := {n: part for n, part in own.items() if part.steps}:
                parts[worker] = Part(number, where, addresses, busy)
        return Shared(number, program, planned, slots, parts)

    def _record(self, session: Session, job: Job, shared: Shared) -> None:
        """Writes down who computes which box of which call."""
        defined, axes, first = job.recipe.defined, axes_of(shared.program), len(shared.program.buffers)
        signals, name, moved = dict(defined.signals), defined.root.hex()[:8], shared.plan.moved
        of = {"plan": shared.number, "session": session.number}
        self._log.record(Event.PLAN, f"CLIENT {session.number}", name, moved, **of, slots=len(shared.slots))
        for slot, part in enumerate(shared.plan.workers):
            who = f"WORKER {shared.slots[slot].worker.name}"
            for step in part.steps:
                if isinstance(step, Compute):
                    size = _bytes(shared.program, first + step.call, step.box)
                    detail = of | {"slot": slot, "call": step.call, "box": written(step.box)}
                    detail["of"] = "x".join(map(str, axes[first + step.call]))
                    if step.call in signals:
                        detail["signal"] = signals[step.call]
                    self._log.record(Event.PLAN, who, name, size, **detail)

    def _moved(self, shared: Shared, name: str, run: int) -> None:
        """Writes down which boxes went from worker to worker."""
        for slot, part in enumerate(shared.plan.workers):
            who = f"WORKER {shared.slots[slot].worker.name}"
            for step in part.steps:
                if isinstance(step, Send):
                    buffer, to = part.pieces[step.source].buffer, shared.slots[step.worker].worker.name
                    size, box = _bytes(shared.program, buffer, step.box), written(step.box)
                    detail = {"segment": run, "slot": slot, "to": to, "at": step.worker, "buffer": buffer, "box": box}
                    self._log.record(Event.MOVE, who, name, size, **detail)

    async def _bring(self, session: Session, job: Job, shared: Shared) -> None:
        """Sees that each worker has what comes from outside and is read there."""
        program, axes = shared.program, axes_of(shared.program)
        numbers = {b.name: n for n, b in enumerate(program.buffers) if b.role is Role.INPUT}
        tensors = {numbers[name]: t for name, t in zip(program.named(Role.INPUT), job.recipe.inputs, strict=True)}
        brings = []
        for worker, part in shared.parts.items():
            wanted = dict.fromkeys(part_given(part, tensors))
            for buffer, box in wanted:
                tensor = tensors[buffer]
                if not self._has(tensor, worker, axes[buffer], box):
                    brings.append(partial(self._send, session, tensor, worker, axes[buffer], box))
        await asyncio.gather(*(bring() for bring in brings))

    def _has(self, tensor: Tensor, worker: Worker, axes: Shape, box: Box) -> bool:
        if worker in tensor.places:
            return True
        own = [reshaped(of.box, tensor.axes, axes) for of in tensor.lies if of.worker is worker]
        return any(has is not None and covers(has, box) for has in (*own, *tensor.brought.get(worker, ())))

    async def _send(self, session: Session, tensor: Tensor, worker: Worker, axes: Shape, box: Box) -> None:
        if tensor.copy is None:
            tensor.copy = await self._elements(session, tensor)
        part = tensor.copy.reshape(axes)[slices(box)]
        who, size = f"WORKER {worker.name}", part.nbytes
        self._log.record(Event.SEND, who, "PUT", size, tensor=tensor.number, box=written(box))
        await worker.put_box(session.number, tensor.number, axes, box, part, tensor.dtype)
        tensor.brought.setdefault(worker, []).append(box)

    def _lay(self, tensor: Tensor, shared: Shared) -> None:
        """Says where the boxes of a result lie."""
        assert tensor.made is not None
        if not prod(tensor.shape):
            tensor.copy, tensor.made = np.empty(tensor.shape, STORAGE[tensor.dtype]), None
            return
        buffer = tensor.made.defined.program.results[tensor.index].buffer
        lies = []
        for slot, part in zip(shared.slots, shared.plan.workers, strict=True):
            if (piece := kept(part, buffer)) is not None:
                lies.append(Lying(slot.worker, slot.number, part.pieces[piece].box))
        tensor.axes, tensor.lies = axes_of(shared.program)[buffer], tuple(lies)


def part_given(part: Part, tensors: Mapping[int, Tensor]) -> Iterable[tuple[int, Box]]:
    """The boxes of these tensors that a worker's slots are given, by number of buffer."""
    for planned in part.parts.values():
        for piece in planned.given:
            buffer, box, _ = planned.pieces[piece]
            if buffer in tensors:
                yield buffer, box


async def whole(session: Session, tensor: Tensor) -> Values:
    """A tensor that lies in boxes, from its workers. Raises WorkerLost."""
    lying = [Taken(number, number, of.box) for number, of in enumerate(tensor.lying)]
    parts = gathered(whole_box(tensor.axes), (), lying, 0)
    if parts is None:
        raise WorkerLost(f"boxes of tensor {tensor.number} went with a worker")
    workers = [tensor.lying[part.worker].worker for part in parts]
    boxes = [
        worker.get_box(session.number, tensor.number, tensor.axes, part.box)
        for worker, part in zip(workers, parts, strict=True)
    ]
    made = np.empty(tensor.axes, STORAGE[tensor.dtype])
    for part, box in zip(parts, await asyncio.gather(*boxes), strict=True):
        made[slices(part.box)] = box
    return made.reshape(tensor.shape)


def written(box: Box) -> str:
    """A box as the log has it: first and last place along each axis."""
    return ",".join(f"{low}:{high}" for low, high in box)


def _bytes(program: Program, buffer: int, box: Box) -> int:
    return volume(box) * program.parameter(buffer).dtype.size
