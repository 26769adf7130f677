"""Paid calls without a task each: what is signed and committed about channels. Pure; messages to the contract are
`eigentensor.chain`'s. The draw and what stands behind a batch are `eigentensor.economics.shares`.

Each name is loaded when it is used.
"""

from typing import TYPE_CHECKING

from eigentensor.lazily import loading

if TYPE_CHECKING:
    from eigentensor.channel.deals import CallReceipt, Deal, Offer, Voucher
    from eigentensor.channel.lines import (
        CallPlace,
        CallProof,
        Entry,
        Line,
        LineProof,
        Part,
        Sheet,
        Tail,
        lines_root,
        open_call,
        open_line,
        open_outside,
        open_part,
        open_program,
        share_root,
    )
    from eigentensor.channel.signed import (
        batch_of,
        channel_of,
        hash_of,
        index_of,
        message_of,
        nonce_of,
        order_hashes,
        pool_of,
        task_of,
    )
    from eigentensor.channel.state import BatchState, Breach, ChannelState
    from eigentensor.task.signatures import Key, is_signed_by, recover

__all__ = [
    "BatchState", "Breach", "CallPlace", "CallProof", "CallReceipt", "ChannelState", "Deal", "Entry", "Key", "Line",
    "LineProof", "Offer", "Part", "Sheet", "Tail", "Voucher", "batch_of", "channel_of", "hash_of", "index_of",
    "is_signed_by", "lines_root", "message_of", "nonce_of", "open_call", "open_line", "open_outside", "open_part",
    "open_program", "order_hashes", "pool_of", "recover", "share_root", "task_of",
]  # fmt: skip

__getattr__ = loading(
    "eigentensor",
    {
        "channel.deals": "CallReceipt Deal Offer Voucher",
        "channel.lines": "CallPlace CallProof Entry Line LineProof Part Sheet Tail lines_root open_call open_line "
        "open_outside open_part open_program share_root",
        "channel.signed": "batch_of channel_of hash_of index_of message_of nonce_of order_hashes pool_of task_of",
        "channel.state": "BatchState Breach ChannelState",
        "task.signatures": "Key is_signed_by recover",
    },
)
