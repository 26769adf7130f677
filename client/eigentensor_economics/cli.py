"""`eigentensor economics`: who gains what by cheating, which terms make it a loss, and pictures of both."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eigentensor.errors import TermsRefused
from eigentensor_client.screen import Screen, facts, table
from eigentensor_client.verbs.options import Json, grouped
from eigentensor_economics import channels
from eigentensor_economics.options import Asked, Check, Cost, Gain, Locked, Market, Price, Security, World

if TYPE_CHECKING:
    from eigentensor.economics.tuning import TunedTerms, Windows
    from eigentensor_economics import schemas

app = typer.Typer(
    help="What cheating pays: simulate, payoffs, tune, plot, channels. Nothing is sent.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(channels.app, name="channels")

WINDOWS = ("lag", "grid", "record", "check", "reveal", "challenge", "clock", "margin")


@app.command()
@grouped
def simulate(
    world: World,
    asked: Asked,
    agent: Annotated[
        list[str] | None, typer.Option("--agent", "-a", metavar="NAME", help="Only these; a+b does what both do.")
    ] = None,
    tasks: Annotated[int, typer.Option("--tasks", min=2, max=10_000_000, help="How many tasks each lives.")] = 100_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed shows the same.")] = 0,
    market: Market = "local",
    gain: Gain = "0",
    json: Json = False,
) -> None:
    """Let agents live many tasks: what each earns on average, what honesty would have earned, whether cheating pays."""
    from eigentensor_economics import reports
    from eigentensor_economics.simulation import estimate

    screen = Screen(as_json=json)
    x, agents = reports.situation_of(market, gain, world, asked), reports.agents_of(agent)
    estimates = []
    with screen.work() as bar:
        for done, who in enumerate(agents):
            bar(f"simulating {who.name}", done, len(agents))
            estimates.append(estimate(x, who, tasks=tasks, seed=seed))
    lines = reports.simulation_lines(x, estimates)
    note = f"tokens per task, of {tasks:,} tasks each, seed {seed}"
    fields = reports.simulation(x, estimates)
    screen.result(fields["schema"], fields, *lines, note)


@app.command()
def payoffs(
    price: Price = "1",
    cost: Cost = "0.6",
    stake: Annotated[str, typer.Option("--stake", help="What is slashed, in tokens.")] = "10",
    shortcut: Annotated[str, typer.Option("--shortcut", metavar="RATE", help="ε: of the cost, for a cheat.")] = "1%",
    check: Check = "10%",
    collusion: Annotated[
        str, typer.Option("--collusion", metavar="RATE", help="β: that checkers slash an honest node.")
    ] = "0%",
    caught: Annotated[str, typer.Option("--caught", metavar="RATE", help="γ: that a checked cheat is caught.")] = "95%",
    json: Json = False,
) -> None:
    """Show the payoff matrix of the first EigenTensor, and the stakes and rates at which honesty is as good."""
    from fractions import Fraction

    from eigentensor.economics import WAD
    from eigentensor.economics.words import read_rate, read_tokens
    from eigentensor_economics import reports
    from eigentensor_economics.payoffs import Payoffs

    amounts = [Fraction(str(read_tokens(word))) for word in (price, cost, stake)]
    rates = [Fraction(read_rate(word), WAD) for word in (shortcut, check, collusion, caught)]
    matrix = Payoffs(*amounts, *rates)
    fields = reports.matrix(matrix)
    Screen(as_json=json).result(fields["schema"], fields, *reports.matrix_lines(matrix))


@app.command()
@grouped
def tune(
    world: World,
    locked: Locked,
    security: Security = None,
    most_stake: Annotated[
        str | None, typer.Option("--most-stake", help="What operators can lock for one task, in tokens [any].")
    ] = None,
    market: Market = "mainnet",
    gain: Gain = "0",
    censored: Annotated[
        int, typer.Option("--censored", min=1, help="Blocks for which nobody's messages may matter.")
    ] = 1_800,
    delay: Annotated[int, typer.Option("--delay", min=1, help="EigenLayer's shorter delay, in blocks.")] = 100_800,
    json: Json = False,
) -> None:
    """Find check rate, verifiers, value at risk, the market's margin and its windows for a wanted security.

    The cheapest terms come first: fees of checks, and what locked stake costs. Exit code 11 if there are none.
    """
    from eigentensor.economics import WAD, tuning
    from eigentensor.economics.words import read_rate, read_tokens
    from eigentensor_economics import reports

    screen, x, exec_ = Screen(as_json=json), reports.situation_of(market, gain, world), locked.exec
    lock = tuning.Lock(interest=read_rate(locked.interest) / WAD, block_seconds=locked.block_seconds)
    wanted = x.price if security is None else read_tokens(security)
    most = float("inf") if most_stake is None else read_tokens(most_stake)
    choices = tuning.tune(x, wanted, exec_=exec_, lock=lock, rates=tuning.rates(x.parameters), most_stake=most)
    if not choices:
        raise TermsRefused(
            f"no terms make every lie lose {wanted:g} tokens",
            fix="Ask for less --security, or assume a smaller --share, more --diligence or a larger --most-stake.",
        )
    windows = tuning.windows(x.parameters, exec_, censored, delay)
    if not windows.fits:
        most_blocks = tuning.longest_censorship(x.parameters, exec_, delay)
        fix = f"At most --censored {most_blocks} fits." if most_blocks else "Take a shorter --exec."
        raise TermsRefused(f"END − accept would be {windows.lifetime:,} of {delay:,} blocks", fix=fix)
    show_terms(screen, wanted, choices, windows, censored)


def show_terms(
    screen: Screen, wanted: float, choices: "Sequence[TunedTerms]", windows: "Windows", censored: int
) -> None:
    """`eigentensor.economics-tuning/1`: terms, the cheapest first, who earns what by those, and windows for them."""
    from eigentensor_economics import reports

    best, who = choices[0], reports.parties(choices[0])
    fields: schemas.EconomicsTuning = {
        "schema": "eigentensor.economics-tuning/1",
        "security": wanted,
        "choices": [reports.choice(each) for each in choices],
        "parties": {party: {"earns": earns, "risks": risks} for party, (earns, risks) in who.items()},
        "windows": {
            "lifetime": windows.lifetime,
            "delay": windows.delay,
            "censored": censored,
            "clock": windows.parameters.clock,
        },
    }
    lines = (
        reports.choices_table(choices[:12]),
        "",
        f"the cheapest: {reports.terms_line(best.situation)}",
        table(("", "earns", "risks"), [[party, *words] for party, words in who.items()]),
        "",
        reports.window_facts(windows),
    )
    screen.result(fields["schema"], fields, *lines)


@app.command()
@grouped
def plot(
    world: World,
    asked: Asked,
    locked: Locked,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the pictures.")] = Path("."),
    security: Security = None,
    market: Market = "mainnet",
    gain: Gain = "1",
    json: Json = False,
) -> None:
    """Draw payoffs, the security frontier, an operator's and a verifier's revenue: four PNG files.

    Needs matplotlib: `pip install 'eigentensor[plots]'`.
    """
    from eigentensor.economics import WAD
    from eigentensor.economics.tuning import Lock
    from eigentensor.economics.words import read_rate, read_tokens
    from eigentensor.extras import require

    require("plots")
    from eigentensor_economics import plots, reports

    screen, x = Screen(as_json=json), reports.situation_of(market, gain, world, asked)
    lock = Lock(interest=read_rate(locked.interest) / WAD, block_seconds=locked.block_seconds)
    wanted = x.price if security is None else read_tokens(security)
    pictures: dict[str, Callable[[], Any]] = {
        "payoffs": lambda: plots.payoffs(x),
        "frontier": lambda: plots.frontier(x, wanted),
        "operator": lambda: plots.operator(x, lock, locked.exec),
        "verifier": lambda: plots.verifier(x),
    }
    paths = {}
    with screen.work() as bar:
        for done, (name, draw) in enumerate(pictures.items()):
            bar(f"drawing {name}", done, len(pictures))
            paths[name] = str(plots.save(draw(), output / f"{name}.png"))
    show_pictures(screen, paths)


def show_pictures(screen: Screen, paths: "Mapping[str, str]") -> None:
    """`eigentensor.economics-plots/1`"""
    fields: schemas.Plots = {"schema": "eigentensor.economics-plots/1", "files": dict(paths)}
    screen.result(fields["schema"], fields, facts(list(paths.items())))
