"""A channel on a real chain: what both of its sides remember."""

from typing import Any

from eigentensor import merkle
from eigentensor.chain import Chain, to_wei
from eigentensor.channel import (
    CallReceipt,
    Deal,
    Key,
    Offer,
    Sheet,
    Tail,
    Voucher,
    batch_of,
    channel_of,
    message_of,
    nonce_of,
    pool_of,
    task_of,
)
from eigentensor.economics import WAD
from eigentensor.task import NONE, Order

PRICE = to_wei("0.0001")
DEPOSIT = to_wei("0.01")
SIGNER, PAYER = Key(b"\x11" * 32), Key(b"\x22" * 32)
PROGRAM, SALT = b"p" * 32, b"s" * 32


class Served:
    """What both sides of one channel remember: its offer, its deal, its calls."""

    def __init__(
        self, client: Chain, operator: Chain, program: bytes = PROGRAM, inputs: bytes = b"i" * 32, most: int = 50,
        **change: Any,
    ) -> None:  # fmt: skip
        """All calls are of one program and the same inputs, `most` in a batch; `change` is what the offer has
        otherwise."""
        self.domain = client.deployment.channels_domain
        self.program, self.inputs = program, inputs
        values: dict[str, Any] = {
            "operator": operator.address, "signer": SIGNER.address, "nonce": 1, "max_price": PRICE,
            "check_price": PRICE // 2, "most": 2 * most * PRICE, "risk_each": 0, "risk_all": 0,
            "check_rate": WAD * 3 // 5, "verifiers": 2, "exec": 10, "epoch": 50, "tail": 8,
            "programs": merkle.programs_root({program: 1}),
        }  # fmt: skip
        self.offer = Offer(**values | change)
        self.pool = pool_of(self.domain, self.offer)
        terms = self.pool, client.address, PAYER.address, 1, most * PRICE, 0, client.node.block_number() + 100
        self.deal = Deal(*terms)
        self.channel = channel_of(self.domain, self.deal)
        self.batch = batch_of(self.pool, 1)
        self.orders: list[Order] = []
        self.receipts: list[CallReceipt] = []
        self.leaves: list[bytes] = []
        self.acked = merkle.Frontier()

    def call(self, outputs_root: bytes | None = None) -> tuple[CallReceipt, bytes]:
        """The next call, with its receipt and the receipt's signature; it gives `outputs_root`, or something."""
        index = len(self.orders)
        result_root = outputs_root or bytes([index + 1]) * 32
        order = Order(
            client=PAYER.address, nonce=nonce_of(index, 77), semantics=1, program=self.program, inputs=self.inputs,
            weights=NONE, states=NONE, variables=NONE, repeat=1, min_price=0, max_price=0, ramp_start=0, ramp_length=0,
            check_fee=0, check_rate=0, verifiers=0, value_at_risk=0, exec=0, accept_by=0, operators=self.channel,
        )  # fmt: skip
        receipt = CallReceipt(self.channel, index, task_of(self.domain, order), result_root, 1)
        self.orders.append(order)
        self.receipts.append(receipt)
        result = merkle.result_of(receipt.outputs_root)
        self.leaves.append(merkle.call_hash(self.channel, index, receipt.order, result))
        return receipt, self.signed(receipt)

    def signed(self, receipt: CallReceipt) -> bytes:
        return SIGNER.sign(message_of(self.domain, receipt))

    def acknowledge(self) -> None:
        """The client takes all results so far."""
        for leaf in self.leaves[self.acked.leaves :]:
            self.acked.append(leaf)

    def sheet(self) -> Sheet:
        """The newest voucher, for all calls, and those that it does not acknowledge."""
        count = len(self.leaves)
        voucher = Voucher(self.channel, count, count * PRICE, self.acked.leaves, self.acked.root())
        tail = [Tail.of(receipt) for receipt in self.receipts[self.acked.leaves :]]
        return Sheet.of(self.deal, voucher, PAYER.sign(message_of(self.domain, voucher)), self.acked, tail)


def begin_and_open(client: Chain, operator: Chain, deposit: int = DEPOSIT, **change: Any) -> Served:
    """An open channel of a batch that is begun; the operator and its collateral are there. `change` is as for
    `Served`."""
    made = Served(client, operator, **change)
    operator.token.mint(operator.address, to_wei("1"))
    operator.channels.deposit(operator.address, to_wei("1"))
    operator.channels.offer(made.offer)
    assert operator.channels.pool_at(made.pool).offered
    operator.channels.begin(made.offer)
    client.channels.open(made.offer, made.deal, SIGNER.sign(message_of(made.domain, made.deal)), deposit)
    return made
