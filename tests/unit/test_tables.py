"""Texts and tables in the lines of a terminal, and in a pipe."""

import io

import pytest

from eigentensor_client.screen import Screen, columns_of, facts, table
from eigentensor_client.tables import WIDE, folded

HASH = "d6e5edfe1f8ad2d32702b3d51cfc308093c7e63f895a570ead74801d1e00eec6"
TASKS = table(
    ("task", "state", "waits for"),
    [[HASH, "open", "an acceptance until block 200 (about 20 min), or its end without one, which costs nothing"]] * 2,
)


def test_a_pipe_gets_one_row_on_one_line_and_no_spaces_behind_it(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    for shown in (TASKS, facts([["name", "a value of words " * 40], ["other", ""]])):
        screen.result("eigentensor.tasks/1", {"tasks": []}, shown)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["task", HASH, HASH, "name", "other"]
    assert all(line == line.rstrip() for line in lines) and max(map(len, lines)) > 600


def test_a_pipe_gets_text_as_it_is_but_for_what_moves_a_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.result(
        "eigentensor.tasks/1", {"tasks": []}, ":key: [bold]20 %[/bold]\rall is well\a", facts([["a\rb", "c"]])
    )
    screen.say("to\b stderr")
    assert capsys.readouterr() == (":key: [bold]20 %[/bold]all is well\nab         c\n", "to stderr\n")


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_a_table_is_as_wide_as_the_terminal_at_most_and_breaks_between_words(width: int) -> None:
    lines = TASKS.lines(width)
    assert max(map(len, lines)) <= width
    assert all(word in " ".join(lines) for word in ("acceptance", "without", "nothing"))
    assert all((whole in " ".join(lines)) == (width >= 120) for whole in (HASH, "(about 20 min)"))


def test_the_widest_columns_give_way_and_short_cells_stay_whole() -> None:
    shown = table(("operator", "stake", "now"), [["0xaaaaaa…aaaa", "10 TETH", "words " * 20]]).lines(60)
    assert shown[1].startswith("0xaaaaaa…aaaa  10 TETH  words words")


def test_a_table_of_nothing_is_its_head() -> None:
    assert table(("a", "b"), []).lines(80) == ["a  b"]
    assert facts([]).lines(80) == []


def test_a_command_to_copy_and_a_time_are_not_broken() -> None:
    text = "the task goes on as it is: `eigentensor get d6e5edfe1f -o FILE` takes it up (about 20 min) again"
    lines = folded(text, 50)
    assert [line for line in lines if "`" in line] == ["`eigentensor get d6e5edfe1f -o FILE` takes it up"]
    assert lines[-1] == "(about 20 min) again" and max(map(len, lines)) <= 50
    assert folded(f"  eigentensor {'word ' * 30}", 50) == [f"  eigentensor {'word ' * 30}"]


def test_a_line_longer_than_any_place_is_broken_within_its_word() -> None:
    assert folded(HASH, 40) == [HASH[:40], HASH[40:]]


def test_what_is_no_terminal_has_all_columns_that_one_likes() -> None:
    assert columns_of(io.StringIO()) == WIDE
