"""What events tell of pools, channels and batches, held to what the contracts say."""

from eigentensor.chain import Chain
from eigentensor.channel import Offer, batch_of, pool_of
from eigentensor.channel.life import BatchLife
from eigentensor.channel.pools import Pools
from eigentensor.task import Seeded


def assert_life(chain: Chain, offer: Offer, number: int, first: int) -> BatchLife:
    """The life of a batch, whose pool was offered after block `first`, if it is as the contracts have it."""
    pools = folded(chain, first, chain.node.block_number())
    pool = pool_of(chain.deployment.channels_domain, offer)
    life, known = pools.batches[batch_of(pool, number)], pools.pools[pool]
    batch, windows = chain.channels.batch_at(life.batch), chain.channels.windows_of(offer, number)
    committed = life.committed_at is not None
    assert (life.state, life.begun_at, life.committed_at or 0) == (batch.state, batch.begun_at, batch.committed_at)
    assert (life.revealed_at or 0, life.shown_until) == (batch.revealed_at, batch.shown_until)
    assert (life.amount, life.leaves, len(life.lines)) == (batch.amount, batch.leaves, batch.lines)
    assert sum(1 << index for index in life.answers) == batch.answered
    lowest = [(life.agreed(share), share) for share in range(life.shares)]
    agreed = sum(answer.index % 16 + 1 << 8 * share for answer, share in lowest if answer is not None)
    assert agreed == batch.agreed and len(life.refunded) == batch.refunded
    assert sum(game.counted and game.executor_lost is False for game in life.games.values()) == batch.won
    if not life.state.is_terminal:
        assert len(life.open_games) == batch.games
        assert len(life.open_demands) + len(life.open_share_demands) == batch.demands
    assert life.commit_by == windows.commit_by and chain.stake.lock_of(life.batch, offer.operator).end in (
        0,
        life.lock_end,
    )
    if committed:
        assert (life.check_by, life.reveal_by) == (windows.check_by, windows.reveal_by)
        assert (life.answers_by, life.dispute_by) == (windows.answers_by, windows.dispute_by)
        assert life.seed_block == chain.channels.seed_block_of(life.batch)
    stands, judged = chain.channels.pool_at(pool), chain.channels.judgment_at(life.batch)
    assert (known.begun, known.is_over) == (stands.begun, stands.over)
    if life.conviction is not None:
        breach, slashed = life.conviction.breach, life.conviction.slashed_at is not None
        assert (breach, life.conviction.winner, slashed) == (judged.breach, judged.winner, judged.slashed)
    for name, channel in known.channels.items():
        at = chain.channels.channel_at(name)
        assert (channel.state, channel.deposit, channel.paid) == (at.state, at.deposit, at.paid)
        assert channel.count == at.count and channel.last == at.last
    for block in range(first, chain.node.block_number(), 7):
        assert pools.rolled_back(block).batches == folded(chain, first, block).batches
    return life


def folded(chain: Chain, first: int, last: int) -> Pools:
    """All that the events of these blocks tell."""
    pools = Pools(chain.deployment.parameters)
    seeds = [event for event in chain.history.events(first, last) if isinstance(event, Seeded)]
    for event in sorted([*chain.history.calls(first, last), *seeds], key=lambda event: event.place):
        pools = pools.step(event)
    return pools
