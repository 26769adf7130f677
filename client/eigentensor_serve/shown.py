"""`eigentensor app`: what is deployed on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eigentensor_client.screen import Screen, facts, short, table
from eigentensor_client.verbs import options
from eigentensor_serve.deploying import rows_of, urls_of

if TYPE_CHECKING:
    from eigentensor_serve import schemas
    from eigentensor_serve.apps.registry import Apps

app = typer.Typer(
    help="What `deploy` deployed: list, show, rollback, remove.", no_args_is_help=True, rich_markup_mode=None
)

Name = Annotated[str, typer.Argument(metavar="APP", help="An app's name.")]


@app.command("list")
def list_(data: options.ServeData = None, json: options.Json = False) -> None:
    """List the apps, each in the version that is served."""
    screen, apps = Screen(as_json=json), _apps(data)
    found = [(one, apps.versions(one.name)) for one in apps.list()]
    rows = [
        [one.name, f"{one.version} of {len(versions)}", one.model.kind if one.model else "program",
         one.market.network if one.market else "this machine", short(one.program), one.created]
        for one, versions in found
    ]  # fmt: skip
    columns = ("app", "version", "kind", "executed by", "program", "deployed")
    fields = {"apps": [{**one.to_json(), "versions": versions} for one, versions in found]}
    screen.result("eigentensor.apps/1", fields, table(columns, rows) if rows else "nothing is deployed")


@app.command()
def show(
    name: Name,
    version: Annotated[int | None, typer.Option("--version", help="A version [the one that is served].")] = None,
    data: options.ServeData = None,
    json: options.Json = False,
) -> None:
    """Show an app: what it is made of, its versions, where it is served."""
    apps = _apps(data)
    one, versions, served = apps.get(name, version), apps.versions(name), apps.get(name).version
    said = ", ".join(f"{number}, served" if number == served else str(number) for number in versions)
    rows = [*rows_of(one), ["versions", said], *urls_of(one)]
    Screen(as_json=json).result(
        "eigentensor.app/1", {**one.to_json(), "versions": versions, "served": served}, facts(rows)
    )


@app.command()
def rollback(
    name: Name,
    to: Annotated[int | None, typer.Option("--to", help="The version to serve [the one before].")] = None,
    data: options.ServeData = None,
    json: options.Json = False,
) -> None:
    """Serve another version from now on; no version is lost."""
    one = _apps(data).rollback(name, to)
    Screen(as_json=json).result("eigentensor.app/1", one.to_json(), f"{one.name} is version {one.version} now")


@app.command()
def remove(name: Name, data: options.ServeData = None, json: options.Json = False) -> None:
    """Forget an app, all its versions, and what no other app is made of. Tasks and receipts stay."""
    apps = _apps(data)
    versions = apps.versions(name)
    apps.remove(name)
    said = f"{name} is gone: {len(versions)} version{'s' if len(versions) != 1 else ''}"
    fields: schemas.AppRemoved = {"schema": "eigentensor.app-removed/1", "name": name, "versions": versions}
    Screen(as_json=json).result(fields["schema"], fields, said)


def _apps(data: Path | None) -> "Apps":
    from eigentensor_serve.apps.registry import Apps, serve_folder

    return Apps(data or serve_folder())
