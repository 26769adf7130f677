"""Small programs, a client's side of a channel and a toy operator, for tests of paid calls."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from eigentensor import merkle
from eigentensor.capture import GraphProgram, TensorContext
from eigentensor.channel import Deal, Key, Offer, channel_of, message_of, pool_of
from eigentensor.channel.calls import Computation
from eigentensor.program import Role
from eigentensor.store.tensors import dump_safetensors, parse_flat
from eigentensor.task import Domain
from eigentensor_client.channels.caller import Caller, Request
from eigentensor_client.channels.endpoint import Endpoint
from eigentensor_client.channels.ledger import Account, Agreement, Ledger, Stage
from support.stories.toy_operator import Served, ToyOperator

DOMAIN = Domain(31337, "0x" + "77" * 20)
SIGNER, PAYER = Key(b"\x11" * 32), Key(b"\x22" * 32)
TOKEN = "0x" + "05" * 20
PRICE = 10


@cache
def doubling() -> GraphProgram:
    """Two times four numbers."""
    context = TensorContext()
    x = context.add_graph_input("x", (4,))
    return context.compile_to_graph(x + x)


def program_root() -> bytes:
    return bytes.fromhex(doubling().uuid)


def inputs(value: float) -> bytes:
    """The body of a call."""
    return dump_safetensors({"x": np.full(4, value, np.float32)})


def request(value: float, price: int = PRICE) -> Request:
    root = merkle.role_root(doubling().program, Role.INPUT, {"x": np.full(4, value, np.float32)})
    return Request(Computation(program_root()), inputs(value), price, root)


def output(outputs: bytes) -> Any:
    """The only output of a response."""
    ((_, values),) = parse_flat(outputs).values()
    return values


def offer_of(**changes: Any) -> Offer:
    plain = Offer(
        operator="0x" + "01" * 20, signer=SIGNER.address, nonce=1, max_price=10, check_price=5, most=10**6, risk_each=0,
        risk_all=0, check_rate=10**17, verifiers=1, exec=4, epoch=50, tail=3,
        programs=merkle.programs_root({program_root(): 1}),
    )  # fmt: skip
    return replace(plain, **changes)


class Both:
    """A client's ledger in a folder, and a toy operator that has opened a channel with it, without a chain."""

    def __init__(self, folder: Path, deposit: int = 100_000, **changes: Any) -> None:
        offer = offer_of(**changes)
        self.folder = folder
        self.operator = ToyOperator(DOMAIN, offer, SIGNER, {program_root(): Served(doubling().program, PRICE)})
        deal = Deal(pool_of(DOMAIN, offer), "0x" + "02" * 20, PAYER.address, 1, 50_000, 0, 900)
        self.channel = channel_of(DOMAIN, deal)
        self.operator.deals[self.channel] = deal
        self.operator.open(self.channel, deposit)
        agreement = Agreement("http://operator", DOMAIN, offer, deal, SIGNER.sign(message_of(DOMAIN, deal)))
        with self.ledger() as ledger:
            ledger.add(Account(agreement, deposit, Stage.OPEN, begun=1, first=1))

    def ledger(self) -> Ledger:
        return Ledger(self.folder, durable=False)

    def caller(self, ledger: Ledger, endpoint: Endpoint | None = None, recheck: int = 0) -> Caller:
        """Another process that takes the channel up."""
        account = ledger.account(self.channel.hex())
        reached = endpoint or Endpoint("http://operator", self.operator.transport())
        return Caller(ledger, account, PAYER, reached, TOKEN, recheck)
