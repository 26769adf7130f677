"""Threads of this process that help to compute: pools for single jobs, and helpers that each do one thing for ever."""

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from queue import SimpleQueue
from threading import Barrier, Lock, Thread

from eigentensor.system import LINUX

LIBC = ctypes.CDLL(None) if LINUX else None


@cache
def pool(threads: int) -> ThreadPoolExecutor:
    """The process's threads of this number, shared by all who ask for as many; they are never ended."""
    return ThreadPoolExecutor(threads, thread_name_prefix="eigentensor")


def start(threads: int) -> None:
    """Start the helpers of what is done on so many threads, now instead of when they are needed."""
    if threads > 1:
        together = Barrier(threads)
        jobs = [pool(threads - 1).submit(together.wait) for _ in range(threads - 1)]
        together.wait()
        for job in jobs:
            job.result()
        helpers.start(threads - 1)


class Helpers:
    """Threads each of which does one thing for the rest of the process."""

    def __init__(self) -> None:
        self.lock, self.free, self.work = Lock(), 0, SimpleQueue[Callable[[], None]]()
        self.threads: list[Thread] = []
        self.left = -1

    def start(self, threads: int) -> None:
        """So many that have nothing to do yet. A sealed process has those that it had before."""
        with self.lock, suppress(RuntimeError):
            while self.free < threads:
                thread = Thread(target=lambda: self.work.get()(), name="eigentensor", daemon=True)
                thread.start()
                self.threads.append(thread)
                self.free, self.left = self.free + 1, -1

    def take(self, work: Callable[[], None], threads: int) -> int:
        """Let so many do this, if there can be so many; how many there are."""
        if threads <= 0:
            return 0
        self.start(threads)
        with self.lock:
            taken = min(threads, self.free)
            self.free -= taken
        for _ in range(taken):
            self.work.put(work)
        return taken

    def make_way(self) -> None:
        """Keep them off the processor of the calling thread: a helper that wakes there comes when the work is done."""
        assert LIBC
        here = LIBC.sched_getcpu()
        if here in (self.left, -1) or not (others := os.sched_getaffinity(0) - {here}):
            return
        self.left = here
        with suppress(OSError):  # a sealed process may not
            for thread in self.threads:
                os.sched_setaffinity(thread.native_id or 0, others)


helpers = Helpers()
