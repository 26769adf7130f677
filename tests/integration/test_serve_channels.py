"""`eigentensor serve --channels`: OpenAI's own client over paid calls, at the real endpoint of operators."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest

import language_model
from eigentensor.chain import Chain, Network, anvil_account, to_wei
from eigentensor.errors import BudgetSpent, ConfigError, NoResponse, NotChecked, ServiceBusy, TaskError
from eigentensor.receipt.calls import SignedCall, prove
from eigentensor.reexecution.confined import limits
from eigentensor.reexecution.warm import WarmExecution
from eigentensor.store import LocalStore, bindings_root
from eigentensor.web.server import listen, server
from eigentensor_aggregator.config import Settings as AggregatorSettings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_client.channels.caller import Caller
from eigentensor_client.channels.endpoint import Endpoint
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms
from eigentensor_client.writing import Sampling, Text
from eigentensor_local.anvil import Anvil
from eigentensor_operator.calls.channels import ServedProgram
from eigentensor_serve.apps.deployment import deploy_paid
from eigentensor_serve.apps.registry import Apps
from eigentensor_serve.backend import Ask
from eigentensor_serve.channels import ChannelBackend
from eigentensor_serve.ledger import State
from eigentensor_serve.server import assembled, create_app
from eigentensor_serve.service import Service
from eigentensor_serve.settings import Settings
from support.programs.texts import CHAT, ENCODER, PAIRS, TINY, Files, chatting, encoding
from support.stories.calls_place import PRICE, RealPlace
from support.stories.game_table import CLIENT, OPERATORS

Serve = Callable[[AggregatorSettings], tuple[str, Daemon]]
TOKEN = PRICE // 16
#: What a token and an execution of the encoder may cost, and what a service spends.
MAX_PRICE, BUDGET = "0.00002", "0.1"


class Killed(BaseException):
    """Nothing catches it, as nothing catches `kill -9`."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Files, ServedProgram]]]:
    """A decoder and an encoder, each with its files, warm."""
    made = {}
    with ExitStack() as stack:
        for name, graph, text, price, repeat in (
            ("page", chatting(), CHAT % 3, TOKEN, 16), ("words", encoding(), ENCODER, PRICE, 1)
        ):  # fmt: skip
            files = Files.written(tmp_path_factory.mktemp(name), graph, text)
            execution = WarmExecution(graph.program, files.weights, replace(limits(1 << 30, 60), threads=1))
            stack.callback(execution.close)
            execution.warm()
            roots = bytes.fromhex(graph.uuid), bindings_root(files.weights)
            made[name] = files, ServedProgram(*roots, graph.program, execution, price, repeat)
        yield made


@pytest.fixture
def paying(
    network: Network, client: Chain, settings: AggregatorSettings, serve: Serve, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Network:  # fmt: skip
    """A network with a gateway; `client` is who pays, with tokens."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    url, _ = serve(settings)
    return replace(network, gateway_url=url)


@pytest.fixture
def client_of(paying: Network, tmp_path: Path) -> Callable[[], Client]:
    return lambda: Client(paying, anvil_account(CLIENT), LocalStore(tmp_path / "client"))


@pytest.fixture
def places(
    models: dict[str, tuple[Files, ServedProgram]], anvil: Anvil, chain_of: Callable[[int], Chain],
    client_of: Callable[[], Client], tmp_path: Path,
) -> Iterator[list[RealPlace]]:  # fmt: skip
    """Two operators of both programs; where these are deployed as apps."""
    programs = [program for _, program in models.values()]
    with client_of() as client, ExitStack() as stack:
        made = []
        for number in OPERATORS[:2]:
            place = RealPlace(chain_of(number), client, tmp_path / f"{number}", anvil, stack, programs)
            stack.callback(place.ledger.close)
            made.append(place)
        apps = Apps(tmp_path / "data")
        with Client(client.network, anvil_account(CLIENT), apps.store) as deploying:
            for name, (files, _) in models.items():
                deploy_paid(deploying, apps, name, files.parts(apps), Terms(to_wei(MAX_PRICE)))
        yield made


@pytest.fixture
def started(
    places: list[RealPlace], client_of: Callable[[], Client], tmp_path: Path
) -> Callable[..., Any]:  # fmt: skip
    """Starts a service over these operators, as another process would, with the same folders each time."""

    @contextmanager
    def start(*urls: str, **more: Any) -> Iterator[Service]:
        chosen = {"budget": BUDGET, "deposit": "0.01", "max_price": MAX_PRICE, "rate": 1e6, "response": 3.0, **more}
        operators = urls or tuple(place.url for place in places)
        settings = Settings(channels=True, data=tmp_path / "data", port=0, operators=operators, **chosen)
        with assembled(settings, client_of()) as service:
            yield service

    return start


@contextmanager
def listening(service: Service) -> Iterator[str]:
    """The URL of a service, until the block ends."""
    with listen(service.settings.host, service.settings.port) as open_:
        running = server(create_app(service))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [open_]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{open_.getsockname()[1]}"
        finally:
            running.should_exit = True
            thread.join()


def ai_at(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none")


def asked(seed: int, most: int = 10, **more: Any) -> dict[str, Any]:
    return {
        "model": "page", "messages": [{"role": "user", "content": "a task"}], "max_tokens": most, "temperature": 0.7,
        "seed": seed, **more,
    }  # fmt: skip


def expected(graph: Any, seed: int, most: int = 10) -> str:
    text = Text(PAIRS, TINY.context, language_model.here(graph))
    return text.write("a task", most, Sampling(0.7, seed=seed)).removeprefix("a task")


def receipts(url: str, answer: Any) -> list[SignedCall]:
    """The receipts behind an answer, each proved offline."""
    signed = []
    for task in answer.model_extra["eigentensor"]["tasks"]:
        response = httpx.get(f"{url}{task['receipt']}")
        assert response.status_code == 200, response.text
        signed.append(SignedCall.from_bytes(response.content))
        assert len(prove(signed[-1])) == 3 and task["state"] == "signed" and int(task["price"]) > 0
    return signed


def backend_of(service: Service) -> ChannelBackend:
    assert isinstance(service.backend, ChannelBackend)
    return service.backend


def ask_of(models: dict[str, tuple[Files, ServedProgram]], value: int = 1, **terms: Any) -> Ask:
    """A call of the encoder, as a caller that names its program asks for it."""
    files, served = models["words"]
    inputs = {"tokens": np.full((2, 6), value, np.int32), "mask": np.ones((2, 6), np.float32)}
    of = Terms(**{"max_price": to_wei(MAX_PRICE), **terms})
    return Ask(files.graph.program, served.root.hex(), inputs, of, served.weights.hex())


def test_openais_client_chats_and_embeds_through_channels(
    started: Callable[..., Any], places: list[RealPlace], models: dict[str, tuple[Files, ServedProgram]], anvil: Anvil
) -> None:
    graph = models["page"][0].graph
    with started() as service, listening(service) as url, ai_at(url) as ai:
        whole = ai.chat.completions.create(**asked(5))
        assert expected(graph, 5).startswith(whole.choices[0].message.content)
        signed = receipts(url, whole)
        assert [one.order.states for one in signed][1:] == [place_of(service, one) for one in signed][:-1]
        assert max(one.order.repeat for one in signed) <= 16
        chunks = list(ai.chat.completions.create(**asked(5), stream=True))
        content = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert content == whole.choices[0].message.content
        assert len(receipts(url, chunks[-1])) == len(signed)

        table = models["words"][0].graph.weights["table"]
        texts = ["a task", "a program", "trace"]
        answer: Any = ai.embeddings.create(model="words", input=texts)
        for data, text in zip(answer.data, texts, strict=True):
            vector = table[PAIRS.encode(text)].mean(0)
            assert np.allclose(data.embedding, vector / np.linalg.norm(vector), atol=1e-6)
        assert len(receipts(url, answer)) == 2

        (channel,) = backend_of(service).operators.channels
        task = answer.model_extra["eigentensor"]["tasks"][0]["task"]
        places[0].commit()
        channel.look()
        shown = httpx.get(f"{url}/v1/tasks/{task}").json()
        assert (shown["state"], shown["stage"], shown["executor"]) == (
            "committed",
            "committed",
            places[0].offer.operator,
        )
        assert "owed" in (page := httpx.get(f"{url}/channels").text).lower()
        assert places[0].offer.operator in page and channel.account.agreement.channel.hex() in page
        assert "signed" in httpx.get(f"{url}/tasks/{task}/receipt").text
        assert "committed" in httpx.get(f"{url}/tasks/{task}").text
        backend, job = backend_of(service), service.ledger.job(task)
        assert not backend.reached(job, "final") and not backend.reached(job, "checked")
        refused = httpx.post(f"{url}/v1/tasks/{task}/cancel").json()
        assert refused["code"] == "TaskError" and "cannot be taken back" in refused["detail"]
        assert httpx.get(f"{url}/v1/tasks/{task}/explain").json()["waits_for"] == "the end of its batch's window"
        fee = channel.client.network.deployment.parameters.g_chunk
        assert service.ledger.spent() == channel.payer.amount + fee, "all calls, and the opening"

        places[0].close_batch(anvil)
        channel.look()
        shown = httpx.get(f"{url}/v1/tasks/{task}").json()
        assert (shown["state"], shown["stage"], shown["checked"]) == ("final", "final", "unchecked")
        assert backend.reached(job, "final")
        with pytest.raises(NotChecked):
            backend.reached(job, "checked")


def place_of(service: Service, signed: SignedCall) -> bytes:
    """The root of the states that a call left."""
    call = backend_of(service).operators.ledger.call(signed.receipt.channel, signed.receipt.index)
    assert call.response is not None
    return call.response.states


def test_a_chat_goes_on_at_another_operator_when_its_own_ends(
    started: Callable[..., Any], places: list[RealPlace], models: dict[str, tuple[Files, ServedProgram]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    graph = models["page"][0].graph
    take, left = places[0].service.take, [3]

    def failing(*arguments: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise ServiceBusy("it takes nothing any more")
        return take(*arguments)

    with started(response=0.5) as service, listening(service) as url, ai_at(url) as ai:
        whole = ai.chat.completions.create(**asked(7)).choices[0].message.content
        monkeypatch.setattr(places[0].service, "take", failing)
        chunks = list(ai.chat.completions.create(**asked(7), stream=True))
        content = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert content == whole and expected(graph, 7).startswith(content)
        signed = receipts(url, chunks[-1])
        executors = [one.offer.operator for one in signed]
        assert executors == sorted(executors, key=[place.offer.operator for place in places].index)
        assert set(executors) == {place.offer.operator for place in places}
        again = ai.chat.completions.create(**asked(7))
        assert again.choices[0].message.content == whole
        assert {one.offer.operator for one in receipts(url, again)} == {places[1].offer.operator}


def test_what_costs_too_much_is_refused_before_anything_is_signed(
    started: Callable[..., Any], models: dict[str, tuple[Files, ServedProgram]]
) -> None:
    with started() as service, listening(service) as url:
        backend, ledger = backend_of(service), backend_of(service).operators.ledger
        for terms, what in (
            ({"max_price": PRICE - 1}, "costs"),
            ({"max_price": to_wei("1")}, "at most"),
            ({"value_at_risk": 1}, "risk"),
        ):
            with pytest.raises((TaskError, NoResponse), match=what):
                backend.ask(ask_of(models, **terms), "", None)
        body = {"program": "00" * 32, "inputs": {}, "terms": {"max_price": "1"}}
        assert httpx.post(f"{url}/v1/tasks", json=body).status_code in (404, 422)
        assert ledger.accounts() == [] and service.ledger.jobs() == []
        plan = backend.quote(ask_of(models))
        assert int(plan["max_price"]) == PRICE < int(plan["escrow"]) and ledger.accounts() == []


def test_deposits_are_filled_up_within_the_budget(
    started: Callable[..., Any], models: dict[str, tuple[Files, ServedProgram]], client: Chain
) -> None:
    fee = client.deployment.parameters.g_chunk
    budget = str((fee + 8 * PRICE) / 10**18)
    with started(budget=budget, deposit="0.00004") as service:
        backend = backend_of(service)
        for value in range(8):
            job = backend.ask(ask_of(models, value), "", None)
            assert job.state is State.ENDED and job.cost == PRICE + (fee if value == 0 else 0)
        (channel,) = backend.operators.channels
        assert channel.payer.amount == 8 * PRICE and to_wei("0.00008") <= channel.account.deposit <= to_wei(budget)
        with pytest.raises(BudgetSpent):
            backend.ask(ask_of(models, 9), "", None)
        assert channel.payer.amount == 8 * PRICE


def test_a_key_names_one_call_also_after_a_restart(
    started: Callable[..., Any], models: dict[str, tuple[Files, ServedProgram]], places: list[RealPlace]
) -> None:
    key = {"Idempotency-Key": "k"}
    with started() as service, listening(service) as url, ai_at(url) as ai:
        chat = ai.chat.completions.create(**asked(3), extra_headers=key)
        vectors = ai.embeddings.create(model="words", input="a task", extra_headers={"Idempotency-Key": "e"})
    with started() as service, listening(service) as url, ai_at(url) as ai:
        counts = [places[0].service.load(places[0].toy.pool).leaves]
        again = ai.chat.completions.create(**asked(3), extra_headers=key)
        same = ai.embeddings.create(model="words", input="a task", extra_headers={"Idempotency-Key": "e"})
        assert again.model_extra["eigentensor"] == chat.model_extra["eigentensor"]
        assert again.choices == chat.choices and same.data == vectors.data
        assert receipts(url, again) and receipts(url, same)
        with pytest.raises(openai.UnprocessableEntityError) as reused:
            ai.embeddings.create(model="words", input="a trace", extra_headers={"Idempotency-Key": "e"})
        assert reused.value.code == "KeyReused"
        assert [places[0].service.load(places[0].toy.pool).leaves] == counts, "nothing was called again"


def test_calls_that_were_left_are_taken_up_or_void(
    started: Callable[..., Any], models: dict[str, tuple[Files, ServedProgram]], monkeypatch: pytest.MonkeyPatch
) -> None:
    send, keep = Endpoint.call, Caller._taken

    def sent(*arguments: Any) -> Any:
        send(*arguments)
        raise Killed

    def never(*arguments: Any) -> Any:
        raise Killed

    def kept(*arguments: Any) -> Any:
        keep(*arguments)
        raise Killed

    jobs = {}
    for name, of, method, dies in (
        ("before it was signed", Caller, "_written", never), ("after it was sent", Endpoint, "call", sent),
        ("after it was taken", Caller, "_taken", kept),
    ):  # fmt: skip
        with started() as service, monkeypatch.context() as patch:
            backend = backend_of(service)
            backend.ask(ask_of(models, 1), "", "first")
            patch.setattr(of, method, dies)
            patch.setattr(ChannelBackend, "_round", lambda self: None)
            with pytest.raises(Killed):
                backend.ask(ask_of(models, 2), "", name)
            (job,) = service.ledger.unfinished()
            jobs[name] = job.task
        with started() as service:
            backend = backend_of(service)
            for _ in range(200):
                if (job := service.ledger.job(jobs[name])).is_over:
                    break
                threading.Event().wait(0.05)
            if name == "before it was signed":
                assert job.state is State.VOID and job.cost == 0
                with pytest.raises(TaskError, match="before an operator had it"):
                    backend.result(job)
                continue
            assert job.state is State.ENDED and job.cost == PRICE
            outputs, signed = backend.result(job).outputs["output"], SignedCall.from_bytes(backend.receipt(job))
            table = models["words"][0].graph.weights["table"]
            assert (outputs == table[2]).all() and len(prove(signed)) == 3
            assert backend.ask(ask_of(models, 2), "", name).task == job.task


def test_without_operators_or_with_too_large_a_deposit_it_says_so(
    started: Callable[..., Any], models: dict[str, tuple[Files, ServedProgram]], places: list[RealPlace],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    with pytest.raises(ValueError, match="more than the budget"):
        Settings(channels=True, deposit="2", budget="1")
    with pytest.raises(ValueError, match="choose one"):
        Settings(channels=True, local=True)
    monkeypatch.setenv("EIGENTENSOR_OPERATORS", "http://127.0.0.1:9/")
    with started("http://127.0.0.1:9", response=0.3) as service:
        with pytest.raises(NoResponse):
            backend_of(service).ask(ask_of(models), "", None)
        assert service.ledger.jobs() == []
    monkeypatch.setenv("EIGENTENSOR_OPERATORS", "")
    with started() as service:
        backend = backend_of(service)
        backend.operators.urls = ()
        with pytest.raises(ConfigError, match="no operator is named"):
            backend.ask(ask_of(models), "", None)
