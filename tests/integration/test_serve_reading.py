"""A model's folder deployed for money: prompts are read in calls of a chunk each, once for all texts that begin so."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from eigentensor.chain import Chain, Network, anvil_account, to_wei
from eigentensor.errors import ChannelError
from eigentensor.receipt.calls import SignedCall, prove
from eigentensor.reexecution.confined import limits
from eigentensor.reexecution.warm import WarmExecution
from eigentensor.store import LocalStore, bindings_root, save_safetensors
from eigentensor_aggregator.config import Settings as AggregatorSettings
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms
from eigentensor_local.anvil import Anvil
from eigentensor_models import writing
from eigentensor_models.model import Model, load
from eigentensor_operator.calls.channels import ServedProgram
from eigentensor_serve.apps.deployment import deploy_paid, read_named
from eigentensor_serve.apps.registry import Apps
from eigentensor_serve.settings import Settings
from support.stories.calls_place import PRICE, RealPlace
from support.stories.game_table import CLIENT, OPERATORS
from support.stories.served import served
from support.vectors.model_texts import FOLDER

EXPECTED = json.loads((FOLDER / "qwen2" / "expected.json").read_text())
SAID = EXPECTED["chats"][0][0]
CONTEXT, CHUNK, MOST = 128, 20, 20
TOKEN = PRICE // 16


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ServedProgram]]:
    """The programs that write and read, warm."""
    monkeypatch.setattr(writing, "CHUNK", CHUNK)
    model = load(FOLDER / "qwen2", CONTEXT)
    assert isinstance(model, Model)
    both, weights, made = model.programs, tmp_path / "weights", []
    save_safetensors(
        weights, dict(both.writer.weights), {b.name: b.dtype for b in both.writer.program.buffers if b.name}
    )
    with ExitStack() as stack:
        for graph, price, repeat in ((both.writer, TOKEN, 16), (both.reader, 4 * TOKEN, 1)):
            execution = WarmExecution(graph.program, weights, replace(limits(1 << 30, 60), threads=1))
            stack.callback(execution.close)
            execution.warm()
            roots = bytes.fromhex(graph.uuid), bindings_root(weights)
            made.append(ServedProgram(*roots, graph.program, execution, price, repeat))
        yield made


@pytest.mark.slow
def test_a_paid_chat_reads_what_is_new_alone(
    network: Network, client: Chain, chain_of: Callable[[int], Chain], anvil: Anvil, settings: AggregatorSettings,
    serve: Callable[[AggregatorSettings], Any], programs: list[ServedProgram], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    paying = replace(network, gateway_url=serve(settings)[0])
    apps, account = Apps(tmp_path / "data"), anvil_account(CLIENT)
    with ExitStack() as stack:
        deploying = stack.enter_context(Client(paying, account, apps.store))
        places = [RealPlace(chain_of(n), deploying, tmp_path / f"{n}", anvil, stack, programs) for n in OPERATORS[:2]]
        for place in places:
            stack.callback(place.ledger.close)
        parts = read_named(str(FOLDER / "qwen2"), deploying.gateway, None, None, None, apps, CONTEXT)
        app, _ = deploy_paid(deploying, apps, "qwen", parts, Terms(to_wei("0.00002")))
        assert app.reader == programs[1].root.hex() and app.weights == programs[1].weights.hex()

        spending: dict[str, Any] = {
            "budget": "0.1",
            "deposit": "0.01",
            "max_price": "0.00002",
            "rate": 1e6,
            "response": 3.0,
        }
        urls = tuple(place.url for place in places)
        chosen = Settings(channels=True, data=tmp_path / "data", port=0, operators=urls, **spending)
        paying_client = Client(paying, account, LocalStore(tmp_path / "client"))
        url = stack.enter_context(served(chosen, paying_client))
        ai = stack.enter_context(openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0))

        def asked(*messages: dict[str, str]) -> tuple[str, int, list[SignedCall]]:
            """The answer, the tokens that were known, and the calls behind it, each proved offline."""
            said: Any = [*messages]
            answer: Any = ai.chat.completions.create(model="qwen", messages=said, temperature=0, max_tokens=MOST)
            receipts = [
                httpx.get(f"{url}{task['receipt']}").content for task in answer.model_extra["eigentensor"]["tasks"]
            ]
            signed = [SignedCall.from_bytes(receipt) for receipt in receipts]
            assert all(len(prove(one)) == 3 for one in signed)
            return answer.choices[0].message.content, answer.usage.prompt_tokens_details.cached_tokens, signed

        first, known, calls = asked(*SAID)
        assert EXPECTED["text"].startswith(first) and first and known == 0
        reader, writer = programs[1].root, programs[0].root
        assert [one.order.program for one in calls] == [reader] * 3 + [writer] * 2, "51 tokens, then the rest of 20"
        again, known, fewer = asked(*SAID)
        assert (again, known, len(fewer)) == (first, 40, len(calls) - 2)
        assert fewer[0].order.states == calls[2].order.states
        more = [*SAID, {"role": "assistant", "content": first}, {"role": "user", "content": "And?"}]
        text, known, _ = asked(*more)
        assert known == 40, "whole chunks of the prompt: what was written after it is read as a prompt now"

        def away(*_: Any) -> Any:
            raise ChannelError("it takes nothing any more")

        monkeypatch.setattr(places[0].service, "take", away)
        same, known, elsewhere = asked(*more)
        assert same == text and known > 40
        assert {one.offer.operator for one in elsewhere} == {places[1].offer.operator}
        assert elsewhere[0].order.program == reader
