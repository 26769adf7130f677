"""One order in its world: what everybody who meets it can reckon with. Amounts are tokens, rates 0…1, as floats."""

from dataclasses import dataclass, replace

from eigentensor.economics import terms
from eigentensor.economics.terms import WAD, Parameters

#: The part of a slashed stake that is burned.
BURNED = 0.5
#: How many seats are drawn for each verifier that an order wants.
CANDIDATES = 16


@dataclass(frozen=True, slots=True)
class Amounts:
    """What the contracts fix at the acceptance, in tokens; the letters are those of contracts/README.md."""

    P: float
    v: float
    s: float
    W: float
    K: float
    B: float
    h: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """`gain` is what a wrong result that becomes final brings its executor beyond the price, whatever the order says.

    `share` of the seats belong to one coalition, if somebody uses it; `diligence` of the others execute when they are
    drawn, the rest stay silent; with probability `watch` somebody without a drawn seat executes the task, too.
    """

    parameters: Parameters
    price: float = 1.0
    rate: float = 0.2
    verifiers: int = 1
    value_at_risk: float = 0.0
    check_fee: float | None = None  # of each verifier; None: the least that the market takes
    stake: float | None = None  # None: what the market locks
    gain: float = 0.0
    cost: float = 0.6  # of executing once, whoever does it
    shortcut: float = 0.01  # of that cost, for something that looks like a result
    benefit: float = 2.0  # of a right result, to its client
    share: float = 1 / 3
    diligence: float = 1.0
    watch: float = 0.0
    outside: float = 0.5  # what else an executor could earn meanwhile, on average; exponentially distributed
    gas_price: float = 1e-9

    @property
    def amounts(self) -> Amounts:
        """What the market fixes for this order, by the formulas of `terms`, which round as the contract does."""
        p, price, rate = self.parameters, wei(self.price), wei(self.rate)
        fee = terms.check_fee_bound(p, price) if self.check_fee is None else wei(self.check_fee)
        locked = self.stake
        if locked is None:
            locked = terms.stake(p, price, wei(self.value_at_risk), rate, self.verifiers) / WAD
        return Amounts(
            P=price / WAD,
            v=fee / WAD,
            s=locked,
            W=terms.reward(p, price) / WAD,
            K=terms.collateral(p, price, self.verifiers, fee) / WAD,
            B=terms.bond(p, price) / WAD,
            h=terms.penalty(p, price) / WAD,
        )


def wei(amount: float) -> int:
    """Tokens, or a rate, in units of 10⁻¹⁸, as contracts count."""
    return round(amount * WAD)


#: On the stand-in of EigenLayer's core.
LOCAL = Parameters(
    max_exec=60, lag=2, grid=1, record=50, check=10, reveal=20, challenge=20, clock=60, margin=50,
    eta=WAD // 4, g_def=3 * WAD // 1000, g_miss=WAD // 1000, check_floor=WAD // 20, phi=WAD, sybils=WAD // 3,
    stake_margin=WAD * 5 // 4, min_stake=WAD // 100, g_chk=WAD // 1000, g_chunk=WAD // 10_000, other_seats=2,
    confirmations=2,
)  # fmt: skip


def mainnet(gas_price: int) -> Parameters:
    """With what gas costs, in wei, when the market is deployed."""
    return replace(
        LOCAL, max_exec=7_200, lag=128, grid=16, record=1_800, check=300, reveal=1_800, challenge=7_200, clock=7_200,
        margin=21_600, g_def=600_000 * gas_price, g_chk=350_000 * gas_price, g_miss=200_000 * gas_price,
        g_chunk=60_000 * gas_price, check_floor=WAD // 10, min_stake=WAD // 10, other_seats=20, confirmations=64,
    )  # fmt: skip
