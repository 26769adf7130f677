"""A game as a stranger reads it: who, on what, whose move, and what follows."""

import io
from copy import deepcopy
from typing import Any

import pytest
from rich.console import Console

from eigentensor.chain import game_words
from eigentensor.dispute import Phase
from eigentensor.pace import Pace
from eigentensor_client import games
from eigentensor_client.games import Here
from support.programs.worked_examples import layer

OPEN: dict[str, Any] = {
    "state": "open", "turn": "challenger", "until": 250, "block": 240, "phase": "call", "lost_by": None,
}  # fmt: skip
EXECUTOR, CHALLENGER = "0x27002C4daf3806D84cD1cA368368C05df43A2D4a", "0xaab153911f03105998eFd7E413F793863315a201"
HERE = Here(CHALLENGER, lambda wei: f"{wei} wei", Pace(2.0))


@pytest.mark.parametrize("phase", [phase.name.lower() for phase in Phase])
def test_an_open_game_says_what_comes_next_and_what_if_it_does_not(phase: str) -> None:
    text = game_words.follows(OPEN | {"phase": phase})
    assert text.endswith("; if nothing comes until block 250, the challenger loses")
    assert len(text) > 80


def test_an_ended_game_says_who_lost_and_what_that_means() -> None:
    executor, challenger = (OPEN | {"state": "ended", "lost_by": side} for side in ("executor", "challenger"))
    assert (game_words.stands(executor), game_words.stands(challenger)) == (
        "ended: the executor lost",
        "ended: the challenger lost",
    )
    assert "escrow back" in game_words.follows(executor)
    assert "bond is gone" in game_words.follows(challenger)
    assert game_words.stands(OPEN) == "open, the challenger's move until block 250"


@pytest.mark.parametrize("state", ["idle", "ended"])
def test_a_game_that_its_task_outran_is_over_without_a_loser(state: str) -> None:
    game = OPEN | {"state": state, "turn": None, "until": None}
    assert game_words.stands(game) == "over without a loser: its task ended first"
    assert game_words.follows(game).endswith("the challenger's bond comes back")


def test_the_disputed_call_is_shown_as_the_body_that_it_executes() -> None:
    program = layer().program
    first, second = (game_words.disputed_body(program, number) for number in (0, 1))
    assert first != second
    assert any("LOAD" in line for line in first)
    assert game_words.disputed_body(program, len(program.calls)) == first  # the next iteration executes the same calls


def test_no_call_is_disputed_before_one_was_named() -> None:
    assert game_words.disputed_call({"position": {"number": 0, "kernel": "0x" + "00" * 32}}) is None
    assert game_words.disputed_call({"position": {"number": 0, "kernel": "0x" + "ab" * 32}}) == 0


def part(name: str, first: int, last: int, of: int | None = None, elements: list[int] | None = None) -> dict[str, Any]:
    return {"part": name, "first": first, "last": last, "of": of, "elements": elements}


def move(by: str, what: str, block: int, gas: int | None) -> dict[str, Any]:
    return {"by": by, "what": what, "block": block, "gas": gas}


GAME: dict[str, Any] = OPEN | {
    "game": 3, "task": "ab" * 32, "executor": EXECUTOR, "challenger": CHALLENGER, "bond": "24", "reward": "21",
    "block": 240, "until": 250, "clocks": {"executor": 77, "challenger": 80}, "phase": "element", "turn": "challenger",
    "path": [
        part("call", 4, 4, 5), part("leaves", 0, 3, 4, [0, 989]), part("leaf", 0, 0, 4, [0, 255]),
    ],
    "moves": [
        move("challenger", "claims that the result is wrong", 230, 235_085),
        move("executor", "published the tensor roots of all executed calls: 5", 233, None),
    ],
    "payouts": [],
}  # fmt: skip


def printed(shown: list[Any]) -> str:
    console = Console(file=io.StringIO(), width=110, markup=False, highlight=False)
    for line in shown:
        console.print(line)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


DRAWN = """\
game        3, open, the challenger's move until block 250 (about 20 s)
task        abababababababababababababababababababababababababababababababab
executor    0x27002C4daf3806D84cD1cA368368C05df43A2D4a, on its clock: 77 blocks (about 3 min)
challenger  0xaab153911f03105998eFd7E413F793863315a201 (you), its clock runs: 10 blocks (about 20 s)
stakes      a bond of 24 wei; a conviction brings 21 wei
disputed    the result › call 4 of 5 › leaves 0–3 (elements 0–989) › leaf 0 of 4 (elements 0–255)
follows     the challenger names one element, and the reduction of it, or what was made of them, that it
            rejects; if nothing comes until block 250 (about 20 s), the challenger loses; now block 240

move  by          what                                                 block  gas
1     challenger  claims that the result is wrong                      230    235,085
2     executor    published the tensor roots of all executed calls: 5  233    –
2 transactions, 235,085 gas: executor 0, challenger 235,085"""


def test_a_game_is_drawn_with_its_clocks_its_stakes_the_way_down_and_its_moves() -> None:
    assert printed(games.drawn(GAME, HERE)) == DRAWN


OVERVIEW = """\
game  task           players                    to move                     moves  disputed
3     abababab…abab  you against 0x27002C…2D4a  challenger, 10 blocks       2      leaf 0 of 4 (elements
                                                (about 20 s)                       0–255)
4     abababab…abab  you against 0x27002C…2D4a  ended: the executor lost    2      the result"""


def test_many_games_are_drawn_a_line_each() -> None:
    ended = GAME | {"game": 4, "state": "ended", "lost_by": "executor", "turn": None, "until": None, "path": []}
    assert printed([games.overview([GAME, ended], HERE)]) == OVERVIEW


def test_the_way_down_names_ranges_and_single_numbers() -> None:
    path = [
        part("calls", 0, 4999, 5000), part("calls", 192, 255, 5000), part("call", 200, 200, 5000),
        part("leaf", 0, 0, 1, [0, 9]), part("element", 7, 7, 10), part("reduction", 1, 1, 2),
        part("steps", 0, 4095, 4096), part("steps", 64, 64, 4096),
    ]  # fmt: skip
    assert game_words.way(path) == (
        "the result › calls 192–255 of 5,000 › call 200 of 5,000 › leaf 0 (elements 0–9) "
        "› element 7 of 10 › reduction 1 of 2 › steps 0–4,095 › step 64 of 4,096"
    )
    assert game_words.way([part("expression", 0, 0)]) == "the result › the final expression"


def test_news_are_the_moves_since_and_then_whose_move_it_is() -> None:
    before = deepcopy(GAME)
    before["moves"] = before["moves"][:1]
    first = " 1  block 230  challenger    235,085 gas  claims that the result is wrong"
    second = " 2  block 233  executor            – gas  published the tensor roots of all executed calls: 5"
    turn = "the challenger's move until block 250 (about 20 s)"
    assert games.news(None, GAME, HERE) == [first, second, turn]
    assert games.news(before, GAME, HERE) == [second, turn]
    assert games.news(GAME, GAME | {"block": 241}, HERE) == []
    reorganised = deepcopy(GAME)
    reorganised["moves"][1]["block"] = 234
    assert len(games.news(GAME, reorganised, HERE)) == 3  # all of it is told again


def test_the_end_says_who_was_paid() -> None:
    paid = [{"block": 251, "to": CHALLENGER, "amount": "24", "what": "bond"}]
    paid += [{"block": 251, "to": EXECUTOR, "amount": "9", "what": "share of the lost bond"}]
    over = GAME | {"state": "ended", "lost_by": "executor", "turn": None, "until": None, "payouts": paid}
    assert games.news(GAME, over, HERE) == [
        "ended: the executor lost",
        "block 251: 24 wei to you: bond",
        "block 251: 9 wei to 0x27002C…2D4a: share of the lost bond",
    ]
