"""What is wanted of the economics as words → a situation; and how what it says looks. Amounts are tokens."""

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, cast

from eigentensor.chain import Network
from eigentensor.chain.units import GWEI
from eigentensor.economics import Parameters
from eigentensor.economics.agents import AGENTS, Agent, mixture
from eigentensor.economics.expected import Expectation, baseline, expected
from eigentensor.economics.situation import LOCAL, Situation, mainnet
from eigentensor.economics.terms import GAS_CHALLENGE
from eigentensor.economics.tuning import TunedTerms, Windows
from eigentensor.economics.words import read_situation, read_tokens
from eigentensor.errors import BindingError
from eigentensor_client.screen import facts, table
from eigentensor_client.tables import Table
from eigentensor_economics.payoffs import Payoffs
from eigentensor_economics.simulation import Estimate

if TYPE_CHECKING:
    from eigentensor_economics import schemas
    from eigentensor_economics.options import Asked, World


def parameters_of(market: str, gas_price: str) -> Parameters:
    """Of the markets `local` and `mainnet`, as they are deployed when gas costs that; or of a network's own."""
    if market == "local":
        return LOCAL
    if market == "mainnet":
        return mainnet(round(read_tokens(gas_price) * GWEI))
    return Network.load(market).deployment.parameters


def situation_of(market: str, gain: str, world: "World", asked: "Asked | None" = None) -> Situation:
    """From a verb's options; without `asked` of an order that one verifier checks with certainty, and that says the
    gain. Raises BindingError, TermsRefused."""
    words = {} if asked is None else vars(asked)
    return read_situation(parameters_of(market, world.gas_price), gain=gain, **vars(world), **words)


def agents_of(names: Sequence[str] | None) -> list[Agent]:
    """All of them, or those of these names; `a+b` is a mixture. Raises BindingError."""
    return [_agent(name) for name in names] if names else list(AGENTS.values())


def _agent(name: str) -> Agent:
    words = [word.strip() for word in name.split("+")]
    agents = [AGENTS[word] for word in words if word in AGENTS]
    if len(agents) < len(words):
        raise BindingError(f"there is no agent {name!r}", fix=f"Name one, or some with +, of: {', '.join(AGENTS)}.")
    try:
        return agents[0] if len(agents) == 1 else mixture(*agents)
    except ValueError as error:
        raise BindingError(f"{name!r} is no mixture: {error}", fix="Mix what one party does.") from None


def verdict(x: Situation, shown: Estimate) -> str:
    """Whether a deviation pays, by its whole interval; `honest` is what the others are held to."""
    against = baseline(x, shown.agent)
    if shown.agent.name == "honest":
        return "–"
    if shown.payoff.high < against:
        return "does not pay"
    return "pays" if shown.payoff.low > against else "cannot be told"


def _expected(x: Situation, agent: Agent) -> float | None:
    """None for mixtures."""
    return expected(x, agent) if AGENTS.get(agent.name) == agent else None


def simulation(x: Situation, estimates: Sequence[Estimate]) -> "schemas.Simulation":
    """`eigentensor.economics-simulation/1`"""
    return {
        "schema": "eigentensor.economics-simulation/1",
        "situation": situation(x),
        "agents": [
            {
                "agent": shown.agent.name, "party": shown.agent.party, "does": shown.agent.does,
                "payoff": shown.payoff.value, "low": shown.payoff.low, "high": shown.payoff.high,
                "expected": _expected(x, shown.agent), "honest": baseline(x, shown.agent),
                "verdict": verdict(x, shown), "tasks": shown.tasks, "seed": shown.seed, "rates": shown.rates,
                "payoffs": {party: mean.value for party, mean in shown.payoffs.items()},
            }
            for shown in estimates
        ],
    }  # fmt: skip


def simulation_lines(x: Situation, estimates: Sequence[Estimate]) -> list[str | Table]:
    """The same for people: the terms, and a line for each agent."""
    rows = [
        [
            shown.agent.name, shown.agent.party, _signed(shown.payoff.value),
            f"{_signed(shown.payoff.low)} … {_signed(shown.payoff.high)}", _signed(_expected(x, shown.agent)),
            _signed(baseline(x, shown.agent)), verdict(x, shown), shown.agent.does,
        ]
        for shown in estimates
    ]  # fmt: skip
    head = ("agent", "party", "payoff", "99 % interval", "expected", "honest", "", "what it does")
    return [terms_line(x), table(head, rows)]


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.4g}"


def matrix(p: Payoffs) -> "schemas.PayoffMatrix":
    """`eigentensor.economics-payoffs/1`: floats; null where no value does it."""
    rows: list[schemas.PayoffRow] = [
        {"strategy": r.strategy, "scenario": r.scenario, "probability": float(r.probability), "payoff": float(r.payoff)}
        for r in p.rows()
    ]
    derived = {name: None if v is None else float(v) for name, v in _derived(p).items()}
    return cast("schemas.PayoffMatrix", {"schema": "eigentensor.economics-payoffs/1", "rows": rows, **derived})


def matrix_lines(p: Payoffs) -> list[str | Table]:
    """The same for people."""
    rows = [[r.strategy, r.scenario, f"{float(r.probability):.4g}", f"{float(r.payoff):+.4g}"] for r in p.rows()]
    derived = [[name.replace("_", " "), "none" if v is None else f"{float(v):.6g}"] for name, v in _derived(p).items()]
    return [table(("strategy", "scenario", "probability", "payoff"), rows), "", facts(derived)]


def _derived(p: Payoffs) -> dict[str, Fraction | None]:
    names = (
        "honest", "dishonest", "minimum_stake", "maximum_stake", "break_even_check", "break_even_caught",
        "break_even_collusion",
    )  # fmt: skip
    return {name: getattr(p, name) for name in names}


def situation(x: Situation) -> "schemas.Situation":
    """A situation's numbers, amounts in tokens."""
    m = x.amounts
    names = ("price", "gain", "value_at_risk", "cost", "rate", "verifiers", "share", "diligence", "watch", "gas_price")
    held = {"stake": m.s, "reward": m.W, "collateral": m.K, "bond": m.B, "penalty": m.h, "check_fee": m.v}
    return cast("schemas.Situation", {name: getattr(x, name) for name in names} | held)


def terms_line(x: Situation) -> str:
    """The terms of a situation on one line, by the letters of contracts/README.md."""
    m = x.amounts
    return (
        f"P {m.P:g}, gain {x.gain:g}, X {x.value_at_risk:.4g}, C {x.cost:g}; α {x.rate:.4g}, n {x.verifiers}, "
        f"v {m.v:.4g}; s {m.s:.4g}, K {m.K:.4g}, W {m.W:.4g}, B {m.B:.4g}, h {m.h:.4g}"
    )


def choice(chosen: TunedTerms) -> "schemas.TunedTerms":
    """Terms that were found, and what they cost."""
    return {
        **situation(chosen.situation),
        "cheat": chosen.cheat, "loses": chosen.loses, "margin": chosen.margin, "checks": chosen.checks,
        "lock": chosen.lock,
    }  # fmt: skip


def choices_table(choices: Sequence[TunedTerms]) -> Table:
    """Terms that were found, a line each."""
    rows = [
        [
            f"{c.situation.rate:.0%}", str(c.situation.verifiers), f"{c.situation.value_at_risk:.4g}",
            "–" if c.margin is None else f"{c.margin:.3f}", f"{c.situation.amounts.s:.4g}", c.cheat, f"{c.loses:.4g}",
            f"{c.checks:.4g}", f"{c.lock:.2g}",
        ]
        for c in choices
    ]  # fmt: skip
    return table(("α", "n", "X", "margin from", "stake", "best lie", "loses", "checks cost", "lock costs"), rows)


def parties(chosen: TunedTerms) -> dict[str, tuple[str, str]]:
    """What each party earns and risks for one task, in words."""
    x = chosen.situation
    m, e = x.amounts, Expectation(x, 0.0)
    share = Expectation(x, x.share)
    earns, honest = e.m.v - x.cost - e.answer, e.honest() - chosen.lock
    won = m.W + e.half - GAS_CHALLENGE * x.gas_price
    return {
        "client": (f"a right result for {m.P + chosen.checks:.4g} on average",
                   f"never more than {m.P + x.verifiers * m.v:.4g}; {1 - share.c:.1%} of lies go unseen"),
        "executor": (f"{honest:.4g}: P less computing, gas and {chosen.lock:.2g} for what it locks",
                     f"{m.s + m.K:.4g} with a wrong result, {m.h:.4g} with none"),
        "verifier": (f"{earns:.4g} for each check", f"{m.B:.4g} with an answer that is wrong, or is not opened"),
        "challenger": (f"{won:.4g} for a lie that no verifier saw", f"{m.B + e.challenge:.4g} if it errs"),
        "liar": (f"−{chosen.loses:.4g} by the best of ways ({chosen.cheat})", f"{m.s + m.K:.4g}"),
    }  # fmt: skip


def window_facts(w: Windows) -> Table:
    """The windows in blocks, and the lifetime that follows."""
    p = w.parameters
    return facts([
        ["windows", f"CHECK, REVEAL, CHALLENGE, RECORD, MARGIN {p.check}, CLOCK {p.clock}, LAG {p.lag}, GRID {p.grid}"],
        ["lifetime", f"END − accept = {w.lifetime:,} of EigenLayer's {w.delay:,} blocks"],
    ])  # fmt: skip
