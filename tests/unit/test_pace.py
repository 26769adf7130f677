"""Numbers of blocks as times that people read."""

import pytest

from eigentensor.pace import UNKNOWN, Pace, between_looks


@pytest.mark.parametrize(
    ("blocks", "seconds", "words"),
    [
        (-1, 2, "about 0 s"),
        (59, 2, "about 118 s"),
        (60, 2, "about 2 min"),
        (7200, 12, "about 24 h"),
        (14400, 12, "about 2 days"),
    ],
)
def test_blocks_are_time_at_a_pace(blocks: int, seconds: float, words: str) -> None:
    assert Pace(seconds).about(blocks) == words


def test_time_is_not_guessed_where_no_node_answers_or_the_chain_has_one_block() -> None:
    for pace in (UNKNOWN, Pace(0.0)):
        assert (pace.blocks(1), pace.blocks(1_000), pace.block(40, 30)) == ("1 block", "1,000 blocks", "block 40")


def test_a_block_ahead_says_when_it_comes_and_one_that_is_there_does_not() -> None:
    pace = Pace(12.0)
    assert pace.blocks(1_000) == "1,000 blocks (about 3 h)"
    assert pace.block(2_400, 2_390) == "block 2400 (about 2 min)"
    assert pace.block(2_390, 2_390) == pace.block(2_390, 2_400) == "block 2390"


@pytest.mark.parametrize(("block", "looks"), [(0.2, 0.5), (2, 0.5), (12, 1.5), (600, 2)])
def test_a_chain_is_looked_at_in_time_and_no_more_often_than_its_node_likes(block: float, looks: float) -> None:
    assert between_looks(block) == looks
