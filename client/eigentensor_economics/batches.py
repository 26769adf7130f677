"""One batch of paid calls in its world: what everybody who meets it can reckon with. Amounts are tokens, rates 0…1, as
floats."""

from dataclasses import dataclass

from eigentensor.economics import shares, terms
from eigentensor.economics.situation import wei
from eigentensor.economics.terms import Parameters

#: A wei, in tokens.
WEI = 1e-18


@dataclass(frozen=True, slots=True)
class BatchAmounts:
    """What the contracts fix for a batch, in tokens, by the letters of contracts/README.md; `k` calls are checked, in
    `count` shares."""

    v: float
    s: float
    W: float
    K: float
    B: float
    k: int
    count: int


@dataclass(frozen=True, slots=True)
class OfferTerms:
    """What stakes are sized by of an offer, as contracts have it: wei, and a rate in WAD."""

    max_price: int
    most: int
    risk_each: int
    risk_all: int
    check_rate: int
    verifiers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSituation:
    """`calls` at one price, spread evenly over `channels`, fill a batch: what they cost is the most that it may. `gain`
    is what wrong results bring their operator beyond the price at once, in each channel that has one, whatever its deal
    says; of `share`, `diligence` and `watch` see `Situation`."""

    parameters: Parameters
    price: float = 1.0
    check_price: float | None = None  # of each call that is checked; None: its price
    calls: int = 1_000
    channels: int = 1
    rate: float = 0.05
    verifiers: int = 4
    value_at_risk: float = 0.0  # of each deal, and the most that a deal may have
    risk_all: float | None = None  # the most that all deals may have; None: theirs
    stake: float | None = None  # None: what the market locks
    gain: float = 0.0
    cost: float = 0.6  # of executing a call once, whoever does it
    shortcut: float = 0.01  # of that cost, for something that looks like a result
    share: float = 1 / 3
    diligence: float = 1.0
    watch: float = 0.0

    @property
    def all_at_risk(self) -> float:
        """ΣX̄ of the offer, in tokens."""
        return self.channels * self.value_at_risk if self.risk_all is None else self.risk_all

    @property
    def amounts(self) -> BatchAmounts:
        """What the market fixes for this batch, by the formulas of `shares`, which round as the contract does."""
        p, price, rate = self.parameters, wei(self.price), wei(self.rate)
        k, count = shares.checked(self.calls, rate, self.verifiers), shares.shares(self.calls, self.verifiers)
        locked = self.stake
        if locked is None:
            risks = wei(self.value_at_risk), wei(self.all_at_risk)
            locked = shares.stake(p, OfferTerms(price, self.calls * price, *risks, rate, self.verifiers)) * WEI
        return BatchAmounts(
            v=shares.fee(p, price if self.check_price is None else wei(self.check_price), k, count) * WEI,
            s=locked,
            W=terms.reward(p, price) * WEI,
            K=shares.collateral(p, price, self.verifiers) * WEI,
            B=terms.bond(p, price) * WEI,
            k=k,
            count=count,
        )


def profiles(calls: int) -> list[int]:
    """How many calls of a batch a liar may have wrong, of what is looked at: 1, 2, 1 %, 10 %, all."""
    return sorted({min(number, calls) for number in (1, 2, -(-calls // 100), -(-calls // 10), calls)})


def spread(calls: int, wrong: int) -> list[int]:
    """The numbers of so many wrong calls in their batch, as far from each other as they can be: so they are seen least,
    since of calls that stand together one share has one at most."""
    return [number * calls // wrong for number in range(wrong)]
