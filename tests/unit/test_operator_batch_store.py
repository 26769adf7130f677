"""The journal of batches: what a restart knows is what was decided, whenever it comes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from eigentensor.channel.pools import Pools
from eigentensor_operator.batches.case import Case, Doubt, Step
from eigentensor_operator.batches.state import Batches
from eigentensor_operator.batches.store import BatchStore, changed, news
from support.stories.batches import MIX, Blocks
from support.stories.operator import DOMAIN, PARAMETERS, POLICY


def kept(store: BatchStore, before: Batches, after: Batches) -> None:
    """As a daemon writes it after each event."""
    store.keep(news(before.pools, after.pools))
    gone = before.cases.keys() - after.cases.keys()
    store.save(after, changed(before, after), gone)


def known(store: BatchStore) -> Batches:
    """What a restart begins with."""
    pools = Pools(PARAMETERS)
    for event in store.events():
        pools = pools.step(event)
    pools = pools.forgotten(store.forgotten())
    blank = {name: Case(name) for name in pools.batches}
    return Batches(POLICY, DOMAIN, pools, blank | store.cases())


def lived(path: Path, blocks: Blocks, is_over: Callable[[], bool]) -> BatchStore:
    """A story with its journal, block by block."""
    store, before = BatchStore(path), Blocks().batches

    def follow() -> bool:
        nonlocal before
        kept(store, before, blocks.batches)
        before = blocks.batches
        return is_over()

    blocks.until(follow)
    return store


@pytest.mark.parametrize("last", [Step.BEGIN, Step.COMMIT, Step.SEED, Step.CLOSE])
def test_a_restart_knows_own_batches_as_they_were(tmp_path: Path, last: Step) -> None:
    blocks = Blocks(calling=lambda _: 1)
    store = lived(tmp_path / "batches.sqlite", blocks, lambda: bool(blocks.blocks_of(last)))
    store.close()
    again = known(BatchStore(tmp_path / "batches.sqlite"))
    assert again.pools == replace(blocks.batches.pools, opened=())
    for name, case in blocks.batches.cases.items():
        assert again.cases[name].drained == case.drained and again.cases[name].halted == case.halted
    if last is Step.COMMIT:
        assert again.cases[blocks.life().batch].drained


def test_a_restart_opens_the_answer_that_it_gave(tmp_path: Path) -> None:
    blocks = Blocks(offers={})
    batch = blocks.others()
    store = lived(tmp_path / "batches.sqlite", blocks, lambda: bool(blocks.blocks_of(Step.ANSWER)))
    again = known(store)
    assert again.cases[batch].seal == blocks.case(batch).seal is not None
    resumed = Blocks(offers={}, batches=again, block=blocks.block)
    resumed.until(lambda: bool(resumed.blocks_of(Step.REVEAL)))
    assert not resumed.blocks_of(Step.ANSWER) and not resumed.late


def test_a_restart_challenges_what_it_had_demanded(tmp_path: Path) -> None:
    blocks = Blocks(offers={}, result=Doubt(7, rb"\9" * 32))
    batch = blocks.others()
    store = lived(tmp_path / "batches.sqlite", blocks, lambda: bool(blocks.blocks_of(Step.DEMAND)))
    again = known(store)
    assert again.cases[batch].doubt == Doubt(7, rb"\9" * 32)
    resumed = Blocks(offers={}, batches=again, block=blocks.block)
    resumed.until(lambda: bool(resumed.blocks_of(Step.DENOUNCE)))
    assert not resumed.blocks_of(Step.DEMAND) and not resumed.blocks_of(Step.ANSWER)


def test_what_a_reorganisation_takes_back_is_forgotten_on_disk_too(tmp_path: Path) -> None:
    blocks = Blocks(calling=lambda _: 1)
    store = lived(tmp_path / "batches.sqlite", blocks, lambda: blocks.life().mix == MIX)
    block = blocks.life().since
    store.roll_back(block)
    again = known(store)
    assert again.pools.batches[blocks.life().batch].mix is None
    assert again.pools.batches == blocks.batches.pools.rolled_back(block).batches


def test_what_is_forgotten_stays_for_people_alone(tmp_path: Path) -> None:
    blocks = Blocks(calling=lambda _: 1)
    first = blocks.life().batch
    store = lived(
        tmp_path / "batches.sqlite",
        blocks,
        lambda: bool(blocks.blocks_of(Step.CLOSE)) and first not in blocks.batches.cases,
    )
    assert first not in known(store).cases and first in store.forgotten()
    assert first not in known(store).pools.batches
    (line, *_) = [line for line in store.summary() if line.batch == first]
    assert line.mine and line.state == "final" and not line.at_stake and line.calls > 0
