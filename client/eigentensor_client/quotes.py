"""What operators would ask for an order, by what they publish, and where its price begins then. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from eigentensor import economics, merkle
from eigentensor.addresses import is_address
from eigentensor.economics import Parameters
from eigentensor.economics.pricing import Ask, price_policy, readable
from eigentensor.program.cost import compile_seconds, needs_of
from eigentensor.program.model import Program
from eigentensor.task.order import NONE, Order
from eigentensor_client.offers import HOLD, RAMP, UNKNOWN

Operators = Sequence[Mapping[str, Any]]

HEADROOM = 4  # a quarter more than is asked: what gas becomes dearer by in two full blocks
FETCHING = 5.0  # seconds in which an operator should have what an order names, verified


class OperatorQuote(NamedTuple):
    """What one operator would ask, in wei, and in how many blocks it should be ready to accept."""

    price: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Market:
    """What operators publish of how they make their prices, by their addresses, and what a unit of gas costs, in wei of
    the chain's coin."""

    asks: Mapping[str, Ask]
    gas_price: int

    @classmethod
    def read(cls, operators: Operators | None, gas_price: int) -> Self:
        """Of the gateway's list of operators: members whose ask makes sense. None if the gateway did not answer."""
        members = [one for one in operators or () if one["member"] and is_address(one.get("operator"))]
        asks = {one["operator"]: _ask(one) for one in members}
        return cls({name: ask for name, ask in asks.items() if ask is not None}, gas_price)

    def quotes(self, order: Order, program: Program, p: Parameters) -> list[OperatorQuote]:
        """The lowest first: of operators whom the order admits, that would be in time, and have a price for it."""
        needs, compiling = needs_of(program, order.repeat), compile_seconds(program)
        quotes = []
        for name, ask in self.asks.items():
            seconds = ask.speed.seconds(needs.operations, needs.memory)
            if not _admits(order, name) or ask.in_blocks(seconds) + ask.reserve > order.exec:
                continue
            quote = price_policy(ask.pricing, p, order, ask.conditions(seconds + compiling, self.gas_price))
            if quote is not None:
                preparing = FETCHING + compiling + ask.speed.startup_seconds
                quotes.append(OperatorQuote(readable(quote.price), ask.in_blocks(preparing) + economics.LEAST_RESERVE))
        return sorted(quotes)


#: Where nobody publishes anything.
SILENT = Market({}, 0)


@dataclass(frozen=True, slots=True)
class Rise:
    """How a price goes: `first` wei for `hold` blocks, then for `ramp` blocks up to the most."""

    first: int
    hold: int
    ramp: int


def fair(quotes: Sequence[OperatorQuote], most: int, accept_within: int) -> Rise:
    """From a quarter above the lowest quote, held as long as its operator needs to be ready, soon up to the most. Where
    there is no quote the price rises at once from a small part of the most."""
    ramp = accept_within // RAMP
    if not quotes:
        return Rise(most // UNKNOWN, 0, ramp)
    lowest = quotes[0]
    first = min(most, readable(lowest.price + lowest.price // HEADROOM))
    return Rise(first, min(lowest.blocks, accept_within // HOLD), ramp)


def _ask(operator: Mapping[str, Any]) -> Ask | None:
    try:
        return Ask.from_json(operator["asks"])
    except (KeyError, TypeError, ValueError):  # nothing is published, or nonsense
        return None


def _admits(order: Order, operator: str) -> bool:
    """Whether the order is for everybody or for this operator alone; lists of several are not published."""
    return order.operators in (NONE, merkle.operators_root([bytes.fromhex(operator.removeprefix("0x"))]))
