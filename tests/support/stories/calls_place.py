"""An operator of paid calls on a chain, and the client that opens channels at it: a toy one, or the real endpoint."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from eigentensor import merkle
from eigentensor.chain import Chain, Reader, to_wei
from eigentensor.channel import ChannelState, Key, Offer, Sheet, batch_of, events
from eigentensor.economics import WAD
from eigentensor.errors import ChainError, ChannelClosed, TaskNotFound
from eigentensor.reexecution.confined import limits
from eigentensor.reexecution.warm import WarmExecution
from eigentensor.store import LocalStore
from eigentensor.task import NONE
from eigentensor_client.channels.channel import Channel, Policy
from eigentensor_client.channels.ledger import Ledger
from eigentensor_client.channels.opening import Wish
from eigentensor_client.client import Client
from eigentensor_local.anvil import Anvil
from eigentensor_operator.calls.channels import ServedProgram
from eigentensor_operator.calls.interface import DrawnShare
from eigentensor_operator.calls.ledger import Ledger as CallLedger
from eigentensor_operator.calls.routes import Where, calls_app
from eigentensor_operator.calls.service import CallService
from eigentensor_operator.node import NodeServer
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
        most = max(one.price * one.repeat for one in served.values())
        self.offer = Offer(
            operator=operator.address, signer=SIGNER.address, nonce=1, max_price=most, check_price=PRICE // 2,
            most=1000 * most, risk_each=0, risk_all=0, check_rate=WAD * 3 // 5, verifiers=2, exec=10, epoch=60, tail=8,
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

    @contextmanager
    def listening(self) -> Iterator[str]:
        """The URL of its endpoint, until the block ends."""
        with self.toy.listening() as url:
            yield url

    def open(self, deposit: int = DEPOSIT, policy: Policy = QUIET, **wishes: Any) -> Channel:
        """A channel of the client, without a network between the two."""
        wish = Wish(deposit, programs=(program_root(),), **wishes)
        transport = self.toy.transport()
        return Channel.open(self.client, "http://toy", wish, policy=policy, ledger=self.ledger, transport=transport)

    def commit(self, change: Callable[[Sheet], Sheet] = lambda sheet: sheet) -> None:
        """Commits the batch at hand, of which `change` makes something else."""
        sheets = self.toy.sheets()
        self.chain.channels.commit(self.offer, self.toy.number - 1, [change(sheet) for sheet in sheets])
        self.toy.committed(sheets)

    def close_batch(self, anvil: Anvil, number: int = 1) -> None:
        """Lets its time pass, and closes it."""
        seed = self.chain.channels.seed_block_of(batch_of(self.toy.pool, number))
        anvil.mine_past(seed)
        self.chain.market.seed(seed)
        anvil.mine_past(self.chain.channels.windows_of(self.offer, number).dispute_by)
        self.chain.channels.close(self.offer, number)


class Blocks(Protocol):
    """A chain whose blocks come when they are wanted."""

    def mine_past(self, block: int) -> None:
        """Lets blocks pass until the newest one is behind `block`."""


def doubled(stack: ExitStack) -> ServedProgram:
    """The program that doubles, in a sandbox of its own until the stack ends."""
    within = replace(limits(1 << 30, 60), threads=1)
    execution = WarmExecution(doubling().program, None, within)
    stack.callback(execution.close)
    execution.warm()
    return ServedProgram(program_root(), NONE, doubling().program, execution, PRICE, 1)


class RealPlace(Place):
    """The same with the real endpoint, which is shown the chain's events as they come."""

    def __init__(
        self, operator: Chain, client: Client, folder: Path, anvil: Blocks, stack: ExitStack,
        programs: Sequence[ServedProgram] = (), looks: float = 0.02,
    ) -> None:  # fmt: skip
        """`programs` are warm, and their owner's; by default one that doubles. `looks` are seconds between two looks at
        the chain, which take from calls what a processor can."""
        served = programs or [doubled(stack)]
        domain, p = client.network.deployment.channels_domain, client.network.deployment.parameters
        ledger = CallLedger(folder / "calls.sqlite")
        stack.callback(ledger.close)
        self.service = CallService(domain, p, SIGNER, ledger, LocalStore(folder / "shelf"), served)
        stack.callback(self.service.close)
        where = Where(domain, client.network.deployment.token, 30, LocalStore(folder / "programs"))
        self.server = NodeServer(calls_app(self.service, where, self), "127.0.0.1", 0, self.service.loop)
        stack.callback(self.server.stop)
        self.url, self._number = f"http://127.0.0.1:{self.server.port}", 0
        self._stop, self._seen = threading.Event(), client.chain.node.block_number()
        self._listed = {one.root: one.repeat for one in served}
        super().__init__(operator, client, folder, {s.root: Served(s.program, s.price, s.repeat) for s in served})
        feeding = threading.Thread(target=self._feed, args=[anvil, looks])
        feeding.start()
        stack.callback(feeding.join)
        stack.callback(self._stop.set)

    def drawn(self, batch: bytes, share: int, account: str) -> DrawnShare:
        """Nobody is drawn here."""
        raise TaskNotFound("no such share")

    def begin(self) -> None:
        if not self._number:
            self.service.offer(self.offer, self._listed)
        self._number += 1
        self.chain.channels.begin(self.offer)

    @contextmanager
    def listening(self) -> Iterator[str]:
        yield self.url

    def open(self, deposit: int = DEPOSIT, policy: Policy = QUIET, **wishes: Any) -> Channel:
        wish = Wish(deposit, programs=(program_root(),), **wishes)
        return Channel.open(self.client, self.url, wish, policy=policy, ledger=self.ledger)

    def is_served(self, channel: Channel) -> bool:
        """Whether its calls are taken: from the block after its opening on."""
        with suppress(ChannelClosed):
            life = self.service.channel_life(bytes.fromhex(channel.name))
            return life.state is ChannelState.OPEN and life.opened_at < self._seen
        return False

    def commit(self, change: Callable[[Sheet], Sheet] = lambda sheet: sheet) -> None:
        sheets = self.service.sheets(self.toy.pool, self._number)
        self.chain.channels.commit(self.offer, self._number, [change(sheet) for sheet in sheets])

    def _feed(self, anvil: Blocks, looks: float) -> None:
        """Calls are served from the block after a begin and an opening on, which comes at once."""
        reader = Reader(self.client.network)
        while not self._stop.wait(looks):
            with suppress(ChainError):
                newest = reader.node.block_number()
                for event in reader.history.calls(self._seen + 1, newest) if newest > self._seen else ():
                    self.service.observe(event)
                    if isinstance(event, events.Begun | events.Opened):
                        anvil.mine_past(newest)
                if newest > self._seen:
                    self._seen = newest
                    self.service.advance(newest)
