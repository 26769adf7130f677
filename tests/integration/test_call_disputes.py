"""A wrong result among ten thousand calls, wherever it stands: the client's challenge convicts."""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from eigentensor import economics, merkle
from eigentensor.chain import Chain, to_wei
from eigentensor.channel import BatchState, Breach, CallPlace, events, open_call, open_line
from eigentensor.economics import WAD
from eigentensor.player import Player
from eigentensor.program import encode
from eigentensor.program.model import Role
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.task import Order
from eigentensor.tracing import retrace
from eigentensor_local.anvil import Anvil
from support.stories.calls import ones, scaling
from support.stories.channel import PRICE, Served, begin_and_open
from support.stories.players import lying

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
CALLS, TAIL, WRONG = 10_000, 8, 100
MESSAGES = 20  #: of both sides from the challenge to the conviction, at most


@pytest.fixture
def inputs() -> dict[str, np.ndarray[Any, Any]]:
    return {"x": ones(3)}


def ten_thousand(client: Chain, operator: Chain, inputs: dict[str, Any], wrong: set[int]) -> Served:
    """A channel of so many calls, the last ones in the tail, of which these are wrong by one bit."""
    program = scaling()
    right, false = (one(program, inputs, {}, 1).outputs for one in (retrace, lying))
    assert right != false
    served = begin_and_open(
        client, operator, deposit=2 * CALLS * PRICE, most=CALLS, program=merkle.program_root(encode(program)),
        inputs=merkle.role_root(program, Role.INPUT, inputs), check_rate=WAD // 20, verifiers=4,
    )  # fmt: skip
    for index in range(CALLS):
        served.call(false if index in wrong else right)
        if index == CALLS - TAIL - 1:
            served.acknowledge()
    return served


def test_a_wrong_call_among_ten_thousand_convicts_wherever_it_stands(
    anvil: Anvil, client: Chain, operator: Chain, inputs: dict[str, Any], tmp_path: Path
) -> None:
    wrong = {0, CALLS - TAIL - 1, CALLS - TAIL, CALLS - 1}
    random = Random(5)
    while len(wrong) < WRONG:
        wrong.add(random.randrange(CALLS))
    client.token.mint(client.address, to_wei("10"))
    served = ten_thousand(client, operator, inputs, wrong)
    operator.channels.commit(served.offer, 1, [served.sheet()])
    line = served.sheet().line(served.domain, 0, 0, 0)
    bond = economics.bond(client.deployment.parameters, PRICE)
    client.channels.deposit(client.address, bond)
    for index in sorted(wrong):
        before = anvil.rpc("evm_snapshot")
        place = CallPlace(
            open_line([line], 0), open_call(line, served.leaves, served.receipts[index]), served.orders[index]
        )
        messages = convicted(client, operator, served, place, inputs, tmp_path / str(index))
        assert messages <= MESSAGES, index
        assert anvil.rpc("evm_revert", before)


def convicted(
    client: Chain, operator: Chain, served: Served, place: CallPlace, inputs: dict[str, Any], folder: Path
) -> int:
    """How many messages it took from the challenge to the conviction."""

    def load(task: bytes, order: Order) -> BoundProgram:
        assert order == place.order
        return BoundProgram(scaling(), (), inputs, {}, 1)

    folder.mkdir()
    with (
        Chain(client.network, client.account, folder / "client.sqlite", deadline=20) as challenger,
        Chain(operator.network, operator.account, folder / "operator.sqlite", deadline=20) as executor,
    ):
        mined = challenger.channels.challenge(challenger.address, served.offer, 1, place)
        (opened,) = [event for event in mined.events if isinstance(event, events.Challenged)]
        players = [
            Player(chain, chain.address, load, retracing, calls=True)
            for chain, retracing in ((executor, lying), (challenger, retrace))
        ]
        messages = 1
        while client.channels.batch_at(served.batch).state is not BatchState.CONVICTED:
            turns = [player.turn(opened.game_id) for player in players]
            assert any(turns)
            messages += sum(turn is not None for turn in turns)
    judged = client.channels.judgment_at(served.batch)
    assert (judged.breach, judged.winner) == (Breach.VERDICT, client.address)
    return messages
