"""What a task costs an operator, and what it asks for it: pure, in whole wei, rounded up.

An operator decides by it, and publishes what it reckons with; a client computes by it what an operator would ask.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from eigentensor.economics import terms
from eigentensor.economics.terms import GAS_ACCEPT, GAS_ANSWER, GAS_COMMIT, GAS_DEFEND, WAD, Parameters
from eigentensor.wire import Object, Rate, Size, Wei, read

YEAR = 31_557_600  # seconds
HIGHEST = 1 << 96  # no price is as high
_ROUNDS = 500
_LARGEST = 1e18  # of a rate that is published, and of its inverse
_URL = 256  # characters of the longest URL
_DIGITS = 3  # of a price that is published


class Priced(Protocol):
    """What of an order an operator's price depends on."""

    @property
    def value_at_risk(self) -> int:
        """Wei that a wrong result could gain its executor beyond the price."""
        ...

    @property
    def check_rate(self) -> int:
        """How probably the task is drawn for a check, in WAD."""
        ...

    @property
    def verifiers(self) -> int:
        """How many others re-execute a task that is drawn."""
        ...

    @property
    def check_fee(self) -> int:
        """Wei for each of them."""
        ...

    @property
    def exec(self) -> int:
        """Blocks that the executor has for its commit."""
        ...


@dataclass(frozen=True, slots=True)
class Pricing(Object):
    """What an operator reckons with: amounts in wei of the market's token, rates in WAD (10¹⁸ is 1)."""

    min_price: Wei = 0
    """Wei that a task must pay, whatever it costs."""
    price_per_hour: Wei = 0
    """Wei that an hour of the machine has to bring."""
    margin: Rate = 0
    """What is asked beyond the costs, as a part of them."""
    interest: Rate = 0
    """What locked tokens cost a year, as a part of them."""
    disputed: Rate = 0
    """The part of right results that somebody challenges."""
    coin_price: Wei = WAD
    """Wei of the token for one of the chain's coins, which pays for gas."""


@dataclass(frozen=True, slots=True)
class Speed(Object):
    """How fast an operator expects its machine to be."""

    operations_per_second: float
    """Ordinary instruction evaluations."""
    bytes_per_second: float
    """Bytes of buffers that are read, moved and written."""
    startup_seconds: float
    """Of an execution, before it computes."""

    def seconds(self, operations: int, memory: int) -> float:
        """In which an execution of so many evaluations and bytes is expected to end."""
        return self.startup_seconds + operations / self.operations_per_second + memory / self.bytes_per_second


@dataclass(frozen=True, slots=True)
class Ask(Object):
    """What an operator publishes of how it makes its prices."""

    pricing: Pricing
    """Amounts and rates that it reckons with."""
    speed: Speed
    """How fast its machine is."""
    block_seconds: float
    """Seconds from block to block, as it expects them."""
    reserve: Size
    """Blocks of an order's `exec` that it keeps for transactions."""
    calls: str = ""
    """The URL at which it serves paid calls; empty: it serves none."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Reads what `to_json` wrote. Raises ValueError, TypeError or KeyError for anything else."""
        ask = cls(**read(cls, values))
        if len(ask.calls) > _URL:
            raise ValueError("calls is too long")
        speed = ask.speed
        _check(speed.operations_per_second, speed.bytes_per_second, ask.block_seconds, least=1 / _LARGEST)
        _check(speed.startup_seconds, least=0)
        return ask

    def in_blocks(self, seconds: float) -> int:
        """Seconds in blocks, rounded up."""
        return math.ceil(seconds / self.block_seconds)

    def conditions(self, seconds: float, gas_price: int) -> "Conditions":
        """Under which it takes a task that keeps the machine for so long, while a unit of gas costs so many wei."""
        return Conditions(seconds, gas_price, self.block_seconds)


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which a task is taken: how long it computes, what a unit of gas costs (wei of the coin), how fast blocks
    come."""

    seconds: float
    gas_price: int
    block_seconds: float


@dataclass(frozen=True, slots=True)
class Costs(Object):
    """What one task costs, or one check, in wei of the market's token."""

    computing: Wei
    """Of the machine."""
    gas: Wei
    """Of its messages."""
    games: Wei
    """Of games about right results, on average."""
    lock: Wei
    """Of what it locks."""

    @property
    def total(self) -> int:
        """All of them, in wei."""
        return self.computing + self.gas + self.games + self.lock


@dataclass(frozen=True, slots=True)
class Quote:
    """The least price, in wei, and the costs that it bears."""

    price: int
    costs: Costs


def price_policy(r: Pricing, p: Parameters, order: Priced, c: Conditions) -> Quote | None:
    """The least price for which an operator takes an order under conditions `c`; None: there is none.

    P = max(min_price, (1 + margin)·(computing + gas + games + lock(P))), the least fixed point, where
      computing = price_per_hour · seconds / 3600
      gas       = (accept + commit + reveal)·g                g: a unit of gas in tokens; contracts/README.md, "Gas"
      games     = disputed · max(0, longest game·g + computing − G_DEF)
      lock(P)   = interest · (END − accept) / year · (s(P) + K(P))
    What a lost challenge pays its executor is G_DEF + 2P ("Who pays whom"); 2P is left out, so that the costs of a
    right result grow with P. s and K are locked for END − accept at most, by the formulas of `economics.terms`. A seed
    that nobody else records and a task that nobody else ends cost gas that is not reckoned with.
    """
    price = r.min_price
    for _ in range(_ROUNDS):
        costs = task_costs(r, p, order, c, price)
        asked = asking(r, costs)
        if asked <= price:
            return Quote(price, costs)
        if asked >= HIGHEST:
            return None
        price = asked
    return None


def asking(r: Pricing, costs: Costs) -> int:
    """What is asked where these are the costs."""
    return max(r.min_price, _ceil(costs.total * (WAD + r.margin), WAD))


def task_costs(r: Pricing, p: Parameters, order: Priced, c: Conditions, price: int) -> Costs:
    """What it costs to execute an order right, accepted at `price`."""
    computing, gas = _computing(r, c), _gas(r, c, GAS_ACCEPT + GAS_COMMIT)
    game = max(0, _gas(r, c, GAS_DEFEND) + computing - p.g_def)
    held = terms.stake(p, price, order.value_at_risk, order.check_rate, order.verifiers)
    held += terms.collateral(p, price, order.verifiers, order.check_fee)
    return Costs(computing, gas, _ceil(game * r.disputed, WAD), _lock(r, c, terms.lifetime(p, order.exec), held))


def check_costs(r: Pricing, p: Parameters, order: Priced, c: Conditions, price: int) -> Costs:
    """What it costs to check an order that was accepted at `price`: answer, reveal and settle, and the bond."""
    lock = _lock(r, c, terms.lifetime(p, order.exec), terms.bond(p, price))
    return Costs(_computing(r, c), _gas(r, c, GAS_ANSWER), 0, lock)


def readable(amount: int) -> int:
    """The next higher amount of few digits."""
    unit: int = 10 ** max(0, len(str(amount)) - _DIGITS)
    return -(-amount // unit) * unit


def _computing(r: Pricing, c: Conditions) -> int:
    return _ceil(r.price_per_hour * math.ceil(c.seconds * 1e9), 3600 * 10**9)


def _gas(r: Pricing, c: Conditions, gas: int) -> int:
    return _ceil(gas * c.gas_price * r.coin_price, WAD)


def _lock(r: Pricing, c: Conditions, blocks: int, held: int) -> int:
    milliseconds = blocks * math.ceil(c.block_seconds * 1000)
    return _ceil(held * r.interest * milliseconds, WAD * YEAR * 1000)


def _check(*numbers: object, least: float) -> None:
    for number in numbers:
        if not isinstance(number, int | float) or isinstance(number, bool) or not least <= number <= _LARGEST:
            raise ValueError(f"{number!r:.80} is not a number from {least} to {_LARGEST}")


def _ceil(whole: int, parts: int) -> int:
    return -(-whole // parts)
