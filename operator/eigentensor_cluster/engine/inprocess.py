"""Slots of this process: threads that execute programs, or parts of them, and the tensors of each session."""

import asyncio
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from numpy.typing import NDArray

from eigentensor.errors import (
    BindingError,
    ConnectionLost,
    EigenTensorError,
    ExecutionError,
    LimitError,
    ProcessKilled,
    WorkerLost,
)
from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Role
from eigentensor.regions.boxes import Box, Shape, extents_of_box
from eigentensor.runtime.sandbox.boxed import SlotPart
from eigentensor.runtime.sharded.mail import Mail, MailClosed
from eigentensor.sharding.layout import axes_of
from eigentensor.sharding.plan import kept
from eigentensor_cluster.engine.exchange import Exchange
from eigentensor_cluster.engine.executing import Programs
from eigentensor_cluster.engine.interface import Part, Spent, Work
from eigentensor_cluster.engine.parts import Assigned, Boxes, Key, Store
from eigentensor_cluster.threads import Threads


class InProcess:
    """A worker whose slots are threads of this process. Sessions that end while it executes leave nothing.

    It takes part in what several execute together if its device has no memory of its own; workers of other processes
    reach it if its `exchange` listens.
    """

    is_lost = False

    def __init__(self, programs: Programs, slots: int, name: str, host: str, node: str = "") -> None:
        self.programs, self.slots, self.name, self.device = programs, slots, name, programs.device
        self.host, self.node, self.memory = host, node, programs.memory
        self.exchange = Exchange()
        self._threads = Threads(slots, "slot")
        self._stores: dict[int, Store] = {}

    @property
    def addresses(self) -> tuple[str, ...] | None:
        """As `Worker.addresses`."""
        return self.exchange.addresses if self.programs.is_sharing else None

    def put(self, session: int, number: int, value: NDArray[Any], dtype: DType) -> Awaitable[None]:
        """As `Worker.put`."""
        value.flags.writeable = False  # a process may have a copy
        self._store(session).whole[number] = value
        return _done(None)

    def put_box(
        self, session: int, number: int, shape: Shape, box: Box, value: NDArray[Any], dtype: DType
    ) -> Awaitable[None]:
        """As `Worker.put_box`."""
        self._store(session).boxes.setdefault(number, {})[shape, box] = Boxes(shape, box, value)
        return _done(None)

    def run(self, work: Work) -> Awaitable[Spent]:
        """As `Worker.run`. Raises BindingError for a tensor that is not there."""
        held, program = self._store(work.session).whole, work.program
        missing = [number for number in work.inputs if number not in held]
        if missing:
            raise BindingError(f"tensor {missing[0]} is not at this worker")
        tensors = dict(zip(program.named(Role.INPUT), (held[number] for number in work.inputs), strict=True))
        variables = {v.name: value for v, value in zip(program.variables, work.variables, strict=True)}

        def execute() -> Spent:
            start = time.perf_counter()
            with _explained():
                outputs, compiled = self.programs.run(work.session, work.root, program, tensors, variables)
            for number, result in zip(work.outputs, program.results, strict=True):
                if number:
                    held[number] = outputs[result.name]
            return Spent(time.perf_counter() - start, compiled)

        return self._threads.run(execute)

    def share(self, work: Work, run: int, part: Part) -> Awaitable[Spent]:
        """As `Worker.share`."""
        store = self._store(work.session)
        if (assigned := store.assigned.use(part.number)) is None:
            slots = tuple(part.addresses[at] for at in part.slots)
            assigned = store.assigned[part.number] = Assigned(work.program, slots, part.parts)
        for number in filter(None, work.outputs):
            store.forget(number)
        left = sum(max(0, self.memory - planned.held) for planned in assigned.parts.values())
        mail = self.exchange.begin(run, assigned.slots, assigned.parts.keys(), left)
        jobs = [
            self._threads.run(partial(self._executed, store, work, part.number, assigned, slot, mail))
            for slot in assigned.parts
        ]
        return self._shared(run, jobs)

    async def _shared(self, run: int, jobs: Sequence["asyncio.Future[Spent]"]) -> Spent:
        try:
            outcomes = await asyncio.gather(*jobs, return_exceptions=True)
            errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
            for error in sorted(errors, key=lambda error: isinstance(error, MailClosed)):
                raise error
            await self.exchange.sent(run)
        except (MailClosed, ConnectionLost) as error:
            raise WorkerLost(f"another worker went away in the middle of a run: {error.what}") from error
        finally:
            self.exchange.end(run)
        spent = [outcome for outcome in outcomes if isinstance(outcome, Spent)]
        return Spent(sum(one.seconds for one in spent), 0, sum(one.sent for one in spent))

    def stop(self, run: int) -> None:
        """As `Worker.stop`."""
        self.exchange.stop(run)

    def get(self, session: int, number: int) -> Awaitable[NDArray[Any]]:
        """As `Worker.get`. Raises BindingError for a tensor that is not there."""
        value = self.at_hand(session, number)
        if value is None:
            raise BindingError(f"tensor {number} is not at this worker")
        return _done(value)

    def get_box(self, session: int, number: int, axes: Shape, box: Box) -> Awaitable[NDArray[Any]]:
        """As `Worker.get_box`. Raises BindingError for a box that is not there."""
        store = self._stores.get(session)
        part = None if store is None else store.part(number, axes, box)
        if part is None:
            raise BindingError(f"box {list(box)} of tensor {number} is not at this worker")
        return _done(part)

    def at_hand(self, session: int, number: int) -> NDArray[Any] | None:
        """As `Worker.at_hand`."""
        store = self._stores.get(session)
        return None if store is None else store.whole.get(number)

    def free(self, session: int, numbers: Sequence[int]) -> None:
        """As `Worker.free`."""
        if (store := self._stores.get(session)) is not None:
            for number in numbers:
                store.forget(number)

    def end(self, session: int) -> None:
        """As `Worker.end`."""
        self._stores.pop(session, None)
        self.programs.end(session)
        self.exchange.rest()

    def close(self) -> None:
        """Ends the programs, also those that are executed, and the threads."""
        self._threads.close()
        self.programs.close()

    def _store(self, session: int) -> Store:
        """What a session has here, from the first on that comes here for it."""
        return self._stores.setdefault(session, Store())

    def _executed(self, store: Store, work: Work, plan: int, assigned: Assigned, slot: int, mail: Mail) -> Spent:
        """The life of a part on a thread: what it is given, its steps, what is kept of its results."""
        start, program, port = time.perf_counter(), work.program, mail.port(slot)
        part = SlotPart(Key(work.session, plan, slot), program, assigned.parts[slot])
        kept_pieces = {
            number: (result.buffer, piece)
            for number, result in zip(work.outputs, program.results, strict=True)
            if number and (piece := kept(part.planned, result.buffer)) is not None
        }
        wanted = list(dict.fromkeys(piece for _, piece in kept_pieces.values()))
        try:
            with _explained():
                made = self.programs.share(part, self._given(store, work, part), work.variables, wanted, port)
        except BaseException:
            mail.close()  # nobody waits for it
            raise
        for number, (buffer, piece) in kept_pieces.items():
            box, elements = part.planned.pieces[piece].box, made[wanted.index(piece)]
            own = Boxes(axes_of(program)[buffer], box, elements.reshape(extents_of_box(box)))
            store.boxes.setdefault(number, {})[slot] = own
        return Spent(time.perf_counter() - start, 0, port.sent)

    def _given(self, store: Store, work: Work, part: SlotPart) -> list[NDArray[Any]]:
        """The elements of what a part is given. Raises BindingError for a box that is not there."""
        numbers, axes = dict(zip(work.program.named(Role.INPUT), work.inputs, strict=True)), axes_of(work.program)
        given = []
        for piece in part.given:
            buffer, box, _ = part.planned.pieces[piece]
            number = numbers[work.program.buffers[buffer].name]
            elements = store.part(number, axes[buffer], box)
            if elements is None:
                raise BindingError(f"box {list(box)} of tensor {number} is not at this worker")
            given.append(elements)
        return given


@contextmanager
def _explained() -> Iterator[None]:
    """Raises LimitError, ExecutionError for what an execution lacks, WorkerLost for one that is lost with its process:
    it is executed again, like those of a worker that goes away."""
    try:
        yield
    except ProcessKilled as error:
        raise WorkerLost(error.what) from error
    except MemoryError as error:
        raise LimitError("out of memory", fix="Run a smaller program.") from error
    except OSError as error:
        raise ExecutionError(f"this worker cannot execute: {error}") from error
    except EigenTensorError:
        raise
    except Exception as error:  # a fault of ours: whoever waits hears of it
        raise ExecutionError(f"this worker failed: {error!r}") from error


def _done(value: Any) -> "asyncio.Future[Any]":
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    future.set_result(value)
    return future
