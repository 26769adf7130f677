"""`eigentensor tune`: which schedules run a program fastest here, by measuring."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eigentensor_client.screen import Screen, table
from eigentensor_client.verbs.options import Json

if TYPE_CHECKING:
    from eigentensor.runtime.tuning.tuner import Line
    from eigentensor_client.schemas import programs as schemas

app = typer.Typer(rich_markup_mode=None)


@app.command()
def tune(
    program: Annotated[Path, typer.Argument(metavar="PROGRAM", help="A program file.")],
    device: Annotated[str, typer.Option("--device", help="The device that is to run it, by tinygrad's name.")] = "CPU",
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="How long to measure.")] = 60.0,
    json: Json = False,
) -> None:
    """Measure schedules of a program's bodies on this machine, and remember the best for every later run.

    The results have the same bits as before. Ctrl-C keeps what was measured; call it again to go on.
    """
    from eigentensor.cache import Cache, default_folder
    from eigentensor.runtime import devices
    from eigentensor.runtime.build.database import Database, default_path
    from eigentensor.runtime.tuning.tuner import Tuner
    from eigentensor_client.sources import read_program

    screen, here, interrupted = Screen(as_json=json), devices.of(device), False
    decoded = read_program(str(program))
    with Database(default_path()) as database:
        tuner = Tuner(decoded, here, Cache(default_folder()), database)
        try:
            with screen.work() as bar:
                tuner.run(seconds, bar)
        except KeyboardInterrupt:
            interrupted = True
            screen.say("interrupted: what was measured is kept")
        lines, known = tuner.lines(), database.count()
    show_tuning(screen, device, lines, known, database.path)
    if interrupted:
        raise typer.Exit(130)


def show_tuning(screen: Screen, device: str, lines: list["Line"], known: int, database: Path) -> None:
    """`eigentensor.tuning/1`: seconds, and how many measurements the database has."""
    before, after = _totals(lines)
    fields: schemas.Tuning = {
        "schema": "eigentensor.tuning/1",
        "device": device,
        "bodies": [line.to_json() for line in lines],
        "heuristic_seconds": before,
        "best_seconds": after,
        "database": str(database),
        "measurements": known,
    }
    count = f"{known:,} measurements in {database}"
    screen.result(fields["schema"], fields, _table(lines), _summary(lines), count)


def _totals(lines: list["Line"]) -> tuple[float, float]:
    """Seconds of all calls, with the heuristic's schedules and with the best."""
    before = sum(line.calls * line.heuristic_seconds for line in lines)
    return before, sum(line.calls * line.best_seconds for line in lines)


def _table(lines: list["Line"]) -> Any:
    head = ("body", "calls", "shape", "heuristic", "best", "times", "tried", "schedule")
    return table(head, [_row(line) for line in lines])


def _row(line: "Line") -> list[str]:
    times = [f"{seconds * 1e6:,.1f} µs" for seconds in (line.heuristic_seconds, line.best_seconds)]
    tried = f"{line.tried} of {line.possible}"
    return [str(line.body), str(line.calls), line.shape, *times, f"{line.ratio:.2f}", tried, line.schedule]


def _summary(lines: list["Line"]) -> str:
    before, after = _totals(lines)
    if not after:
        return "nothing was measured"
    both = f"{before * 1e3:,.3f} ms with the heuristic's schedules, {after * 1e3:,.3f} ms with the best"
    return f"all calls: {both}, {before / after:.2f} times"
