"""The aggregator about drawn tasks: it sends the seed, ends what is silent, pays who answered."""

from collections.abc import Callable

import httpx

from eigentensor.chain import Chain, Opening, anvil_account
from eigentensor.task import Cause, Order, State, commitment, order_uuid
from eigentensor_aggregator.config import Settings
from eigentensor_aggregator.daemon import Daemon
from eigentensor_local.anvil import Anvil, pass_seed
from support.web3 import web3_of

Orders = Callable[..., Order]
Serve = Callable[[Settings], tuple[str, Daemon]]
ROOT, SALT = b"\2" * 32, b"\3" * 32


def committed(client: Chain, operator: Chain, order: Order) -> bytes:
    """Posted, accepted and committed; returns the task."""
    task = order_uuid(order, client.deployment.domain)
    client.market.post(order)
    operator.market.accept(operator.address, order)
    sealed = commitment(client.deployment.domain, task, operator.address, 0, ROOT, SALT)
    operator.market.commit(operator.address, task, sealed)
    return task


def answer(verifiers: list[Chain], order: Order, root: bytes) -> tuple[Chain, Opening]:
    """The first seat of one of the verifiers answers."""
    reader, domain = verifiers[0], verifiers[0].deployment.domain
    task = order_uuid(order, domain)
    by_address = {verifier.address: verifier for verifier in verifiers}
    drawn = ((index, reader.market.seat_of(task, index).operator) for index in range(16 * order.verifiers))
    index, address = next((i, a) for i, a in drawn if a in by_address)
    sealed = commitment(domain, task, address, index + 1, root, SALT)
    by_address[address].market.answer(address, order, index, sealed)
    return by_address[address], Opening(task, root, SALT, index + 1)


def follow(daemon: Daemon) -> None:
    """A round that sends what is due, and one that sees it."""
    daemon.turn()
    daemon.turn()


def test_the_seed_is_sent_when_its_block_is_there(
    anvil: Anvil, settings: Settings, serve: Serve, client: Chain, operator: Chain, order_of: Orders
) -> None:
    url, daemon = serve(settings)
    order = order_of()
    task = committed(client, operator, order)
    seed = client.market.seed_block_of(task)
    anvil.mine_past(seed - 1)
    follow(daemon)
    assert client.market.seed_of(seed) == bytes(web3_of(anvil).eth.get_block(seed)["mixHash"])
    view = httpx.get(f"{url}/v1/tasks/{task.hex()}").json()
    assert view["draw"] == {"seed_block": seed, "known": True, "drawn": client.market.is_drawn(order)}


def test_a_checked_task_is_closed_and_its_verifier_paid(
    anvil: Anvil,
    settings: Settings,
    serve: Serve,
    client: Chain,
    operator: Chain,
    verifiers: list[Chain],
    order_of: Orders,
) -> None:
    order = order_of(check_rate=10**18)
    task = committed(client, operator, order)
    pass_seed(anvil, operator, order, drawn=True)
    verifier, opening = answer(verifiers, order, ROOT)
    before, bond = verifier.market.balance_of(verifier.address), verifier.market.held_of(verifier.address)
    parameters = client.deployment.parameters
    anvil.mine_past(client.market.seed_block_of(task) + order.exec + parameters.check)
    operator.market.reveal(order, Opening(task, ROOT, SALT))
    url, daemon = serve(settings)
    daemon.turn()
    view = httpx.get(f"{url}/v1/tasks/{task.hex()}").json()
    assert (view["stage"], view["checked"]) == ("result", None) and not view["answers"][0]["revealed"]
    verifier.market.reveal(order, opening)
    daemon.turn()
    view = httpx.get(f"{url}/v1/tasks/{task.hex()}").json()
    assert view["stage"] == "checked(1)" and view["answers"][0]["agrees"] is True

    anvil.mine_past(client.market.deadline_of(task))
    follow(daemon)
    follow(daemon)
    assert client.market.task_at(task).state is State.FINAL
    after = verifier.market.balance_of(verifier.address)
    assert after.balance + after.collateral == before.balance + before.collateral + order.check_fee
    view = httpx.get(f"{url}/v1/tasks/{task.hex()}").json()
    assert (view["stage"], view["checked"]) == ("final", "checked(1)")
    assert int(view["answers"][0]["settled"]) == bond + order.check_fee


def test_an_executor_that_is_drawn_and_silent_is_convicted_and_slashed(
    anvil: Anvil, settings: Settings, serve: Serve, client: Chain, operator: Chain, order_of: Orders
) -> None:
    order = order_of(check_rate=10**18)
    task = committed(client, operator, order)
    pass_seed(anvil, operator, order, drawn=True)
    url, daemon = serve(settings)
    stake = client.stake.of(operator.address)
    anvil.mine_past(client.market.deadline_of(task))
    follow(daemon)
    assert client.market.conviction_of(task).cause is Cause.SILENCE and not client.market.conviction_of(task).slashed
    anvil.mine_past(client.market.answers_by(task))
    follow(daemon)
    assert client.market.conviction_of(task).slashed and client.stake.of(operator.address) < stake
    view = httpx.get(f"{url}/v1/tasks/{task.hex()}").json()
    assert (view["stage"], view["checked"], view["convicted"]["cause"]) == ("convicted", None, "silence")
    # Nobody else earned W: it went to whoever sent the slash.
    assert client.market.balance_of(anvil_account(3).address).balance > 0


def test_bonds_of_games_that_another_conviction_made_idle_go_back(
    anvil: Anvil,
    settings: Settings,
    serve: Serve,
    client: Chain,
    operator: Chain,
    chain_of: Callable[[int], Chain],
    order_of: Orders,
) -> None:
    order = order_of()
    task = committed(client, operator, order)
    pass_seed(anvil, operator, order, drawn=False)
    operator.market.reveal(order, Opening(task, ROOT, SALT))
    for index in (4, 5):
        challenger = chain_of(index)
        challenger.token.mint(challenger.address, 10**18)
        challenger.token.ensure_allowance(client.deployment.task_market, 10**18)
        challenger.market.challenge(challenger.address, order)
    url, daemon = serve(settings)
    anvil.mine(order.exec + client.deployment.parameters.clock)
    follow(daemon)
    follow(daemon)
    assert client.market.task_at(task).state is State.CONVICTED
    games = {game["game"]: game for game in httpx.get(f"{url}/v1/challenges?task={task.hex()}").json()["challenges"]}
    assert len(games) == 2 and {game["state"] for game in games.values()} == {"ended"}
    assert all(client.market.balance_of(anvil_account(index).address).balance > 0 for index in (4, 5))
