"""Sessions on the deployed contracts: chains of states, whoever executes them, whoever lies, whenever one is killed."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count, pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor, nn

from eigentensor import reference
from eigentensor.capture import capture
from eigentensor.chain import Chain, Network, anvil_account, to_wei
from eigentensor.dispute import Reason
from eigentensor.errors import (
    BindingError,
    BlobNotFound,
    ConfigError,
    InsufficientFunds,
    NobodyAccepted,
    SessionBusy,
    SessionRewound,
    TaskCancelled,
)
from eigentensor.program.binding import Results
from eigentensor.store import LocalStore
from eigentensor.task import State
from eigentensor_aggregator.config import Settings
from eigentensor_client import AsyncClient
from eigentensor_client.client import Client
from eigentensor_client.history import History
from eigentensor_client.orders import Terms, Work, escrow_of
from eigentensor_client.results import TaskResult
from eigentensor_client.session import ATTEMPTS, Session
from support.generated.programs import Example
from support.programs.captured import Block
from support.programs.worked_examples import layer
from support.programs.worked_examples import session as session_example
from support.stories.daemons import work_of
from support.stories.game_table import CLIENT, Table, brought
from support.stories.liars import Fault
from support.stories.sessions import Market, honestly, killing, lying, not_at_all, silently, withdrawn

TERMS = Terms(to_wei("0.05"), check_rate=to_wei("0.05"), exec=60)


@dataclass(frozen=True, eq=False)
class Play:
    """A program with its first states, and what each step of a session gives it."""

    example: Example
    inputs: Callable[[int], dict[str, np.ndarray[Any, Any]]]
    variable: str

    @property
    def work(self) -> Work:
        return work_of(self.example)

    def locally(self, steps: int) -> list[Results]:
        """The results of the first steps, one after the other."""
        results, work = [], self.work
        weights, states = work.weights, work.states
        assert isinstance(weights, dict) and isinstance(states, dict)
        for step in range(steps):
            tensors = {**self.inputs(step), **weights, **states}
            results.append(reference.execute(work.program, tensors, {self.variable: step}))
            states = results[-1].states
        return results


@cache
def sums() -> Play:
    """A sum over all tokens so far: four steps at most."""
    return Play(session_example(), lambda step: {"token": np.array(3 * step + 5, np.int32)}, "pos")


@cache
def decoder(length: int) -> Play:
    """A decoder's block, captured once for all positions."""
    Tensor.manual_seed(3)
    block = Block(length=length)
    for tensor in nn.state.get_parameters(block):
        tensor.realize()
    graph = capture(block, row(0), variables={"position": (0, length - 1, 1)}, max_repeat=length)
    return Play(
        Example(graph.program, {**row(0), **graph.weights, **graph.states}, {"position": 0}, length), row, "position"
    )


def row(step: int) -> dict[str, np.ndarray[Any, Any]]:
    return {"x": np.random.default_rng(step).standard_normal((1, 1, 8), dtype=np.float32)}


def bits(tensors: dict[str, np.ndarray[Any, Any]]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in tensors.items()}


@pytest.fixture
def market(
    table: Table,
    operator: Chain,
    verifiers: list[Chain],
    network: Network,
    settings: Settings,
    serve: Callable[[Settings], tuple[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Market:
    """Its aggregators send nothing: blocks come from tests and transactions alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folders = (tmp_path / f"gateway-{number}" for number in count())

    def new_gateway() -> str:
        return serve(settings.model_copy(update={"keystore": None, "password_file": None, "data": next(folders)}))[0]

    for chain in verifiers:
        chain.token.mint(chain.address, to_wei("20"))
        chain.market.deposit(chain.address, to_wei("20"))
    return Market(table, [operator, *verifiers], network, new_gateway, tmp_path)


@pytest.fixture
def payer(market: Market) -> Iterator[Client]:
    with market.client() as client:
        yield client


def begun(client: Client, path: Path | None = None, play: Play | None = None) -> Session:
    work = (play or sums()).work
    return client.session(work.program, work.weights, work.states, TERMS, path)


def run(market: Market, session: Session, play: Play | None = None, **more: Any) -> TaskResult:
    """The next step."""
    play, step = play or sums(), session.step
    report = market.listener(lambda: session.history)
    return session.run(play.inputs(step), variables={play.variable: step}, **{"report": report, **more})


def wealth(client: Client) -> int:
    return client.chain.token.balance_of(client.address) + client.chain.market.balance_of(client.address).balance


def test_a_lie_convicted_later_takes_the_session_back_to_the_last_good_step(market: Market, payer: Client) -> None:
    goes_on_after_a_lie(market, payer, sums(), steps=2, wrong=1)


@pytest.mark.slow
def test_a_flipped_bit_in_step_5_of_8_is_convicted_and_the_final_states_are_equal(
    market: Market, payer: Client
) -> None:
    goes_on_after_a_lie(market, payer, decoder(8), steps=8, wrong=5)


def goes_on_after_a_lie(market: Market, payer: Client, play: Play, *, steps: int, wrong: int) -> None:
    """Every step is executed by another operator than the one before it."""
    expected = play.locally(steps)
    with begun(payer, play=play) as session:
        market.parts = [honestly(n % 3) for n in range(wrong)] + [lying(Random(wrong), operator=wrong % 3)]
        for _ in range(wrong + 1):
            result = run(market, session, play)
        right = expected[wrong]
        assert (bits(result.outputs), bits(session.states())) != (bits(right.outputs), bits(right.states))
        run(market, session, play)
        lie, before = session.history.steps[wrong].order, wealth(payer)
        assert market.convict(lie).executor_lost
        assert wealth(payer) == before + escrow_of(lie)
        with pytest.raises(SessionRewound, match=f"step {wrong} was wrong, 2 of {wrong + 2} steps are void") as error:
            run(market, session, play)
        assert error.value.step == session.step == wrong
        while session.step < steps:
            step = session.step
            market.parts = [honestly((step + 1) % 3)]
            assert bits(run(market, session, play).outputs) == bits(expected[step].outputs)
        assert bits(session.states()) == bits(expected[-1].states)
        for earlier, later in pairwise(session.history.steps):
            assert later.order.states == earlier.states
        assert len(set(market.executors)) == 3


@pytest.mark.parametrize("moments", [("wait",), pytest.param(("send", "wait", "deliver"), marks=pytest.mark.slow)])
def test_a_killed_session_is_taken_up_where_it_was_and_pays_once(
    market: Market, tmp_path: Path, moments: tuple[str, ...]
) -> None:
    """Killed before its order leaves, while it waits, or before the result is written; then with another cache."""
    path, expected = tmp_path / "a.session", sums().locally(len(moments))
    with market.client("first") as client, begun(client, path):
        before = wealth(client)
    for step, moment in enumerate(moments):
        with market.client("first") as client, client.resume(path) as session, killing(client, moment):
            run(market, session)
        with market.client(f"again-{step}") as client, client.resume(path) as session:
            assert session.step == step and session.history.under_way is not None
            with pytest.raises(SessionBusy, match="another work"):
                session.run(sums().inputs(99), variables={"pos": step})
            assert bits(run(market, session).outputs) == bits(expected[step].outputs)
    with market.client("last") as client, client.resume(path) as session:
        assert bits(session.states()) == bits(expected[-1].states)
        assert bits(session.result().outputs) == bits(expected[-1].outputs)
        assert wealth(client) == before - len(moments) * escrow_of(session.history.steps[0].order)
        assert session.history.void == ()


def test_a_session_in_asyncio_is_cancelled_taken_up_and_pays_once(market: Market, tmp_path: Path) -> None:
    path, work, expected = tmp_path / "a.session", sums().work, sums().locally(2)
    payer = (market.network, anvil_account(CLIENT), LocalStore(tmp_path / "payer"))

    async def story() -> None:
        async with (
            AsyncClient(*payer) as client,
            await client.session(work.program, work.weights, work.states, TERMS, path) as session,
        ):
            first = asyncio.create_task(session.run(sums().inputs(0), variables={"pos": 0}))
            while session.history.under_way is None or market.state(session.history.under_way.order) is State.NONE:
                await asyncio.sleep(0.05)
            first.cancel()
            with pytest.raises(asyncio.CancelledError) as cancelled:
                await first
            [note] = cancelled.value.__notes__
            assert f"step 0 goes on as task {market.uuid(session.history.under_way.order).hex()}" in note
            with pytest.raises(SessionBusy, match="another process"):
                await client.resume(path)
        async with AsyncClient(*payer) as client, await client.resume(path) as session:
            report = market.listener(lambda: session.history)
            calls = [session.run(sums().inputs(step), variables={"pos": step}, report=report) for step in range(2)]
            results = await asyncio.gather(*calls)
            assert [bits(result.outputs) for result in results] == [bits(each.outputs) for each in expected]
            assert bits(await session.states()) == bits(expected[-1].states)
            assert bits((await session.result(0)).outputs) == bits(expected[0].outputs)
            await session.look()
            await session.rewind(1)
            assert (session.step, len(market.executors)) == (1, 2)
            assert (await session.plan()).max_price == TERMS.max_price

    asyncio.run(story())


@pytest.mark.slow
def test_a_step_without_a_result_is_asked_for_again_and_costs_nothing(market: Market, payer: Client) -> None:
    with begun(payer) as session:
        before = wealth(payer)
        market.parts = [not_at_all, silently]
        result = run(market, session)
        assert [void.why for void in session.history.void] == ["expired", "failed"]
        assert bits(result.outputs) == bits(sums().locally(1)[0].outputs)
        assert wealth(payer) == before - escrow_of(result.task.order)

        market.parts = [not_at_all] * ATTEMPTS
        with pytest.raises(NobodyAccepted):
            run(market, session)
        assert session.step == 1 and session.history.under_way is None
        market.parts = [withdrawn]
        with pytest.raises(TaskCancelled):
            run(market, session)
        assert wealth(payer) == before - escrow_of(result.task.order)
        run(market, session)
        assert session.step == 2


@pytest.mark.slow
def test_steps_become_final_and_a_convicted_step_under_way_is_done_again(market: Market, payer: Client) -> None:
    expected = sums().locally(2)
    with begun(payer) as session:
        run(market, session)
        report = market.listener(lambda: session.history)

        def act(*words: object) -> None:
            report(*words)
            asked = session.history.under_way
            if (
                asked is not None
                and market.uuid(asked.order) in market.liars
                and market.state(asked.order) is State.REVEALED
            ):
                market.convict(asked.order)
            elif asked is not None and market.state(asked.order) is State.REVEALED:
                market.close(asked.order)

        market.parts = [lying(Random(8), operator=1), honestly(2)]
        result = run(market, session, stage="final", report=act)
        assert bits(result.outputs) == bits(expected[1].outputs)
        assert [void.why for void in session.history.void] == ["convicted"]
        session.wait("final", report=lambda *_: None)
        assert all(step.final for step in session.history.steps)


@pytest.mark.slow
def test_another_gateway_is_given_what_the_cache_has_and_what_it_lacks_is_named(market: Market, payer: Client) -> None:
    with begun(payer) as session:
        run(market, session)
        session.states()
        market.move(payer)
        run(market, session)
        market.move(payer)
        with pytest.raises(BlobNotFound, match="neither at the gateway nor in the cache"):
            run(market, session)
        session.rewind(1)
        assert session.step == 1 and [void.why for void in session.history.void] == ["rewound"]
        assert bits(run(market, session).outputs) == bits(sums().locally(2)[1].outputs)


@pytest.mark.slow
def test_an_executor_that_withholds_the_states_does_not_end_the_session(
    market: Market, payer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eigentensor_client.payer.DELIVERY", 0.5)
    with begun(payer) as session:
        market.parts = [honestly(states=False)]
        with pytest.raises(BlobNotFound, match="does not have the new states"):
            run(market, session)
        assert session.history.under_way is not None
        session.rewind(0)
        assert bits(run(market, session).outputs) == bits(sums().locally(1)[0].outputs)


def test_mistakes_are_said_before_anything_is_spent(market: Market, payer: Client, tmp_path: Path) -> None:
    work, path = sums().work, tmp_path / "a.session"
    before = wealth(payer)
    with pytest.raises(BindingError):
        payer.session(work.program, work.weights, {}, TERMS)
    with pytest.raises(BindingError, match="no states"):
        payer.session(layer().program, {}, {}, TERMS)
    with pytest.raises(BlobNotFound, match="states"):
        payer.session(work.program, work.weights, b"\1" * 32, TERMS, path)
    assert not path.exists()
    with begun(payer, path) as session:
        for inputs, variables in (({}, {"pos": 0}), (work.inputs, {}), (work.inputs, {"pos": 4})):
            with pytest.raises(BindingError):
                session.run(inputs, variables=variables)
        with pytest.raises(InsufficientFunds):
            session.run(work.inputs, variables={"pos": 0}, terms=Terms(to_wei("1000000"), exec=60))
        assert session.history == History.from_json(json.loads(path.read_text()))
        assert session.history.under_way is None
        with pytest.raises(BindingError, match="there is no step"):
            session.rewind(1)
        with pytest.raises(SessionBusy, match="another process"):
            payer.resume(path)
    with pytest.raises(ConfigError, match="exists"):
        begun(payer, path)
    assert [place.name for place in tmp_path.glob("*.session*")] == [path.name]
    changed = json.loads(path.read_text()) | {"client": "0x" + "11" * 20}
    path.write_text(json.dumps(changed))
    with pytest.raises(ConfigError, match="is of account"):
        payer.resume(path)
    assert wealth(payer) == before


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "repeat", "iteration"), [("decoder", 64, 41), ("training step with Adam", 100, 57)])
def test_one_bit_inside_a_repeat_is_convicted(
    market: Market, payer: Client, name: str, repeat: int, iteration: int
) -> None:
    """64 positions of a decoder, and 100 steps of training, are one task each."""
    example = decoder(repeat).example if name == "decoder" else brought(name, repeat)
    work = work_of(example)
    with payer.session(work.program, work.weights, work.states, TERMS) as session:
        market.parts = [lying(Random(5), iteration)]
        report = market.listener(lambda: session.history)

        def execute() -> TaskResult:
            return session.run(work.inputs, variables=example.variables, repeat=repeat, report=report)

        execute()
        (lie,) = (step.order for step in session.history.steps)
        fault = market.liars[market.uuid(lie)][0].fault
        assert isinstance(fault, Fault) and fault.number // len(example.program.calls) == iteration
        outcome = market.convict(lie)
        assert (outcome.executor_lost, outcome.reason) == (True, Reason.VERDICT)
        with pytest.raises(SessionRewound):
            session.look()
        result = execute()
        expected = reference.execute(example.program, example.tensors, example.variables, repeat)
        assert bits(result.outputs) == bits(expected.outputs)
        assert bits(session.states()) == bits(expected.states)
