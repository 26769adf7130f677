"""`eigentensor doctor`: can this machine execute programs, and what does it lack?"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from eigentensor.errors import ExecutionError
from eigentensor_client.cli import exit_code
from eigentensor_client.screen import Screen, table
from eigentensor_client.verbs.options import Json

if TYPE_CHECKING:
    from eigentensor.runtime.doctor import Finding
    from eigentensor_client.schemas import programs as schemas

app = typer.Typer(rich_markup_mode=None)


@app.command()
def doctor(
    devices: Annotated[list[str] | None, typer.Argument(metavar="[DEVICE]...", help="Only these, by name.")] = None,
    json: Json = False,
) -> None:
    """Hold every device here to the reference, and say what this machine lacks. Nothing is sent.

    Exit code 7 if no device is admitted, or if results could not be rechecked in this process.
    """
    from eigentensor.runtime.doctor import examine, may_serve

    screen = Screen(as_json=json)
    findings = []
    with screen.work() as bar:
        for finding in examine(devices or ()):
            bar(f"{finding.state.value} {finding.what} {finding.name}".rstrip())
            findings.append(finding)
    show_findings(screen, findings)
    if not may_serve(findings):
        raise typer.Exit(exit_code(ExecutionError))


def show_findings(screen: Screen, findings: "Sequence[Finding]") -> None:
    """`eigentensor.doctor/1`"""
    from eigentensor.runtime.doctor import State

    rows = [[f.state.value, f.what, f.name, f.says] for f in findings]
    fixes = [f"fix for {f.what} {f.name}: {f.fix}" for f in findings if f.fix and f.state is not State.OK]
    admitted = [f.name for f in findings if f.what == "device" and f.state is State.OK]
    listed = [finding.to_json() for finding in findings]
    fields: schemas.Doctor = {"schema": "eigentensor.doctor/1", "admitted": admitted, "findings": listed}
    screen.result(fields["schema"], fields, table(("", "what", "name", "found"), rows), *fixes)
