"""Arguments that several verbs share."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the data as one JSON object.")]
NetworkName = Annotated[
    str | None, typer.Option("--network", "-n", envvar="EIGENTENSOR_NETWORK", help="Name or file of a network [local].")
]
ProgramName = Annotated[str, typer.Argument(metavar="PROGRAM", help="A program file, or a program's uuid.")]
TaskName = Annotated[str, typer.Argument(metavar="TASK", help="A task's uuid, or the beginning of it.")]
Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", metavar="NAME=@FILE", help="An input: .npy, or one in a .safetensors."),
]
Weights = Annotated[Path | None, typer.Option("--weights", "-w", help="The weights, a safetensors file.")]
States = Annotated[Path | None, typer.Option("--states", help="The states, a safetensors file.")]
Variables = Annotated[
    list[str] | None, typer.Option("--variable", "-v", metavar="NAME=NUMBER", help="A bound variable.")
]
Repeat = Annotated[int, typer.Option("--repeat", min=1, help="How often the program's calls are executed.")]
MaxPrice = Annotated[
    str, typer.Option("--max-price", help="The most that the executor is paid, in tokens; enforced on chain.")
]
MinPrice = Annotated[str | None, typer.Option("--min-price", help="Where the price begins, with --ramp.")]
Ramp = Annotated[int, typer.Option("--ramp", min=0, help="Blocks in which it rises from the least to the most.")]
Check = Annotated[str, typer.Option("--check", metavar="RATE", help="How probably others re-execute it: 20% or 0.2.")]
VerifierCount = Annotated[int, typer.Option("--verifiers", help="How many others re-execute it, if it is drawn.")]
CheckFee = Annotated[
    str | None, typer.Option("--check-fee", help="What each of them is paid, in tokens [the least allowed].")
]
ValueAtRisk = Annotated[
    str,
    typer.Option("--value-at-risk", help="What a wrong result could gain the executor, in tokens: raises its stake."),
]
Exec = Annotated[int, typer.Option("--exec", min=1, help="Blocks that one execution may take.")]
AcceptWithin = Annotated[int, typer.Option("--accept-within", min=1, help="Blocks in which an operator may accept.")]
Wait = Annotated[
    str, typer.Option("--wait", help="result, checked or final; checked asks `run` for a check with certainty.")
]
Timeout = Annotated[float | None, typer.Option("--timeout", help="Seconds to wait at most.")]
ServeData = Annotated[
    Path | None,
    typer.Option("--data", envvar="EIGENTENSOR_SERVE_DATA", help="Folder of what `serve` keeps [the user's]."),
]
