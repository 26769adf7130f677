"""Which orders an operator takes: pure, and every no has a reason that can be published."""

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated

from eigentensor import economics
from eigentensor.economics import Parameters
from eigentensor.economics.pricing import (
    Ask,
    Conditions,
    Pricing,
    Speed,
    asking,
    check_costs,
    price_policy,
    readable,
    task_costs,
)
from eigentensor.player import MEMORY
from eigentensor.program.cost import Needs
from eigentensor.task import NONE, Domain, Order
from eigentensor.tracing.computed import MANY
from eigentensor.wire import Object, word

SEMANTICS = 1
SUSPECT = 8  # times as much as is reckoned, a program may compute: what would be late then is timed first
MOVES = 8  # of an executor that show tensors, in one game: where not all fit its memory, each may be made anew
ROUNDING = 2  # wei of stake: a lock is rounded up to shares, what is free is rounded down


class Code(StrEnum):
    """Why a task is not taken, or not finished. The names are published and label metrics."""

    SEMANTICS = "semantics"
    ADMISSION = "admission"
    DEADLINE = "deadline"
    EXEC = "exec"
    PRICE = "price"
    LIFETIME = "lifetime"
    MEMBERSHIP = "membership"
    COLLATERAL = "collateral"
    CAP = "cap"
    STAKE = "stake"
    STAKE_CAP = "stake_cap"
    SEATS = "seats"
    BUSY = "busy"
    DRAINING = "draining"
    DEVICE = "device"
    DATA = "data"
    PROGRAM = "program"
    DISPUTE = "dispute"
    BINDINGS = "bindings"
    WORK = "work"
    MEMORY = "memory"
    COMPILE = "compile"
    TRIAL = "trial"
    EXECUTION = "execution"
    LATE = "late"
    SEAL = "seal"
    SEED = "seed"
    RANK = "rank"
    CONVICTED = "convicted"
    CHAIN = "chain"
    CORE = "core"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Reason(Object):
    """Why an operator does not take a task, or does nothing more for it."""

    code: Annotated[Code, word(read=Code)]
    """The reason's name."""
    needed: str
    """What it would take."""
    offered: str
    """What there is."""
    lasting: bool = True
    """Whether waiting cannot change it."""


@dataclass(frozen=True, slots=True)
class Policy:
    """An operator's terms and the machine's measured abilities. Times are blocks unless named."""

    operator: str
    parameters: Parameters
    domain: Domain
    pricing: Pricing = field(default_factory=Pricing)
    max_operations: int = 10**15
    max_memory: int = 8 << 30
    max_compile: float = 300.0  # seconds of compiling one program
    trial: float = 2.0  # seconds of an execution, up to which a program is tried before its first acceptance
    capacity: int = 4  # tasks accepted and not yet committed
    operations_per_second: float = 1e9
    bytes_per_second: float = math.inf  # of buffers that are read, moved and written
    startup_seconds: float = 0.0  # of an execution, before it computes
    block_seconds: float = 12.0
    reserve: int = 3  # blocks of `exec` that are kept for transactions
    patience: int = 2  # blocks in which others may record a seed or close a task first
    verify: bool = True  # whether it answers for the seats that are drawn
    keep: int = 64  # blocks after which no reorg is expected
    calls: str = ""  # the URL at which paid calls are served; empty: none are
    alone: bytes = NONE  # root of the list that admits this operator and nobody else

    @property
    def ask(self) -> Ask:
        """What it publishes of how it makes its prices."""
        speed = Speed(self.operations_per_second, self.bytes_per_second, self.startup_seconds)
        return Ask(self.pricing, speed, self.block_seconds, self.reserve, self.calls)

    def seconds(self, needs: Needs) -> float:
        """In which an execution is expected to end."""
        return self.ask.speed.seconds(needs.operations, needs.memory)

    def is_cheap(self, needs: Needs) -> bool:
        """Whether it is executed once before it is accepted."""
        return self.seconds(needs) - self.startup_seconds <= self.trial

    def conditions(self, needs: Needs, gas_price: int, compiling: float = 0.0) -> Conditions:
        """What a price is made for: seconds of computing and compiling, the price of gas in wei, the pace of blocks."""
        return self.ask.conditions(self.seconds(needs) + compiling, gas_price)

    def defending(self, needs: Needs) -> float:
        """Seconds that all moves take in as many games about a right result as there may be at once, with tracing."""
        startup = self.startup_seconds if needs.game > MANY else 0.0
        traces = 1 if needs.written <= MEMORY else 1 + economics.GAMES * MOVES
        games = economics.GAMES * (startup + needs.game / self.operations_per_second)
        return traces * self.seconds(needs) + games

    def blocks(self, needs: Needs) -> int:
        """Blocks in which an execution is expected to end, transactions not counted."""
        return self.in_blocks(self.seconds(needs))

    def in_blocks(self, seconds: float) -> int:
        """Seconds in blocks, rounded up."""
        return self.ask.in_blocks(seconds)


@dataclass(frozen=True, slots=True)
class Backing:
    """What EigenLayer said in the block `asked` of all that backs an operator: wei, but WAD for parts.

    `queued` waits to be withdrawn, `deallocating` (WAD) goes in the block `gone_by`, and `lasting` stays slashable when
    that is through. Slashes by whatever operator set have left `magnitude` (WAD). `paused`: nobody is slashed now.
    """

    asked: int = 0
    seat_stake: int = 1
    lasting: int = 0
    queued: int = 0
    deallocating: int = 0
    gone_by: int = 0
    magnitude: int = economics.WAD
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """What the chain says of this operator at the head `block`: money and stake in wei, the stake's `delay` in blocks.

    It said so in the block `asked`. `stake` can be locked for as long as a task may live; `locked` is locked already,
    at most `stake_cap`. `gas_price` is in wei of the chain's coin.
    """

    block: int
    balance: int
    collateral: int
    cap: int
    delay: int
    member: bool
    stake: int
    locked: int
    stake_cap: int
    seats: int
    other_seats: int
    gas_price: int = 0
    backing: Backing = field(default_factory=Backing)
    asked: int = 0


@dataclass(frozen=True, slots=True)
class Claims:
    """What transactions on their way, or after the head, will hold: wei of the balance, wei of stake."""

    collateral: int = 0
    stake: int = 0

    def __add__(self, other: "Claims") -> "Claims":
        return Claims(self.collateral + other.collateral, self.stake + other.stake)


def price_at(order: Order, block: int) -> int:
    """What an acceptance in that block is paid, in wei."""
    return economics.price(order.min_price, order.max_price, order.ramp_start, order.ramp_length, block)


def claims_of(policy: Policy, order: Order, price: int) -> Claims:
    """What the acceptance of an order at this price holds."""
    p = policy.parameters
    collateral = economics.collateral(p, price, order.verifiers, order.check_fee)
    stake = economics.stake(p, price, order.value_at_risk, order.check_rate, order.verifiers)
    return Claims(collateral, stake + ROUNDING)


def refuse_order(policy: Policy, order: Order) -> Reason | None:
    """Why the order can never suit this operator, from its terms alone: before anything is downloaded."""
    if order.semantics != SEMANTICS:
        return Reason(Code.SEMANTICS, str(order.semantics), str(SEMANTICS))
    if order.operators not in (NONE, policy.alone):  # the market asks for a proof, and other lists are not published
        return Reason(Code.ADMISSION, "an order for everybody, or for this operator alone", order.operators.hex())
    if order.max_price < policy.pricing.min_price:
        return Reason(Code.PRICE, f"{policy.pricing.min_price} wei", f"{order.max_price} wei")
    if order.exec <= policy.reserve:
        return Reason(Code.EXEC, f"{policy.reserve + 1} blocks", f"{order.exec} blocks")
    return None


def refuse_needs(policy: Policy, order: Order, needs: Needs) -> Reason | None:
    """Why the work can never suit this operator: known once the program is."""
    if policy.blocks(needs) + policy.reserve > order.exec:
        return Reason(Code.EXEC, f"{policy.blocks(needs) + policy.reserve} blocks", f"{order.exec} blocks")
    return refuse_defence(policy, order.exec, needs) or refuse_size(policy, needs)


def refuse_defence(policy: Policy, exec_: int, needs: Needs) -> Reason | None:
    """Why games about the work, of a task or of a call whose execution may take so many blocks, could be lost by the
    clock."""
    clock = economics.clock(policy.parameters, exec_)
    if (defending := math.ceil(policy.defending(needs) / policy.block_seconds) + policy.reserve) > clock:
        needed = f"{defending} blocks for the moves of {economics.GAMES} games at once"
        return Reason(Code.DISPUTE, needed, f"a clock of {clock} blocks")
    return None


def is_close(policy: Policy, order: Order, needs: Needs) -> bool:
    """Whether work that suits would be late, were its kernels slower than counts say."""
    slower = policy.seconds(replace(needs, operations=SUSPECT * needs.operations))
    return math.ceil(slower / policy.block_seconds) + policy.reserve > order.exec


def refuse_timed(policy: Policy, order: Order, needs: Needs, computing: float) -> Reason | None:
    """Why the work does not suit, though it seemed so: by a sample its calls take so many seconds."""
    seconds = policy.seconds(replace(needs, operations=0)) + computing
    if (blocks := math.ceil(seconds / policy.block_seconds) + policy.reserve) > order.exec:
        return Reason(Code.EXEC, f"{blocks} blocks, by a sample of its kernels", f"{order.exec} blocks")
    return None


def refuse_uncompiled(policy: Policy, order: Order, needs: Needs, compiling: float, longest: float) -> Reason | None:
    """Why the work does not suit where an execution compiles the program, for so many seconds, too, and an iteration
    may take `longest` seconds."""
    if (seconds := policy.seconds(needs) / order.repeat + compiling) > longest:
        return Reason(Code.EXEC, f"{seconds:.0f} seconds for an iteration, with compiling", f"{longest:.0f} seconds")
    if (blocks := policy.in_blocks(policy.seconds(needs) + compiling) + policy.reserve) > order.exec:
        return Reason(Code.EXEC, f"{blocks} blocks, with compiling", f"{order.exec} blocks")
    return None


def refuse_size(policy: Policy, needs: Needs) -> Reason | None:
    """Why the work is too much for this machine."""
    if needs.operations > policy.max_operations:
        return Reason(Code.WORK, f"{needs.operations} operations", f"{policy.max_operations} operations")
    if needs.memory > policy.max_memory:
        return Reason(Code.MEMORY, f"{needs.memory} bytes", f"{policy.max_memory} bytes")
    return None


def refuse_compiling(policy: Policy, seconds: float) -> Reason | None:
    """Why the program takes too long to compile."""
    if seconds <= policy.max_compile:
        return None
    needed = f"{seconds:.0f}" if math.isfinite(seconds) else f"more than {policy.max_compile:.0f}"
    return Reason(Code.COMPILE, f"{needed} seconds of compiling", f"{policy.max_compile:.0f} seconds")


def refuse_now(policy: Policy, order: Order, standing: Standing, promised: Claims) -> Reason | None:
    """Why the task cannot be taken at this head. `promised` is what acceptances on their way will hold."""
    block = standing.block + 1  # the earliest that a transaction can be in
    if block > order.accept_by:
        return Reason(Code.DEADLINE, f"acceptance in block {order.accept_by}", f"block {block}")
    if not standing.member:
        return Reason(Code.MEMBERSHIP, "a member of the operator set", "not a member", lasting=False)
    if standing.backing.paused:  # what this operator promises could not be taken from it
        return Reason(Code.CORE, "an EigenLayer that can slash", "slashing is paused", lasting=False)
    lifetime = economics.lifetime(policy.parameters, order.exec)
    if lifetime > standing.delay:
        return Reason(Code.LIFETIME, f"stake for {lifetime} blocks", f"{standing.delay} blocks", lasting=False)
    if standing.other_seats < policy.parameters.other_seats:
        needed = f"{policy.parameters.other_seats} seats of others"
        return Reason(Code.SEATS, needed, f"{standing.other_seats} seats", lasting=False)
    claims = claims_of(policy, order, price_at(order, block))
    if claims.stake > (free := standing.stake - promised.stake):
        return Reason(Code.STAKE, f"{claims.stake} wei", f"{free} wei", lasting=False)
    if claims.stake > (free := standing.stake_cap - standing.locked - promised.stake):
        return Reason(Code.STAKE_CAP, f"{claims.stake} wei", f"{free} wei", lasting=False)
    return refuse_deposit(standing, claims.collateral, promised)


def refuse_deposit(standing: Standing, amount: int, promised: Claims) -> Reason | None:
    """Why this much of the balance cannot be held as collateral, or as the bond of an answer."""
    if amount > (free := standing.balance - promised.collateral):
        return Reason(Code.COLLATERAL, f"{amount} wei", f"{free} wei", lasting=False)
    if amount > (free := standing.cap - standing.collateral - promised.collateral):
        return Reason(Code.CAP, f"{amount} wei", f"{free} wei", lasting=False)
    return None


def refuse_price(
    policy: Policy, order: Order, standing: Standing, needs: Needs, compiling: float = 0.0
) -> Reason | None:
    """Why the price is too low at this head, for the execution and for so many seconds of compiling. It lasts if the
    order's highest is, were gas for nothing."""
    conditions, price = policy.conditions(needs, standing.gas_price, compiling), price_at(order, standing.block + 1)
    if _pays(policy, order, conditions, price):
        return None
    least = price_policy(policy.pricing, policy.parameters, order, conditions)
    needed = "a price that bears what it locks: there is none" if least is None else f"{readable(least.price)} wei"
    lasting = not _pays(policy, order, replace(conditions, gas_price=0), order.max_price)
    return Reason(Code.PRICE, needed, f"{order.max_price if lasting else price} wei", lasting)


def _pays(policy: Policy, order: Order, conditions: Conditions, price: int) -> bool:
    costs = task_costs(policy.pricing, policy.parameters, order, conditions, price)
    return price >= asking(policy.pricing, costs)


def refuse_check(
    policy: Policy, order: Order, standing: Standing, needs: Needs, price: int, blocks: int, compiling: float = 0.0
) -> Reason | None:
    """Why a check of what was accepted at `price` is not worth its fee, or cannot be done in the `blocks` that are left
    for the answer, with so many seconds of compiling."""
    if (no := refuse_compiling(policy, compiling)) is not None:
        return no
    conditions = policy.conditions(needs, standing.gas_price, compiling)
    costs = check_costs(policy.pricing, policy.parameters, order, conditions, price)
    if (asked := asking(policy.pricing, costs)) > order.check_fee:
        return Reason(Code.PRICE, f"{readable(asked)} wei", f"{order.check_fee} wei")
    if (needed := policy.blocks(needs) + policy.in_blocks(compiling) + policy.reserve) > blocks:
        return Reason(Code.EXEC, f"{needed} blocks", f"{blocks} blocks")
    return refuse_size(policy, needs)
