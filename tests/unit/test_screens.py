"""What people and programs see is what is committed: `scripts/screens` renews it, and the difference is reviewed."""

from typing import Any

import pytest
from typer.main import get_command

from eigentensor_client.cli import VERBS, app, leaves
from screens import FOLDER, SCREENS, drawn

#: Verbs that show what another does.
AS = {
    "get": "run", "cancel": "task-open", "task show": "task-result", "task cancel": "task-open", "task logs": "logs",
    "session start": "session", "session run": "run", "session wait": "session", "session show": "session",
    "session rewind": "session", "deploy": "app", "app show": "app", "challenge watch": "challenge-show",
    "challenge open": "challenge-show", "receipt get": "receipt-check", "program show": "program",
    "wallet show": "wallet", "wallet deposit": "wallet", "wallet withdraw": "wallet",
}  # fmt: skip
#: Verbs that show a path, a name or a script, and those whose tables tests of their own look at.
PLAIN = {
    "session states", "app list", "app rollback", "app remove", "challenge claim", "serve", "serve new", "serve list",
    "serve remove", "program capture", "program import", "program check", "optimise", "economics tune",
    "economics plot", "blob put", "blob get", "wallet new", "completion",
}  # fmt: skip


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_what_is_committed(name: str) -> None:
    assert drawn(name) == (FOLDER / f"{name}.txt").read_text(), "renew with scripts/screens, and look at the difference"


def test_no_screen_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == SCREENS.keys()


def test_every_verb_has_a_screen_or_shows_what_another_does() -> None:
    group: Any = get_command(app)
    verbs = {name: group.get_command(None, name) for name in VERBS}
    every = {name if leaf is verb else f"{name} {leaf.name}" for name, verb in verbs.items() for leaf in leaves(verb)}
    own = {words for words in every if words.replace(" ", "-") in SCREENS}
    assert every == own | AS.keys() | PLAIN
    assert set(AS.values()) <= SCREENS.keys()
