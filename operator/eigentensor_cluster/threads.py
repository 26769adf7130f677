"""Threads for what takes long beside an event loop. A process that ends waits for none of them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Semaphore, Thread
from typing import Any, TypeVar

Of = TypeVar("Of")
_Job = tuple["Future[Any]", Callable[[], Any]]


class Threads:
    """So many of them, begun as they are needed."""

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._begun, self._idle = 0, Semaphore(0)
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()

    def run(self, work: Callable[[], Of]) -> "asyncio.Future[Of]":
        """What some work gives, or raises, as soon as a thread has done it. For one event loop."""
        future: Future[Of] = Future()
        self._jobs.put((future, work))
        if not self._idle.acquire(blocking=False) and self._begun < self._count:
            self._begun += 1
            Thread(target=self._live, name=self._name, daemon=True).start()
        return asyncio.wrap_future(future)

    def close(self) -> None:
        """Ends them when they have done what they do; what has not begun is not done."""
        with suppress(Empty):
            while (job := self._jobs.get_nowait()) is not None:
                job[0].cancel()
        for _ in range(self._begun):
            self._jobs.put(None)

    def _live(self) -> None:
        while (job := self._jobs.get()) is not None:
            _do(*job)
            del job  # it may hold much
            self._idle.release()


def aside(work: Callable[[], Of]) -> "asyncio.Future[Of]":
    """What some work gives, or raises, on a thread of its own."""
    future: Future[Of] = Future()
    Thread(target=_do, args=(future, work), name="aside", daemon=True).start()
    return asyncio.wrap_future(future)


def _do(future: "Future[Any]", work: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
