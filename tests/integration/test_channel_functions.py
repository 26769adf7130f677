"""Functions that are called through channels: weights, states, an operator that falls out."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tinygrad import Tensor

import eigentensor as et
from eigentensor.capture.signatures import Signatures
from eigentensor.chain import Chain, Network, anvil_account
from eigentensor.errors import BindingError, CallRefused, ConfigError
from eigentensor.store import GatewayClient, LocalStore
from eigentensor.store.tensors import dump_safetensors
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_client.channels.operators import Operators, Terms
from eigentensor_client.client import Client
from support.stories.calls_place import PRICE, Place
from support.stories.game_table import CLIENT
from support.stories.toy_operator import Served

Serve = Callable[[Settings], tuple[str, Daemon]]
MATRIX = Tensor(np.arange(16, dtype=np.float32).reshape(4, 4)).realize()
COUNT = Tensor(np.zeros(4, np.float32)).realize()


def times(x: Tensor) -> Tensor:
    return x @ MATRIX


def counted(x: Tensor) -> Tensor:
    COUNT.assign(COUNT + x).realize()
    return COUNT + 0


def served(function: Any) -> dict[bytes, Served]:
    (use,) = Signatures(function).uses([((Tensor(np.ones(4, np.float32)),), {})])
    return {bytes.fromhex(use.captured.graph.uuid): Served(use.captured.graph.program, PRICE)}


@pytest.fixture
def paying(
    network: Network, settings: Settings, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Client]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    url, _ = serve(settings)
    with Client(replace(network, gateway_url=url), anvil_account(CLIENT), LocalStore(tmp_path / "client")) as made:
        yield made


@pytest.fixture
def place(operator: Chain, client: Chain, paying: Client, tmp_path: Path) -> Iterator[Place]:
    """`client` is the same account, with tokens; the place's client has a gateway."""
    made = Place(operator, paying, tmp_path / "channels", served(times) | served(counted))
    with GatewayClient(paying.network.gateway_url, LocalStore(tmp_path / "operator")) as gateway:
        made.toy.gateway = gateway
        yield made
    made.ledger.close()


@pytest.fixture
def operators(place: Place) -> Iterator[Operators]:
    with reaching(place, ("http://toy",)) as made:
        yield made


def reaching(place: Place, urls: tuple[str, ...], **terms: Any) -> Operators:
    transports = {url: place.toy.transport() for url in urls if "away" not in url}
    return Operators(urls, Terms(**terms), client=place.client, ledger=place.ledger, transports=transports)


def test_a_function_with_weights_is_called_in_turn_and_kept_track_of(place: Place, operators: Operators) -> None:
    remote = et.function(channel=operators, max_price="0.00001")(times)
    x = Tensor(np.arange(4, dtype=np.float32))
    for _ in range(3):
        y = remote.remote(x)
        assert (y.numpy() == times(x).numpy()).all() and y.state == "signed"
    assert y.receipt.receipt.index == 2
    channel = operators.channel("http://toy")
    place.commit()
    channel.look()
    assert y.state == "committed"


def test_calls_are_made_meanwhile_and_their_results_come_in_order(place: Place, operators: Operators) -> None:
    remote = et.function(channel=operators)(times)
    items = [Tensor(np.full(4, n, np.float32)) for n in range(20)]
    results = list(remote.map(items))
    assert all((y.numpy() == times(x).numpy()).all() for x, y in zip(items, results, strict=True))
    assert sorted(y.receipt.receipt.index for y in results) == list(range(20))
    handle = remote.spawn(items[3])
    assert (handle.result().numpy() == times(items[3]).numpy()).all() and "a call" in repr(handle)
    with pytest.raises(BindingError, match="is no task"):
        handle.look()
    with pytest.raises(BindingError, match="assigns to"):
        et.function(channel=operators)(counted).spawn(items[0])


def test_a_call_that_fails_raises_in_its_turn(place: Place, operators: Operators) -> None:
    place.toy.refuses = {dump_safetensors({"x": np.full(4, 2, np.float32)})}
    remote = et.function(channel=operators)(times)
    items = [Tensor(np.full(4, n, np.float32)) for n in range(5)]
    results = remote.map(items)
    assert (next(results).numpy() == 0).all() and next(results) is not None
    with pytest.raises(CallRefused):
        next(results)
    given = list(remote.map(items, return_exceptions=True))
    assert [isinstance(one, CallRefused) for one in given] == [False, False, True, False, False]


async def called_together(remote: Any, items: list[Tensor]) -> list[Tensor]:
    handle = await remote.spawn.aio(items[0])
    return [await handle.result.aio(), *[y async for y in remote.map.aio(items)]]


def test_asyncio_calls_as_well(operators: Operators) -> None:
    items = [Tensor(np.full(4, n, np.float32)) for n in range(6)]
    first, *results = asyncio.run(called_together(et.function(channel=operators)(times), items))
    assert not first.numpy().any()
    assert all((y.numpy() == times(x).numpy()).all() for x, y in zip(items, results, strict=True))


def test_states_stay_at_the_operator(operators: Operators) -> None:
    remote = et.function(channel=operators)(counted)
    x = Tensor(np.arange(4, dtype=np.float32))
    for round_ in range(1, 4):
        assert (remote.remote(x).numpy() == round_ * np.arange(4)).all()
    assert not COUNT.numpy().any()
    COUNT.assign(Tensor(np.full(4, 10, np.float32))).realize()
    assert (remote.remote(x).numpy() == 10 + np.arange(4)).all()
    COUNT.assign(Tensor(np.zeros(4, np.float32))).realize()


def test_a_program_that_is_not_offered_is_refused_with_those_that_are(operators: Operators) -> None:
    remote = et.function(channel=operators)(lambda x: x * 3 + 1)
    with pytest.raises(CallRefused, match="it offers") as raised:
        remote.remote(Tensor(np.ones(4, np.float32)))
    assert "adds it to its programs" in raised.value.fix


def test_the_next_operator_is_called_where_one_is_away(place: Place) -> None:
    urls = ("http://127.0.0.1:9/away", "http://toy")
    with reaching(place, urls, timeout=0.3) as operators:
        remote = et.function(channel=operators)(times)
        assert (remote.remote(Tensor(np.ones(4, np.float32))).numpy() == MATRIX.numpy().sum(axis=0)).all()


def test_no_operator_is_an_error_that_says_where_to_name_one(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EIGENTENSOR_OPERATORS", raising=False)
    with reaching(place, ()) as operators, pytest.raises(ConfigError, match="no operator is named"):
        et.function(channel=operators)(times).remote(Tensor(np.ones(4, np.float32)))


@pytest.mark.parametrize("options", [{"deposit": "0.5"}, {"recheck": "1%"}, {"channel": True, "deposit": "x"}])
def test_wrong_options_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises((BindingError, ConfigError)):
        et.function(**options)(times)


def test_channels_take_options_of_their_own() -> None:
    with pytest.raises(BindingError, match="channels:"):
        et.channels("http://toy", price="1")
    assert et.channels("http://toy", deposit="0.5").function(max_price="0.01")(times).options.channel
