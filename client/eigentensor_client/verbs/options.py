"""Arguments that several verbs share."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the data as one JSON object.")]
NetworkName = Annotated[
    str | None, typer.Option("--network", "-n", envvar="EIGENTENSOR_NETWORK", help="Name or file of a network [local].")
]
ProgramFile = Annotated[Path, typer.Argument(metavar="PROGRAM", help="A program file, or a program's uuid.")]
Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", metavar="NAME=@FILE", help="An input: .npy, or one in a .safetensors."),
]
Weights = Annotated[Path | None, typer.Option("--weights", help="The weights, a safetensors file.")]
States = Annotated[Path | None, typer.Option("--states", help="The states, a safetensors file.")]
Variables = Annotated[
    list[str] | None, typer.Option("--variable", "-v", metavar="NAME=NUMBER", help="A bound variable.")
]
Repeat = Annotated[int, typer.Option("--repeat", min=1, help="How often the program's calls are executed.")]
