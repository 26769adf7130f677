"""Honest operators of paid calls, whenever they leave: nothing that they served is left out, so nobody is slashed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigentensor.channel import BatchState
from eigentensor.economics import shares
from support.stories.batches import OFFER, Blocks
from support.stories.operator import PARAMETERS, POLICY

LIFE = OFFER.epoch + shares.window(PARAMETERS, OFFER.exec) + 3 * POLICY.patience + 40


@pytest.mark.slow
@settings(max_examples=200)
@given(
    before=st.integers(1, 2 * OFFER.epoch),
    pattern=st.lists(st.integers(0, 4), min_size=1, max_size=7),
    returns=st.none() | st.integers(1, OFFER.epoch),
)
def test_whoever_drains_commits_all_that_was_served_and_ends_without_a_fault(
    before: int, pattern: list[int], returns: int | None
) -> None:
    """Leaving in any block, with calls coming in until then, for good or for a while."""
    served = 0

    def calling(block: int) -> int:
        nonlocal served
        calls = 0 if blocks.draining else pattern[block % len(pattern)]
        served += calls
        return calls

    blocks = Blocks(calling=calling)
    blocks.mine(before)
    blocks.draining = True
    if returns is not None:
        blocks.mine(returns)
        blocks.draining = False
        blocks.mine(before)
        blocks.draining = True
    blocks.mine(LIFE)
    assert not blocks.late and not blocks.load.leaves
    assert sum(load.leaves for load in blocks.drained.values()) == served
    assert all(life.state in (BatchState.FINAL, BatchState.LAPSED) for life in blocks.batches.pools.batches.values())
