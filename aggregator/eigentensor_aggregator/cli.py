"""`eigentensor aggregator`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from eigentensor.extras import require

app = typer.Typer(name="aggregator", help="Serve blobs and tasks, watch deadlines.", no_args_is_help=True)


@app.callback()
def aggregator() -> None:
    """Serve blobs and tasks, watch deadlines."""


@app.command()
def run(
    network: Annotated[str | None, typer.Option(help="Name or .json file of the network.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 chooses a free one.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of database and uploads.")] = None,
    keystore: Annotated[
        str | None,
        typer.Option(help="V3 keystore, or URL of a key elsewhere, that pays for messages; none: send none."),
    ] = None,
    password_file: Annotated[Path | None, typer.Option(help="File with the keystore's password.")] = None,
    watch_share: Annotated[float | None, typer.Option(help="Share of all results to re-execute, 0 to 1.")] = None,
) -> None:
    """Run the aggregator until it is told to stop. More settings: EIGENTENSOR_AGGREGATOR_* (aggregator/README.md)."""
    require("aggregator")
    from eigentensor_aggregator import logs, service
    from eigentensor_aggregator.config import Settings, settings_of

    flags: dict[str, Any] = {
        "network": network,
        "host": host,
        "port": port,
        "data": data,
        "keystore": keystore,
        "password_file": password_file,
        "watch": None if watch_share is None else {"share": watch_share},
    }
    settings = settings_of(Settings, flags)
    logs.configure()
    service.run(settings)


@app.command()
def scrub(
    data: Annotated[Path | None, typer.Option(help="Folder of database and uploads.")] = None,
    database: Annotated[
        str | None, typer.Option(help="SQLAlchemy URL; SQLite in the data folder unless given.")
    ] = None,
    blobs: Annotated[str | None, typer.Option(help="Folder or fsspec URL of blobs.")] = None,
    peers: Annotated[str | None, typer.Option(help="URLs of other gateways, with commas, that may have them.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object per blob that was not well.")] = False,
) -> None:
    """Look at the bytes of every blob; fetch again what is damaged or lost, or make room for who gives it.

    Runs beside the aggregator, which does the same slowly. Ends with 8 if anything is lost.
    """
    require("aggregator")
    from eigentensor_aggregator import logs, service
    from eigentensor_aggregator.config import Settings, settings_of

    flags: dict[str, Any] = {"data": data, "database": database, "blobs": blobs, "peers": peers}
    settings = settings_of(Settings, flags)
    logs.configure()
    if service.scrub(settings, as_json):
        raise typer.Exit(8)
