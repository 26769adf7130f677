"""`eigentensor doctor`: can this machine execute programs, and what does it lack?"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from eigentensor.errors import ConnectionLost, EigenTensorError, ExecutionError
from eigentensor_client.cli import exit_code
from eigentensor_client.screen import Screen, table
from eigentensor_client.verbs.options import Json

if TYPE_CHECKING:
    from eigentensor.runtime.doctor import Finding
    from eigentensor_client.schemas import programs as schemas

app = typer.Typer(rich_markup_mode=None)
PATIENCE = 300.0  # seconds that a cluster may take


@app.command()
def doctor(
    devices: Annotated[
        list[str] | None, typer.Argument(metavar="[DEVICE]...", help="Only these, by name; cluster:ADDRESS is one.")
    ] = None,
    token: Annotated[
        str | None, typer.Option("--token", help="Of a cluster: the file with yours; else EIGENTENSOR_CLUSTER_TOKEN.")
    ] = None,
    json: Json = False,
) -> None:
    """Hold every device here to the reference, and say what this machine lacks. Nothing is sent, but the self-test to a
    cluster that is named.

    Exit code 7 if no device is admitted, or if results could not be rechecked in this process.
    """
    from eigentensor.cluster.address import of_device
    from eigentensor.runtime.doctor import examine, may_serve

    clusters = [name for name in devices or () if of_device(name) is not None]
    here = [name for name in devices or () if name not in clusters]
    screen = Screen(as_json=json)
    findings = []
    with screen.work() as bar:
        for finding in examine(here, [partial(_at_cluster, name, token) for name in clusters]):
            bar(f"{finding.state.value} {finding.what} {finding.name}".rstrip())
            findings.append(finding)
    show_findings(screen, findings)
    if not may_serve(findings):
        raise typer.Exit(exit_code(ExecutionError))


def _at_cluster(name: str, token: str | None) -> "Finding":
    """Whether a cluster computes as the reference does, at whichever worker has its turn."""
    from eigentensor.cluster.address import of_device
    from eigentensor.cluster.remote import RemoteSession
    from eigentensor.cluster.resident import conform
    from eigentensor.runtime.doctor import Finding, State

    try:
        with RemoteSession(str(of_device(name)), token, seconds=PATIENCE) as session:
            conform(session)
            by = ", ".join(worker.name for worker in session.stats().workers)
    except EigenTensorError as error:
        state = State.ABSENT if isinstance(error, ConnectionLost) else State.REFUSED
        return Finding("device", name, state, error.what, error.fix)
    return Finding("device", name, State.OK, f"admitted, every bit is the reference's: computed by worker {by}")


def show_findings(screen: Screen, findings: "Sequence[Finding]") -> None:
    """`eigentensor.doctor/1`"""
    from eigentensor.runtime.doctor import State

    rows = [[f.state.value, f.what, f.name, f.says] for f in findings]
    fixes = [f"fix for {f.what} {f.name}: {f.fix}" for f in findings if f.fix and f.state is not State.OK]
    admitted = [f.name for f in findings if f.what == "device" and f.state is State.OK]
    listed = [finding.to_json() for finding in findings]
    fields: schemas.Doctor = {"schema": "eigentensor.doctor/1", "admitted": admitted, "findings": listed}
    screen.result(fields["schema"], fields, table(("", "what", "name", "found"), rows), *fixes)
