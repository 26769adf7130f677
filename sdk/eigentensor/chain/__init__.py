"""The chain: networks, keys, orders, messages, events. The only place with web3."""

import sys

from eigentensor.chain.carrying import carry_out, message_of, rehearse, sendable, settle
from eigentensor.chain.chain import Admission, Chain, Opening
from eigentensor.chain.decline import Decline
from eigentensor.chain.games import GameView
from eigentensor.chain.history import Changes
from eigentensor.chain.keys import anvil_account, load_account, save_account
from eigentensor.chain.lives import Lives
from eigentensor.chain.network import Deployment, Network
from eigentensor.chain.node import Head
from eigentensor.chain.onboarding import Call, Goal, Status, Step, joining, leaving
from eigentensor.chain.reader import Reader
from eigentensor.chain.sender import Message, Mined, Sender
from eigentensor.chain.survey import Findings, Survey, Withdrawal
from eigentensor.chain.transcript import transcript
from eigentensor.chain.units import Tokens, from_wei, to_wei
from eigentensor.chain.views import (
    Answer,
    Balance,
    Challenge,
    Conviction,
    LeafProof,
    Lock,
    Note,
    Seat,
    Stage,
    Task,
)
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
from eigentensor.task.order import NONE, Domain, Order, commitment, order_signer, order_uuid, sign_order
from eigentensor.task.state import Cause, State

__all__ = [
    "NONE", "Accepted", "Admission", "Answer", "Answered", "Balance", "BondReturned", "Call", "Cancelled", "Cause",
    "Chain", "Challenge", "Challenged", "Changes", "Closed", "Committed", "Convicted", "Conviction", "Decline",
    "Demanded", "Deployment", "Deposited", "Domain", "Ended", "Event", "Expired", "Exposed", "Failed", "Findings",
    "GameEnded", "GameView", "Goal", "Head", "Leaf", "LeafProof", "Lives", "Lock", "Locked", "Message", "Mined",
    "Moved", "Network", "Note", "Noted", "Opened", "Opening", "OperatorJoined", "OperatorLeft", "Order", "Paid",
    "Place", "Posted", "Reader", "Revealed", "Seat", "SeatsSet", "Seeded", "Sender", "Settled", "Shown",
    "SignerSet", "Slashed", "Stage", "StakeSlashed", "State", "Status", "Step", "Survey", "Task", "TaskEvent",
    "Tokens", "Unlocked", "Withdrawal", "Withdrawn", "anvil_account", "carry_out", "commitment", "from_wei",
    "joining", "leaving", "load_account", "message_of", "order_signer", "order_uuid", "rehearse", "save_account",
    "sendable", "settle", "sign_order", "to_wei", "transcript",
]  # fmt: skip  # fmt: skip

# A library below eth_account raises this to 100,000: deep enough for a stranger's nested JSON to overflow the C stack
# and end the process. tinygrad needs 10,000.
sys.setrecursionlimit(min(sys.getrecursionlimit(), 10_000))
