"""The chain: networks, keys, orders, messages, events. The only place with web3."""

import sys

from eigentensor.chain.chain import Admission, Chain, Opening
from eigentensor.chain.decline import Decline
from eigentensor.chain.events import (
    Accepted,
    Cancelled,
    Closed,
    Committed,
    Deposited,
    Event,
    Expired,
    Failed,
    OperatorJoined,
    OperatorLeft,
    Place,
    Posted,
    Revealed,
    SignerSet,
    TaskEvent,
    Withdrawn,
)
from eigentensor.chain.keys import anvil_account, load_account, save_account
from eigentensor.chain.network import Deployment, Network
from eigentensor.chain.onboarding import Step, joining
from eigentensor.chain.order import NONE, Domain, Order, commitment, order_signer, order_uuid, sign_order
from eigentensor.chain.reader import Balance, Changes, Head, Reader, State, Task
from eigentensor.chain.sender import Message, Receipt, Sender
from eigentensor.chain.units import from_wei, to_wei

__all__ = [
    "NONE", "Accepted", "Admission", "Balance", "Cancelled", "Chain", "Changes", "Closed", "Committed", "Decline",
    "Deployment", "Deposited", "Domain", "Event", "Expired", "Failed", "Head", "Message", "Network", "Opening",
    "OperatorJoined", "OperatorLeft", "Order", "Place", "Posted", "Reader", "Receipt", "Revealed", "Sender",
    "SignerSet", "State", "Step", "Task", "TaskEvent", "Withdrawn", "anvil_account", "commitment", "from_wei",
    "joining", "load_account", "order_signer", "order_uuid", "save_account", "sign_order", "to_wei",
]  # fmt: skip

# A library below eth_account raises this to 100,000: deep enough for a stranger's nested JSON to overflow the C stack
# and end the process. tinygrad needs 10,000.
sys.setrecursionlimit(min(sys.getrecursionlimit(), 10_000))
