"""Where the money of a dispute went: from escrow, collateral, stake and bonds to whom. Pure, amounts in wei."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from eigentensor import economics
from eigentensor.chain.payouts import payouts
from eigentensor.task import Closed, Convicted, GameEnded, Opened, Paid, TaskEvent
from eigentensor.task.life import Life

Source = Literal["escrow", "collateral", "stake", "bond"]
_SOURCES: dict[str, Source] = {
    "escrow": "escrow",
    "reward": "collateral",
    "share of the slash": "stake",
    "bond": "bond",
    "bond and fee of the answer": "bond",
    "share of the lost bond": "bond",
}
_WHOSE: dict[Source, str] = {
    "escrow": "the client's escrow",
    "collateral": "the executor's collateral",
    "stake": "the executor's stake",
    "bond": "the challenger's bond",
}


@dataclass(frozen=True, slots=True)
class Flow:
    """Wei that moved in a block. `to` is an account, None where it was burned; `party` says who that is in the game."""

    source: Source
    amount: int
    to: str | None
    party: str
    what: str
    block: int

    @property
    def whose(self) -> str:
        """What it was before."""
        return _WHOSE[self.source]


def flows(life: Life, number: int, block: int) -> list[Flow]:
    """What followed from a game until a block, in the order of the chain."""
    events = [e for e in life.events if isinstance(e, TaskEvent) and e.place.block <= block]
    opened = next(e for e in events if isinstance(e, Opened) and e.game_id == number)
    paid = [
        Flow(_SOURCES[p["what"]], int(p["amount"]), p["to"], _party(life, opened, p["to"]), p["what"], p["block"])
        for p in payouts(opened, events, life.parameters)
    ]
    return sorted([*paid, *_burned(life, number, events)], key=lambda flow: flow.block)


def _burned(life: Life, number: int, events: list[TaskEvent]) -> Iterator[Flow]:
    p, price, ended = life.parameters, life.price or 0, None
    for event in events:
        match event:
            case GameEnded() if event.game_id == number:
                ended = event
            case Convicted() if ended is not None and ended.executor_lost and life.collateral is not None:
                fees = life.order.verifiers * life.order.check_fee
                rest = life.collateral - economics.reward(p, price) - fees
                yield _burn("collateral", rest, "what nobody earned", event.place.block)
            case Paid() if ended is not None and ended.executor_lost:
                yield _burn("stake", event.burned, "the burned part of the slash", event.place.block)
            case Closed() if ended is not None and not ended.executor_lost:
                rest = economics.bond(p, price) - economics.bond_share(p, price)
                yield _burn("bond", rest, "the rest of the lost bond", event.place.block)


def _burn(source: Source, amount: int, what: str, block: int) -> Flow:
    return Flow(source, amount, None, "burned", what, block)


def _party(life: Life, opened: Opened, account: str) -> str:
    if account == life.order.client:
        return "client"
    if account == opened.challenger:
        return "challenger"
    if account == opened.position.executor:
        return "executor"
    return "verifier"
