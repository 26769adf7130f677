"""Amounts and rates as people read them."""

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

from eigentensor.chain import Deployment, units
from eigentensor.economics import WAD

if TYPE_CHECKING:
    from eigentensor.receipt import Market

#: Writes wei of one market for people.
Amount = Callable[[int], str]


def amount(wei: int, deployment: "Deployment | Market") -> str:
    """Wei of the market's token in whole tokens, with its symbol."""
    return f"{number(wei, deployment)} {deployment.token_symbol}"


def number(wei: int, deployment: "Deployment | Market") -> str:
    """Exact, unless nobody would read all of its digits."""
    return units.shown(wei, deployment.token_decimals)


def percent(rate: int) -> str:
    """A rate as people write it, without loss: `20 %`, `0.5 %`."""
    return f"{(Decimal(rate) * 100 / WAD).normalize():f} %"
