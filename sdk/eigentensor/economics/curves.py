"""What pictures of the economics show, as numbers: the payoffs of honesty and of lies, and the security frontier."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from eigentensor.economics.agents import BRIBING, COLLUDING, CORNERED, HONEST, LAZY, Agent
from eigentensor.economics.expected import break_even, expected
from eigentensor.economics.situation import Situation
from eigentensor.economics.terms import WAD
from eigentensor.economics.tuning import needed_stake

#: Whose payoffs are drawn.
DRAWN = (HONEST, LAZY, COLLUDING, CORNERED, BRIBING)
VERIFIERS = (1, 2, 4)  #: numbers of verifiers on the frontier
_LEAST = 0.01  # the lowest check rate that is drawn, where a market takes any


@dataclass(frozen=True, slots=True)
class Curve:
    """A value for each x; None where there is none. `is_second` goes with the curve before it, of the same colour."""

    name: str
    values: tuple[float | None, ...]
    is_second: bool = False


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves over the same x."""

    title: str
    x: str
    y: str
    at: tuple[float, ...]
    curves: tuple[Curve, ...]


def payoffs_by_rate(x: Situation, points: int = 60) -> Curves:
    """What honesty and lies bring per task at each check rate, with the stake that the market locks for it."""
    rates = _even(_lowest(x), 1.0, points)
    title = f"Stake as the market locks it for X = {x.value_at_risk:g}"
    return Curves(title, "check rate α", "tokens per task", rates, _payoffs(rates, lambda a: replace(x, rate=a)))


def payoffs_by_stake(x: Situation, points: int = 60) -> Curves:
    """The same at the situation's check rate, at each stake, from a tenth of the price to four times what the market
    locks."""
    locked = replace(x, stake=None).amounts.s
    ratios = _growing(0.1, max(1.0, 4 * locked / x.price), points)
    title = f"Check rate α = {x.rate:g}"
    curves = _payoffs(ratios, lambda ratio: replace(x, stake=ratio * x.price))
    return Curves(title, "stake s / price P", "tokens per task", ratios, curves)


def stake_frontier(x: Situation, security: float, points: int = 25) -> Curves:
    """The stake with which the best lie loses `security` tokens at each check rate, and what the market locks; both in
    prices."""
    rates, curves = _even(_lowest(x), 1.0, points), list[Curve]()
    for n in VERIFIERS:
        orders = [replace(x, rate=rate, verifiers=n, stake=None) for rate in rates]
        needed = (needed_stake(order, security) for order in orders)
        curves.append(Curve(f"needed, n = {n}", tuple(_part(stake, x.price) for stake in needed)))
        locked = tuple(order.amounts.s / x.price for order in orders)
        curves.append(Curve(f"locked, n = {n}", locked, is_second=True))
    title = f"Stake with which the best lie loses {security:g}"
    return Curves(title, "check rate α", "stake s / price P", rates, tuple(curves))


def share_frontier(x: Situation, points: int = 25) -> Curves:
    """The share of the seats from which on lying pays at each check rate; None where it never does."""
    rates, curves = _even(_lowest(x), 1.0, points), list[Curve]()
    for n in VERIFIERS:
        orders = [replace(x, rate=rate, verifiers=n, stake=None) for rate in rates]
        for agent, is_second in ((COLLUDING, False), (BRIBING, True)):
            shares = (break_even(order, agent, "share", 0.0, 0.999) for order in orders)
            curves.append(Curve(f"{agent.name}, n = {n}", tuple(_part(share, 1) for share in shares), is_second))
    return Curves("Share of the seats from which lying pays", "check rate α", "share r", rates, tuple(curves))


def _payoffs(at: Sequence[float], order: Callable[[float], Situation]) -> tuple[Curve, ...]:
    def of(agent: Agent) -> Curve:
        return Curve(agent.name, tuple(expected(order(value), agent) for value in at))

    return tuple(map(of, DRAWN))


def _lowest(x: Situation) -> float:
    return max(_LEAST, x.parameters.check_floor / WAD)


def _even(low: float, high: float, points: int) -> tuple[float, ...]:
    return (*(low + (high - low) * n / (points - 1) for n in range(points - 1)), high)


def _growing(low: float, high: float, points: int) -> tuple[float, ...]:
    return tuple(low * (high / low) ** (n / (points - 1)) for n in range(points))


def _part(value: float | None, of: float) -> float | None:
    """Nothing is drawn where there is no value, or none is needed."""
    return value / of if value else None
