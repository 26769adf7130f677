"""Fixed values for screens: a market, an order on it, and its task from the post to the end."""

from dataclasses import fields
from typing import Any

from eigentensor import economics
from eigentensor.chain import Deployment, Network
from eigentensor.economics import WAD
from eigentensor.economics.pricing import Ask, Pricing, Speed
from eigentensor.economics.situation import LOCAL
from eigentensor.task import (
    Accepted,
    Answered,
    Cause,
    Closed,
    Committed,
    Convicted,
    Expired,
    Happening,
    Locked,
    Place,
    Posted,
    Revealed,
    Seeded,
    Slashed,
    fold,
    order_uuid,
)
from eigentensor_client.orders import Roots, Terms, Work, draft
from eigentensor_client.task_view import TaskView
from support.programs.worked_examples import layer

ALICE, BOB, CAROL = (f"0x{letter * 40}" for letter in "abc")
CLIENT, CHALLENGER = "0x" + "1" * 40, "0x" + "2" * 40

CORE = ("allocationManager", "delegationManager", "strategyManager", "strategy")


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


DEPLOYMENT = Deployment.from_json(
    {
        "chainId": 31337, "block": 10, "taskMarket": "0x" + "3" * 40, "disputeGame": "0x" + "4" * 40,
        "channels": "0x" + "b" * 40, "channelsGame": "0x" + "c" * 40,
        "referee": "0x" + "5" * 40, "bounty": "0x" + "6" * 40, "serviceManager": "0x" + "7" * 40,
        "core": dict.fromkeys(CORE, "0x" + "8" * 40),
        "token": {"address": "0x" + "9" * 40, "symbol": "TETH", "decimals": 18}, "burn": "0x" + "0" * 40,
        "parameters": {_camel(f.name): str(getattr(LOCAL, f.name)) for f in fields(LOCAL)},
    }
)  # fmt: skip
NETWORK = Network("local", "http://127.0.0.1:8545", "http://127.0.0.1:8600", DEPLOYMENT)
WORK = Work(layer().program, {}, repeat=3)
TERMS = Terms(5 * WAD // 100, WAD // 100, ramp=10)
ORDER = draft(CLIENT, 7, 100, WORK, Roots(b"\x01" * 32, b"\x02" * 32, b"\x03" * 32), TERMS, LOCAL)
UUID = order_uuid(ORDER, DEPLOYMENT.domain)
ROOT, PRICE = b"\x0f" * 32, 3 * WAD // 100


def _place(block: int) -> Place:
    return Place(block, 0, bytes([block]) * 32, bytes([block + 1]) * 32)


POSTED = Posted(_place(100), UUID, CLIENT, ORDER)
ACCEPTED = Accepted(_place(105), UUID, ALICE, PRICE, economics.collateral(LOCAL, PRICE, 1, ORDER.check_fee))
LOCKED = Locked(_place(105), UUID, ALICE, economics.stake(LOCAL, PRICE, 0, ORDER.check_rate, 1), 400)
COMMITTED = Committed(_place(110), UUID, b"\x0c" * 32)
ANSWERED = Answered(_place(120), UUID, 0, BOB, b"\x0d" * 32)
REVEALED = Revealed(_place(130), UUID, 0, ROOT)
CHECKED = Revealed(_place(131), UUID, 1, ROOT)
CLOSED = Closed(_place(180), UUID, PRICE, ORDER.max_price - PRICE)
CONVICTED = (
    Convicted(_place(170), UUID, Cause.VERDICT, BOB, ORDER.max_price + ORDER.check_fee),
    Slashed(_place(171), UUID, 1, LOCKED.shares, ALICE),
)

CONTRADICTED = Revealed(_place(131), UUID, 1, b"\x0e" * 32)


def _seen(block: int, *happened: Happening) -> TaskView:
    life = fold(happened, LOCAL)
    assert life is not None
    return TaskView(life, block)


_COMMITTED = (POSTED, ACCEPTED, LOCKED, COMMITTED)
_BLOCK = economics.seed_block(110, LOCAL.lag, LOCAL.grid)
_MIXES = (bytes([number]) * 32 for number in range(256))
_MIX = next(mix for mix in _MIXES if economics.is_drawn(mix, UUID, ORDER.check_rate))
_ANSWERED = (*_COMMITTED, Seeded(_place(_BLOCK + 1), _BLOCK, _MIX), ANSWERED, REVEALED)
OPEN = _seen(101, POSTED)
EXPIRED = _seen(204, POSTED, Expired(_place(203), UUID))
RESULT = _seen(140, *_ANSWERED, CHECKED)
FINAL = _seen(190, *_ANSWERED, CHECKED, CLOSED)
WRONG = _seen(190, *_ANSWERED, CONTRADICTED, *CONVICTED)
EXPLAINED: dict[str, Any] = {
    "schema": "eigentensor.explanation/1",
    "task": UUID.hex(),
    "state": "open",
    "waits_for": "an acceptance",
    "deadline": 130,
    "block": 101,
    "price": {"now": str(WAD // 100), "maximum": str(ORDER.max_price)},
    "operators": [
        {"operator": ALICE, "reason": "price", "needed": f"{6 * WAD // 100} wei",
         "offered": f"{WAD // 100} wei", "block": 100},
        {"operator": BOB, "reason": "busy", "needed": "1 free", "offered": "0", "block": 100},
        {"operator": CAROL, "reason": "silent", "needed": None, "offered": None, "block": None},
    ],
}  # fmt: skip
ASK = Ask(
    Pricing(price_per_hour=WAD // 1000, margin=WAD // 10, interest=3 * WAD // 100, disputed=WAD // 100),
    Speed(2.5e8, 4e8, 0.35), 12.0, 3,
)  # fmt: skip
OPERATORS: list[dict[str, Any]] = [
    {"operator": ALICE, "member": True, "signer": BOB, "collateral_cap": "0", "stake_cap": str(2 * WAD), "seats": "4",
     "stake": str(10 * WAD), "locked_shares": "0", "tasks": {"final": 41, "revealed": 2, "failed": 1},
     "lately": {"tasks": 16, "lowest_price": str(WAD // 100), "median_price": str(3 * WAD // 100),
                "highest_price": str(5 * WAD // 100), "median_blocks": 4},
     "asks": ASK.to_json()},
    {"operator": CAROL, "member": False, "signer": None, "collateral_cap": "0", "stake_cap": "0", "seats": "0",
     "stake": None, "locked_shares": None, "tasks": {"convicted": 1}, "lately": None, "asks": None},
]  # fmt: skip


_CALLS = [{"part": "call", "first": 0, "last": 4, "of": 5, "elements": None}]
_POSITION = {"number": "0", "kernel": "0x" + "00" * 32}


def _move(by: str, account: str, move: str, what: str, block: int, gas: int, phase: str) -> dict[str, Any]:
    return {
        "by": by, "account": account, "move": move, "what": what, "block": block, "transaction": "0x" + "0e" * 32,
        "gas": gas, "phase": phase, "clocks": {"executor": 57, "challenger": 60}, "path": _CALLS,
        "position": _POSITION, "data": {},
    }  # fmt: skip


LISTED_GAME: dict[str, Any] = {
    "game": 3, "task": UUID.hex(), "executor": ALICE, "challenger": CHALLENGER, "state": "open", "opened": 140,
}  # fmt: skip
GAME: dict[str, Any] = {
    "schema": "eigentensor.challenge/1", **LISTED_GAME, "bond": str(WAD // 10), "reward": str(WAD // 12),
    "turn": "challenger", "lost_by": None, "why": None, "block": 150, "until": 160,
    "clocks": {"executor": 57, "challenger": 60}, "phase": "call", "about": "executed calls 0 to 4", "path": _CALLS,
    "payouts": [], "position": _POSITION,
    "moves": [
        _move("challenger", CHALLENGER, "challenge", "claims that the result is wrong", 140, 235_085, "publish"),
        _move("executor", ALICE, "publish", "published the tensor roots of all executed calls: 5", 143, 95_284, "call"),
    ],
}  # fmt: skip
