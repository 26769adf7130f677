"""The committed games are those that players play now, and end both ways."""

import json
import runpy
from pathlib import Path

TESTS = Path(__file__).parents[1]
VECTORS = TESTS / "vectors" / "games.json"


def test_the_games_are_those_that_players_play_now() -> None:
    assert VECTORS.read_text() == runpy.run_path(str(TESTS / "support/vectors/games.py"))["text"]()


def test_the_games_end_with_both_verdicts() -> None:
    ends = {game["name"]: game["executorLost"] for game in json.loads(VECTORS.read_text())["games"]}
    assert ends.pop("lie") and not any(ends.values())
    assert len(ends) > 5
