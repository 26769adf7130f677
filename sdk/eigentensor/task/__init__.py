"""One life of a task: the order, what happened, what follows from it. Pure; the chain is `eigentensor.chain`'s.

Each name is loaded when it is used: who only names an order does not wait for what may happen to it.
"""

from typing import TYPE_CHECKING

from eigentensor.lazily import loading

if TYPE_CHECKING:
    from eigentensor.task.events import (
        Accepted,
        Answered,
        BondReturned,
        Cancelled,
        Challenged,
        Closed,
        Committed,
        Convicted,
        Demanded,
        Deposited,
        Ended,
        Event,
        Expired,
        Exposed,
        Failed,
        GameEnded,
        Leaf,
        Locked,
        Moved,
        Noted,
        Opened,
        OperatorJoined,
        OperatorLeft,
        Paid,
        Place,
        Posted,
        Revealed,
        SeatsSet,
        Seeded,
        Settled,
        Shown,
        SignerSet,
        Slashed,
        StakeSlashed,
        TaskEvent,
        Unlocked,
        Withdrawn,
    )
    from eigentensor.task.life import Answer, Conviction, Counts, Game, Happening, Life, fold
    from eigentensor.task.order import NONE, Domain, Order, Signer, commitment, order_signer, order_uuid, sign_order
    from eigentensor.task.state import Cause, State

__all__ = [
    "NONE", "Accepted", "Answer", "Answered", "BondReturned", "Cancelled", "Cause", "Challenged", "Closed",
    "Committed", "Convicted", "Conviction", "Counts", "Demanded", "Deposited", "Domain", "Ended", "Event", "Expired",
    "Exposed", "Failed", "Game", "GameEnded", "Happening", "Leaf", "Life", "Locked", "Moved", "Noted", "Opened",
    "OperatorJoined", "OperatorLeft", "Order", "Paid", "Place", "Posted", "Revealed", "SeatsSet", "Seeded", "Settled",
    "Shown", "Signer", "SignerSet", "Slashed", "StakeSlashed", "State", "TaskEvent", "Unlocked", "Withdrawn",
    "commitment", "fold", "order_signer", "order_uuid", "sign_order",
]  # fmt: skip

__getattr__ = loading(
    __name__,
    {
        "events": "Accepted Answered BondReturned Cancelled Challenged Closed Committed Convicted Demanded Deposited "
        "Ended Event Expired Exposed Failed GameEnded Leaf Locked Moved Noted Opened OperatorJoined "
        "OperatorLeft Paid Place Posted Revealed SeatsSet Seeded Settled Shown SignerSet Slashed StakeSlashed "
        "TaskEvent Unlocked Withdrawn",
        "life": "Answer Conviction Counts Game Happening Life fold",
        "order": "NONE Domain Order Signer commitment order_signer order_uuid sign_order",
        "state": "Cause State",
    },
)
