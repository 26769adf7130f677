"""What several verbs of `eigentensor operator` take and print."""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from eigentensor.talk import QUIET, callable_here
from eigentensor.version import VERSION

Network = Annotated[str | None, typer.Option("--network", help="A network's name, or a .json file.")]
Keystore = Annotated[
    str | None,
    typer.Option(
        "--keystore", help="V3 keystore, or URL of a key elsewhere: the owner's to join or leave, else the signer's."
    ),
]
PasswordFile = Annotated[Path | None, typer.Option("--password-file", help="File with the keystore's password.")]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Journals, blobs and results of this operator.")]
Device = Annotated[
    str | None, typer.Option("--device", help="CPU (the default), CPU:LLVM, CL, CUDA, or cluster:ADDRESS.")
]
ClusterToken = Annotated[
    Path | None, typer.Option("--cluster-token", help="File with the token of a client of the cluster.")
]
MinPrice = Annotated[str | None, typer.Option("--min-price", help="Tokens that a task must pay, whatever it costs.")]
PricePerHour = Annotated[
    str | None, typer.Option("--price-per-hour", help="Tokens that an hour of this machine has to bring.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One versioned object on stdout.")]


def note(text: str) -> None:
    """A line to people, unless they want quiet."""
    if not QUIET.get():
        typer.echo(callable_here(text), err=True)


def show(data: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    """The verb's data: an object of `eigentensor_operator.schemas` to programs, the lines to people."""
    if as_json:
        sys.stdout.write(json.dumps(data) + "\n")
        return
    for line in lines:
        typer.echo(callable_here(line))


def head(network: str, account: str) -> None:
    """The first line of every verb."""
    note(f"eigentensor {VERSION} · network {network} · account {account}")
