"""What people and programs see is what is committed: `scripts/screens` renews it, and the difference is reviewed."""

import pytest

from screens import FOLDER, SCREENS, drawn


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_what_is_committed(name: str) -> None:
    assert drawn(name) == (FOLDER / f"{name}.txt").read_text(), "renew with scripts/screens, and look at the difference"


def test_no_screen_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == SCREENS.keys()
