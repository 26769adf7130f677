"""`eigentensor program`: program files."""

import runpy
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eigentensor import merkle
from eigentensor.errors import CaptureError
from eigentensor.program import Kind, Program
from eigentensor.program.codec import decode, encode
from eigentensor.program.cost import costs
from eigentensor.store import save_safetensors
from eigentensor_client.files import existing
from eigentensor_client.screen import Screen, table
from eigentensor_client.verbs.options import Json

if TYPE_CHECKING:
    from eigentensor.capture import GraphProgram

app = typer.Typer(help="Program files: capture, check, show.", no_args_is_help=True, rich_markup_mode=None)

File = Annotated[Path, typer.Argument(metavar="PROGRAM", help="A program file.")]


@app.command()
def capture(
    source: Annotated[str, typer.Argument(metavar="FILE.py[:NAME]", help="A Python file and a name in it [program].")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write the program [FILE.program].")
    ] = None,
    json: Json = False,
) -> None:
    """Run your Python file and write the captured program that a name in it stands for, and beside it its weights
    and the first values of its states.

    The name is a GraphProgram, or a function without arguments that returns one.
    """
    screen = Screen(as_json=json)
    file, _, name = source.partition(":")
    graph = _captured(Path(file), name or "program")
    target = output or Path(Path(file).stem).with_suffix(".program")
    target.write_bytes(encode(graph.program))
    written = [target]
    dtypes = {b.name: b.dtype for b in graph.program.buffers}
    for word, tensors in (("weights", graph.weights), ("states", graph.states)):
        if tensors:
            written.append(target.with_suffix(f".{word}.safetensors"))
            save_safetensors(written[-1], tensors, {name: dtypes[name] for name in tensors})
    fields = _facts(graph.program) | {"files": [str(path) for path in written]}
    screen.result("eigentensor.program/1", fields, *(f"{path}  {path.stat().st_size:,} bytes" for path in written))


@app.command()
def check(program: File, json: Json = False) -> None:
    """Check a program file by every rule of validity; print its uuid."""
    facts = _facts(decode(existing(program).read_bytes()))
    Screen(as_json=json).result("eigentensor.program/1", facts, facts["uuid"])


@app.command()
def show(program: File, json: Json = False) -> None:
    """Show what a program takes, gives and costs."""
    facts = _facts(decode(existing(program).read_bytes()))
    rows = [[tensor["role"], tensor["name"], tensor["dtype"], str(tensor["shape"])] for tensor in facts["tensors"]]
    cost = "  ".join(f"{name.replace('_', ' ')} {value:,}" for name, value in facts["cost"].items())
    Screen(as_json=json).result(
        "eigentensor.program/1", facts, facts["uuid"], table(("role", "name", "dtype", "shape"), rows), cost
    )


def _captured(file: Path, name: str) -> "GraphProgram":
    from eigentensor.capture import GraphProgram

    names = runpy.run_path(str(existing(file)), run_name="__eigentensor__")
    found = names.get(name)
    graph = found() if callable(found) and not isinstance(found, GraphProgram) else found
    if not isinstance(graph, GraphProgram):
        raise CaptureError(
            f"{file} has no program named {name!r}",
            fix="Name a GraphProgram, or a function that returns one: FILE.py:NAME.",
        )
    return graph


def _facts(program: Program) -> dict[str, Any]:
    tensors = [
        {"role": b.role.name.lower(), "name": b.name, "dtype": b.dtype.name.lower(), "shape": list(b.shape)}
        for b in program.buffers
        if b.name
    ]
    for r in program.results:
        dtype = program.parameter(r.buffer).dtype.name.lower()
        role = "new state" if r.kind is Kind.STATE else "output"
        tensors.append({"role": role, "name": r.name, "dtype": dtype, "shape": list(r.shape)})
    return {
        "uuid": merkle.program_root(encode(program)).hex(),
        "bytes": len(encode(program)),
        "semantics": program.semantics,
        "max_repeat": program.max_repeat,
        "variables": {v.name: {"minimum": v.minimum, "maximum": v.maximum} for v in program.variables},
        "tensors": tensors,
        "cost": asdict(costs(program)),
    }
