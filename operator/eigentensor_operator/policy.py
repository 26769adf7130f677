"""Which orders an operator takes: pure, and every no has a reason that can be published."""

import math
from dataclasses import dataclass
from enum import StrEnum

from eigentensor import economics
from eigentensor.chain import NONE, Order
from eigentensor.economics import Parameters

SEMANTICS = 1


class Code(StrEnum):
    """Why a task is not taken, or not finished. The names are published and label metrics."""

    SEMANTICS = "semantics"
    CHECKS = "checks"
    ADMISSION = "admission"
    DEADLINE = "deadline"
    EXEC = "exec"
    PRICE = "price"
    LIFETIME = "lifetime"
    MEMBERSHIP = "membership"
    COLLATERAL = "collateral"
    CAP = "cap"
    BUSY = "busy"
    DRAINING = "draining"
    DEVICE = "device"
    DATA = "data"
    PROGRAM = "program"
    BINDINGS = "bindings"
    WORK = "work"
    MEMORY = "memory"
    EXECUTION = "execution"
    LATE = "late"
    SEAL = "seal"
    CHAIN = "chain"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why not: what it would take, and what there is. `lasting` where waiting cannot change it."""

    code: Code
    needed: str
    offered: str
    lasting: bool = True


@dataclass(frozen=True, slots=True)
class Needs:
    """What one execution of a task takes: instruction evaluations and bytes of memory, repeats included."""

    operations: int
    memory: int


@dataclass(frozen=True, slots=True)
class Policy:
    """An operator's terms and the machine's measured abilities. Prices are wei, times are blocks unless named."""

    operator: str
    parameters: Parameters
    min_price: int = 0
    price_per_giga: int = 0  # wei for 10^9 instruction evaluations
    max_operations: int = 10**15
    max_memory: int = 8 << 30
    capacity: int = 4  # tasks accepted and not yet committed
    operations_per_second: float = 1e9
    startup_seconds: float = 0.0  # of an execution, before it computes
    block_seconds: float = 12.0
    reserve: int = 3  # blocks of `exec` that are kept for transactions
    patience: int = 2  # blocks in which others may close or fail a task first
    keep: int = 64  # blocks after which no reorg is expected
    alone: bytes = NONE  # root of the list that admits this operator and nobody else

    def price(self, needs: Needs) -> int:
        """The least that the operator asks for."""
        return max(self.min_price, -(-needs.operations * self.price_per_giga // 10**9))

    def blocks(self, needs: Needs) -> int:
        """Blocks in which an execution is expected to end, transactions not counted."""
        return math.ceil((self.startup_seconds + needs.operations / self.operations_per_second) / self.block_seconds)


@dataclass(frozen=True, slots=True)
class Standing:
    """What the chain says of this operator at the head `block`: money in wei, the stake's `delay` in blocks."""

    block: int
    balance: int
    collateral: int
    cap: int
    delay: int
    member: bool


def price_at(order: Order, block: int) -> int:
    return economics.price(order.min_price, order.max_price, order.ramp_start, order.ramp_length, block)


def refuse_order(policy: Policy, order: Order) -> Reason | None:
    """Why the order can never suit this operator, from its terms alone: before anything is downloaded."""
    if order.semantics != SEMANTICS:
        return Reason(Code.SEMANTICS, str(order.semantics), str(SEMANTICS))
    if order.check_rate or order.verifiers:
        return Reason(Code.CHECKS, f"rate {order.check_rate}, {order.verifiers} verifiers", "no checks")
    if order.operators not in (NONE, policy.alone):  # the market asks for a proof, and other lists are not published
        return Reason(Code.ADMISSION, "an order for everybody, or for this operator alone", order.operators.hex())
    if order.max_price < policy.min_price:
        return Reason(Code.PRICE, f"{policy.min_price} wei", f"{order.max_price} wei")
    if order.exec <= policy.reserve:
        return Reason(Code.EXEC, f"{policy.reserve + 1} blocks", f"{order.exec} blocks")
    return None


def refuse_needs(policy: Policy, order: Order, needs: Needs) -> Reason | None:
    """Why the work can never suit this operator: known once the program is."""
    if needs.operations > policy.max_operations:
        return Reason(Code.WORK, f"{needs.operations} operations", f"{policy.max_operations} operations")
    if needs.memory > policy.max_memory:
        return Reason(Code.MEMORY, f"{needs.memory} bytes", f"{policy.max_memory} bytes")
    if policy.price(needs) > order.max_price:
        return Reason(Code.PRICE, f"{policy.price(needs)} wei", f"{order.max_price} wei")
    if policy.blocks(needs) + policy.reserve > order.exec:
        return Reason(Code.EXEC, f"{policy.blocks(needs) + policy.reserve} blocks", f"{order.exec} blocks")
    return None


def refuse_now(policy: Policy, order: Order, standing: Standing, promised: int) -> Reason | None:
    """Why the task cannot be taken at this head. `promised` is collateral that acceptances on their way will hold."""
    block = standing.block + 1  # the earliest that a transaction can be in
    if block > order.accept_by:
        return Reason(Code.DEADLINE, f"acceptance in block {order.accept_by}", f"block {block}")
    if not standing.member:
        return Reason(Code.MEMBERSHIP, "a member of the operator set", "not a member", lasting=False)
    lifetime = economics.lifetime(policy.parameters, order.exec)
    if lifetime > standing.delay:
        return Reason(Code.LIFETIME, f"stake for {lifetime} blocks", f"{standing.delay} blocks", lasting=False)
    collateral = economics.collateral(policy.parameters, price_at(order, block))
    if collateral > standing.balance - promised:
        free = standing.balance - promised
        return Reason(Code.COLLATERAL, f"{collateral} wei", f"{free} wei", lasting=False)
    if standing.collateral + promised + collateral > standing.cap:
        free = standing.cap - standing.collateral - promised
        return Reason(Code.CAP, f"{collateral} wei", f"{free} wei", lasting=False)
    return None


def refuse_price(policy: Policy, order: Order, standing: Standing, needs: Needs) -> Reason | None:
    """Why the price is too low at this head, though it may rise."""
    price = price_at(order, standing.block + 1)
    if price < policy.price(needs):
        return Reason(Code.PRICE, f"{policy.price(needs)} wei", f"{price} wei", lasting=False)
    return None
