"""`eigentensor init`: an example to begin with."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from eigentensor_client.screen import Screen, facts, table
from eigentensor_client.verbs.options import Json

if TYPE_CHECKING:
    from eigentensor_client.examples import Example
    from eigentensor_client.schemas import examples as schemas

app = typer.Typer(rich_markup_mode=None)


@app.command()
def init(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The example; left out, they are listed.")
    ] = None,
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="An empty folder, or one that is not there [this one].")
    ] = Path("."),
    json: Json = False,
) -> None:
    """Write an example to begin with into an empty folder, and say which command makes it a paid task."""
    from eigentensor_client.examples import example, examples, write_example

    screen = Screen(as_json=json)
    if name is None:
        show_examples(screen, examples())
    else:
        chosen = example(name)
        show_example(screen, chosen, folder, write_example(chosen, folder))


def show_examples(screen: Screen, examples: "list[Example]") -> None:
    """Prints `eigentensor.examples/1`."""
    fields: schemas.Examples = {
        "schema": "eigentensor.examples/1",
        "examples": [{"name": e.name, "what": e.what, "command": e.command, "files": list(e.files)} for e in examples],
    }
    screen.result(fields["schema"], fields, table(("example", "what"), [[e.name, e.what] for e in examples]))


def show_example(screen: Screen, example: "Example", folder: Path, written: list[Path]) -> None:
    """Prints `eigentensor.example/1`."""
    fields: schemas.WrittenExample = {
        "schema": "eigentensor.example/1",
        "name": example.name,
        "what": example.what,
        "command": example.command,
        "files": list(map(str, written)),
        "folder": str(folder),
    }
    enter = "" if folder.resolve() == Path().resolve() else f"cd {quote(str(folder))} && "
    rows = [["example", example.what], ["written", ", ".join(fields["files"])]]
    screen.result(fields["schema"], fields, facts([*rows, ["next", enter + example.command]]))
