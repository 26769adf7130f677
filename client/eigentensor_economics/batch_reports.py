"""What is wanted of the economics of paid calls as words → a batch in its world; and how what it says looks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eigentensor.economics import WAD, shares
from eigentensor.economics.words import read_rate, read_tokens
from eigentensor.errors import BindingError, TermsRefused
from eigentensor_client.screen import table
from eigentensor_client.tables import Table
from eigentensor_economics.batch_tuning import TunedOffer
from eigentensor_economics.batches import BatchSituation
from eigentensor_economics.lies import Lie
from eigentensor_economics.reports import parameters_of

if TYPE_CHECKING:
    from eigentensor_economics import schemas
    from eigentensor_economics.options import Batch, Sampled, World


def batch_of(
    market: str, gain: str, world: "World", batch: "Batch", sampled: "Sampled | None" = None
) -> BatchSituation:
    """From a verb's options; without `sampled` checked with certainty by one. Raises BindingError, TermsRefused."""
    price, gained = read_tokens(world.price), read_tokens(gain)
    check_price = price if batch.check_price is None else read_tokens(batch.check_price)
    rate = WAD if sampled is None else read_rate(sampled.check)
    n = 1 if sampled is None else sampled.verifiers
    if not price:
        raise BindingError("a price of zero has no economics", fix="Give a --price above zero.")
    if check_price > price:
        raise TermsRefused("no call may cost less than its check", fix="Give a lower --check-price.")
    if not rate:
        raise TermsRefused("no offer has a check rate of zero", fix="Give a --check above zero.")
    if sampled is not None and batch.calls > (most := shares.capacity(rate, n)):
        raise TermsRefused(
            f"{n} verifiers check at most {n * shares.SIZE:,} calls, as of {most:,}",
            fix=f"Take at most --calls {most}, a lower --check or more --verifiers.",
        )
    return BatchSituation(
        parameters=parameters_of(market, world.gas_price), price=price, check_price=check_price, calls=batch.calls,
        channels=min(batch.channels, batch.calls), rate=rate / WAD, verifiers=n, gain=gained,
        value_at_risk=gained if batch.value_at_risk is None else read_tokens(batch.value_at_risk),
        cost=read_tokens(world.cost),
        share=read_rate(world.share) / WAD, diligence=read_rate(world.diligence) / WAD,
        watch=read_rate(world.watch) / WAD,
    )  # fmt: skip


def verdict(lie: Lie) -> str:
    """Whether it pays, by the whole interval of the simulation."""
    if lie.brings.high < 0:
        return "does not pay"
    return "pays" if lie.brings.low > 0 else "cannot be told"


def batch(x: BatchSituation) -> "schemas.AssumedBatch":
    """The numbers of a batch, amounts in tokens."""
    m = x.amounts
    return {
        "price": x.price, "check_price": x.price if x.check_price is None else x.check_price, "calls": x.calls,
        "channels": x.channels, "rate": x.rate, "verifiers": x.verifiers, "gain": x.gain,
        "value_at_risk": x.value_at_risk, "all_at_risk": x.all_at_risk, "cost": x.cost, "share": x.share,
        "diligence": x.diligence, "watch": x.watch, "checked": m.k, "shares": m.count, "stake": m.s, "reward": m.W,
        "collateral": m.K, "bond": m.B, "check_fee": m.v,
    }  # fmt: skip


def batch_line(x: BatchSituation) -> str:
    """The terms of a batch on one line, by the letters of contracts/README.md."""
    m = x.amounts
    return (
        f"N {x.calls:,} of {x.channels:,} channels; P {x.price:g}, gain {x.gain:g}, X {x.value_at_risk:.4g}, ΣX "
        f"{x.all_at_risk:.4g}, C {x.cost:g}; α {x.rate:.4g}, n {x.verifiers}, k {m.k}, v {m.v:.4g}; s {m.s:.4g}, "
        f"K {m.K:.4g}, W {m.W:.4g}, B {m.B:.4g}"
    )


def lies(x: BatchSituation, estimates: Sequence[Lie], batches: int, seed: int) -> "schemas.Lies":
    """`eigentensor.economics-lies/1`"""
    return {
        "schema": "eigentensor.economics-lies/1",
        "batch": batch(x),
        "batches": batches,
        "seed": seed,
        "lies": [
            {
                "way": lie.way.name, "does": lie.way.does, "wrong": lie.wrong,
                "seen": lie.seen.value, "expected_seen": lie.expected_seen,
                "brings": lie.brings.value, "low": lie.brings.low, "high": lie.brings.high, "expected": lie.expected,
                "pays_from": lie.pays_from, "verdict": verdict(lie),
            }
            for lie in estimates
        ],
    }  # fmt: skip


def lies_lines(x: BatchSituation, estimates: Sequence[Lie]) -> list[str | Table]:
    """The same for people: the terms, a line for each lie, and what the ways are."""
    rows = [
        [
            f"{lie.wrong:,}", lie.way.name, f"{lie.seen.value:.1%}", f"{lie.expected_seen:.1%}",
            f"{lie.brings.value:+.4g}", f"{lie.brings.low:+.4g} … {lie.brings.high:+.4g}", f"{lie.expected:+.4g}",
            "never" if lie.pays_from is None else f"{lie.pays_from:.1%}", verdict(lie),
        ]
        for lie in estimates
    ]  # fmt: skip
    head = ("wrong", "way", "seen", "expected", "brings", "99 % interval", "expected", "pays from", "")
    does = {lie.way.name: lie.way.does for lie in estimates}
    return [batch_line(x), table(head, rows), "", table(("way", "what it does"), [list(way) for way in does.items()])]


def offer(tuned: TunedOffer) -> "schemas.TunedOffer":
    """Terms of an offer that were chosen, and what they cost."""
    return {
        **batch(tuned.situation),
        "way": tuned.way, "wrong": tuned.wrong, "loses": tuned.loses, "checks": tuned.checks, "lock": tuned.lock,
    }  # fmt: skip


def offers_table(tuned: Sequence[TunedOffer]) -> Table:
    """The same for people, a line each."""
    rows = [
        [
            f"{t.situation.rate:.0%}", str(t.situation.verifiers), f"{t.situation.all_at_risk:.4g}",
            f"{t.situation.amounts.s:.4g}", f"{t.wrong:,} {t.way}", f"{t.loses:.4g}", f"{t.checks:.4g}",
            f"{t.lock:.2g}",
        ]
        for t in tuned
    ]  # fmt: skip
    return table(("α", "n", "ΣX", "stake", "best lie", "loses", "checks cost", "lock costs"), rows)
