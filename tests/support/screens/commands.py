"""Every command that there is, by the words that call it: those of the client and of all parts."""

import os
import sys
from pathlib import Path
from typing import Any

from typer.main import get_command

from eigentensor_client.cli import PARTS, VERBS, app, leaves

#: Verbs that show what another does.
AS = {
    "get": "run", "cancel": "task-open", "task show": "task-result", "task cancel": "task-open", "task logs": "logs",
    "session start": "session", "session run": "run", "session wait": "session", "session show": "session",
    "session rewind": "session", "deploy": "app", "app show": "app", "challenge watch": "challenge-show",
    "challenge open": "challenge-show", "receipt get": "receipt-check", "program show": "program",
    "wallet show": "wallet", "wallet deposit": "wallet", "wallet withdraw": "wallet", "wallet fund": "wallet",
    "operator leave": "operator-up", "channel open": "channel-show", "channel fund": "channel-show",
    "channel leave": "channel-show", "channel close": "channel-show", "cluster top": "cluster-status",
}  # fmt: skip


def on_path() -> None:
    """Lets the shell find the command of this environment, as if it had been activated: hints name it so."""
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))


def commands() -> dict[str, Any]:
    """What does something itself, at whatever depth: `serve`, `serve token new`, `operator up`."""
    group: Any = get_command(app)
    return {words: leaf for name in (*VERBS, *PARTS) for words, leaf in leaves(name, group.get_command(None, name))}
