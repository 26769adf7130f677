"""What a client does until a task is done, as steps: the pauses between them belong to whoever takes them.

A step blocks. It ends by yielding the seconds until the next one makes sense; the last one returns what came of it.
"""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from eigentensor.errors import BlobNotFound, NotMined, TaskError, Unreachable
from eigentensor_client import orders, stages
from eigentensor_client.results import TaskResult, TaskView
from eigentensor_client.transfer import Tell

if TYPE_CHECKING:
    from eigentensor_client.client import Client

T = TypeVar("T")
Steps = Generator[float, None, T]

DELIVERY = 60.0  # seconds in which a revealed result should be at the gateway


def finish(steps: Steps[T]) -> T:
    """Takes all steps, sleeping in between."""
    try:
        while True:
            time.sleep(next(steps))
    except StopIteration as ended:
        result: T = ended.value
        return result


def wait(client: "Client", task: TaskView, stage: str, timeout: float | None, tell: Tell) -> Steps[TaskView]:
    """As `Client.wait`."""
    orders.check_stage(stage)
    started = time.monotonic()
    while True:
        task = client.look(task)
        if stages.reached(task, stage):
            return task
        if (error := client.failure(task, stage)) is not None:
            raise error
        tell(f"{task.words}: waits for {task.waits_for}")
        client.move_on(task)
        if timeout is not None and time.monotonic() - started > timeout:
            raise stages.not_yet(task, stage, timeout)
        yield client.poll


def deliver(client: "Client", task: TaskView, tell: Tell, states: bool) -> Steps[TaskResult]:
    """As `Client.deliver`."""
    started = time.monotonic()
    while True:
        try:
            return client.fetch(task, tell, states=states)
        except BlobNotFound:
            if time.monotonic() - started > DELIVERY:
                raise
        tell("waits for the executor to upload the result")
        yield client.poll


def complete(client: "Client", task: TaskView, stage: str, timeout: float | None, tell: Tell) -> Steps[TaskResult]:
    """As `Client.complete`."""
    task = yield from wait(client, task, stage, timeout, tell)
    return (yield from deliver(client, task, tell, True))


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
            error.add_note("what was being posted may become a task all the same: `eigentensor ps` lists it then")
        raise


def note(error: BaseException, tasks: Sequence[str], here: str = "") -> None:
    """Adds to an error how to take up tasks that go on: by the command, and, if named, by a function `here`."""
    for uuid in tasks:
        short = uuid[:10]
        error.add_note(
            f"task {uuid} goes on: `eigentensor get {short} -o FILE`{f' or `{here}({short!r})`' if here else ''} "
            f"takes it up; while nobody accepted it, `eigentensor cancel {short}` takes it back"
        )
