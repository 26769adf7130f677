"""What takes its time as steps: the pauses between them belong to whoever takes them, a thread or asyncio.

A step blocks. It ends by yielding the seconds until the next one makes sense; the last one returns what came of it.
Whatever ends one early says how to take up the tasks that go on.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import ParamSpec, TypeVar

from eigentensor.errors import NotMined, TaskError, Unreachable
from eigentensor.talk import callable_here
from eigentensor_client.task_view import TaskView

P = ParamSpec("P")
T = TypeVar("T")
Steps = Generator[float, None, T]


def finish(steps: Steps[T]) -> T:
    """Takes all steps, sleeping in between."""
    try:
        while True:
            time.sleep(next(steps))
    except StopIteration as ended:
        result: T = ended.value
        return result


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


async def finish_async(steps: Steps[T]) -> T:
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


@contextmanager
def going_on(tasks: Sequence[TaskView], here: str = "") -> Iterator[None]:
    """Whatever ends the block early, but for the end of a task itself, says how to take up those that go on."""
    try:
        yield
    except (TaskError, GeneratorExit):
        raise
    except BaseException as error:
        note(error, [task.uuid for task in tasks], here)
        raise


@contextmanager
def sending(posted: Sequence[str]) -> Iterator[None]:
    """Whatever ends the block early names what is `posted` by then; without an answer of the chain it says that the
    others may become tasks, too."""
    try:
        yield
    except BaseException as error:
        note(error, posted)
        if isinstance(error, KeyboardInterrupt | Unreachable | NotMined):
            what = "what was being posted may become a task all the same: `eigentensor ps` lists it then"
            error.add_note(callable_here(what))
        raise


def note(error: BaseException, tasks: Sequence[str], here: str = "") -> None:
    """Adds to an error how to take up tasks that go on: by the command, and, if named, by a function `here`."""
    for uuid in tasks:
        short = uuid[:10]
        what = (
            f"task {uuid} goes on: `eigentensor get {short} -o FILE`{f' or `{here}({short!r})`' if here else ''} "
            f"takes it up; while nobody accepted it, `eigentensor cancel {short}` takes it back"
        )
        error.add_note(callable_here(what))
