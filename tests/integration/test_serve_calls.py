"""OpenAI's client and a thousand paid calls at an operator that is a process of its own."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from eigentensor.chain import Chain, anvil_account, to_wei
from eigentensor.channel import BatchState, batch_of, events
from eigentensor.channel.calls import Quotes
from eigentensor.receipt.calls import SignedCall, prove
from eigentensor.store import LocalStore, bindings_root
from eigentensor.store.parts import encode_variables
from eigentensor.task import NONE
from eigentensor_client.channels.ledger import Ledger
from eigentensor_client.cli import main
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms
from eigentensor_local.anvil import join
from eigentensor_local.devnet import Devnet
from eigentensor_serve.apps.deployment import deploy_paid
from eigentensor_serve.apps.registry import Apps
from eigentensor_serve.settings import Settings
from support.programs.texts import CHAT, ENCODER, Files, chatting, encoding
from support.stories.daemons import network_of, party_of, start, until, url_of
from support.stories.served import served

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
CALLS, DEEP, EPOCH = 1000, 20, 200
EACH = ("0.000001", "0.00001")  # tokens for a token, and for an execution of the encoder
TABLE = '[[call_programs]]\nprogram = "{}"\nweights = "{}"\nprice = "{}"\nrepeat = {}\n'


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    with network_of(tmp_path_factory.mktemp("network") / "calls.json") as net:
        yield net


def ask(ai: openai.OpenAI, number: int) -> list[dict[str, Any]]:
    """The tasks of one answer: of two texts at a time, or of a chat."""
    if number % 10:
        answer: Any = ai.embeddings.create(model="words", input=[f"a {number}", "task"])
    else:
        answer = ai.chat.completions.create(
            model="page", messages=[{"role": "user", "content": "a"}], max_tokens=12, seed=number
        )
    tasks: list[dict[str, Any]] = answer.model_extra["eigentensor"]["tasks"]
    return tasks


def test_a_thousand_calls_have_receipts_and_stand_in_one_commit(
    net: Devnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("EIGENTENSOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("EIGENTENSOR_NETWORK", str(net.path))
    store, apps, table = LocalStore(tmp_path / "cache"), Apps(tmp_path / "data"), ""
    with Chain(net.network, anvil_account(2), tmp_path / "watch.sqlite") as chain:
        chain.token.mint(chain.address, to_wei("1"))
        serving = party_of(net, chain, "serving")
        for name in ("second", "third"):
            join(net.network, net.party(name).owner)
        with Client(net.network, anvil_account(2), apps.store) as client:
            for name, graph, model, price, repeat in (
                ("page", chatting(), CHAT % 6, EACH[0], 16), ("words", encoding(), ENCODER, EACH[1], 1),
            ):  # fmt: skip
                files = Files.written(tmp_path / name, graph, model)
                deploy_paid(client, apps, name, files.parts(apps), Terms(to_wei("0.0001")))
                table += TABLE.format(graph.uuid, bindings_root(files.weights).hex(), price, repeat)
        (serving.folder / "operator.toml").write_text(table)
        terms = {"call_check_rate": "0.2", "call_exec": "60", "call_epoch": str(EPOCH)}
        url = url_of(start(net, serving, calls="127.0.0.1:0", **terms))
        (quote,) = Quotes.from_json(httpx.get(f"{url}/v1/deals").json()).quotes
        until(lambda: bool(chain.channels.pool_at(quote.pool).offered))
        settings = Settings(
            channels=True, data=tmp_path / "data", port=0, operators=(url,), budget="0.2", deposit="0.1", rate=1e6
        )  # fmt: skip
        with served(settings, Client(net.network, anvil_account(2), store)) as serve:
            with openai.OpenAI(base_url=f"{serve}/v1", api_key="none", max_retries=0) as ai:
                tasks = ask(ai, 1)
                sent = chain.node.transaction_count(chain.address)
                with ThreadPoolExecutor(6) as threads:
                    for number in range(2, CALLS, 60):
                        if len(tasks) >= CALLS:
                            break
                        for more in threads.map(lambda at: ask(ai, at), range(number, number + 60)):
                            tasks += more
            assert len(tasks) >= CALLS
            calls = [SignedCall.from_bytes(httpx.get(f"{serve}{task['receipt']}").content) for task in tasks]
            assert all(len(prove(call)) >= 3 for call in calls)
            assert sorted(call.receipt.index for call in calls) == list(range(len(calls)))
            assert len({call.receipt.channel for call in calls}) == 1
            assert chain.node.transaction_count(chain.address) == sent
            chosen = random.Random(3).sample(calls, DEEP)
            for root in {root for call in chosen for root in (call.order.inputs, call.order.states)} - {NONE}:
                store.put(httpx.get(f"{url}/v1/blobs/{root.hex()}").content)  # as the operator shows it
            with Ledger() as signed:
                for call in chosen:
                    known = signed.call(call.receipt.channel, call.receipt.index)
                    store.put(encode_variables(known.computation.variables))
            batches = sorted({call.receipt.number for call in calls})
            commits = [committed(net, chain, calls[0].deal.pool, number) for number in batches]
            assert sum(leaves for leaves, _ in commits) == len(calls)
            assert len({transaction for _, transaction in commits}) == len(batches), "one transaction for each batch"
            until(lambda: httpx.get(f"{serve}/v1/tasks/{tasks[-1]['task']}").json()["state"] == "committed")
            assert chain.node.transaction_count(chain.address) == sent
        check_deeply(chosen, tmp_path, capsys)


def committed(net: Devnet, chain: Chain, pool: bytes, number: int) -> tuple[int, bytes]:
    """How many calls a batch has, and the transaction that committed it."""
    batch, next_ = batch_of(pool, number), batch_of(pool, number + 1)
    begun = chain.channels.batch_at(batch).begun_at
    net.anvil.mine_past(begun + EPOCH // 2 + 1)
    until(lambda: chain.channels.batch_at(batch).state is BatchState.COMMITTED)
    happened = list(chain.history.calls(begun))
    (transaction,) = (e.place.transaction for e in happened if isinstance(e, events.Committed) and e.batch == batch)
    assert sum(isinstance(e, events.Begun) and e.batch == next_ for e in happened) == 1
    return chain.channels.batch_at(batch).leaves, transaction


def check_deeply(calls: list[SignedCall], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Executes calls again, as their receipts say."""
    for number, call in enumerate(calls):
        path = folder / f"{number}.receipt"
        path.write_bytes(call.to_bytes())
        with pytest.raises(SystemExit) as ended:
            main(["receipt", "check", str(path), "--chain", "--deep", "--unsafe-no-sandbox"])
        assert not ended.value.code, capsys.readouterr().out
