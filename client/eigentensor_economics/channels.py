"""`eigentensor economics channels`: what wrong results of paid calls bring, and which offers make them a loss."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from eigentensor.errors import TermsRefused
from eigentensor_client.screen import Screen
from eigentensor_client.verbs.options import Json, grouped
from eigentensor_economics.options import Batch, Gain, Locked, Market, Sampled, Security, World

if TYPE_CHECKING:
    from eigentensor_economics import schemas
    from eigentensor_economics.batch_tuning import TunedOffer
    from eigentensor_economics.batches import BatchSituation
    from eigentensor_economics.lies import Lie

app = typer.Typer(
    help="The same of paid calls, a batch at a time: simulate, tune.", no_args_is_help=True, rich_markup_mode=None
)


@app.command()
@grouped
def simulate(
    world: World,
    batch: Batch,
    sampled: Sampled,
    batches: Annotated[
        int, typer.Option("--batches", min=2, max=1_000_000, help="How many batches are drawn.")
    ] = 2_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed shows the same.")] = 0,
    market: Market = "local",
    gain: Gain = "0",
    json: Json = False,
) -> None:
    """Draw batches as the contracts do, with 1, 2, 1 %, 10 % and all calls wrong: how often that is seen, what it
    brings more than right results, and from which share of the seats on it pays."""
    from eigentensor_economics import batch_reports
    from eigentensor_economics.lies import WAYS, estimate

    screen, x = Screen(as_json=json), batch_reports.batch_of(market, gain, world, batch, sampled)
    with screen.work() as bar:
        bar("drawing batches", 0, 1)
        estimates = estimate(x, WAYS, batches=batches, seed=seed)
    show_lies(screen, x, estimates, batches, seed)


def show_lies(screen: Screen, x: "BatchSituation", estimates: "Sequence[Lie]", batches: int, seed: int) -> None:
    """`eigentensor.economics-lies/1`, and the same for people."""
    from eigentensor_economics import batch_reports

    fields = batch_reports.lies(x, estimates, batches, seed)
    note = f"tokens per batch, of {batches:,} batches, seed {seed}"
    screen.result(fields["schema"], fields, *batch_reports.lies_lines(x, estimates), note)


@app.command()
@grouped
def tune(
    world: World,
    batch: Batch,
    locked: Locked,
    epoch: Annotated[int, typer.Option("--epoch", min=1, help="Blocks from a batch's begin to its last commit.")] = 300,
    security: Security = None,
    most_stake: Annotated[
        str | None, typer.Option("--most-stake", help="What operators can lock for one batch, in tokens [any].")
    ] = None,
    bribes: Annotated[
        bool, typer.Option("--bribes/--no-bribes", help="Whether drawn strangers take bribes, and keep to it.")
    ] = False,
    market: Market = "mainnet",
    gain: Gain = "0",
    delay: Annotated[int, typer.Option("--delay", min=1, help="EigenLayer's shorter delay, in blocks.")] = 100_800,
    json: Json = False,
) -> None:
    """Find check rate, verifiers and what all deals of an offer may put at risk, for a wanted security.

    The cheapest offers come first: fees of checks, and what locked stake costs, per call. Exit code 11 if there are
    none.
    """
    from eigentensor.economics import WAD, shares
    from eigentensor.economics.tuning import RATES, Lock
    from eigentensor.economics.words import read_rate, read_tokens
    from eigentensor_economics import batch_reports
    from eigentensor_economics.batch_tuning import Times, tune_offer
    from eigentensor_economics.lies import UNBRIBED, WAYS

    screen, x = Screen(as_json=json), batch_reports.batch_of(market, gain, world, batch)
    times = Times(exec=locked.exec, epoch=epoch)
    if (lifetime := shares.lifetime(x.parameters, times.exec, times.epoch)) > delay:
        raise TermsRefused(
            f"a batch would lock its stake for {lifetime:,} of {delay:,} blocks",
            fix="Take a shorter --epoch or --exec.",
        )
    lock = Lock(interest=read_rate(locked.interest) / WAD, block_seconds=locked.block_seconds)
    wanted = x.price if security is None else read_tokens(security)
    most = float("inf") if most_stake is None else read_tokens(most_stake)
    rates, ways = [percent / 100 for percent in RATES], WAYS if bribes else UNBRIBED
    offers = tune_offer(x, wanted, ways, times=times, lock=lock, rates=rates, most_stake=most)
    if not offers:
        raise TermsRefused(
            f"no offer makes every lie lose {wanted:g} tokens",
            fix="Ask for less --security or fewer --calls, or assume a smaller --share or a larger --most-stake.",
        )
    show_offers(screen, wanted, lifetime, offers)


def show_offers(screen: Screen, wanted: float, lifetime: int, offers: "Sequence[TunedOffer]") -> None:
    """`eigentensor.economics-offers/1`: offers, the cheapest first, and for how long a batch locks its stake."""
    from eigentensor_economics import batch_reports

    fields: schemas.TunedOffers = {
        "schema": "eigentensor.economics-offers/1",
        "security": wanted,
        "lifetime": lifetime,
        "offers": [batch_reports.offer(each) for each in offers],
    }
    best = batch_reports.batch_line(offers[0].situation)
    lines = batch_reports.offers_table(offers[:12]), "", f"the cheapest: {best}"
    screen.result(fields["schema"], fields, *lines, f"stake is locked for {lifetime:,} blocks")
