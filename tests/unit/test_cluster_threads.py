"""Threads beside an event loop: as many as there are to be, results and errors as they are, an end without waiting."""

import asyncio
import threading

import pytest

from eigentensor_cluster.threads import Threads, aside


def test_as_many_jobs_are_done_at_a_time_as_there_are_threads_and_their_results_come() -> None:
    busy, most, lock = 0, 0, threading.Lock()
    both = threading.Barrier(2)

    def work() -> int:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        both.wait(60)
        with lock:
            busy -= 1
        return 7

    async def main() -> list[int]:
        threads = Threads(2, "test")
        try:
            return await asyncio.gather(*(threads.run(work) for _ in range(6)))
        finally:
            threads.close()

    assert asyncio.run(main()) == [7] * 6 and most == 2


def test_errors_are_those_of_the_work_and_what_has_not_begun_at_the_end_is_not_done() -> None:
    over, begun = threading.Event(), threading.Event()

    def waits() -> bool:
        begun.set()
        return over.wait(60)

    async def main() -> None:
        threads = Threads(1, "test")
        with pytest.raises(ZeroDivisionError):
            await threads.run(lambda: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            await aside(lambda: 1 // 0)
        first, second = threads.run(waits), threads.run(lambda: True)
        await aside(lambda: begun.wait(60))
        threads.close()
        over.set()
        assert await first
        with pytest.raises(asyncio.CancelledError):
            await second

    asyncio.run(main())
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "test")
