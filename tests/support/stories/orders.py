"""A client's order on the parameters of a local market, for tests of what the client makes of it."""

from dataclasses import replace
from typing import Any

from eigentensor.economics import WAD, Parameters
from eigentensor.task import Life, State
from eigentensor_client.orders import Roots, Terms, Work, draft
from eigentensor_client.task_view import TaskView
from support.programs.worked_examples import layer

CLIENT = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
WORK = Work(layer().program, {}, repeat=3)
LOCAL = Parameters(
    max_exec=60, lag=2, grid=1, record=50, check=10, reveal=10, challenge=10, clock=60, margin=50, eta=WAD // 4,
    g_def=300, g_miss=100, check_floor=WAD // 20, phi=WAD, sybils=WAD // 3, stake_margin=WAD * 5 // 4, min_stake=1000,
    g_chk=100, g_chunk=1, other_seats=2, confirmations=2,
)  # fmt: skip
TERMS = Terms(1000, 200, ramp=8, exec=20, accept_within=30)
ORDER = draft(CLIENT, 7, 100, WORK, Roots(b"\x01" * 32), TERMS, LOCAL)
LIFE = Life(b"\xab" * 32, ORDER, LOCAL, State.OPEN)


def seen(block: int = 101, **changes: Any) -> TaskView:
    """The order's task in a block, open unless it is said otherwise."""
    return TaskView(replace(LIFE, **changes), block)
