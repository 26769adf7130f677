"""The channels that an operator serves, in memory: what each has come to, what of it stands in no batch, and which of
its calls are under way."""

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from eigentensor import merkle
from eigentensor.channel import ChannelState, Deal, Offer, Voucher, nonce_of, order_hashes
from eigentensor.channel.calls import CallResponse, ChannelStatus, Computation, Payment
from eigentensor.channel.payee import Payee
from eigentensor.channel.pools import ChannelLife
from eigentensor.merkle import Frontier
from eigentensor.program import Program
from eigentensor.reexecution.inputs import Tensors
from eigentensor.reexecution.warm import WarmExecution
from eigentensor.task.order import Domain
from eigentensor_operator.calls.interface import FULL, Conclusion, Load
from eigentensor_operator.calls.ledger import Executed, Ledger

_PACKED = 16  # computations of a channel whose orders are packed once
_NO_VARIABLES = merkle.variables_root({})


@dataclass(frozen=True, slots=True)
class ServedProgram:
    """A program that is executed for calls, with its weights: `price` wei for each repeat, of which there are at most
    `repeat`. `root` and `weights` name both in orders."""

    root: bytes
    weights: bytes
    program: Program
    execution: WarmExecution
    price: int
    repeat: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call is answered: its outputs as a safetensors file, the receipt, and what it cost in wei."""

    outputs: bytes
    response: CallResponse
    price: int


@dataclass(slots=True, eq=False)
class Ticket:
    """A call that was taken. `inputs` and `states` are what it computes on, with their files by root; states that are
    kept here already are looked up. `replay` is the call of which this repeats the payment."""

    channel: "ServedChannel"
    served: ServedProgram
    computation: Computation
    payment: Payment
    task: bytes
    price: int
    inputs: Tensors
    states: Tensors | None
    files: dict[bytes, bytes]
    number: int
    caller: str
    replay: Executed | None = None
    generation: int = 0
    future: "Future[Answer]" = field(default_factory=Future)

    @property
    def index(self) -> int:
        """Which call of its channel it is."""
        return self.payment.voucher.count - 1

    def is_like(self, other: "Ticket") -> bool:
        """Whether the two differ in inputs, states and variables alone: they may be executed together."""
        return self.served is other.served and self.computation.repeat == other.computation.repeat


class ServedChannel:
    """One channel. What is read and changed here is guarded by the service's lock."""

    def __init__(self, payee: Payee, pool: bytes) -> None:
        self.payee = payee
        self.pool = pool
        self.base = (0, 0)  #: calls and wei that stand in batches, or in sheets of batches that may still be committed
        self.tickets: dict[int, Ticket] = {}  #: by index: taken, and not on disk yet
        self.generation = 0  #: a call that was refused refused those behind it
        self.conclusion: Conclusion | None = None  #: both sides signed a last voucher: no batch has what it pays for
        self.is_over = False  #: on chain: it was concluded, or has ended
        self.share = Load()  #: its part in what its pool holds, calls under way included
        self._hashes: OrderedDict[tuple[bytes, bytes, int], Callable[[int, bytes, bytes, bytes], bytes]] = OrderedDict()

    @classmethod
    def restored(
        cls, domain: Domain, offer: Offer, pool: bytes, channel: bytes, life: ChannelLife, ledger: Ledger
    ) -> "ServedChannel":
        """A channel as chain and ledger have it."""
        payee = Payee(domain, offer, life.deal, channel, life.deposit, life.paid, life.count)
        if (newest := ledger.newest(channel)) is not None:
            voucher, signature = newest
            frontier = Frontier()
            for leaf in ledger.leaves(channel)[: voucher.acked]:
                frontier.append(leaf)
            behind = ledger.calls(channel, voucher.acked, voucher.count - voucher.acked)
            receipts = tuple(call.receipt for call in behind)
            payee = replace(payee, voucher=voucher, signature=signature, frontier=frontier, receipts=receipts)
        return cls(payee, pool)

    @property
    def deal(self) -> Deal:
        """Its terms."""
        return self.payee.deal

    def follow(self, life: ChannelLife) -> None:
        """What the chain shows of it now."""
        self.payee = replace(self.payee, deposit=life.deposit, paid=life.paid, first=life.count)
        self.is_over = life.state in (ChannelState.CONCLUDED, ChannelState.ENDED)

    def task_of(self, computation: Computation, payment: Payment) -> bytes:
        """The hash of a call's order."""
        key = computation.program, computation.weights, computation.repeat
        hashed = self._hashes.get(key)
        if hashed is None:
            order = computation.order(self.deal, self.payee.channel, 0, 0, payment.inputs)
            hashed = self._hashes[key] = order_hashes(self.payee.domain, order)
            if len(self._hashes) > _PACKED:
                self._hashes.popitem(last=False)
        variables = merkle.variables_root(computation.variables) if computation.variables else _NO_VARIABLES
        nonce = nonce_of(payment.voucher.count - 1, payment.salt)
        return hashed(nonce, payment.inputs, computation.states, variables)

    def load(self, voucher: Voucher | None) -> Load:
        """What its calls up to a voucher are, beyond those in batches; nothing, where no batch takes them any more."""
        count, amount = self.base
        if voucher is None or voucher.count <= count or self.is_over or self.conclusion is not None:
            return Load()
        return Load(voucher.count - count, voucher.amount - amount, 1, voucher.count - voucher.acked)

    @property
    def is_owed(self) -> bool:
        """Whether it has calls that stand in no sheet of a batch that is committed or may be."""
        return self.payee.count > self.base[0]

    @property
    def is_short(self) -> bool:
        """See `Calls`."""
        most, part = FULL
        spent = self.payee.amount - self.base[1]
        return most * spent >= part * self.deal.most and self.payee.deposit > self.payee.amount - self.payee.paid

    def status(self) -> ChannelStatus:
        """As a client is shown it."""
        newest = self.payee.newest
        next_ = newest.count if newest else 0
        return ChannelStatus(self.payee.channel, self.payee.count, next_, max(0, self.payee.left), newest)
