"""The chain: networks, keys, orders, messages, events. Each name is loaded when it is used."""

from typing import TYPE_CHECKING

from eigentensor.lazily import loading

if TYPE_CHECKING:
    from eigentensor.chain.ask import PublishedAsk
    from eigentensor.chain.call_views import Batch, Channel, Judgment, Payback, Pool, Roots, ShareDemand, Windows
    from eigentensor.chain.carrying import carry_out, message_of, rehearse, sendable, settle
    from eigentensor.chain.chain import Chain
    from eigentensor.chain.decline import Decline
    from eigentensor.chain.games import GameView
    from eigentensor.chain.history import Changes
    from eigentensor.chain.keys import anvil_account, load_account, save_account
    from eigentensor.chain.lives import Lives
    from eigentensor.chain.market import Admission, Opening
    from eigentensor.chain.network import Deployment, Network
    from eigentensor.chain.node import Head
    from eigentensor.chain.onboarding import Call, Goal, Status, Step, joining, leaving
    from eigentensor.chain.reader import Reader
    from eigentensor.chain.sender import Message, Mined, Sender
    from eigentensor.chain.survey import Findings, Withdrawal
    from eigentensor.chain.units import Tokens, from_wei, to_wei
    from eigentensor.chain.views import Answer, Balance, Challenge, Conviction, LeafProof, Lock, Note, Seat, Stage, Task

__all__ = [
    "Admission", "Answer", "Balance", "Batch", "Call", "Chain", "Challenge", "Changes", "Channel", "Conviction",
    "Decline", "Deployment", "Findings", "GameView", "Goal", "Head", "Judgment", "LeafProof", "Lives", "Lock",
    "Message", "Mined", "Network", "Note", "Opening", "Payback", "Pool", "PublishedAsk", "Reader", "Roots", "Seat",
    "Sender", "ShareDemand", "Stage", "Status", "Step", "Task", "Tokens", "Windows", "Withdrawal", "anvil_account",
    "carry_out", "from_wei", "joining", "leaving", "load_account", "message_of", "rehearse", "save_account",
    "sendable", "settle", "to_wei",
]  # fmt: skip

__getattr__ = loading(
    __name__,
    {
        "ask": "PublishedAsk",
        "call_views": "Batch Channel Judgment Payback Pool Roots ShareDemand Windows",
        "carrying": "carry_out message_of rehearse sendable settle",
        "chain": "Chain",
        "decline": "Decline",
        "games": "GameView",
        "history": "Changes",
        "keys": "anvil_account load_account save_account",
        "lives": "Lives",
        "market": "Admission Opening",
        "network": "Deployment Network",
        "node": "Head",
        "onboarding": "Call Goal Status Step joining leaving",
        "reader": "Reader",
        "sender": "Message Mined Sender",
        "survey": "Findings Withdrawal",
        "units": "Tokens from_wei to_wei",
        "views": "Answer Balance Challenge Conviction LeafProof Lock Note Seat Stage Task",
    },
)
