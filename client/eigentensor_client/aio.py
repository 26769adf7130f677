"""Steps and functions that block, for asyncio: they run in threads, with pauses that let others run."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from eigentensor_client.waiting import Steps

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function that blocks returns. It is never left in the middle: a cancellation waits for its end, and what
    it returned is there before the cancellation goes on."""
    running = asyncio.get_running_loop().run_in_executor(None, partial(function, *args, **kwargs))
    cancelled = False
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            cancelled = True
    task = asyncio.current_task()
    if cancelled and task is not None:
        task.uncancel()
        task.cancel()  # takes effect where the caller waits next
    return running.result()


async def finish(steps: Steps[T]) -> T:
    """Takes all steps; others run while it pauses."""
    result: list[T] = []

    def step() -> float:
        try:
            return next(steps)
        except StopIteration as ended:
            result.append(ended.value)
            return 0.0

    while True:
        pause = await in_thread(step)
        if result:
            await asyncio.sleep(0)  # a cancellation meanwhile comes here: the caller's notes hold still
            return result[0]
        await asyncio.sleep(pause)
