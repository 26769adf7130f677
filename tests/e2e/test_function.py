"""`eigentensor.function` on a network: what comes back, what is posted, and how often; for threads and for asyncio."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor

import eigentensor as et
from eigentensor import reference
from eigentensor.chain import NONE, Posted, State
from eigentensor.errors import BindingError, TaskCancelled, TermsRefused
from eigentensor_client import AsyncClient, waiting
from eigentensor_client.client import Client
from eigentensor_client.devnet import Party
from eigentensor_client.orders import Terms, Work
from eigentensor_client.results import TaskResult

WEIGHT = Tensor(np.arange(12, dtype=np.float32).reshape(4, 3), device="CPU")
COUNT = Tensor.zeros(1, device="CPU").contiguous().realize()


@et.function(max_price="0.05", wait="result", timeout=240, exec=60, accept_within=100)
def scores(x: Tensor, factor: int = 1) -> dict[str, Tensor]:
    y = x @ WEIGHT * factor
    return {"scores": y, "best": y.argmax(axis=1)}


@et.function(max_price="0.05", wait="result", timeout=240, exec=60, accept_within=100)
def counted(x: Tensor) -> tuple[Tensor, Tensor]:
    COUNT.assign(COUNT + 1)
    return x + COUNT, x * 2


def rows(seed: int) -> Tensor:
    return Tensor(np.random.default_rng(seed).standard_normal((2, 4), dtype=np.float32), device="CPU")


def check_bits(found: dict[str, Tensor], x: Tensor) -> None:
    here = scores.local(x)
    assert found.keys() == here.keys()
    for name, tensor in here.items():
        assert (found[name].dtype, found[name].device) == (tensor.dtype, "CPU")
        assert found[name].numpy().tobytes() == tensor.numpy().tobytes()


def test_a_call_returns_the_bits_and_how_they_came(client: Client, operators: list[Party]) -> None:
    x = rows(0)
    y: Any = scores.remote(x)
    check_bits(y, x)
    result = y["best"].result
    assert result is y["scores"].result and type(y["scores"] + 1) is type(y["scores"].contiguous()) is Tensor
    assert result.executor in {party.address for party in operators}
    assert client.task(result.uuid).state in (State.REVEALED, State.FINAL)
    assert y["best"].receipt.task == result.uuid


@pytest.mark.slow
def test_many_calls_are_one_transaction_and_their_weights_one_upload(client: Client, operators: list[Party]) -> None:
    inputs = [rows(seed) for seed in range(4)]
    found: list[Any] = list(scores.map(inputs))
    for x, y in zip(inputs, found, strict=True):
        check_bits(y, x)
    tasks = [client.look(y["best"].result.task) for y in found]
    assert len({task.events[0].place.transaction for task in tasks if isinstance(task.events[0], Posted)}) == 1
    assert len({task.order.weights for task in tasks} - {NONE}) == 1


@pytest.mark.slow
def test_a_function_that_assigns_goes_on_from_its_last_call(operators: list[Party]) -> None:
    x = Tensor([3.0, 4.0], device="CPU")
    assert [tensor.tolist() for tensor in counted.remote(x)] == [[4, 5], [6, 8]]
    assert [tensor.tolist() for tensor in counted.remote(x)] == [[5, 6], [6, 8]]
    assert COUNT.item() == 2
    for refused in (counted.spawn, lambda x: counted.map([x])):
        with pytest.raises(BindingError, match="counted assigns to COUNT"):
            refused(rows(0))


@pytest.mark.slow
def test_a_call_that_nobody_accepts_is_taken_back(client: Client, operators: list[Party]) -> None:
    handle = scores.with_options(max_price="0.000000001").spawn(rows(5))
    assert handle.task.state is State.OPEN
    assert handle.cancel().state is State.CANCELLED
    with pytest.raises(TaskCancelled):
        handle.result()


def test_what_is_wrong_is_refused_before_anything_is_posted(client: Client, operators: list[Party]) -> None:
    newest = next(client.tasks()).uuid
    with pytest.raises(BindingError):
        scores.remote(rows(0), object())  # type: ignore[arg-type]
    with pytest.raises(TermsRefused):
        scores.with_options(check="1%").remote(rows(0))
    assert scores.plan(rows(0)).max_price == scores.options.terms(client).max_price
    assert next(client.tasks()).uuid == newest


@pytest.mark.slow
def test_an_interruption_says_how_to_take_the_task_up(
    client: Client, operators: list[Party], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(waiting, "time", SimpleNamespace(sleep=interrupt, monotonic=time.monotonic))
        with pytest.raises(KeyboardInterrupt) as interrupted:
            scores.remote(rows(6))
    task = next(client.tasks())
    [note] = interrupted.value.__notes__
    assert f"task {task.uuid} goes on: `eigentensor get {task.uuid[:10]} -o FILE` takes it up" in note
    assert client.complete(task, "result", timeout=240).outputs.keys() >= {"scores", "best"}


@pytest.mark.slow
def test_calls_wait_side_by_side_in_asyncio(client: Client, operators: list[Party], work: Work) -> None:
    terms = Terms(scores.options.terms(client).max_price, exec=60, accept_within=100)

    async def story() -> tuple[Any, list[Any], TaskResult]:
        async with AsyncClient() as shell:
            together = asyncio.gather(
                scores.remote.aio(rows(7)),
                _listed(scores.map.aio([rows(8), rows(9)])),
                shell.run(work, terms, "result", timeout=240),
            )
            left = asyncio.create_task(shell.run(work, terms))
            await asyncio.sleep(0.5)
            left.cancel()
            with pytest.raises(asyncio.CancelledError) as cancelled:
                await left
            [note] = cancelled.value.__notes__
            assert [task async for task in shell.tasks() if f"task {task.uuid} goes on" in note]
            return await together

    one, many, result = asyncio.run(story())
    check_bits(one, rows(7))
    check_bits(many[0], rows(8))
    check_bits(many[1], rows(9))
    expected = reference.execute(work.program, {**work.inputs, **work.weights}).outputs
    assert result.outputs["output"].tobytes() == expected["output"].tobytes()


async def _listed(results: Any) -> list[Any]:
    return [result async for result in results]
