"""What a game moved: to whom, how much, and what for. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

from eigentensor import economics
from eigentensor.economics import Parameters
from eigentensor.task.events import (
    Accepted,
    Answered,
    BondReturned,
    Challenged,
    Closed,
    Convicted,
    Event,
    GameEnded,
    Noted,
    Opened,
    Paid,
    Posted,
    Revealed,
    Settled,
)


def payouts(opened: Opened, events: Sequence[Event], parameters: Parameters) -> list[dict[str, Any]]:
    """What followed from a game so far, out of all events of its task. Amounts are wei as decimal strings."""
    return [
        {"block": event.place.block, "to": to, "amount": str(amount), "what": what}
        for event, to, amount, what in _paid(opened, events, parameters)
    ]


def answer_of(opened: Opened, events: Sequence[Event]) -> int | None:
    """The slot of the verifier whose reveal opened the game, with the bond of its answer. None: a bond of its own."""
    operators = {event.index + 1: event.operator for event in events if isinstance(event, Answered)}
    slots = (e.slot for e in events if isinstance(e, Revealed) and e.place.transaction == opened.place.transaction)
    return next((slot for slot in slots if operators.get(slot) == opened.challenger), None)


def _paid(opened: Opened, events: Sequence[Event], p: Parameters) -> Iterator[tuple[Event, str, int, str]]:
    slot, game = answer_of(opened, events), opened.game_id
    price, bond, client = 0, 0, ""
    ended: GameEnded | None = None
    finders: tuple[str, ...] = ()
    for event in events:
        match event:
            case Posted():
                client = event.client
            case Accepted():
                price = event.price
            case Challenged() if event.game_id == game:
                bond = event.bond
            case GameEnded() if event.game_id == game:
                ended = event
                if event.executor_lost and slot is None:
                    yield event, event.challenger, bond, "bond"
            case Convicted() if ended is not None and ended.executor_lost:
                yield event, event.winner, economics.reward(p, price), "reward"
                yield event, client, event.refund, "escrow"
            case Noted():
                finders = event.beneficiaries
            case Paid() if ended is not None and ended.executor_lost and event.share:
                for finder in finders:
                    yield event, finder, event.share, "share of the slash"
            case Settled() if slot is not None and event.slot == slot:
                yield event, event.account, event.amount, "bond and fee of the answer"
            case BondReturned() if event.game_id == game:
                yield event, event.challenger, event.amount, "bond"
            case Closed() if ended is not None and not ended.executor_lost:
                yield event, opened.position.executor, economics.bond_share(p, price), "share of the lost bond"
