"""The lane that executes calls, signs and writes them down in groups, and answers them.

Calls of one program and repeat that wait at the same time are executed together, others one after the other. A call is
answered when it is on disk. While one group is being written, calls are executed for the next one, which is then
written in one transaction: the more there are, the less each waits for the disk. It is one thread with an event loop,
which serves its calls over HTTP, too, while programs compute and the disk writes: what two threads hand to each other
call by call costs more than what they do.
"""

import asyncio
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import structlog
from uvicorn.loops.auto import auto_loop_factory

from eigentensor.errors import EigenTensorError, ServiceBusy
from eigentensor.program.binding import Results
from eigentensor_operator.calls.channels import Answer, Ticket
from eigentensor_operator.calls.ledger import Executed
from eigentensor_operator.calls.recent import Patch

GROUP = 64  #: calls that are written together at most
QUICK = 0.002  #: seconds that a write may take for which others wait, rather than for a thread
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Done:
    """A call that was executed and is to be written down: what it needs to be executed again, its answer."""

    ticket: Ticket
    call: Executed
    files: dict[bytes, bytes | Patch]
    answer: Answer


@dataclass(frozen=True, slots=True)
class Job:
    """What is done when all calls before it are on disk."""

    do: Callable[[], object]
    done: "Future[object]" = field(default_factory=Future)


class Work(Protocol):
    """What the lane does."""

    async def execute(self, tickets: Sequence[Ticket]) -> Sequence[Results | Exception]:
        """What calls of one program and repeat give, or how each of them failed."""

    async def finish(self, ticket: Ticket, outcome: Results | Exception) -> Done | Answer:
        """The receipt of an executed call, in the order of execution; the answer alone where it repeats a call that is
        on disk. Raises EigenTensorError; how the call failed, unless one before it did."""

    def failed(self, ticket: Ticket) -> None:
        """A call failed: it is refused, and those behind it."""

    def write(self, group: list[Done]) -> None:
        """Writes calls down. Raises sqlite3.Error."""

    def written(self, ticket: Ticket) -> None:
        """A call is on disk, or was answered otherwise: it is under way no more."""

    def stop(self, why: str) -> None:
        """Nothing is executed any more until a restart."""


def gathered(first: Ticket, waiting: Iterable[Ticket | Job | None], most: int) -> list[int]:
    """Which of the jobs behind a call are executed with it, by their places, so that there are `most` calls at most:
    calls that are like it, unless one of their channel that is none waits before them. Pure."""
    places: list[int] = []
    passed: set[int] = set()
    for place, job in enumerate(waiting):
        if len(places) + 1 >= most or not isinstance(job, Ticket):
            break
        if job.is_like(first) and id(job.channel) not in passed:
            places.append(place)
        else:
            passed.add(id(job.channel))
    return places


class Lane:
    """One thread with an event loop, `loop`, until `close`; another one writes."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._jobs: deque[Ticket | Job | None] = deque()
        self._came = asyncio.Event()  # a job did
        self._executed: asyncio.Queue[tuple[Ticket, Results | Exception]] = asyncio.Queue(GROUP)
        self._writing = QUICK  # seconds that the last group took
        self._broken = False  # a group could not be written: nothing after it may be
        self._disk = ThreadPoolExecutor(1, "ledger")
        begun: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=self._main, args=[begun], name="calls", daemon=True)
        self._thread.start()
        self.loop = begun.result()

    def put(self, ticket: Ticket) -> None:
        """Executes a call, after those before it; its future has the answer, whoever waits for it or goes."""
        ticket.future.set_running_or_notify_cancel()
        self._put(ticket)

    def after(self, do: Callable[[], object]) -> "Future[object]":
        """Does something when all calls before it are on disk."""
        job = Job(do)
        self._put(job)
        return job.done

    def close(self) -> None:
        """Ends when what was put is done."""
        self._put(None)
        self._thread.join()
        self._disk.shutdown()

    def _put(self, job: Ticket | Job | None) -> None:
        if threading.get_ident() == self._thread.ident:
            self._add(job)
        else:
            self.loop.call_soon_threadsafe(self._add, job)

    def _add(self, job: Ticket | Job | None) -> None:
        self._jobs.append(job)
        self._came.set()

    def _main(self, begun: "Future[asyncio.AbstractEventLoop]") -> None:
        with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
            begun.set_result(runner.get_loop())
            runner.run(self._run())

    async def _run(self) -> None:
        writer = asyncio.create_task(self._write_groups())
        while (job := await self._next()) is not None:
            if isinstance(job, Ticket):
                tickets = self._with(job)
                for executed in zip(tickets, await self._outcomes(tickets), strict=True):
                    await self._executed.put(executed)
            else:
                await self._executed.join()
                await self.loop.run_in_executor(self._disk, self._do, job)
        await self._executed.join()
        writer.cancel()

    async def _next(self) -> Ticket | Job | None:
        while not self._jobs:
            self._came.clear()
            await self._came.wait()
        return self._jobs.popleft()

    def _with(self, first: Ticket) -> list[Ticket]:
        """A call, with those that are executed together with it."""
        places = gathered(first, self._jobs, first.served.execution.most)
        some = [ticket for place in places if isinstance(ticket := self._jobs[place], Ticket)]
        for place in reversed(places):
            del self._jobs[place]
        return [first, *some]

    async def _outcomes(self, tickets: Sequence[Ticket]) -> Sequence[Results | Exception]:
        try:
            return await self._work.execute(tickets)
        except Exception as error:
            if len(tickets) > 1:  # it may be the fault of one of them
                return [outcome for ticket in tickets for outcome in await self._outcomes([ticket])]
            return [error]

    async def _write_groups(self) -> None:
        while True:
            executed = [await self._executed.get()]
            while len(executed) < GROUP and not self._executed.empty():
                executed.append(self._executed.get_nowait())
            group = [done for one in executed if (done := await self._finished(*one)) is not None]
            if group:
                await self._write(group)
            for _ in executed:
                self._executed.task_done()

    async def _finished(self, ticket: Ticket, outcome: Results | Exception) -> Done | None:
        """The receipt of a call; None: it is settled without."""
        try:
            done = await self._work.finish(ticket, outcome)
        except Exception as error:
            if not isinstance(error, EigenTensorError):  # it must not end the lane, of which all channels live
                _log.error("call failed", exc_info=error)
            self._work.failed(ticket)
            ticket.future.set_exception(error)
            return None
        if isinstance(done, Done):
            return done
        self._work.written(ticket)
        ticket.future.set_result(done)
        return None

    async def _write(self, group: list[Done]) -> None:
        if not self._broken:
            try:
                await self._write_down(group)
            except (sqlite3.Error, OSError) as error:
                self._broken = True
                self._work.stop(f"the ledger cannot be written: {error}")
        for done in group:
            self._work.written(done.ticket)
            if self._broken:
                done.ticket.future.set_exception(ServiceBusy("the operator cannot write down calls", fix="Try later."))
            else:
                done.ticket.future.set_result(done.answer)

    async def _write_down(self, group: list[Done]) -> None:
        start = time.perf_counter()
        if self._writing < QUICK:
            self._work.write(group)
        else:
            await self.loop.run_in_executor(self._disk, self._work.write, group)
        self._writing = time.perf_counter() - start

    def _do(self, job: Job) -> None:
        try:
            job.done.set_result(job.do())
        except Exception as error:  # whoever waits for it is told
            job.done.set_exception(error)
