"""A game as a stranger reads it: who, on what, whose move, and what follows."""

from typing import Any

import pytest

from eigentensor_client import games
from worked_examples import layer

OPEN: dict[str, Any] = {"state": "open", "turn": "challenger", "until": 250, "phase": "call", "lost_by": None}
MOVES = ["publish", "call", "tree", "node", "leaf", "element", "borders", "span", "verdict"]


@pytest.mark.parametrize("phase", MOVES)
def test_an_open_game_says_what_comes_next_and_what_if_it_does_not(phase: str) -> None:
    text = games.follows(OPEN | {"phase": phase})
    assert text.endswith("; if nothing comes until block 250, the challenger loses")
    assert len(text) > 80


def test_an_ended_game_says_who_lost_and_what_that_means() -> None:
    executor, challenger = (OPEN | {"state": "ended", "lost_by": side} for side in ("executor", "challenger"))
    assert (games.stands(executor), games.stands(challenger)) == (
        "ended: the executor lost",
        "ended: the challenger lost",
    )
    assert "escrow back" in games.follows(executor)
    assert "bond is gone" in games.follows(challenger)
    assert games.stands(OPEN) == "open, the challenger's move until block 250"


@pytest.mark.parametrize("state", ["idle", "ended"])
def test_a_game_that_its_task_outran_is_over_without_a_loser(state: str) -> None:
    game = OPEN | {"state": state, "turn": None, "until": None}
    assert games.stands(game) == "over without a loser: its task ended first"
    assert games.follows(game).endswith("the challenger's bond comes back")


def test_the_disputed_call_is_shown_as_the_body_that_it_executes() -> None:
    program = layer().program
    first, second = (games.body(program, number) for number in (0, 1))
    assert first != second
    assert any("LOAD" in line for line in first)
    assert games.body(program, len(program.calls)) == first  # the next iteration executes the same calls


def test_no_call_is_disputed_before_one_was_named() -> None:
    assert games.disputed_call({"position": {"number": 0, "kernel": "0x" + "00" * 32}}) is None
    assert games.disputed_call({"position": {"number": 0, "kernel": "0x" + "ab" * 32}}) == 0
