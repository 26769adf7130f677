"""`eigentensor completion`: what a shell reads to complete this command."""

from enum import StrEnum
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None)


class Shell(StrEnum):
    """Shells that can be completed for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command()
def completion(shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Which shell reads it.")]) -> None:
    """Print a script for a shell, to be read when it starts: `eval "$(eigentensor completion bash)"`.

    For fish: `eigentensor completion fish > ~/.config/fish/completions/eigentensor.fish`.
    """
    from typer._completion_shared import get_completion_script

    from eigentensor_client.cli import COMPLETES

    typer.echo(get_completion_script(prog_name="eigentensor", complete_var=COMPLETES, shell=shell))
