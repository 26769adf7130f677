"""An operator of paid calls on a chain, and the client that opens channels at it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from eigentensor import merkle
from eigentensor.chain import Chain, to_wei
from eigentensor.channel import Key, Offer, Sheet, batch_of
from eigentensor.economics import WAD
from eigentensor_client.channels.channel import Channel, Policy
from eigentensor_client.channels.ledger import Ledger
from eigentensor_client.channels.opening import Wish
from eigentensor_client.client import Client
from eigentensor_local.anvil import Anvil
from support.stories.paid_calls import doubling, program_root
from support.stories.toy_operator import Served, ToyOperator

PRICE = to_wei("0.00001")
DEPOSIT = to_wei("0.01")
SIGNER = Key(b"\x11" * 32)
QUIET = Policy(looks=0)


class Place:
    """An operator that has begun a batch, and a client with a ledger of its own."""

    def __init__(
        self, operator: Chain, client: Client, folder: Path, programs: Mapping[bytes, Served] | None = None
    ) -> None:
        self.chain, self.client = operator, client
        served = programs or {program_root(): Served(doubling().program, PRICE)}
        self.offer = Offer(
            operator=operator.address, signer=SIGNER.address, nonce=1, max_price=PRICE, check_price=PRICE // 2,
            most=1000 * PRICE, risk_each=0, risk_all=0, check_rate=WAD * 3 // 5, verifiers=2, exec=10, epoch=60, tail=8,
            programs=merkle.programs_root({root: one.repeat for root, one in served.items()}),
        )  # fmt: skip
        domain = client.network.deployment.channels_domain
        self.toy = ToyOperator(domain, self.offer, SIGNER, served)
        self.toy.deposits = lambda channel: operator.channels.channel_at(channel).deposit
        self.ledger = Ledger(folder, durable=False)
        operator.token.mint(operator.address, to_wei("1"))
        operator.channels.deposit(operator.address, to_wei("1"))
        operator.channels.offer(self.offer)
        self.begin()

    @property
    def batch(self) -> bytes:
        """The first one."""
        return batch_of(self.toy.pool, 1)

    def begin(self) -> None:
        """Begins the next batch."""
        self.chain.channels.begin(self.offer)
        self.toy.commit_by = self.chain.node.block_number() + self.offer.epoch

    def open(self, deposit: int = DEPOSIT, policy: Policy = QUIET, **wishes: Any) -> Channel:
        wish = Wish(deposit, programs=(program_root(),), **wishes)
        transport = self.toy.transport()
        return Channel.open(self.client, "http://toy", wish, policy=policy, ledger=self.ledger, transport=transport)

    def commit(self, change: Callable[[Sheet], Sheet] = lambda sheet: sheet) -> None:
        sheets = self.toy.sheets()
        self.chain.channels.commit(self.offer, self.toy.number - 1, [change(sheet) for sheet in sheets])
        self.toy.committed(sheets)

    def close_batch(self, anvil: Anvil, number: int = 1) -> None:
        seed = self.chain.channels.seed_block_of(batch_of(self.toy.pool, number))
        anvil.mine_past(seed)
        self.chain.market.seed(seed)
        anvil.mine_past(self.chain.channels.windows_of(self.offer, number).dispute_by)
        self.chain.channels.close(self.offer, number)
