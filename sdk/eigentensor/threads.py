"""Threads of this process that help to compute: one pool of each size, whoever uses it."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Barrier


@cache
def pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="eigentensor")


def start(threads: int) -> None:
    """Start the helpers of what is done on so many threads, now instead of when they are needed."""
    if threads > 1:
        together = Barrier(threads)
        helpers = [pool(threads - 1).submit(together.wait) for _ in range(threads - 1)]
        together.wait()
        for helper in helpers:
            helper.result()
