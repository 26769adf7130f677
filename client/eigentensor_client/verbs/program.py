"""`eigentensor program`: program files."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from eigentensor.errors import BindingError
from eigentensor_client.screen import Screen, table
from eigentensor_client.verbs.options import Cast, Inputs, Json

if TYPE_CHECKING:
    from eigentensor.capture import GraphProgram
    from eigentensor.lowering.shards import Shards
    from eigentensor.program import Program
    from eigentensor_client.schemas import programs as schemas

app = typer.Typer(help="Program files: capture, import, check, show.", no_args_is_help=True, rich_markup_mode=None)

File = Annotated[Path, typer.Argument(metavar="PROGRAM", help="A program file.")]
_NOTHING = "nothing was written: the same command begins again"

ShardCount = Annotated[
    int,
    typer.Option("--shards", min=1, help="Cut sums over the inputs' first axis into so many parts, a power of two."),
]
ShardAxes = Annotated[
    list[str] | None,
    typer.Option("--shard-axis", metavar="NAME=AXIS", help="An input and the axis to cut instead, counted from 0."),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Where to write the program [the name of FILE, with .program].")
]


@app.command()
def capture(
    source: Annotated[str, typer.Argument(metavar="FILE.py[:NAME]", help="A Python file and a name in it [program].")],
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights", "-w", help="A .safetensors or .gguf file: the function is given its tensors by name."
        ),
    ] = None,
    input: Inputs = None,  # noqa: A002
    shards: ShardCount = 1,
    shard_axis: ShardAxes = None,
    output: Output = None,
    json: Json = False,
) -> None:
    """Run your Python file and write the captured program that a name in it stands for, and beside it its weights
    and the first values of its states.

    The name is a GraphProgram, or a function that returns one: without arguments, or of the tensors of --weights; or
    it is a function of the tensors of --input, which give their names, shapes and types.
    """
    from eigentensor_client.files import read_inputs
    from eigentensor_client.sources import of_python

    file, _, name = source.partition(":")
    screen, inputs, cut = Screen(as_json=json), read_inputs(input), _shards(shards, shard_axis)
    with screen.goes_on(_NOTHING), screen.work() as bar:
        bar(f"capturing {source}")
        graph = of_python(Path(file), name or "program", weights, inputs, shards=cut)
    _write(graph, output or Path(Path(file).stem).with_suffix(".program"), None, screen)


@app.command("import")
def import_(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", help="An ONNX model.")],
    shape: Annotated[
        list[str] | None,
        typer.Option("--shape", metavar="NAME=1,3,224,224", help="The shape of an input that the model leaves open."),
    ] = None,
    output: Output = None,
    weights: Annotated[
        Path | None, typer.Option("--weights", help="Where to write its weights [beside the program].")
    ] = None,
    cast: Cast = None,
    shards: ShardCount = 1,
    shard_axis: ShardAxes = None,
    json: Json = False,
) -> None:
    """Write the program that an ONNX model is, and beside it its weights."""
    from eigentensor.capture import import_onnx
    from eigentensor_client.inputs import existing

    screen, shapes, cut = Screen(as_json=json), _shapes(shape), _shards(shards, shard_axis)
    with screen.goes_on(_NOTHING), screen.work() as bar:
        bar(f"importing {model}")
        graph = import_onnx(existing(model), shapes, cast=cast, shards=cut)
    if graph.cast:
        screen.say(f"float32 instead of float64: {', '.join(graph.cast)}")
    _write(graph, output or Path(model.stem).with_suffix(".program"), weights, screen)


@app.command()
def check(program: File, json: Json = False) -> None:
    """Check a program file by every rule of validity; print its uuid."""
    from eigentensor_client.sources import read_program

    facts = program_facts(read_program(str(program)))
    Screen(as_json=json).result(facts["schema"], facts, facts["uuid"])


@app.command()
def show(program: File, json: Json = False) -> None:
    """Show what a program takes, gives and costs."""
    from eigentensor_client.sources import read_program

    show_program(Screen(as_json=json), read_program(str(program)))


def show_program(screen: Screen, program: "Program") -> None:
    """Prints `eigentensor.program/1`."""
    facts = program_facts(program)
    rows = [[tensor["role"], tensor["name"], tensor["dtype"], str(tensor["shape"])] for tensor in facts["tensors"]]
    costs = table(("", ""), [[name.replace("_", " "), f"{value:,}"] for name, value in facts["cost"].items()])
    screen.result(facts["schema"], facts, facts["uuid"], table(("role", "name", "dtype", "shape"), rows), "", costs)


def write_program(graph: "GraphProgram", target: Path, weights: Path | None = None) -> list[Path]:
    """Writes the program, and beside it what its author has: the weights, and the first values of its states."""
    from eigentensor.program.codec import encode
    from eigentensor.store import save_safetensors
    from eigentensor_client.files import write_whole

    written = [write_whole(target, lambda file: file.write_bytes(encode(graph.program)))]
    dtypes = {b.name: b.dtype for b in graph.program.buffers}
    for word, tensors, place in (("weights", graph.weights, weights), ("states", graph.states, None)):
        if tensors:
            save = partial(save_safetensors, tensors=tensors, dtypes={name: dtypes[name] for name in tensors})
            written.append(write_whole(place or target.with_suffix(f".{word}.safetensors"), save))
    return written


def _write(graph: "GraphProgram", target: Path, weights: Path | None, screen: Screen) -> None:
    written = write_program(graph, target, weights)
    fields = program_facts(graph.program)
    fields["files"] = [str(path) for path in written]
    screen.result(fields["schema"], fields, *(f"{path}  {path.stat().st_size:,} bytes" for path in written))


def _shapes(words: list[str] | None) -> dict[str, tuple[int, ...]]:
    """`name=1,3,224,224` as a shape each."""
    shapes = {}
    for word in words or ():
        name, equals, extents = word.rpartition("=")
        try:
            shapes[name] = tuple(int(extent) for extent in extents.split(",") if extents)
        except ValueError:
            equals = ""
        if not equals:
            raise BindingError(f"cannot read shape {word!r}", fix="Write name=1,3,224,224.")
    return shapes


def _shards(count: int, axes: list[str] | None) -> "Shards":
    """`name=1` as the axis of an input that is cut into so many shards; without any, axis 0 of all."""
    named = {}
    for word in axes or ():
        name, _, axis = word.rpartition("=")
        if not name or not axis.isdecimal():
            raise BindingError(f"cannot read the axis {word!r}", fix="Write name=0.")
        named[name] = int(axis), count
    if named and count == 1:
        raise BindingError("an axis is to be cut into one part", fix="Say how many parts with --shards.")
    return named or count


def program_facts(program: "Program") -> "schemas.Program":
    """`eigentensor.program/1`"""
    from eigentensor import merkle
    from eigentensor.program import Kind
    from eigentensor.program.codec import encode
    from eigentensor.program.cost import costs

    tensors: list[schemas.ProgramTensor] = [
        {
            "role": cast("schemas.Role", b.role.name.lower()),
            "name": b.name,
            "dtype": b.dtype.name.lower(),
            "shape": list(b.shape),
        }
        for b in program.buffers
        if b.name
    ]
    for r in program.results:
        dtype = program.parameter(r.buffer).dtype.name.lower()
        role: schemas.Role = "new state" if r.kind is Kind.STATE else "output"
        tensors.append({"role": role, "name": r.name, "dtype": dtype, "shape": list(r.shape)})
    return {
        "schema": "eigentensor.program/1",
        "uuid": merkle.program_root(encode(program)).hex(),
        "bytes": len(encode(program)),
        "semantics": program.semantics,
        "max_repeat": program.max_repeat,
        "variables": {v.name: {"minimum": v.minimum, "maximum": v.maximum} for v in program.variables},
        "tensors": tensors,
        "cost": costs(program).to_json(),
    }
