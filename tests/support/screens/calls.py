"""Fixed values of paid calls for screens: a channel with two batches, and the receipt of one of its calls."""

from eigentensor import merkle
from eigentensor.chain import to_wei
from eigentensor.channel import (
    CallReceipt,
    Deal,
    Key,
    Line,
    Offer,
    channel_of,
    message_of,
    open_call,
    open_line,
    pool_of,
)
from eigentensor.channel.calls import Computation
from eigentensor.channel.signed import task_of
from eigentensor.receipt.calls import CallStanding, CommittedCall, SignedCall, prove
from eigentensor.task import Domain
from eigentensor_client.channels.watch import Seen
from eigentensor_client.receipts import CheckedCall
from eigentensor_client.schemas.channels import ChannelFacts

_SIGNER, _PAYER = Key(b"\x11" * 32), Key(b"\x22" * 32)
_DOMAIN = Domain(31337, "0x" + "77" * 20)
_PRICE = to_wei("0.00001")
_OFFER = Offer(
    operator="0x70997970C51812dc3A010C7d01b50e0d17dc79C8", signer=_SIGNER.address, nonce=1, max_price=_PRICE,
    check_price=_PRICE // 2, most=to_wei("1"), risk_each=0, risk_all=0, check_rate=10**17, verifiers=2, exec=10,
    epoch=200, tail=8, programs=b"\x0c" * 32,
)  # fmt: skip
_DEAL = Deal(
    pool_of(_DOMAIN, _OFFER), "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC", _PAYER.address, 1, to_wei("0.5"), 0, 900
)  # fmt: skip
_CHANNEL = channel_of(_DOMAIN, _DEAL)

FACTS: ChannelFacts = {
    "channel": _CHANNEL.hex(),
    "url": "https://gpu.example",
    "operator": _OFFER.operator,
    "pool": _DEAL.pool.hex(),
    "stage": "open",
    "deposit": str(to_wei("0.488")),
    "paid": str(1200 * _PRICE),
    "owed": str(1310 * _PRICE),
    "left": str(to_wei("0.488") - 110 * _PRICE),
    "calls": 1308,
    "under_way": 2,
    "lines": [
        {"number": 1, "first": 0, "count": 1000, "amount": str(1000 * _PRICE), "block": 1204, "state": "final",
         "checked": 97},
        {"number": 2, "first": 1000, "count": 200, "amount": str(200 * _PRICE), "block": 1391, "state": "committed",
         "checked": 0},
    ],
}  # fmt: skip
SEEN = (Seen(1, "final", "what the line gets back was fetched"), Seen(3, "begun", "call 1204 was left out: convicted"))


def checked() -> CheckedCall:
    """The receipt of the third call of a line of four, and what a chain says of it."""
    orders = [Computation(b"\x0a" * 32).order(_DEAL, _CHANNEL, n, 99, b"\x0b" * 32) for n in range(4)]
    hashes = [task_of(_DOMAIN, order) for order in orders]
    receipts = [CallReceipt(_CHANNEL, n, hash_, bytes([n]) * 32, 1) for n, hash_ in enumerate(hashes)]
    results = [merkle.result_of(receipt.outputs_root) for receipt in receipts]
    leaves = [merkle.call_hash(_CHANNEL, n, hashes[n], result) for n, result in enumerate(results)]
    line = Line(_CHANNEL, merkle.tree_root(leaves), 0, 4, 0, 4 * _PRICE)
    proof, call = open_line([line], 0), open_call(line, leaves, receipts[2])
    committed = CommittedCall(merkle.tree_root([line.hash()]), proof, call.path, 1204)
    signatures = _SIGNER.sign(message_of(_DOMAIN, _DEAL)), _SIGNER.sign(message_of(_DOMAIN, receipts[2]))
    signed = SignedCall(
        31337, _DOMAIN.market, _OFFER, _DEAL, signatures[0], orders[2], receipts[2], signatures[1], committed
    )  # fmt: skip
    return CheckedCall(signed, tuple(prove(signed)), CallStanding(1391, "final", True, 0))
