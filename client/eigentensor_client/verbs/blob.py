"""`eigentensor blob`: bytes by name."""

from pathlib import Path
from typing import Annotated

import typer

from eigentensor_client.verbs.meeting import looking
from eigentensor_client.verbs.options import Json, NetworkName

app = typer.Typer(help="Bytes by name: put, get.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def put(
    file: Annotated[Path, typer.Argument(help="The file to give to the gateway.")],
    network: NetworkName = None,
    json: Json = False,
) -> None:
    """Upload a file; print its uuid, and the uuid of what it computes. Interrupted, the same command goes on."""
    from eigentensor_client.inputs import existing

    with looking(network, json=json) as (screen, _, gateway):
        with screen.goes_on("what has arrived is kept: the same command goes on"), screen.work() as bar:
            bar(f"hashing {file.name}")
            blob = gateway.store.put(existing(file))
            gateway.upload(blob, lambda done, total: bar(f"uploading {file.name}", done, total))
            names = gateway.store.names(blob)
        screen.result("eigentensor.blob/1", names.to_json(), names.computed or names.blob)


@app.command()
def get(
    name: Annotated[str, typer.Argument(metavar="UUID", help="Any name of the blob.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write it.")],
    network: NetworkName = None,
    json: Json = False,
) -> None:
    """Download a blob, verified, to a file. Interrupted, the same command goes on."""
    import shutil

    from eigentensor_client.files import write_whole

    with looking(network, json=json) as (screen, _, gateway):
        with screen.goes_on("what has arrived is kept: the same command goes on"), screen.work() as bar:
            path = gateway.fetch(name, lambda done, total: bar(f"downloading {name[:10]}", done, total))
            write_whole(output, lambda file: shutil.copyfile(path, file))
            names = gateway.store.names(name)
        screen.result("eigentensor.blob/1", {**names.to_json(), "file": str(output)}, str(output))
