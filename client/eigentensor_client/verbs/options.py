"""Arguments that several verbs share, and those that they take together."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from eigentensor_client import offers
from eigentensor_client.offers import EXEC

Json = Annotated[bool, typer.Option("--json", help="Print the data as one JSON object.")]
NetworkName = Annotated[
    str | None, typer.Option("--network", "-n", envvar="EIGENTENSOR_NETWORK", help="Name or file of a network [local].")
]
ProgramName = Annotated[
    str, typer.Argument(metavar="PROGRAM", help="A program file or uuid, MODEL.onnx, or FILE.py:NAME.")
]
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
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Where to write the outputs.")]
Kept = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Where to write the outputs [the task's name, .safetensors, in this folder]."),
]
ReceiptFile = Annotated[
    Path | None, typer.Option("--receipt", metavar="FILE", help="Where to write the task's receipt.")
]
StatesOutput = Annotated[Path | None, typer.Option("--states-output", help="Where to write the new states.")]
MaxPrice = Annotated[
    str | None,
    typer.Option(
        "--max-price", help="The most that the executor is paid, in tokens; enforced on chain. Local: 0.05 if not said."
    ),
]
Wait = Annotated[
    str, typer.Option("--wait", help="result, checked or final; checked asks `run` for a check with certainty.")
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", min=0, help="Seconds for all of it, posting and connecting too.")
]
Retries = Annotated[
    int,
    typer.Option("--retries", min=0, help="How often it is posted again where the escrow came back without a result."),
]
Cast = Annotated[
    Literal["float32"] | None,
    typer.Option("--cast", metavar="float32", help="Compute in float32 what the model has in float64."),
]
ServeData = Annotated[
    Path | None,
    typer.Option("--data", envvar="EIGENTENSOR_SERVE_DATA", help="Folder of what `serve` keeps [the user's]."),
]


@dataclass(frozen=True, kw_only=True)
class Execution:
    """What is to be executed."""

    program: ProgramName
    input: Inputs = None
    weights: Weights = None
    states: States = None
    variable: Variables = None
    repeat: Repeat = 1
    cast: Cast = None


@dataclass(frozen=True, kw_only=True)
class Offer(offers.Offer):
    """The same as flags; what each is unless it is given stands there."""

    max_price: MaxPrice
    min_price: Annotated[
        str | None, typer.Option("--min-price", help="Where the price begins, with --ramp [about what operators ask].")
    ]
    ramp: Annotated[
        int | None,
        typer.Option("--ramp", min=0, help="Blocks in which it rises to --max-price; 0: it is that from the start."),
    ]
    check: Annotated[
        str, typer.Option("--check", metavar="RATE", help="How probably others re-execute it: 20% or 0.2.")
    ]
    verifiers: Annotated[int, typer.Option("--verifiers", help="How many others re-execute it, if it is drawn.")]
    check_fee: Annotated[
        str | None, typer.Option("--check-fee", help="What each of them is paid, in tokens [the least allowed].")
    ]
    value_at_risk: Annotated[
        str,
        typer.Option(
            "--value-at-risk", help="What a wrong result could gain the executor, in tokens: raises its stake."
        ),
    ]
    exec: Annotated[
        int | None,
        typer.Option("--exec", min=1, help=f"Blocks that one execution may take [{EXEC}, or as many as there are]."),
    ]
    accept_within: Annotated[
        int, typer.Option("--accept-within", min=1, help="Blocks in which an operator may accept.")
    ]
    operator: Annotated[
        str | None, typer.Option("--operator", metavar="ADDRESS", help="The only operator that may accept it [all].")
    ]


Verb = Callable[..., None]


def grouped(verb: Verb) -> Verb:
    """The same verb, for Typer: a parameter whose type is a dataclass of options stands for all of its fields."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(verb, eval_str=True).parameters.values():
        if is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation
            parameters += _parameters(parameter.annotation)
        else:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))

    @wraps(verb)
    def called(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        verb(**values)

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
