"""`eigentensor optimise`: of all programs for the same mathematics, the fastest that is exact enough."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eigentensor.errors import CaptureError
from eigentensor_client.screen import Screen, table
from eigentensor_client.verbs.options import Inputs, Json
from eigentensor_client.verbs.program import write_program

if TYPE_CHECKING:
    from eigentensor.graph.node import Graph
    from eigentensor.planner.plan import Plan, PlannedBlock, Whole
    from eigentensor.planner.search import Candidate
    from eigentensor_client.schemas import programs as schemas

app = typer.Typer(rich_markup_mode=None)


@app.command()
def optimise(
    source: Annotated[
        str, typer.Argument(metavar="GRAPH", help="FILE.py:NAME, a Graph or what returns one [graph]; or a graph file.")
    ],
    tolerance: Annotated[
        float, typer.Option("--tolerance", min=0, help="Largest relative error against float64.")
    ] = 1e-5,
    everything: Annotated[bool, typer.Option("--all", help="Measure and execute every path.")] = False,
    paths: Annotated[int, typer.Option("--paths", min=1, help="Programs to look at for each block.")] = 96,
    device: Annotated[str, typer.Option("--device", help="The device that is to run it, by tinygrad's name.")] = "CPU",
    inputs: Inputs = None,
    max_repeat: Annotated[
        int, typer.Option("--max-repeat", min=1, help="How often an order may repeat the program.")
    ] = 1,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write the program [the name of FILE, with .program]."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Where to draw its calls with their times, as SVG.")
    ] = None,
    json: Json = False,
) -> None:
    """Search rewrites, storage types and orders of summation for the program that is fastest here, within the tolerance
    of what the graph means in float64 on a sample of inputs: yours, or random ones.

    Times of kernels are measured where they matter, and remembered. Ctrl-C keeps them; call it again to go on.
    """
    from eigentensor.cache import Cache, default_folder
    from eigentensor.graph.lower import lower
    from eigentensor.planner.measure import Meter
    from eigentensor.planner.picture import picture as drawn
    from eigentensor.planner.plan import Planner
    from eigentensor.runtime import devices
    from eigentensor.runtime.build.database import Database, default_path
    from eigentensor_client.files import check_places, read_inputs, write_whole

    target = output or Path(Path(source.partition(":")[0]).stem).with_suffix(".program")
    check_places(target, picture)
    screen, graph, here = Screen(as_json=json), _graph(source), devices.of(device)
    lower(graph).repeatable(max_repeat)  # says now why it cannot be one
    with Database(default_path()) as database:
        meter = Meter(here, Cache(default_folder()), database)
        planner = Planner(graph, meter, tolerance=tolerance, tensors=read_inputs(inputs), most=paths)
        try:
            with screen.work() as bar:
                plan = planner.plan(everything=everything, progress=bar)
        except KeyboardInterrupt:
            screen.say("interrupted: what was measured is kept, call it again to go on")
            raise typer.Exit(130) from None
    plan = replace(plan, chosen=replace(plan.chosen, made=plan.chosen.made.repeatable(max_repeat)))
    files = write_program(plan.chosen.made, target)
    if picture is not None:
        text = drawn(plan.chosen.made.program, plan.chosen.cost, f"{Path(source).name} on {device}")
        files.append(write_whole(picture, lambda file: file.write_text(text)))
    show_plan(screen, plan, device, tolerance, everything=everything, files=files)


def show_plan(
    screen: Screen, plan: "Plan", device: str, tolerance: float, *, everything: bool = False, files: Sequence[Path] = ()
) -> None:
    """`eigentensor.optimised/2`: what was chosen, what was given, every path of every block, and the files written."""
    fields = _fields(plan, device, tolerance, files)
    lines = (line for number, part in enumerate(plan.parts, 1) for line in _lines(part, number, everything))
    written = (f"{path}  {path.stat().st_size:,} bytes" for path in files)
    screen.result(fields["schema"], fields, *lines, *_summary(plan), *written)


def _graph(source: str) -> "Graph":
    """The graph of a file, or that a name in a Python file stands for."""
    from eigentensor.graph.node import Graph
    from eigentensor.store.graphs import load_graph
    from eigentensor_client.inputs import existing
    from eigentensor_client.sources import names_of, running

    file, _, name = source.partition(":")
    if Path(file).suffix != ".py":
        return load_graph(existing(Path(source)))
    graph = names_of(Path(file)).get(name or "graph")
    if callable(graph):
        with running(f"{name or 'graph'} of {file}", Path(file)):
            graph = graph()
    if not isinstance(graph, Graph):
        raise CaptureError(
            f"{file} has no graph named {name or 'graph'!r}",
            fix="Name a Graph, as GraphBuilder.graph(…) gives it, or a function that returns one: FILE.py:NAME.",
        )
    return graph


def _lines(part: "PlannedBlock", number: int, everything: bool) -> Iterator[Any]:
    """The table of a block's paths, the cheapest first."""
    times = f", {len(part.block.places)} times in the graph" if len(part.block.places) > 1 else ""
    count = len(part.search.candidates)
    yield f"block {number}{times}: {count} program{'s' * (count != 1)}"
    rows = [
        [c.rules, f"{c.cost.seconds * 1e6:,.1f} µs", *_facts(c), part.verdict(c)]
        for c in part.shown(everything=everything)
    ]
    yield table(("rules", "time", "", "error", ""), rows)


def _facts(candidate: "Candidate") -> tuple[str, str]:
    error = "" if candidate.error is None else f"{candidate.error:.1e}"
    return "measured" if candidate.cost.measured else "estimated", error


def _summary(plan: "Plan") -> Iterator[str]:
    chosen, plain = plan.chosen, plan.original
    count = len(chosen.cost.calls)
    yield f"program {chosen.made.uuid}"
    yield (
        f"{chosen.cost.seconds * 1e6:,.1f} µs a run in {count} call{'s' * (count != 1)}, errs by {chosen.error:.1e};"
        f" {plan.gain:.2f} times as fast as the graph as it is: {plain.cost.seconds * 1e6:,.1f} µs, {plain.error:.1e}"
    )
    yield f"planned in {plan.planning:.1f} s, checked as a whole in {plan.checking:.1f} s"


def _fields(plan: "Plan", device: str, tolerance: float, files: Sequence[Path]) -> "schemas.Optimised":
    return {
        "schema": "eigentensor.optimised/2",
        "chosen": _whole(plan.chosen),
        "original": _whole(plan.original),
        "blocks": [
            {"places": len(part.block.places), "paths": [_path(c, part) for c in part.search.candidates]}
            for part in plan.parts
        ],
        "planning_seconds": plan.planning,
        "checking_seconds": plan.checking,
        "device": device,
        "tolerance": tolerance,
        "files": [str(file) for file in files],
    }


def _whole(of: "Whole") -> "schemas.OptimisedProgram":
    calls = [call.to_json() for call in of.cost.calls]
    return {"uuid": of.made.uuid, "seconds": of.cost.seconds, "max_relative_error": of.error, "calls": calls}


def _path(of: "Candidate", part: "PlannedBlock") -> "schemas.OptimisedPath":
    return {
        "rules": list(of.path.rules), "seconds": of.cost.seconds, "measured": of.cost.measured,
        "max_relative_error": of.error, "verdict": part.verdict(of),
    }  # fmt: skip
