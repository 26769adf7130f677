"""Byte pairs: what is encoded comes back, and the same text makes the same vocabulary."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eigentensor_client.byte_pairs import END, FIRST_MERGE, PARTS, BytePairs, merged, trained

README = Path(__file__).parents[2] / "README.md"
TEXTS = st.text(st.characters(codec="utf-8"))
SMALL = trained("a program, a task, a trace; a program and its task\n" * 3, 300)


@given(TEXTS)
def test_any_text_comes_back(text: str) -> None:
    assert SMALL.decode(SMALL.encode(text)) == text
    assert BytePairs(()).encode(text) == [1 + byte for byte in text.encode()]


@given(TEXTS, TEXTS)
def test_parts_are_all_of_a_text(left: str, right: str) -> None:
    assert "".join(PARTS.findall(left + right)) == left + right


@given(TEXTS.filter(bool), st.integers(257, 290))
def test_the_same_text_makes_the_same_vocabulary_and_a_larger_one_begins_with_it(text: str, size: int) -> None:
    pairs, larger = trained(text, size), trained(text, size + 10)
    assert pairs == trained(text, size)
    assert larger.merges[: len(pairs.merges)] == pairs.merges
    assert FIRST_MERGE <= pairs.size <= size
    assert len(larger.encode(text)) <= len(pairs.encode(text)) <= len(text.encode())


@given(st.lists(st.integers(0, 3)), st.integers(0, 3), st.integers(0, 3))
def test_merging_leaves_no_pair_and_changes_no_bytes(tokens: list[int], left: int, right: int) -> None:
    made = merged(tokens, (left, right), 9)
    assert [part for token in made for part in ((left, right) if token == 9 else (token,))] == tokens
    assert left == right or (left, right) not in pairwise(made)


def test_the_most_frequent_pair_comes_first_and_of_equal_ones_the_smaller_bytes() -> None:
    assert trained("ab ab ab cd cd", 259).strings[FIRST_MERGE:] == [b"ab", b" ab"]
    assert trained("zy xw", 258).strings[FIRST_MERGE:] == [b" x"]


def test_the_front_page_is_less_than_half_as_many_tokens_as_bytes() -> None:
    text = README.read_text()
    pairs = trained(text, 512)
    tokens = pairs.encode(text)
    assert pairs.size == 512
    assert END not in tokens
    assert pairs.decode([END, *tokens, END]) == text
    assert 2 * len(tokens) < len(text.encode())


@pytest.mark.parametrize("tokens", [[1 + 0xE2], [1 + 0xE2, 1 + 0x82], [1 + 0xFF, 1 + ord("a")]])
def test_what_is_no_character_is_shown_as_such(tokens: list[int]) -> None:
    assert "\ufffd" in BytePairs(()).decode(tokens)
