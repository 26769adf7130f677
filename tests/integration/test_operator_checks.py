"""Operators' processes check each other on a real chain: agreement, conviction, and challenges that were in vain."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from eigentensor import economics
from eigentensor.chain import Chain, anvil_account, to_wei
from eigentensor.economics import WAD
from eigentensor.merkle import operators_root
from eigentensor.store import LocalStore
from eigentensor.task import GameEnded, Leaf, Settled, Shown, Slashed, State
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms
from eigentensor_local.anvil import join
from eigentensor_local.devnet import Devnet, Party
from support.stories.daemons import (
    TERMS,
    example_with_everything,
    network_of,
    pass_draw,
    pass_seed,
    pass_window,
    start,
    until,
    wait_for,
    work_of,
)

CHALLENGERS = (3, 4)
STEPS = ("look", "fetch", "execute", "answered")


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devnet]:
    with network_of(tmp_path_factory.mktemp("network") / "checks.json") as net:
        yield net


@pytest.fixture
def client(net: Devnet, tmp_path: Path) -> Iterator[Client]:
    with Client(net.network, anvil_account(2), LocalStore(tmp_path)) as client:
        client.chain.token.mint(client.address, to_wei("1"))
        yield client


def joined(net: Devnet, name: str) -> Party:
    party = net.party(name)
    join(net.network, party.owner, signer=party.signer.address)
    return party


@pytest.fixture(scope="module")
def verifier(net: Devnet) -> Party:
    return joined(net, "verifier")


@pytest.fixture(scope="module")
def executor(net: Devnet, verifier: Party) -> Party:
    """One of which somebody else can be the verifier: else it does not accept."""
    return joined(net, "executor")


@pytest.fixture(autouse=True)
def all_end_with_the_test(net: Devnet) -> Iterator[None]:
    yield
    for process in net.processes:
        if process.name != "aggregator":
            process.stop()


def checked_by_others(party: Party) -> Terms:
    """For this operator alone, certainly checked, and with time to start a verifier on a busy machine."""
    return replace(TERMS, exec=60, check_rate=WAD, operators=operators_root([bytes.fromhex(party.address[2:])]))


@pytest.mark.slow  # tests/e2e/test_life.py kills one unmarked
@pytest.mark.parametrize("kills", [("execute",), STEPS])
def test_a_verifier_killed_at_any_step_gives_one_answer_that_ends_the_wait_and_is_paid(
    net: Devnet, client: Client, executor: Party, verifier: Party, kills: tuple[str, ...]
) -> None:
    before = client.chain.market.balance_of(verifier.address).balance
    start(net, executor)
    (task,) = client.post([work_of(example_with_everything())], checked_by_others(executor))
    pass_seed(net, client, task)
    for step in kills:
        killed = start(net, verifier, *STEPS[STEPS.index(step) :])
        killed.wait_ready()
        killed.kill()
    running = start(net, verifier, "answered", "ready")
    running.wait_ready()
    chain, uuid = client.chain, bytes.fromhex(task.uuid)
    until(lambda: chain.market.task_at(uuid).answered > 0)  # one that was killed after it does not say so again

    view = client.wait(task, "checked", timeout=60)
    assert view.life.revealed_at is not None and view.life.revealed_at < view.life.check_by, "nobody else may answer"
    assert (view.state, chain.market.task_at(uuid).agreed.bit_count()) == (State.REVEALED, 1)
    pass_window(net, client, task)
    assert client.wait(task, "final", timeout=60).state is State.FINAL
    wait_for(running, "settled")
    account = chain.market.balance_of(verifier.address)
    assert account.balance - before == task.order.check_fee
    # nothing else of this verifier is at stake
    assert chain.market.held_of(verifier.address) == 0


@pytest.mark.slow  # tests/e2e/test_life.py leads one to its conviction for every commit
def test_a_liar_is_convicted_by_a_verifier_that_plays_to_the_end(net: Devnet, client: Client, verifier: Party) -> None:
    liar = joined(net, "liar")
    stake = client.chain.stake.of(liar.address)
    lying = start(net, liar, module="eigentensor_local.actors")
    lying.wait_ready()
    running = start(net, verifier, "answered")
    # With two to be paid the verifier does not wait for a seat of the executor above, which is not running.
    terms = replace(checked_by_others(liar), verifiers=2)
    (task,) = client.post([work_of(example_with_everything())], terms)
    running.wait_ready()
    chain, uuid = client.chain, bytes.fromhex(task.uuid)
    net.anvil.mine_past(
        chain.market.seed_block_of(uuid) + economics.check_window(chain.deployment.parameters, task.order.exec)
    )

    wait_for(running, "slashed")
    events = list(chain.history.events(chain.market.task_at(uuid).accepted_at))
    (ended,) = (e for e in events if isinstance(e, GameEnded))
    (settled,) = (e for e in events if isinstance(e, Settled))
    (slashed,) = (e for e in events if isinstance(e, Slashed))
    assert (ended.challenger, settled.account, ended.executor_lost) == (verifier.address, verifier.address, True)
    assert stake - chain.stake.of(liar.address) == pytest.approx(chain.stake.worth_of(slashed.shares), abs=1024)
    wait_for(lying, "halt")
    assert (liar.folder / "draining").exists()


@pytest.mark.slow
def test_challenges_in_vain_pay_the_executor_while_it_shows_what_its_client_demands(
    net: Devnet, client: Client, executor: Party, tmp_path: Path
) -> None:
    running = start(net, executor)
    (task,) = client.post([work_of(example_with_everything())], TERMS)
    pass_draw(net, client, task)
    wait_for(running, "upload")
    chain, uuid, bonds = client.chain, bytes.fromhex(task.uuid), 0
    before, held = chain.market.balance_of(executor.address), chain.market.held_of(executor.address)
    for number in CHALLENGERS:
        with Chain(net.network, anvil_account(number), tmp_path / f"{number}.sqlite") as challenger:
            bond = economics.bond(chain.deployment.parameters, TERMS.max_price)
            challenger.token.mint(challenger.address, bond)
            challenger.token.approve(chain.deployment.task_market, bond)
            challenger.market.challenge(challenger.address, task.order)
            bonds += economics.bond_share(chain.deployment.parameters, TERMS.max_price)
    chain.token.approve(chain.deployment.task_market, to_wei("0.1"))
    chain.market.deposit(client.address, to_wei("0.1"))
    chain.market.demand(task.order, [Leaf(False, 0, 0), Leaf(True, 0, 1 << 30)])
    wait_for(running, "moved", times=2)
    wait_for(running, "shown", times=2)
    there, missing = (e for e in chain.history.events(chain.market.task_at(uuid).accepted_at) if isinstance(e, Shown))
    first = client.deliver(client.look(task)).outputs
    assert (there.data[: first[min(first)].nbytes], missing.data) == (first[min(first)].tobytes()[:1024], b"")
    net.anvil.mine_past(chain.node.block_number() + task.order.exec + chain.deployment.parameters.clock)
    wait_for(running, "game_ended", times=2)
    assert client.wait(task, "final", timeout=60).state is State.FINAL
    account = chain.market.balance_of(executor.address)
    shown = 2 * chain.deployment.parameters.g_chunk
    assert account.balance - before.balance - held == TERMS.max_price + bonds + shown
    assert chain.games.open(uuid) == ()
