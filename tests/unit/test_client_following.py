"""Games that change while one looks: drawn anew in a terminal, by lines in a pipe, as objects with --json."""

import io
import json
from typing import Any

import pytest
from rich.console import Console

from eigentensor_client import screen
from eigentensor_client.games import Here, following
from eigentensor_client.screen import Screen
from support.screens.values import GAME

HERE = Here(None, lambda wei: f"{wei} wei")


def game(number: int, moves: int, state: str = "open", block: int = 240) -> dict[str, Any]:
    is_open = state == "open"
    move = GAME["moves"][0]
    return {
        **GAME, "game": number, "state": state, "lost_by": None if is_open else "executor",
        "turn": "executor" if is_open else None, "until": 250, "block": block, "phase": "tree", "path": [],
        "moves": [{**move, "what": f"move {n}", "block": n, "gas": n} for n in range(1, moves + 1)],
    }  # fmt: skip


def test_a_pipe_gets_news_as_data_and_what_is_waited_for_as_talk(capsys: pytest.CaptureFixture[str]) -> None:
    with following(Screen(), HERE) as shown:
        for moves, block in ((1, 240), (1, 241), (2, 242)):
            shown.one(game(3, moves, block=block), "waiting")
        shown.one(game(3, 2, "ended"))
    out, err = capsys.readouterr()
    assert [line.rpartition("  ")[2] for line in out.splitlines()] == [
        "move 1", "the executor's move until block 250",
        "move 2", "the executor's move until block 250",
        "ended: the executor lost",
    ]  # fmt: skip
    assert err == "waiting\n"


def test_json_is_an_object_for_every_change(capsys: pytest.CaptureFixture[str]) -> None:
    with following(Screen(as_json=True), HERE) as shown:
        for moves, block in ((1, 240), (1, 241), (2, 242)):
            shown.many([game(3, moves, block=block), game(4, 1)])
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["schema"], one["game"], len(one["moves"])) for one in objects] == [
        ("eigentensor.challenge/1", 3, 1),
        ("eigentensor.challenge/1", 4, 1),
        ("eigentensor.challenge/1", 3, 2),
    ]


def test_many_games_say_which_one_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with following(Screen(), HERE) as shown:
        shown.many([])
        shown.many([game(3, 1), game(4, 1)])
        shown.many([game(4, 1)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["game 3", "game 3", "game 4", "game 4"]


def test_a_terminal_shows_the_game_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100, height=60, markup=False, highlight=False)
    monkeypatch.setattr(screen, "console", lambda *, stderr=False: terminal)
    with following(Screen(), HERE) as shown:
        shown.one(game(3, 1), "waiting for the executor's move")
        shown.one(game(3, 2, "ended"))
    assert isinstance(terminal.file, io.StringIO)
    last = terminal.file.getvalue().rpartition("3, ended: the executor lost")[2]
    assert "move 2" in last and "2 transactions, 3 gas" in last and "waiting" not in last
