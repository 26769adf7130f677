"""`eigentensor blob`: bytes by name."""

from pathlib import Path
from typing import Annotated

import typer

from eigentensor_client.screen import Screen
from eigentensor_client.verbs.options import Json, NetworkName

app = typer.Typer(help="Bytes by name: put, get.", no_args_is_help=True, rich_markup_mode=None)
