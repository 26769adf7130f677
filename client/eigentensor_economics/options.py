"""Flags of `eigentensor economics` that several of its verbs take."""

from dataclasses import dataclass
from typing import Annotated

import typer

Market = Annotated[
    str, typer.Option("--market", "-m", help="Whose parameters: local, mainnet, or a network's name or file.")
]
Gain = Annotated[
    str, typer.Option("--gain", help="What a wrong result would bring its executor beyond the price, in tokens.")
]
Security = Annotated[
    str | None, typer.Option("--security", help="What the best lie has to lose, in tokens [the price].")
]
Price = Annotated[str, typer.Option("--price", help="What the executor is paid, in tokens.")]
Cost = Annotated[str, typer.Option("--cost", help="What executing once costs anybody, in tokens.")]
Check = Annotated[str, typer.Option("--check", metavar="RATE", help="How probably a task is checked: 20% or 0.2.")]


@dataclass(frozen=True, kw_only=True)
class World:
    """What a task is worth, and who else is there."""

    price: Price = "1"
    cost: Cost = "0.6"
    share: Annotated[
        str, typer.Option("--share", metavar="RATE", help="The part of all seats that a cheat controls.")
    ] = "0.333"
    diligence: Annotated[
        str, typer.Option("--diligence", metavar="RATE", help="The part of the other seats that execute if drawn.")
    ] = "100%"
    watch: Annotated[
        str,
        typer.Option("--watch", metavar="RATE", help="How probably somebody without a drawn seat executes it, too."),
    ] = "0%"
    gas_price: Annotated[str, typer.Option("--gas-price", help="In gwei.")] = "1"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What an order says about its checks."""

    value_at_risk: Annotated[
        str | None, typer.Option("--value-at-risk", help="What the order says about the gain, in tokens [the gain].")
    ] = None
    check: Check = "20%"
    verifiers: Annotated[int, typer.Option("--verifiers", min=1, max=4, help="By how many.")] = 1


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What stands in a batch of paid calls."""

    calls: Annotated[int, typer.Option("--calls", min=1, max=1_000_000, help="Paid calls of a batch.")] = 1_000
    channels: Annotated[int, typer.Option("--channels", min=1, help="Over which they are spread.")] = 1
    check_price: Annotated[
        str | None, typer.Option("--check-price", help="What checking a call pays, in tokens [the price].")
    ] = None
    value_at_risk: Annotated[
        str | None, typer.Option("--value-at-risk", help="What each deal says about the gain, in tokens [the gain].")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """What an offer says about its checks."""

    check: Annotated[
        str, typer.Option("--check", metavar="RATE", help="How probably a call is checked: 5% or 0.05.")
    ] = "5%"
    verifiers: Annotated[
        int, typer.Option("--verifiers", min=1, max=4, help="Among how many the checked calls are divided.")
    ] = 4


@dataclass(frozen=True, kw_only=True)
class Locked:
    """What it costs to have stake locked."""

    exec: Annotated[int, typer.Option("--exec", min=1, help="Blocks that one execution may take.")] = 300
    block_seconds: Annotated[float, typer.Option("--block-seconds", min=0.001, help="Seconds between two blocks.")] = (
        12.0
    )
    interest: Annotated[
        str, typer.Option("--interest", metavar="RATE", help="What locked tokens could earn in a year.")
    ] = "3%"
