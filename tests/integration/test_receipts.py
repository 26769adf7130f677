"""Receipts of tasks on a real chain: what they say, what proves it, and what the chain refuses."""

import pytest

from eigentensor.chain import Chain
from eigentensor.receipt import Receipt, compare, prove, read
from market_life import Life
from receipt_stories import OUTPUTS, STATES, STORIES, Story, confirmed

WORDS = {
    "confirmed": "final, checked(1)",
    "checked": "checked(1)",
    "unanswered": "final, unchecked",
    "contradicted": "result, challenged",
    "convicted": "convicted",
    "silent": "convicted",
}


@pytest.mark.parametrize(
    "story",
    [story if story is confirmed else pytest.param(story, marks=pytest.mark.slow) for story in STORIES],
    ids=lambda story: str(story.__name__),
)
def test_a_receipt_of_any_end_is_read_written_proved_and_confirmed(
    story: Story, life: Life, verifiers: list[Chain]
) -> None:
    story(life, verifiers)
    revealed = story.__name__ != "silent"
    receipt = read(life.client, life.order, (OUTPUTS, STATES) if revealed else None)
    assert receipt.task == life.task.hex()
    assert receipt.told.words == WORDS[story.__name__]
    data = receipt.to_bytes()
    assert Receipt.from_bytes(data) == receipt
    lines = prove(receipt)
    assert {line.by for line in lines} == {"hash", "signature", "formula"}
    standing = compare(receipt, life.client)
    assert standing.now.told.words == receipt.told.words
