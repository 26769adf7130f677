"""The command `eigentensor`: finds its verbs by name and imports one only when it is used.

Nothing heavy may be imported here: `eigentensor --help` answers within 200 ms.
"""

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from eigentensor.errors import EigenTensorError

# name: (module under eigentensor_client.verbs, its Typer application, one line of help)
VERBS = {
    "devnet": ("devnet", "app", "A local network: chain, contracts, aggregator and operators, until Ctrl-C."),
    "plan": ("plan", "app", "What a task would cost, and what cheating would cost its executor. Nothing is sent."),
    "run": ("run", "app", "Run a program on somebody else's device, pay for it, fetch the verified result."),
    "ps": ("task", "ps", "The account's tasks, newest first."),
    "get": ("task", "get", "Fetch the verified result of a task."),
    "task": ("task", "app", "One task: show, explain, cancel."),
    "session": ("session", "app", "Tasks that go on from each other's states: start, run, wait, show, states, rewind."),
    "deploy": ("deploy", "app", "Make a program with its weights an endpoint of `serve`, in versions."),
    "app": ("app", "app", "What is deployed: list, show, rollback, remove."),
    "challenge": ("challenge", "app", "Games about results: look again, challenge, play, follow, be paid."),
    "serve": ("serve", "app", "Programs over HTTP, paid by this wallet within a budget; or --local, executed here."),
    "program": ("program", "app", "Program files: capture, import, check, show."),
    "optimise": ("optimise", "app", "Find the fastest program for a graph, within a tolerance, on this machine."),
    "economics": ("economics", "app", "What cheating would pay: simulate, payoffs, tune, plot. Nothing is sent."),
    "tune": ("tune", "app", "Measure which schedules run a program fastest on this machine."),
    "blob": ("blob", "app", "Bytes by name: put, get."),
    "doctor": ("doctor", "app", "Hold every device of this machine to the reference, and say what it lacks."),
}
PARTS = {
    "watch": "Re-execute what others executed, and challenge what differs.",
    "operator": "Execute strangers' programs for money: up, run, status, leave.",
    "aggregator": "Serve blobs and tasks over HTTP, and send what is due.",
}


class Verbs(TyperGroup):
    """Loads a verb when it is called; other parts offer theirs as entry points of the group `eigentensor.verbs`."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*VERBS, *PARTS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in VERBS:
            module, attribute, _ = VERBS[cmd_name]
            app = getattr(import_module(f"eigentensor_client.verbs.{module}"), attribute)
        elif found := tuple(entry_points(group="eigentensor.verbs", name=cmd_name)):
            app = found[0].load()
        else:
            return None
        app.rich_markup_mode = None  # plain help, the same for all parts
        command = get_command(app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, line) for name, (_, _, line) in VERBS.items()])
        with formatter.section("Parts of the network"):
            formatter.write_dl(list(PARTS.items()))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version("eigentensor"))
        raise typer.Exit


app = typer.Typer(cls=Verbs, no_args_is_help=True, add_completion=False, rich_markup_mode=None)


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
) -> None:
    """Run a tinygrad computation on somebody else's GPU, pay for it, and be sure of the result."""


def report(error: EigenTensorError, *, as_json: bool) -> None:
    """Prints what went wrong, why, and what to do: to stderr, and as one object to stdout if JSON is wanted."""
    said = {"what": error.what, "why": str(error.__cause__ or ""), "fix": error.fix}
    if as_json:
        fields = {"schema": "eigentensor.error/1", "error": type(error).__name__, **said, "exit_code": error.exit_code}
        typer.echo(json.dumps(fields))
    for word, text in zip(("error", "  why", "  fix"), said.values(), strict=True):
        if text:
            typer.echo(f"{word}  {text}", err=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one verb and exits with a code of the table in client/README.md."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        get_command(app)(words, prog_name="eigentensor")
    except EigenTensorError as error:
        report(error, as_json="--json" in words)
        sys.exit(error.exit_code)
