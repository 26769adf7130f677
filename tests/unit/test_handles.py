"""What a call returns works like any Tensor; what interrupts a wait says how to go on."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from tinygrad import Context, Tensor

from eigentensor.errors import NotYet, Unreachable
from eigentensor_client.calls import Received
from eigentensor_client.results import TaskResult
from eigentensor_client.steps import Steps, finish, finish_async, going_on, in_thread
from support.stories.orders import seen

TASK = seen()


@pytest.mark.parametrize(
    "use",
    [
        lambda x, y: x - y,
        lambda x, y: x @ y,
        lambda x, y: x.cat(y),
        lambda x, y: x[y.cast("int32")],
        lambda x, y: (x > 2).where(x, y),
        lambda x, y: Tensor.stack(x, y).max(axis=0),
        lambda x, y: x.contiguous().cumsum() + y.argsort(),
        lambda x, y: x.maximum(y).cross_entropy(y.softmax()),
    ],
)
def test_what_comes_back_mixes_with_any_tensor(use: Callable[[Tensor, Tensor], Tensor]) -> None:
    with Context(DEV="CPU"):
        x, y = Tensor([3.0, 1.0, 2.0]), Tensor([1.0, 0.0, 2.0])
        result = TaskResult(TASK, b"", {})
        expected = use(x, y)
        for a, b in ((Received.of(x.uop, result), y), (x, Received.of(y.uop, result))):
            mixed = use(a, b)
            assert mixed.dtype == expected.dtype and mixed.shape == expected.shape
            assert mixed.uop is expected.uop  # the same graph, so nothing needs to be computed
        # Python asks the subclass first when two are compared, so the operands are the other way round.
        assert (x == Received.of(y.uop, result)).tolist() == (x == y).tolist() == [False, False, True]
        assert (x < Received.of(y.uop, result)).tolist() == (x < y).tolist() == [False, False, False]
    assert Received.of(x.uop, result).result is result


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), Unreachable("no answer", fix="Try again."), asyncio.CancelledError()]
)
def test_an_interruption_names_what_goes_on(error: BaseException) -> None:
    with pytest.raises(type(error)) as raised, going_on([TASK]):
        raise error
    note = raised.value.__notes__[-1]
    assert TASK.uuid in note and f"eigentensor get {TASK.uuid[:10]}" in note


def test_the_end_of_a_task_does_not() -> None:
    with pytest.raises(NotYet) as raised, going_on([TASK]):
        raise NotYet("not there")
    assert not hasattr(raised.value, "__notes__")


def test_what_a_thread_does_is_finished_before_a_cancellation_goes_on() -> None:
    started, go_on, done = threading.Event(), threading.Event(), []

    def work() -> str:
        started.set()
        go_on.wait()
        done.append(True)
        return "result"

    async def story() -> None:
        results = []

        async def caller() -> None:
            results.append(await in_thread(work))
            await asyncio.sleep(3600)

        task = asyncio.create_task(caller())
        while not started.is_set():
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert done and results == ["result"]

    asyncio.run(story())


def test_a_timeout_of_asyncio_ends_a_wait_as_its_own() -> None:
    def steps() -> Steps[None]:
        while True:
            yield 0.001

    async def story() -> None:
        async with asyncio.timeout(0.01):
            await finish_async(steps())

    with pytest.raises(TimeoutError):
        asyncio.run(story())


def test_steps_end_with_what_they_return() -> None:
    def steps() -> Steps[str]:
        yield 0.0
        return "result"

    assert finish(steps()) == asyncio.run(finish_async(steps())) == "result"
