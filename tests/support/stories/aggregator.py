"""Tasks as the aggregator's machines see them, told by events."""

from dataclasses import asdict, replace
from typing import Any

from eigentensor import economics
from eigentensor.chain import Deployment, anvil_account
from eigentensor.dispute import Phase, Position, Reason
from eigentensor.task import (
    NONE,
    Accepted,
    Answered,
    Challenged,
    Committed,
    Convicted,
    Ended,
    GameEnded,
    Life,
    Moved,
    Opened,
    Order,
    Place,
    Posted,
    Revealed,
    TaskEvent,
    fold,
)
from eigentensor.task import Cause as Cause

PARAMETERS = economics.Parameters(
    max_exec=60, lag=2, grid=1, record=50, check=10, reveal=10, challenge=10, clock=60, margin=50,
    eta=10**18 // 4, g_def=3, g_miss=1, check_floor=10**18 // 20, phi=10**18, sybils=10**18 // 3,
    stake_margin=125 * 10**16, min_stake=10, g_chk=1, g_chunk=1, other_seats=2, confirmations=2,
)  # fmt: skip
TASK, ROOT, WRONG = b"\7" * 32, b"\2" * 32, b"\3" * 32
CLIENT, EXECUTOR, CHALLENGER, VERIFIER = (anvil_account(i).address for i in range(4))
ORDER = Order(
    client=CLIENT, nonce=1, semantics=1, program=ROOT, inputs=NONE, weights=NONE, states=NONE,
    variables=NONE, repeat=1, min_price=5, max_price=9, ramp_start=0, ramp_length=0, check_fee=10,
    check_rate=10**18 // 5, verifiers=1, value_at_risk=0, exec=20, accept_by=100, operators=NONE,
)  # fmt: skip
ADDRESSES = [anvil_account(i).address for i in range(3)]
#: A market whose seeds are of even blocks.
DEPLOYMENT = Deployment.from_json(
    {
        "chainId": 31337, "block": 0, "burn": ADDRESSES[0],
        **dict.fromkeys(["taskMarket", "serviceManager", "disputeGame", "referee", "bounty"], ADDRESSES[0]),
        **dict.fromkeys(["channels", "channelsGame"], ADDRESSES[0]),
        "core": dict.fromkeys(["allocationManager", "delegationManager", "strategyManager", "strategy"], ADDRESSES[0]),
        "token": {"address": ADDRESSES[0], "symbol": "T", "decimals": 18},
        "parameters": {"".join([w[0], *map(str.title, w[1:])]): v for n, v in asdict(PARAMETERS).items()
                       for w in [n.split("_")]} | {"lag": 1, "grid": 2},
    }
)  # fmt: skip
#: S of a commit in block 15, and the last blocks of what follows: of its record, reveal, verifiers, challenges.
SEED, RECORDED, REVEALED, ANSWERED = 17, 67, 77, 87


def at(block: int, transaction: bytes = b"t" * 32) -> Place:
    return Place(block, 0, b"h" * 32, transaction)


def mix(*, drawn: bool) -> bytes:
    """A random value of a seed block that draws the task, or does not."""
    tried = (bytes([i]) * 32 for i in range(256))
    return next(m for m in tried if economics.is_drawn(m, TASK, ORDER.check_rate) is drawn)


def posted(block: int = 10, task: bytes = TASK, **changes: Any) -> Posted:
    return Posted(at(block), task, CLIENT, replace(ORDER, **changes))


def accepted(block: int = 12, task: bytes = TASK) -> Accepted:
    return Accepted(at(block), task, EXECUTOR, 9, 52)


def committed(block: int = 15, task: bytes = TASK) -> Committed:
    return Committed(at(block), task, b"\1" * 32)


def revealed(block: int = 30, task: bytes = TASK, root: bytes = ROOT) -> Revealed:
    return Revealed(at(block), task, 0, root)


def answered(block: int = 20, index: int = 0, operator: str = VERIFIER) -> Answered:
    return Answered(at(block), TASK, index, operator, b"\4" * 32)


def opened_answer(block: int = 31, index: int = 0, root: bytes = ROOT) -> Revealed:
    return Revealed(at(block, b"a" * 32), TASK, index + 1, root)


def position(phase: Phase = Phase.PUBLISH, since: int = 32, challenger: str = CHALLENGER, **more: Any) -> Position:
    return Position(TASK, EXECUTOR, challenger, phase, since, 80, 80, **more)


def challenged(
    block: int = 32, game: int = 1, challenger: str = CHALLENGER, transaction: bytes = b"t" * 32
) -> list[TaskEvent]:
    place = at(block, transaction)
    opened = Opened(place, TASK, game, challenger, position(since=block, challenger=challenger))
    return [opened, Challenged(place, TASK, game, challenger, 24)]


def moved(block: int, phase: Phase, game: int = 1, data: bytes = b"", **more: Any) -> Moved:
    return Moved(at(block), TASK, game, position(phase, block, **more), data)


def ended(block: int = 40, game: int = 1, reason: Reason = Reason.VERDICT, *, executor_lost: bool) -> list[TaskEvent]:
    return [
        Ended(at(block), TASK, game, executor_lost, reason),
        GameEnded(at(block), TASK, game, CHALLENGER, executor_lost),
    ]


def convicted(block: int = 40, cause: Cause = Cause.VERDICT, winner: str = CHALLENGER) -> Convicted:
    return Convicted(at(block), TASK, cause, winner, 19)


REVEALED_TASK: list[TaskEvent] = [posted(), accepted(), committed(), revealed()]


def life_of(*events: TaskEvent, mix: bytes | None = None) -> Life:
    life = fold(events, PARAMETERS)
    assert life is not None
    return replace(life, mix=mix)
