"""Calls that wait at the same time are executed together, through the whole service, and answered as if each was alone:
outputs, receipts, what is on disk, and the order in each channel."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from eigentensor import merkle, reference
from eigentensor.channel import Key
from eigentensor.channel.calls import Computation
from eigentensor.errors import BlobNotFound, CallRefused, EigenTensorError, ServiceBusy
from eigentensor.program import Kind, Role, encode
from eigentensor.program.binding import Results
from eigentensor.reexecution import sample
from eigentensor.reexecution.confined import limits
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.reexecution.warm import WarmExecution
from eigentensor.runtime.sandbox.returned import Observed
from eigentensor.runtime.sandbox.warm import WarmProgram
from eigentensor.store import save_safetensors
from eigentensor.store.tensors import dump_safetensors, parse_flat
from eigentensor_operator.calls.channels import Answer, ServedProgram
from eigentensor_operator.calls.interface import Load
from eigentensor_operator.calls.service import CallService, Rules
from support.stories.calls import (
    ELEMENTS,
    PRICE,
    ROWS,
    Endpoint,
    HttpClient,
    Programs,
    ones,
    programs,
    recalling,
    serving,
)

MOST, CHANNELS = 40, 3
MATRIX = {"w": np.random.default_rng(5).standard_normal((ELEMENTS, ELEMENTS)).astype(np.float32)}
Clients = Iterator[list[HttpClient]]
GONE = b"\x77" * 32  #: a root of states that nobody has


class Call(NamedTuple):
    """A call of a channel, by number, of `scaling` or `counting`; of states that are gone it fails."""

    channel: int
    name: str
    repeat: int
    seed: int
    is_gone: bool = False

    @property
    def x(self) -> np.ndarray[Any, Any]:
        return np.random.default_rng(self.seed).standard_normal(ELEMENTS).astype(np.float32)


CALLS = st.builds(
    Call, st.integers(0, CHANNELS - 1), st.sampled_from(["scaling", "scaling", "counting"]), st.integers(1, 2),
    st.integers(0, 1 << 32), st.sampled_from([False] * 15 + [True]),
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    folder = tmp_path_factory.mktemp("programs")
    some, program = programs(folder), recalling()
    save_safetensors(folder / "matrix", MATRIX)
    execution = WarmExecution(program, folder / "matrix", replace(limits(1 << 30, 60), threads=1))
    names = merkle.program_root(encode(program)), merkle.role_root(program, Role.WEIGHT, MATRIX)
    some.served["recalling"] = ServedProgram(*names, program, execution, PRICE, 4)
    for one in some.served.values():
        brought = {**one.program.named(Role.INPUT), **one.program.named(Role.STATE)}
        tensors = {name: np.ones(buffer.shape, np.float32) for name, buffer in brought.items()}
        one.execution.execute(tensors, dict.fromkeys([v.name for v in one.program.variables], 0), 1, 60)
        one.execution.widen()
    yield some
    some.close()


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory, made: Programs) -> Iterator[Endpoint]:
    folder = tmp_path_factory.mktemp("endpoint")
    with serving(folder, made, Rules(waiting=512, each=512), tail=MOST, check_rate=10**15) as running:
        yield running


class Sizes:
    """How many calls are handed over together, of all programs."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.seen: list[int] = []
        run = WarmProgram.run_all_async

        async def counted(program: WarmProgram, calls: Sequence[Any], *arguments: Any, **more: Any) -> list[Any]:
            self.seen.append(len(calls))
            outcomes: list[Observed | EigenTensorError] = await run(program, calls, *arguments, **more)
            return outcomes

        patch.setattr(WarmProgram, "run_all_async", counted)


@pytest.fixture(scope="module")
def sizes() -> Iterator[Sizes]:
    with pytest.MonkeyPatch.context() as patch:
        yield Sizes(patch)


@pytest.fixture(scope="module")
def clients(endpoint: Endpoint) -> Clients:
    """Gives out clients of channels in which nothing was called yet, some at a time."""
    keys = (Key(number.to_bytes(32, "big")) for number in range(1, 1 + CHANNELS * 60))
    made = [HttpClient(endpoint.http, key, endpoint.offer, endpoint.programs) for key in keys]
    for client in made:
        endpoint.chain.open(client.deal, client.payer.deposit)
    endpoint.chain.mine()
    return iter([made[i : i + CHANNELS] for i in range(0, len(made), CHANNELS)])


def computation_of(client: HttpClient, call: Call) -> tuple[Computation, dict[str, Any], dict[str, Any]]:
    """What a call computes, its inputs, and the states that it brings."""
    if call.name == "scaling":
        return client.computation(repeat=call.repeat), {"x": call.x}, {}
    states = {"total": ones(call.seed % 100)}
    root = merkle.role_root(client.made.served["counting"].program, Role.STATE, states)
    return client.computation("counting", states=root, repeat=call.repeat), {"x": call.x}, states


def taken(endpoint: Endpoint, clients: list[HttpClient], calls: list[Call]) -> "list[Future[Answer]]":
    """These calls, all of which wait before the first one is executed."""
    service, futures = endpoint.service, []
    with holding(service):
        for call in calls:
            client = clients[call.channel]
            computation, x, states = computation_of(client, call)
            body = dump_safetensors(x | states)
            program = client.made.served[call.name].program
            inputs = service.read(program, computation, body)
            if call.is_gone:
                computation, inputs = replace(computation, states=GONE), inputs._replace(states=None, files={})
            payment = client.payment(computation, x, PRICE * call.repeat)
            futures.append(service.take(client.payer.channel, computation, payment, inputs, "me"))
    return futures


@contextmanager
def holding(service: CallService) -> Iterator[None]:
    """No call is executed meanwhile."""
    hold = threading.Event()
    held = service._lane.after(lambda: hold.wait(60))
    yield
    hold.set()
    held.result(60)


def expected(client: HttpClient, call: Call) -> Results:
    """What a call gives, by the reference."""
    _, x, states = computation_of(client, call)
    weights = {"w": ones(3)} if call.name == "counting" else {}
    return reference.execute(client.made.served[call.name].program, x | states | weights, {}, call.repeat)


def check(client: HttpClient, call: Call, answer: Answer) -> None:
    """The payer takes the answer for its oldest call, and it has the reference's bits."""
    program, results = client.made.served[call.name].program, expected(client, call)
    outputs = {name: array for name, (_, array) in parse_flat(answer.outputs).items()}
    assert outputs["y"].tobytes() == results.outputs["y"].tobytes()
    roots = (
        merkle.kind_root(program, Kind.OUTPUT, results.outputs),
        merkle.kind_root(program, Kind.STATE, results.states),
    )
    client.payer = client.payer.received(answer.response, merkle.outputs_root(*roots))
    client.responses.append(answer.response)


@given(st.lists(CALLS, min_size=1, max_size=MOST))
@settings(max_examples=25, deadline=None, phases=[Phase.generate])  # channels are few
def test_calls_that_wait_together_are_answered_as_if_each_was_alone(
    endpoint: Endpoint, clients: Clients, sizes: Sizes, calls: list[Call]
) -> None:
    some = next(clients)
    over = set[int]()
    for call, future in zip(calls, taken(endpoint, some, calls), strict=True):
        if call.channel in over:
            with pytest.raises(CallRefused, match="before it was refused"):
                future.result(60)
        elif call.is_gone:
            over.add(call.channel)
            with pytest.raises(BlobNotFound):
                future.result(60)
        else:
            check(some[call.channel], call, future.result(60))
    for client in some:
        if client.responses:
            kept = endpoint.service.calls_from(client.payer.channel, 0)
            assert [one.response for one in kept] == client.responses


def test_a_call_behind_a_failed_one_is_refused_with_it_whatever_it_is_itself(
    endpoint: Endpoint, clients: Clients
) -> None:
    some = next(clients)
    calls = [Call(0, "counting", 1, 1, is_gone=True), Call(0, "counting", 1, 2, is_gone=True)]
    first, second = taken(endpoint, some, calls)
    with pytest.raises(BlobNotFound):
        first.result(60)
    with pytest.raises(CallRefused, match="before it was refused"):
        second.result(60)


def test_equal_calls_of_several_channels_are_handed_over_together(
    endpoint: Endpoint, clients: Clients, sizes: Sizes
) -> None:
    sizes.seen.clear()
    some = next(clients)
    calls = [Call(number % CHANNELS, "scaling", 1, number) for number in range(20)]
    calls += [Call(0, "counting", 1, 1), Call(1, "scaling", 2, 1), Call(2, "scaling", 1, 1)]
    for call, future in zip(calls, taken(endpoint, some, calls), strict=True):
        check(some[call.channel], call, future.result(60))
    assert sorted(sizes.seen) == [1, 1, 5, 16]


class Chat:
    """One that pays for calls of `recalling`, each of which goes on from the states that the one before left."""

    def __init__(self, client: HttpClient, seed: int) -> None:
        self.client, self.random = client, np.random.default_rng(seed)
        self.program = client.made.served["recalling"].program
        self.position = 0
        self.states = {"rows": np.zeros((ROWS, ELEMENTS), np.float32)}  #: by the reference
        self.root = merkle.role_root(self.program, Role.STATE, self.states)

    def put(self, service: CallService, repeat: int) -> "Future[Answer]":
        """The next call. The first one brings the states."""
        self.x = {"x": self.random.standard_normal(ELEMENTS).astype(np.float32)}
        self.repeat, variables = repeat, {"position": self.position}
        computation = self.client.computation("recalling", states=self.root, variables=variables, repeat=repeat)
        body = dump_safetensors(self.x if self.position else self.x | self.states)
        payment = self.client.payment(computation, self.x, PRICE * repeat)
        inputs = service.read(self.program, computation, body)
        return service.take(self.client.payer.channel, computation, payment, inputs, "me")

    def receive(self, answer: Answer) -> None:
        """Takes the answer, which has to have the bits that the reference gives for this chat alone."""
        variables = {"position": self.position}
        results = reference.execute(self.program, self.x | self.states | MATRIX, variables, self.repeat)
        outputs = {name: array for name, (_, array) in parse_flat(answer.outputs).items()}
        assert outputs["y"].tobytes() == results.outputs["y"].tobytes()
        roots = (
            merkle.kind_root(self.program, Kind.OUTPUT, results.outputs),
            merkle.kind_root(self.program, Kind.STATE, results.states),
        )
        assert answer.response.states == roots[1]
        self.client.payer = self.client.payer.received(answer.response, merkle.outputs_root(*roots))
        self.client.responses.append(answer.response)
        self.states, self.root, self.position = results.states, roots[1], self.position + self.repeat


def test_chats_at_different_positions_are_executed_together_as_if_each_was_alone(
    endpoint: Endpoint, clients: Clients, sizes: Sizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come and go. Answers, receipts and states are the reference's, and so is what is kept of each call for its
    recheck: of all calls, here."""
    monkeypatch.setattr(WarmExecution, "part", 1.0)
    recheck, rechecked = sample.recheck, list[dict[str, int]]()

    def counted(bound: BoundProgram, *arguments: Any) -> None:
        rechecked.append(dict(bound.variables))
        recheck(bound, *arguments)

    monkeypatch.setattr(sample, "recheck", counted)
    sizes.seen.clear()
    chats = [Chat(client, seed) for seed, client in enumerate(next(clients) + next(clients))]
    positions = list[int]()
    for turn in range(7):
        here = [chat for number, chat in enumerate(chats) if number <= 2 * turn and turn - number < 4]
        positions += [chat.position for chat in here]
        with holding(endpoint.service):
            futures = [chat.put(endpoint.service, 1 + turn % 2) for chat in here]
        for chat, future in zip(here, futures, strict=True):
            chat.receive(future.result(60))
    assert sizes.seen == [1, 3, 5, 6, 5, 4, 3]
    assert sorted(one["position"] for one in rechecked) == sorted(positions) and max(positions) > 5
    for chat in chats:
        shown = endpoint.service.calls_from(chat.client.payer.channel, 0)
        assert [one.response for one in shown] == chat.client.responses


def test_after_a_call_that_failed_its_channel_goes_on(endpoint: Endpoint, clients: Clients) -> None:
    some = next(clients)
    wrong, right = (Call(1, "counting", 1, 1, is_gone) for is_gone in (True, False))
    for future in taken(endpoint, some, [wrong, right]):
        with pytest.raises(EigenTensorError):
            future.result(60)
    client = some[1]
    client.payer = client.payer.refused()
    (again,) = taken(endpoint, some, [right])
    check(client, right, again.result(60))


def test_a_wrong_bit_of_one_call_refuses_all_that_were_executed_with_it_and_all_after_them(
    tmp_path: Path, made: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = WarmProgram.run_all_async

    async def faulty(program: WarmProgram, *arguments: Any, **more: Any) -> list[Any]:
        outcomes: list[Any] = await run(program, *arguments, **more)
        wrong = {number: kept + np.float32(1) for number, kept in outcomes[2].kept.items()}
        return [*outcomes[:2], outcomes[2]._replace(kept=wrong), *outcomes[3:]]

    monkeypatch.setattr(made.served["scaling"].execution, "_recheck", 0.0)  # as at first: each call is rechecked
    with serving(tmp_path, made, Rules(waiting=512, each=512), tail=MOST, check_rate=10**15) as endpoint:
        some = [endpoint.client(seed) for seed in (0x22, 0x33, 0x44)]
        monkeypatch.setattr(WarmProgram, "run_all_async", faulty)
        calls = [Call(number % CHANNELS, "scaling", 1, number) for number in range(20)]
        for number, future in enumerate(taken(endpoint, some, calls)):
            with pytest.raises(ServiceBusy if number < 16 else (ServiceBusy, CallRefused)):
                future.result(60)
        assert not endpoint.service.is_well() and endpoint.service.load(endpoint.pool) == Load()
