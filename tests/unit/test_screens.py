"""What people and programs see is what is committed: `scripts/screens` renews it, and the difference is reviewed."""

import pytest

from support.screens.commands import AS, commands
from support.screens.screens import FOLDER, SCREENS, drawn

#: Verbs that show a path, a name or a script.
PLAIN = {
    "session states", "app list", "app rollback", "app remove", "serve token new", "serve token list",
    "serve token remove", "program capture", "program import", "program check", "blob put", "blob get", "wallet new",
    "wallet import", "operator drain", "completion", "channel receipt", "cluster run", "cluster timeline",
    "cluster down", "chat",
}  # fmt: skip
#: Servers: they say that they listen, and write logs.
SERVERS = {"serve", "operator run", "aggregator run", "cluster up", "cluster worker"}
#: A story, which the front page shows.
STORY = {"demo"}


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_what_is_committed(name: str) -> None:
    assert drawn(name) == (FOLDER / f"{name}.txt").read_text(), "renew with scripts/screens, and look at the difference"


def test_no_screen_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == SCREENS.keys()


def test_every_command_has_a_screen_or_shows_what_another_does() -> None:
    every = set(commands())
    own = {words for words in every if words.replace(" ", "-") in SCREENS}
    assert every == own | AS.keys() | PLAIN | SERVERS | STORY
    assert set(AS.values()) <= SCREENS.keys()
