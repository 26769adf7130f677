"""The thread that executes calls, one after the other, writes them down in groups, and answers them.

A call is answered when it is on disk. Those that come while one is executed wait together, and are written in one
transaction: the more there are, the less each waits for the disk.
"""

import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from eigentensor.errors import EigenTensorError, ServiceBusy
from eigentensor_operator.calls.channels import Answer, Ticket
from eigentensor_operator.calls.ledger import Executed

GROUP = 64  #: calls that are written together at most
LINGER = 0.005  #: seconds after which a group is written, whoever waits
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Done:
    """A call that was executed and is to be written down: what it needs to be executed again, its answer."""

    ticket: Ticket
    call: Executed
    files: dict[bytes, bytes]
    answer: Answer


@dataclass(frozen=True, slots=True)
class Job:
    """What is done when all calls before it are on disk."""

    do: Callable[[], object]
    done: "Future[object]" = field(default_factory=Future)


class Work(Protocol):
    """What the lane does."""

    def execute(self, ticket: Ticket) -> Done | None:
        """Executes a call; None: it repeats one that is on disk, and was answered. Raises EigenTensorError."""

    def failed(self, ticket: Ticket) -> None:
        """A call failed: it is refused, and those behind it."""

    def write(self, group: list[Done]) -> None:
        """Writes calls down. Raises sqlite3.Error."""

    def written(self, ticket: Ticket) -> None:
        """A call is on disk, or was answered otherwise: it is under way no more."""

    def stop(self, why: str) -> None:
        """Nothing is executed any more until a restart."""


class Lane:
    """One thread, until `close`."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._jobs: queue.SimpleQueue[Ticket | Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="calls", daemon=True)
        self._thread.start()

    def put(self, ticket: Ticket) -> None:
        """Executes a call, after those before it; its future has the answer, whoever waits for it or goes."""
        ticket.future.set_running_or_notify_cancel()
        self._jobs.put(ticket)

    def after(self, do: Callable[[], object]) -> "Future[object]":
        """Does something when all calls before it are on disk."""
        job = Job(do)
        self._jobs.put(job)
        return job.done

    def close(self) -> None:
        """Ends when what was put is done."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        job = self._jobs.get()
        while job is not None:
            group: list[Done] = []
            until = time.perf_counter() + LINGER
            while isinstance(job, Ticket):
                if (done := self._execute(job)) is not None:
                    group.append(done)
                if len(group) >= GROUP or time.perf_counter() > until or self._jobs.empty():
                    break
                job = self._jobs.get()  # nobody else takes from it
            self._write(group)
            if isinstance(job, Job):
                self._do(job)
            if job is not None:
                job = self._jobs.get()

    def _execute(self, ticket: Ticket) -> Done | None:
        try:
            done = self._work.execute(ticket)
        except EigenTensorError as error:
            self._work.failed(ticket)
            ticket.future.set_exception(error)
            return None
        except Exception as error:  # a fault here must not end the lane, of which all channels live
            _log.error("call failed", exc_info=error)
            self._work.failed(ticket)
            ticket.future.set_exception(error)
            return None
        if done is None:
            self._work.written(ticket)
        return done

    def _write(self, group: list[Done]) -> None:
        if not group:
            return
        try:
            self._work.write(group)
        except (sqlite3.Error, OSError) as error:
            self._work.stop(f"the ledger cannot be written: {error}")
            for done in group:
                self._work.written(done.ticket)
                done.ticket.future.set_exception(ServiceBusy("the operator cannot write down calls", fix="Try later."))
            return
        for done in group:
            self._work.written(done.ticket)
            done.ticket.future.set_result(done.answer)

    def _do(self, job: Job) -> None:
        try:
            job.done.set_result(job.do())
        except Exception as error:  # whoever waits for it is told
            job.done.set_exception(error)
