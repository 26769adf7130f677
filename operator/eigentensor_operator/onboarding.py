"""From an account to an operator that may accept tasks: a plan of steps, each known to be done or to do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from eigentensor.chain import Chain, Reader, from_wei
from eigentensor.errors import InsufficientFunds

_NOBODY = "0x" + "00" * 20


@dataclass(frozen=True, slots=True)
class Goal:
    """What the owner wants to have: amounts in wei. `cap` is what the signer may hold as collateral at any time."""

    owner: str
    signer: str
    stake: int
    collateral: int
    cap: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What the chain says of the owner and the signer now, in wei."""

    is_operator: bool
    stake: int
    member: bool
    signer: str
    cap: int
    deposited: int
    tokens: int
    owner_gas: int
    signer_gas: int

    @classmethod
    def of(cls, chain: Reader, goal: Goal) -> "Facts":
        signer, cap = chain.signer_of(goal.owner)
        account = chain.balance_of(goal.owner)
        return cls(
            is_operator=chain.is_operator(goal.owner),
            stake=chain.stake_of(goal.owner),
            member=chain.is_member(goal.owner),
            signer=signer,
            cap=cap,
            deposited=account.balance + account.collateral,
            tokens=chain.tokens_of(goal.owner),
            owner_gas=chain.ether_of(goal.owner),
            signer_gas=chain.ether_of(goal.signer),
        )


class Part(StrEnum):
    OWNER_GAS = "gas of the owner"
    SIGNER_GAS = "gas of the signer"
    REGISTER = "operator of EigenLayer"
    STAKE = "stake"
    JOIN = "member of the operator set"
    SIGNER = "signer"
    COLLATERAL = "collateral"


@dataclass(frozen=True, slots=True)
class Item:
    """A line of the plan. `missing` wei of tokens are needed to do it."""

    part: Part
    done: bool
    detail: str
    missing: int = 0


def plan(facts: Facts, goal: Goal, symbol: str) -> tuple[Item, ...]:
    """All steps in order: pure."""

    def amount(wei: int) -> str:
        return f"{from_wei(wei)} {symbol}"

    stake, collateral = max(0, goal.stake - facts.stake), max(0, goal.collateral - facts.deposited)
    named = facts.signer.lower() == goal.signer.lower() and facts.cap == goal.cap
    current = "none" if facts.signer == _NOBODY else f"{facts.signer} with cap {amount(facts.cap)}"
    return (
        Item(Part.OWNER_GAS, facts.owner_gas > 0, f"{from_wei(facts.owner_gas)} ETH at {goal.owner}"),
        Item(Part.SIGNER_GAS, facts.signer_gas > 0, f"{from_wei(facts.signer_gas)} ETH at {goal.signer}"),
        Item(Part.REGISTER, facts.is_operator, goal.owner),
        Item(Part.STAKE, stake == 0, f"{amount(facts.stake)} of {amount(goal.stake)}", stake),
        Item(Part.JOIN, facts.member, goal.owner),
        Item(Part.SIGNER, named, f"{goal.signer} with cap {amount(goal.cap)}" + ("" if named else f"; now {current}")),
        Item(Part.COLLATERAL, collateral == 0, f"{amount(facts.deposited)} of {amount(goal.collateral)}", collateral),
    )


def check_funds(facts: Facts, items: tuple[Item, ...], symbol: str) -> None:
    """Raises InsufficientFunds before anything is spent, naming what is missing and where."""
    for item in items:
        if item.part in (Part.OWNER_GAS, Part.SIGNER_GAS) and not item.done:
            raise InsufficientFunds(f"no {item.part}: {item.detail}", fix="Send some ETH there, then run this again.")
    missing = sum(item.missing for item in items)
    if missing > facts.tokens:
        raise InsufficientFunds(
            f"the owner has {from_wei(facts.tokens)} {symbol}, {from_wei(missing)} are needed for stake and collateral",
            fix="Send the rest to the owner, then run this again; or ask for less with --stake and --collateral.",
        )


def carry_out(chain: Chain, goal: Goal) -> Iterator[Item]:
    """Does what is to do, and yields each item when the chain says that it is done. Interrupted, it is run again.

    Raises InsufficientFunds before anything is spent, ChainError, Reverted.
    """
    symbol = chain.deployment.token_symbol
    facts = Facts.of(chain, goal)
    items = plan(facts, goal, symbol)
    check_funds(facts, items, symbol)
    for number, item in enumerate(items):
        if not item.done:
            # The key names what is there and what is missing: after a crash the same step is the same intent.
            key = f"join {goal.owner} {item.part.name} {item.detail}"
            _doing(chain, goal, item.missing, key)[item.part]()
            yield plan(Facts.of(chain, goal), goal, symbol)[number]
        else:
            yield item


def _doing(chain: Chain, goal: Goal, missing: int, key: str) -> dict[Part, Callable[[], object]]:
    return {
        Part.REGISTER: chain.register_as_operator,
        Part.STAKE: lambda: chain.deposit_stake(missing, once=key),
        Part.JOIN: chain.join_operator_set,
        Part.SIGNER: lambda: chain.set_signer(goal.signer, goal.cap, once=key),
        Part.COLLATERAL: lambda: chain.deposit(goal.owner, missing, once=key),
    }
