"""What `economics` tells. Amounts are tokens and rates fractions, both floats."""

from typing import Literal

from typing_extensions import TypedDict

from eigentensor.texts import documented


@documented
class Situation(TypedDict):
    """A task, and what is assumed of those around it."""

    price: float
    """What the executor is paid."""
    gain: float
    """What a wrong result gains its executor."""
    value_at_risk: float
    """The gain that the order reckons with."""
    cost: float
    """What computing it costs."""
    rate: float
    """How probably others re-execute it."""
    verifiers: int
    """How many re-execute a task that is drawn."""
    share: float
    """The part of all seats that belong to one coalition."""
    diligence: float
    """The part of the other seats that execute if drawn."""
    watch: float
    """How probably somebody without a drawn seat executes it, too."""
    gas_price: float
    """What a unit of gas costs."""
    stake: float
    """What a conviction takes of the executor's stake."""
    reward: float
    """What a conviction brings the challenger."""
    collateral: float
    """What the executor puts down."""
    bond: float
    """What a challenger puts down."""
    penalty: float
    """What an executor without a result loses."""
    check_fee: float
    """What a verifier is paid."""


@documented
class SimulatedAgent(TypedDict):
    """What an agent earned on average for a task."""

    agent: str
    """Its name."""
    party: str
    """Whose part it plays."""
    does: str
    """What it does, in words."""
    payoff: float
    """The mean over its tasks."""
    low: float
    """The lower end of the 99 % interval of that."""
    high: float
    """The upper end."""
    expected: float | None
    """The same in closed form; null for mixtures."""
    honest: float
    """What honesty would have earned."""
    verdict: str
    """Whether it pays not to be honest, in words."""
    tasks: int
    """How many tasks it lived."""
    seed: int
    """The seed of its chances."""
    rates: dict[str, float]
    """How often what happened, as parts of all tasks."""
    payoffs: dict[str, float]
    """What each party earned on average."""


@documented
class Simulation(TypedDict):
    """`eigentensor.economics-simulation/1`: what agents earn in a situation."""

    schema: Literal["eigentensor.economics-simulation/1"]
    """Says what this object is."""
    situation: Situation
    """What was assumed."""
    agents: list[SimulatedAgent]
    """What came of it."""


@documented
class PayoffRow(TypedDict):
    """A row of the payoff matrix."""

    strategy: str
    """What the node does."""
    scenario: str
    """What happens."""
    probability: float
    """How probably, given the strategy."""
    payoff: float
    """What it pays then."""


@documented
class PayoffMatrix(TypedDict):
    """`eigentensor.economics-payoffs/1`: the payoff matrix of the first EigenTensor, and where honesty is as good."""

    schema: Literal["eigentensor.economics-payoffs/1"]
    """Says what this object is."""
    rows: list[PayoffRow]
    """The matrix."""
    honest: float
    """What honesty pays on average."""
    dishonest: float
    """What cheating pays on average."""
    minimum_stake: float | None
    """The least stake with which honesty pays more; null: none does it."""
    maximum_stake: float | None
    """The greatest stake with which honesty pays at all; null: there is no limit."""
    break_even_check: float | None
    """The check rate at which both pay the same; null: none does it."""
    break_even_caught: float | None
    """How probably a checked cheat must be caught; null: nothing does it."""
    break_even_collusion: float | None
    """How probably checkers may slash the honest; null: nothing does it."""


@documented
class TunedTerms(Situation):
    """Terms by which every lie loses enough, with the situation that they are for."""

    cheat: str
    """The best way to lie."""
    loses: float
    """What that loses."""
    margin: float | None
    """The market's margin with which an order that names the gain alone would do; null: none does it."""
    checks: float
    """What checks cost on average."""
    lock: float
    """What it costs to lock stake and collateral."""


@documented
class Interests(TypedDict):
    """What a party has of one task, in words."""

    earns: str
    """What it earns."""
    risks: str
    """What it can lose."""


@documented
class TuningWindows(TypedDict):
    """The market's windows, in blocks."""

    lifetime: int
    """From an acceptance to the end of what can follow."""
    delay: int
    """For how long EigenLayer keeps stake slashable."""
    censored: int
    """For how many blocks nobody's messages may matter."""
    clock: int
    """What a side has for all moves of a game."""


@documented
class EconomicsTuning(TypedDict):
    """`eigentensor.economics-tuning/1`: terms for a wanted security."""

    schema: Literal["eigentensor.economics-tuning/1"]
    """Says what this object is."""
    security: float
    """What every lie shall lose."""
    choices: list[TunedTerms]
    """Terms by which it does, the cheapest first."""
    parties: dict[str, Interests]
    """What each party has of the cheapest ones."""
    windows: TuningWindows
    """Windows that outlast censorship."""


@documented
class AssumedBatch(TypedDict):
    """A batch of paid calls, and what is assumed of those around it."""

    price: float
    """What a call costs."""
    check_price: float
    """What checking a call pays."""
    calls: int
    """How many calls it has."""
    channels: int
    """Over how many channels they are spread."""
    rate: float
    """How probably a call is checked."""
    verifiers: int
    """Among how many the checked calls are divided."""
    gain: float
    """What wrong results gain their operator at once in each channel that has one."""
    value_at_risk: float
    """The gain that each deal reckons with."""
    all_at_risk: float
    """The gain that the offer reckons with, of all its deals."""
    cost: float
    """What computing a call costs."""
    share: float
    """The part of all seats that belong to the operator's coalition."""
    diligence: float
    """The part of the other seats that execute if drawn."""
    watch: float
    """How probably somebody without a drawn seat executes a wrong call, too."""
    checked: int
    """How many calls are checked."""
    shares: int
    """Into how many shares these are divided."""
    stake: float
    """What a conviction takes of the operator's stake."""
    reward: float
    """What a conviction brings the challenger."""
    collateral: float
    """What the operator puts down."""
    bond: float
    """What a challenger puts down."""
    check_fee: float
    """What the verifier of a share is paid."""


@documented
class SimulatedLie(TypedDict):
    """So many wrong calls in a batch, in one way."""

    way: str
    """Its name."""
    does: str
    """What it does, in words."""
    wrong: int
    """How many calls are wrong."""
    seen: float
    """In which part of the batches a drawn stranger saw one."""
    expected_seen: float
    """The same in closed form."""
    brings: float
    """The mean of what it brought more than right results would have."""
    low: float
    """The lower end of the 99 % interval of that."""
    high: float
    """The upper end."""
    expected: float
    """The same in closed form."""
    pays_from: float | None
    """The share of the seats from which on it pays; 0: with none; null: never."""
    verdict: str
    """Whether it pays, in words."""


@documented
class Lies(TypedDict):
    """`eigentensor.economics-lies/1`: what wrong results of paid calls bring."""

    schema: Literal["eigentensor.economics-lies/1"]
    """Says what this object is."""
    batch: AssumedBatch
    """What was assumed."""
    batches: int
    """How many batches were drawn."""
    seed: int
    """The seed of their chances."""
    lies: list[SimulatedLie]
    """What came of it."""


@documented
class TunedOffer(AssumedBatch):
    """An offer under which every lie loses enough, with the batch that it is for."""

    way: str
    """The best way to lie."""
    wrong: int
    """With so many wrong calls."""
    loses: float
    """What that loses a batch."""
    checks: float
    """What checks cost a call."""
    lock: float
    """What it costs a call to lock stake and collateral."""


@documented
class TunedOffers(TypedDict):
    """`eigentensor.economics-offers/1`: offers of paid calls for a wanted security."""

    schema: Literal["eigentensor.economics-offers/1"]
    """Says what this object is."""
    security: float
    """What every lie shall lose."""
    lifetime: int
    """For how many blocks a batch locks its stake."""
    offers: list[TunedOffer]
    """Offers under which it does, the cheapest first."""


@documented
class Plots(TypedDict):
    """`eigentensor.economics-plots/1`: pictures that were drawn."""

    schema: Literal["eigentensor.economics-plots/1"]
    """Says what this object is."""
    files: dict[str, str]
    """Where each is, by its name."""
