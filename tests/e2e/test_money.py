"""Orders that nobody executes: the money comes back, whole, by every way there is."""

import numpy as np
import pytest

from eigentensor import merkle
from eigentensor.chain import to_wei
from eigentensor.dispute.refusal import ELEMENT
from eigentensor.errors import (
    BindingError,
    InsufficientFunds,
    NobodyAccepted,
    NotDisputable,
    NotYet,
    TaskCancelled,
    TaskNotFound,
    TermsRefused,
)
from eigentensor.task import State
from eigentensor_client.client import Client
from eigentensor_client.files import Tensors
from eigentensor_client.orders import Terms, Work, escrow_of
from eigentensor_local.devnet import Devnet
from support.programs.worked_examples import sums

PRICE = to_wei("0.01")
NOBODY = Terms(PRICE, operators=merkle.operators_root([bytes(19) + b"\x01"]), accept_within=1_000)


def wealth(client: Client) -> int:
    return client.chain.token.balance_of(client.address) + client.chain.market.balance_of(client.address).balance


def test_a_task_that_nobody_accepts_expires_and_pays_back(client: Client, net: Devnet, work: Work) -> None:
    before = wealth(client)
    (task,) = client.post([work], NOBODY)
    assert task.state is State.OPEN
    assert wealth(client) == before - escrow_of(task.order)
    net.anvil.mine_past(task.order.accept_by)
    with pytest.raises(NobodyAccepted, match="the escrow is back"):
        client.wait(task, timeout=60)
    assert wealth(client) == before


@pytest.mark.slow
def test_the_client_expires_its_task_itself_when_the_aggregator_is_away(
    client: Client, net: Devnet, work: Work
) -> None:
    before = wealth(client)
    (task,) = client.post([work], NOBODY)
    net.processes["aggregator"].kill()
    try:
        net.anvil.mine_past(task.order.accept_by + 5)
        with pytest.raises(NobodyAccepted):
            client.wait(task, timeout=60)
    finally:
        net.start_aggregator().wait_ready()
    assert wealth(client) == before


def test_a_client_takes_back_what_nobody_accepted(client: Client, work: Work) -> None:
    before = wealth(client)
    (task,) = client.post([work], NOBODY)
    assert client.cancel(task).state is State.CANCELLED
    assert wealth(client) == before
    with pytest.raises(TaskCancelled):
        client.wait(task, timeout=60)
    assert client.cancel(task).state is State.CANCELLED  # it is sent once, however often one asks
    assert wealth(client) == before


def test_too_little_money_is_refused_before_anything_is_sent(pauper: Client, work: Work) -> None:
    sent = pauper.chain.node.transaction_count(pauper.address)
    with pytest.raises(InsufficientFunds, match=r"0\.021 TETH are needed"):
        pauper.post([work], Terms(PRICE))
    assert pauper.chain.node.transaction_count(pauper.address) == sent
    assert not pauper.plan(work, Terms(PRICE)).affordable


def test_wrong_inputs_are_refused_before_anything_is_sent(client: Client, work: Work) -> None:
    sent = client.chain.node.transaction_count(client.address)
    wrong: tuple[Tensors, ...] = (
        {},
        {"a": work.inputs["a"]},
        {**work.inputs, "c": np.zeros(1, np.float32)},
        {**work.inputs, "a": work.inputs["a"].astype(np.float64)},
        {**work.inputs, "a": work.inputs["b"]},
    )
    for inputs in wrong:
        with pytest.raises(BindingError):
            client.post([Work(work.program, inputs, work.weights)], Terms(PRICE))
    assert client.chain.node.transaction_count(client.address) == sent


def test_terms_that_the_market_refuses_are_refused_before_anything_is_sent(client: Client, work: Work) -> None:
    sent = client.chain.node.transaction_count(client.address)
    for terms in (Terms(PRICE, check_rate=0), Terms(PRICE, verifiers=5), Terms(PRICE, check_fee=1)):
        with pytest.raises(TermsRefused):
            client.post([work], terms)
    assert client.chain.node.transaction_count(client.address) == sent


def test_what_nobody_could_be_convicted_for_is_refused_before_anything_is_sent(client: Client) -> None:
    work = Work(sums(1, ELEMENT), {"x": np.zeros(1, np.int8)})
    sent = client.chain.node.transaction_count(client.address)
    with pytest.raises(NotDisputable, match="evaluations"):
        client.post([work], Terms(PRICE))
    assert client.chain.node.transaction_count(client.address) == sent


def test_a_wait_that_is_over_says_that_the_task_goes_on(client: Client, work: Work) -> None:
    (task,) = client.post([work], NOBODY)
    with pytest.raises(NotYet, match="is open after 0 s"):
        client.wait(task, timeout=0)
    client.cancel(task)


def test_tasks_are_found_by_the_beginning_of_their_name(client: Client, work: Work) -> None:
    first, second = client.post([work, work], NOBODY)
    assert {first.uuid, second.uuid} <= {task.uuid for task in client.tasks()}
    assert client.task(first.uuid[:20]).uuid == first.uuid
    assert client.task("0x" + first.uuid).order == first.order
    for name in ("", "ff" * 32):
        with pytest.raises(TaskNotFound):
            client.task(name)
    for task in (first, second):
        client.cancel(task)
