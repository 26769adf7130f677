"""Which offers of paid calls give a wanted security, and for what price: check rate, verifiers, and what all deals may
put at risk."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eigentensor.economics import shares, terms
from eigentensor.economics.situation import wei
from eigentensor.economics.terms import WAD
from eigentensor.economics.tuning import MOST_VERIFIERS, Lock, least_stake
from eigentensor_economics.batches import BatchSituation
from eigentensor_economics.lies import Expectation, Way


@dataclass(frozen=True, slots=True)
class TunedOffer:
    """Terms under which every lie loses what was wanted; `situation.risk_all` is what the offer has to name for it.
    `checks` and `lock` are tokens a call: fees, and what stake and collateral cost that a batch locks."""

    situation: BatchSituation
    way: str
    wrong: int
    loses: float
    checks: float
    lock: float

    @property
    def overhead(self) -> float:
        """What security costs a call, in tokens, beside computing."""
        return self.checks + self.lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Blocks of an offer: of an execution, of a batch from its begin to its last commit."""

    exec: int
    epoch: int


def tune_offer(
    x: BatchSituation, security: float, ways: Sequence[Way], *, times: Times, lock: Lock, rates: Sequence[float],
    most_stake: float = float("inf"),
) -> list[TunedOffer]:  # fmt: skip
    """For each check rate that bears so many calls, and each number of verifiers, what makes the best of all lies lose
    `security` tokens, cheapest first. Empty where none does it with `most_stake`."""
    offers = []
    for rate in rates:
        for n in range(1, MOST_VERIFIERS + 1):
            if x.calls > shares.capacity(wei(rate), n):
                continue
            offer = _choose(replace(x, rate=rate, verifiers=n, stake=None), security, ways, times, lock, most_stake)
            offers += [offer] if offer else []
    return sorted(offers, key=lambda offer: offer.overhead)


def _choose(
    x: BatchSituation, security: float, ways: Sequence[Way], times: Times, lock: Lock, most: float
) -> TunedOffer | None:
    e = Expectation(x)
    needed = least_stake(lambda stake: e.best(ways, stake)[2] <= -security, x.calls * x.price + x.gain + security)
    if needed is None or max(needed, x.amounts.s) > most:
        return None
    chosen = replace(x, risk_all=all_at_risk(x, needed))
    m = chosen.amounts
    way, wrong, value = e.best(ways, m.s)
    locked = lock.of(m.s + m.K, shares.lifetime(x.parameters, times.exec, times.epoch))
    return TunedOffer(chosen, way.name, wrong, -value, m.count * m.v / x.calls, locked / x.calls)


def all_at_risk(x: BatchSituation, stake: float) -> float:
    """The least ΣX̄, in tokens, not below what the situation names, for which the market locks `stake`."""
    p = x.parameters
    per_token = 2 * p.stake_margin / terms.detection(WAD, x.verifiers, p.sybils)
    named = x.all_at_risk
    without = replace(x, parameters=replace(p, min_stake=0), stake=None).amounts.s
    return named + max(0.0, stake - without) / per_token if x.amounts.s < stake else named
