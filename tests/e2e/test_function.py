"""`eigentensor.function` on a network: what comes back, what is posted, and how often; for threads and for asyncio."""

import asyncio
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor

import eigentensor as et
from eigentensor import reference
from eigentensor.errors import BindingError, TaskCancelled, TaskNotFound, TermsRefused
from eigentensor.task import NONE, Posted, State
from eigentensor_client import AsyncClient, steps
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms, Work
from eigentensor_client.results import TaskResult
from eigentensor_local.devnet import Party

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


@et.function(max_price="0.05", wait="result", timeout=240, exec=60, accept_within=100)
def doubled(x: Tensor) -> Tensor:
    return x * 2


def rows(seed: int) -> Tensor:
    return Tensor(np.random.default_rng(seed).standard_normal((2, 4), dtype=np.float32), device="CPU")


def check_bits(outputs: dict[str, Tensor], x: Tensor) -> None:
    here = scores.local(x)
    assert outputs.keys() == here.keys()
    for name, tensor in here.items():
        assert (outputs[name].dtype, outputs[name].device) == (tensor.dtype, "CPU")
        assert outputs[name].numpy().tobytes() == tensor.numpy().tobytes()


def test_a_call_returns_the_bits_and_how_they_came(client: Client, operators: list[Party]) -> None:
    x = rows(0)
    y: Any = scores.remote(x)
    check_bits(y, x)
    result = y["best"].result
    assert result is y["scores"].result and type(y["scores"] + 1) is type(y["scores"].contiguous()) is Tensor
    assert result.executor in {party.address for party in operators}
    assert client.task(result.uuid).state in (State.REVEALED, State.FINAL)
    assert y["best"].receipt.task == result.uuid
    again: Any = scores.handle(result.uuid[:12]).result()
    check_bits(again, x)
    assert again["best"].result.uuid == result.uuid
    with pytest.raises(BindingError, match="is a call of scores, not of counted"):
        counted.handle(result.uuid)


@pytest.mark.slow
def test_the_same_data_in_another_shape_is_executed(client: Client, operators: list[Party]) -> None:
    flat = Tensor(np.arange(64, dtype=np.float32), device="CPU")
    results: list[Any] = [doubled.remote(x) for x in (flat, flat.reshape(8, 8))]
    assert [y.shape for y in results] == [(64,), (8, 8)]
    assert all(y.numpy().tobytes() == (flat * 2).numpy().tobytes() for y in results)
    assert len({client.look(y.result.task).order.inputs for y in results}) == 1


@pytest.mark.slow
def test_many_calls_are_one_transaction_and_their_weights_one_upload(client: Client, operators: list[Party]) -> None:
    inputs = [rows(seed) for seed in range(4)]
    results: list[Any] = list(scores.map(inputs))
    for x, y in zip(inputs, results, strict=True):
        check_bits(y, x)
    tasks = [client.look(y["best"].result.task) for y in results]
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

    async def story() -> None:
        cheap = scores.with_options(max_price="0.000000001")
        assert (await cheap.plan.aio(rows(5))).max_price == 10**9
        left = asyncio.create_task(cheap.remote.aio(rows(5)))
        handle = await cheap.spawn.aio(rows(5))
        assert (await handle.look.aio()).state is State.OPEN
        again = await scores.handle.aio(handle.uuid)
        assert (await again.cancel.aio()).state is State.CANCELLED
        with pytest.raises(TaskCancelled):
            await handle.result.aio()
        left.cancel()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await left
        [note] = cancelled.value.__notes__
        (uuid,) = re.findall(r"scores\.handle\('(\w+)'\)", note)
        assert (await (await scores.handle.aio(uuid)).cancel.aio()).state is State.CANCELLED

    asyncio.run(story())


SCRIPT = """
import os, sys
from typing import NamedTuple
from tinygrad import Tensor
import eigentensor as et

class Scores(NamedTuple):
    scores: Tensor
    best: Tensor
    words: str

X = Tensor([[1.0, -2.0, 3.0]], device="CPU").realize()
WEIGHT = Tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]], device="CPU").realize()

@et.function(max_price="0.05", wait="result", timeout=240, exec=60, accept_within=100)
def forward(x):
    y = x @ WEIGHT
    return Scores(y, y.argmax(axis=1), "said by the function")

if __name__ == "__main__":
    print(forward.spawn(X).uuid, flush=True)
    if not (child := os.fork()):
        print(forward.spawn(X).uuid, flush=True)
        sys.exit()
    sys.exit(os.waitpid(child, 0)[1])
"""
OTHER = """
import sys, calls_of_others as theirs
for uuid in sys.argv[1:]:
    result = theirs.forward.handle(uuid).result()
    assert type(result) is theirs.Scores and result.words == "said by the function"
    assert result.scores.device == result.best.device == "CPU"
    print(result.scores.tolist(), result.best.tolist(), result.best.result.uuid)
"""


@pytest.mark.slow
def test_another_process_takes_up_what_one_and_its_child_posted(
    client: Client, operators: list[Party], tmp_path: Path, work: Work
) -> None:
    (tmp_path / "calls_of_others.py").write_text(SCRIPT)

    def python(*words: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    uuids = python("calls_of_others.py")
    assert len(set(uuids)) == 2 and all(client.task(uuid).state is not State.CANCELLED for uuid in uuids)
    (tmp_path / "other.py").write_text(OTHER)
    assert python("other.py", *uuids) == [f"[[10.0, 15.0]] [1] {uuid}" for uuid in uuids]

    (posted,) = client.post([work], scores.options.terms(client))
    with pytest.raises(TaskNotFound, match="no call that was posted from here"):
        scores.handle(posted.uuid)


@pytest.mark.slow
def test_a_call_that_assigns_is_taken_up_once(
    operators: list[Party], client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = COUNT.item()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt) as interrupted:
        patch.setattr(steps, "time", SimpleNamespace(sleep=_interrupt, monotonic=time.monotonic))
        counted.remote(rows(1))
    [note] = interrupted.value.__notes__
    uuid = next(client.tasks()).uuid
    assert COUNT.item() == before and f"`counted.handle({uuid[:10]!r})` takes it up" in note
    handle = counted.handle(uuid)
    handle.result()
    assert COUNT.item() == before + 1
    with pytest.raises(BindingError, match="are not those with which task"):
        counted.handle(uuid)


def _interrupt(_: float) -> None:
    raise KeyboardInterrupt


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
    with monkeypatch.context() as patch:
        patch.setattr(steps, "time", SimpleNamespace(sleep=_interrupt, monotonic=time.monotonic))
        with pytest.raises(KeyboardInterrupt) as interrupted:
            scores.remote(rows(6))
    task = next(client.tasks())
    [note] = interrupted.value.__notes__
    assert f"task {task.uuid} goes on: `eigentensor get {task.uuid[:10]} -o FILE` or `scores.handle(" in note
    assert client.complete(task, "result", timeout=240).outputs.keys() >= {"scores", "best"}


@pytest.mark.slow
def test_calls_wait_side_by_side_in_asyncio(client: Client, operators: list[Party], work: Work) -> None:
    terms = Terms(scores.options.terms(client).max_price, exec=60, accept_within=100)

    async def story() -> tuple[Any, list[Any], TaskResult]:
        async with AsyncClient() as shell:
            together: asyncio.Future[tuple[Any, list[Any], TaskResult]] = asyncio.gather(
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
    assert isinstance(work.weights, dict)
    expected = reference.execute(work.program, {**work.inputs, **work.weights}).outputs
    assert result.outputs["output"].tobytes() == expected["output"].tobytes()


async def _listed(results: Any) -> list[Any]:
    return [result async for result in results]
