"""Which terms give a wanted security, and for what price: check rate and verifiers, value at risk, margin, windows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from eigentensor.economics import terms
from eigentensor.economics.expected import Expectation, worst_cheat
from eigentensor.economics.situation import Situation, wei
from eigentensor.economics.terms import WAD, Parameters

YEAR = 365.25 * 24 * 3600
MOST_VERIFIERS = 4
#: Check rates among which terms are chosen, in percent.
RATES = (1, 2, 3, 5, 7, 10, 15, 20, 25, 30, 40, 50, 60, 75, 100)
#: Moves of one player in the longest game, and blocks in which one is mined.
MOVES, BLOCKS_PER_MOVE = 9, 2
#: How far back EIP-2935 tells the hash of a block.
HISTORY = 8_191


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """What locked stake and collateral cost: what they could earn elsewhere in a year, as a part of them."""

    interest: float = 0.03
    block_seconds: float = 12.0

    def cost(self, x: Situation, exec_: int) -> float:
        """Of one task, in tokens."""
        return self.of(x.amounts.s + x.amounts.K, terms.lifetime(x.parameters, exec_))

    def of(self, locked: float, blocks: int) -> float:
        """Of so many tokens for so many blocks, in tokens."""
        seconds = blocks * self.block_seconds
        return locked * self.interest * seconds / YEAR


@dataclass(frozen=True, slots=True)
class TunedTerms:
    """Terms under which every lie loses what was wanted. `value_at_risk` is what the order has to name for it;
    `margin` the market's, if the order named the gain alone, or None where no margin does it."""

    situation: Situation
    cheat: str
    loses: float
    margin: float | None
    checks: float  # fees that the client pays, on average
    lock: float  # cost of what the executor locks, which its price has to bear

    @property
    def overhead(self) -> float:
        """What security costs a task in tokens, beside its price."""
        return self.checks + self.lock


def rates(p: Parameters) -> list[float]:
    """The check rates among which terms are chosen that a market takes."""
    return [percent / 100 for percent in RATES if percent * WAD >= 100 * p.check_floor]


def tune(
    x: Situation, security: float, *, exec_: int, lock: Lock, rates: Sequence[float], most_stake: float = float("inf")
) -> list[TunedTerms]:
    """For each check rate and number of verifiers what makes the best lie lose `security` tokens, cheapest first. Empty
    where none does it with `most_stake`."""
    choices = []
    for rate in rates:
        for n in range(1, MOST_VERIFIERS + 1):
            order = replace(x, rate=rate, verifiers=n, value_at_risk=x.gain, stake=None)
            choice = _choose(order, security, exec_, lock, most_stake)
            choices += [choice] if choice else []
    return sorted(choices, key=lambda choice: choice.overhead)


def _choose(x: Situation, security: float, exec_: int, lock: Lock, most: float) -> TunedTerms | None:
    needed = needed_stake(x, security)
    risk = None if needed is None or needed > most else value_at_risk(x, needed)
    if needed is None or risk is None:
        return None
    chosen = replace(x, value_at_risk=risk)
    cheat, value = worst_cheat(chosen)
    checks = Expectation(chosen, 0.0)
    fees = checks.drawn(checks.mean(own=False)) * chosen.amounts.v
    return TunedTerms(chosen, cheat.name, -value, margin(x, needed), fees, lock.cost(chosen, exec_))


def needed_stake(x: Situation, security: float) -> float | None:
    """The least stake, in tokens, with which the best lie loses `security`; None where no stake does it, as for
    coalitions that nobody sees. More stake never makes a lie better."""

    def safe(stake: float) -> bool:
        return worst_cheat(replace(x, stake=stake))[1] <= -security

    return least_stake(safe, x.price + x.gain + security)


def least_stake(safe: Callable[[float], bool], scale: float) -> float | None:
    """The least stake, in tokens, that is safe, where more never is less so; None where a million times `scale` is
    not."""
    if safe(0.0):
        return 0.0
    high = scale
    # Grown until it is safe, then halved: there is one border.
    while not safe(high):
        high *= 4
        if high > 1e6 * scale:
            return None
    low = 0.0
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if safe(middle) else (middle, high)
    return high


def value_at_risk(x: Situation, stake: float) -> float | None:
    """The least X, not below what the situation names, for which the market locks `stake`; None where no X does."""
    if x.amounts.s >= stake:
        return x.value_at_risk
    slope = _stake_per_token(x)
    return max(x.value_at_risk, stake / slope - x.price) if slope else None


def margin(x: Situation, stake: float) -> float | None:
    """The market's margin with which an order that names only the gain locks `stake`."""
    slope = _stake_per_token(x) * WAD / x.parameters.stake_margin
    return max(1.0, stake / (slope * (x.price + x.gain))) if slope else None


def _stake_per_token(x: Situation) -> float:
    """2·margin·(1 − a)/a: stake for each token of P + X."""
    a = terms.detection(wei(x.rate), x.verifiers, x.parameters.sybils) / WAD
    return 2 * x.parameters.stake_margin / WAD * (1 - a) / a


@dataclass(frozen=True, slots=True)
class Windows:
    """`parameters` with windows that bear it if anybody is kept from the chain for a while; `lifetime` is END − accept,
    and `delay` what it has to fit, in blocks."""

    parameters: Parameters
    lifetime: int
    delay: int

    @property
    def fits(self) -> bool:
        """Whether EigenLayer's delay and the chain's memory of block hashes bear these windows."""
        return self.lifetime <= self.delay and self.parameters.record <= HISTORY


def windows(p: Parameters, exec_: int, censored: int, delay: int) -> Windows:
    """Every window as short as that allows; lag and grid stay. `delay` is the shorter one of EigenLayer's."""
    fitted = replace(
        p, max_exec=exec_, record=censored, check=censored, reveal=censored, challenge=censored, margin=censored,
        clock=censored + MOVES * BLOCKS_PER_MOVE,
    )  # fmt: skip
    return Windows(fitted, terms.lifetime(fitted, exec_), delay)


def longest_censorship(p: Parameters, exec_: int, delay: int) -> int | None:
    """The most blocks for which anybody may be kept from the chain without harm; None where not even one fits."""
    low, high = 0, delay
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if windows(p, exec_, middle, delay).fits else (low, middle - 1)
    return low or None
