"""`eigentensor.function` without a network: options, what it makes of a function, and what runs here."""

import asyncio
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor

import eigentensor as et
from eigentensor.errors import BindingError, ConfigError

WEIGHT = Tensor(np.arange(12, dtype=np.float32).reshape(4, 3), device="CPU").realize()
COUNT = Tensor.zeros(1, device="CPU").contiguous().realize()
ROWS = np.random.default_rng(0).standard_normal((2, 4), dtype=np.float32)


@et.function()
def scores(x: Tensor, *, factor: int = 1) -> Tensor:
    return x @ WEIGHT * factor


@et.function()
def counted(x: Tensor) -> Tensor:
    COUNT.assign(COUNT + 1)
    return x + COUNT


class Slots:
    __slots__ = ("weight",)

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight

    @et.function()
    def scores(self, x: Tensor) -> Tensor:
        return x @ self.weight


@pytest.mark.parametrize(
    "options",
    [
        {"max_price": 0.05},
        {"max_price": "-1"},
        {"max_price": "much"},
        {"wait": "paid"},
        {"check": "many"},
        {"check": 0.2},
        {"verifiers": "2"},
        {"verifiers": 0},
        {"exec": -1},
        {"ramp": True},
        {"accept_within": 1.5},
        {"timeout": "5"},
        {"timeout": -5},
        {"timeout": float("nan")},
        {"network": 3},
    ],
)
def test_options_that_are_none_are_refused(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises((BindingError, ConfigError)):
        et.function(**options)
    with pytest.raises((BindingError, ConfigError)):
        scores.with_options(**{name: options[name]})


def test_a_decorator_without_brackets_says_so() -> None:
    with pytest.raises(BindingError, match="the options of function have names"):
        et.function(lambda x: x)  # type: ignore[call-arg, arg-type]


def test_a_function_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(scores)) is scores


def test_methods_of_objects_with_slots_are_functions_too() -> None:
    here = Slots(WEIGHT)
    assert np.array_equal(here.scores.local(ROWS).numpy(), scores.local(ROWS).numpy())


def test_what_cannot_be_mapped_is_refused_before_anything_is_posted() -> None:
    def broken() -> Any:
        yield ROWS
        raise OSError("the file ended")

    with pytest.raises(BindingError, match="map over a int"):
        scores.map(3)  # type: ignore[arg-type]
    with pytest.raises(BindingError, match=r"map over \[1, 2\] items"):
        scores.map([ROWS], [1, 2])
    with pytest.raises(OSError, match="the file ended"):
        scores.map(broken())
    assert list(scores.map([])) == []


def test_threads_compute_the_same_and_one_at_a_time_what_assigns() -> None:
    expected = scores.local(ROWS).numpy()
    with ThreadPoolExecutor(4) as threads:
        assert all(np.array_equal(y.numpy(), expected) for y in threads.map(scores.local, [ROWS] * 8))

        def attempt(_: int) -> int:
            try:
                counted.local(ROWS)
            except BindingError as error:
                assert "is under way that assigns to COUNT" in str(error)
                return 0
            return 1

        before = COUNT.item()
        assert sum(threads.map(attempt, range(8))) == COUNT.item() - before


def test_asyncio_computes_here_while_others_run() -> None:
    ticks = count()

    async def story() -> list[Tensor]:
        async def tick() -> None:
            while next(ticks) < 1000:
                await asyncio.sleep(0.001)

        beside = asyncio.create_task(tick())
        results = await asyncio.gather(*(scores.local.aio(ROWS, factor=n) for n in (1, 2)))
        beside.cancel()
        return results

    one, two = asyncio.run(story())
    assert np.array_equal(one.numpy() * 2, two.numpy()) and next(ticks) > 1


def test_a_cancelled_call_has_assigned_nothing() -> None:
    async def story() -> None:
        task = asyncio.create_task(counted.local.aio(ROWS))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    before = COUNT.item()
    asyncio.run(story())
    assert COUNT.item() == before
    counted.local(ROWS)
    assert COUNT.item() == before + 1


def test_a_forked_process_computes_the_same() -> None:
    expected = scores.local(ROWS).numpy().tobytes()
    read, write = os.pipe()
    if not (child := os.fork()):
        os.write(write, scores.local(ROWS).numpy().tobytes())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read() == expected
    assert os.waitpid(child, 0)[1] == 0
