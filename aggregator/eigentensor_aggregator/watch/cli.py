"""`eigentensor watch`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from eigentensor.extras import require

app = typer.Typer(
    name="watch", help="Re-execute what others executed, and challenge what differs.", add_completion=False
)


@app.command()
def watch(
    network: Annotated[str | None, typer.Option(help="Name or .json file of the network.")] = None,
    share: Annotated[float | None, typer.Option(help="Share of all results to re-execute, 0 to 1.")] = None,
    operator: Annotated[str | None, typer.Option(help="Whose results alone are re-executed, by its address.")] = None,
    bonds: Annotated[str | None, typer.Option(help="Tokens that may be bound in games at once.")] = None,
    max_operations: Annotated[int | None, typer.Option(help="Operations that one result may take.")] = None,
    max_memory: Annotated[int | None, typer.Option(help="Bytes of tensors that one result may take.")] = None,
    block_seconds: Annotated[float | None, typer.Option(help="Time between blocks.")] = None,
    gateway: Annotated[str | None, typer.Option(help="URL of the gateway that has the blobs.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the database, the journal and blobs.")] = None,
    keystore: Annotated[
        str | None,
        typer.Option(help="V3 keystore, or URL of a key elsewhere, that pays for challenges; none: only tell."),
    ] = None,
    password_file: Annotated[Path | None, typer.Option(help="File with the keystore's password.")] = None,
    unsafe_no_sandbox: Annotated[
        bool, typer.Option("--unsafe-no-sandbox", help="Run strangers' programs unconfined. Do not.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One object per line.")] = False,
) -> None:
    """Re-execute what others executed, and challenge what differs, until SIGTERM or Ctrl-C.

    Goes on where it stopped. More: EIGENTENSOR_WATCH_* and aggregator/README.md.
    """
    flags: dict[str, Any] = dict(locals()) | {"unsafe_no_sandbox": unsafe_no_sandbox or None}
    del flags["as_json"]
    require("aggregator")
    import logging

    from eigentensor_aggregator import logs
    from eigentensor_aggregator.config import WatchSettings, settings_of
    from eigentensor_aggregator.watch import service

    settings = settings_of(WatchSettings, flags)
    logs.configure(logging.WARNING)
    service.run(settings, as_json=as_json)
