"""Operators of paid calls as processes of a local network: killed in the middle, they give what is owed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from eigentensor.chain import Chain, Stage, anvil_account, to_wei
from eigentensor.channel import BatchState, events
from eigentensor.merkle import program_root
from eigentensor.program import encode
from eigentensor.store import GatewayClient, LocalStore
from eigentensor_local.anvil import join
from eigentensor_local.devnet import Devnet
from eigentensor_local.processes import Running
from support.stories.call_operators import HttpCaller, of_kind
from support.stories.calls import scaling
from support.stories.daemons import network_of, party_of, start, until, url_of, wait_for

pytestmark = pytest.mark.slow
CALLS = 4


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    with network_of(tmp_path_factory.mktemp("network") / "calls.json") as net:
        yield net


def killed(running: Running) -> None:
    os.kill(running.pid, signal.SIGKILL)
    until(lambda: not running.running)


def test_an_operator_killed_amid_calls_and_batches_gives_what_it_owes(net: Devnet, tmp_path: Path) -> None:
    with Chain(net.network, anvil_account(2), tmp_path / "client.sqlite") as client:
        client.token.mint(client.address, to_wei("1"))
        serving, checking = party_of(net, client, "serving"), party_of(net, client, "checking")
        join(net.network, net.party("third").owner)
        data, root = encode(scaling()), program_root(encode(scaling()))
        store = LocalStore(tmp_path / "blobs")
        gateway = GatewayClient(net.network.gateway_url, store)
        gateway.upload(store.put(data))
        gateway.close()
        table = f'[[call_programs]]\nprogram = "{root.hex()}"\nprice = "0.0001"\nrepeat = 1\n'
        (serving.folder / "operator.toml").write_text(table)
        terms = {"calls": "127.0.0.1:0", "call_check_rate": "1", "call_exec": "60", "call_epoch": "200"}
        running, checker = start(net, serving, **terms), start(net, checking)
        caller = HttpCaller(client, url_of(running))
        batch = caller.batch(1)
        until(lambda: client.channels.batch_at(batch).state is BatchState.BEGUN)
        caller.open(to_wei("0.1"))
        caller.call(2)
        killed(running)
        running = start(net, serving, **terms)
        caller.moved(url_of(running))
        for value in range(1, CALLS):
            caller.call(value)
        net.anvil.mine_past(client.channels.batch_at(batch).begun_at + caller.offer.epoch // 2)
        until(lambda: client.channels.batch_at(batch).state is BatchState.COMMITTED)
        killed(running)
        net.anvil.mine_past(client.channels.seed_block_of(batch) + 3)
        running = start(net, serving, **terms)
        wait_for(checker, "execute")
        killed(checker)
        start(net, checking)
        until(lambda: client.channels.batch_at(batch).answered > 0)
        (answered,) = of_kind(client, events.Answered, batch)
        windows = client.channels.windows_of(caller.offer, 1)
        net.anvil.mine_past(windows.check_by)
        until(lambda: client.channels.batch_at(batch).agreed > 0)
        net.anvil.mine_past(windows.dispute_by)
        until(lambda: client.channels.batch_at(batch).state is BatchState.FINAL)
        until(lambda: client.channels.answer_at(batch, answered.index).stage is Stage.PAID)
        stored = client.channels.batch_at(batch)
        assert (stored.leaves, stored.amount) == (CALLS, CALLS * to_wei("0.0001"))
        assert answered.operator == checking.address and running.running
        caller.close()
