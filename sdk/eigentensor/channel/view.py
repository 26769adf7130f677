"""Pools, channels and batches as JSON objects, for gateways and commands. Pure.

Amounts are wei as decimal strings, times are blocks, roots and hashes are hex.
"""

from eigentensor.channel import objects as schemas
from eigentensor.channel.life import BatchLife, CallGame, Happening
from eigentensor.channel.pools import ChannelLife, PoolLife
from eigentensor.economics import shares


def pool(life: PoolLife, offered: int, channels: int) -> schemas.Pool:
    """A pool that was offered in the block `offered`, and of which so many channels are open."""
    return {
        "pool": life.pool.hex(),
        "operator": life.offer.operator,
        "offered": offered,
        "begun": life.begun,
        "is_over": life.is_over,
        "channels": channels,
        "offer": life.offer.to_json(),
    }


def channel(name: bytes, life: ChannelLife, operator: str, block: int) -> schemas.Channel:
    """A channel as of a block."""
    return {
        "schema": "eigentensor.channel/1",
        "block": block,
        "channel": name.hex(),
        "state": life.state.name.lower(),
        "operator": operator,
        "opened": life.opened_at,
        "deposit": str(life.deposit),
        "paid": str(life.paid),
        "count": life.count,
        "last": life.last or None,
        "deal": life.deal.to_json(),
    }


def batch(life: BatchLife, pool: bytes, block: int) -> schemas.Batch:
    """A batch of a pool as of a block, without its lines and its events."""
    return {
        "schema": "eigentensor.batch/1",
        "block": block,
        "batch": life.batch.hex(),
        "pool": pool.hex(),
        "number": life.number,
        "operator": life.offer.operator,
        "state": life.state.name.lower(),
        "begun": life.begun_at,
        "committed": life.committed_at,
        "root": None if life.root is None else "0x" + life.root.hex(),
        "calls": life.leaves,
        "amount": str(life.amount),
        "channels": len(life.lines),
        "draw": _draw(life),
        "windows": _windows(life),
        "answers": [_answer(life, index) for index in sorted(life.answers)],
        "share_demands": [
            {"share": d.share, "by": d.since + life.clock, "justified": d.justified_at}
            for d in sorted(life.share_demands.values(), key=lambda demand: demand.share)
        ],
        "demands": [
            {"number": d.number, "by": d.by, "leaves": len(d.leaves), "show_by": d.show_by} for d in life.open_demands
        ],
        "games": [_game(life, life.games[number]) for number in sorted(life.games)],
        "convicted": _convicted(life),
        "returned": str(life.returned),
    }


def whole(life: BatchLife, pool: bytes, block: int) -> schemas.Batch:
    """A batch of a pool as of a block, with its terms, its lines, and everything that happened to it."""
    return {
        **batch(life, pool, block),
        "offer": life.offer.to_json(),
        "lines": [line.to_json() for line in life.lines],
        "events": [_event(one) for one in life.events],
    }


def _draw(life: BatchLife) -> schemas.BatchDraw:
    offer = life.offer
    return {
        "seed_block": None if life.committed_at is None else life.seed_block,
        "known": life.mix is not None,
        "shares": life.shares,
        "checked": shares.checked(life.leaves, offer.check_rate, offer.verifiers) if life.leaves else 0,
    }


def _windows(life: BatchLife) -> schemas.BatchWindows:
    is_drawn = life.committed_at is not None and life.leaves > 0
    return {
        "commit_by": life.commit_by,
        "record_by": life.record_by if is_drawn else None,
        "check_by": life.check_by if is_drawn else None,
        "reveal_by": life.reveal_by if is_drawn else None,
        "answers_by": life.answers_by if is_drawn else None,
        "dispute_by": life.dispute_by if is_drawn else None,
        "close_from": life.close_from,
        "lock_end": life.lock_end,
    }


def _answer(life: BatchLife, index: int) -> schemas.ShareAnswer:
    answer = life.answers[index]
    return {
        "index": index,
        "operator": answer.operator,
        "block": answer.block,
        "agrees": answer.agrees,
        "settled": None if answer.settled is None else str(answer.settled),
    }


def _game(life: BatchLife, game: CallGame) -> schemas.CallChallenge:
    return {
        "game": game.number,
        "task": game.task.hex() or None,
        "challenger": game.challenger,
        "state": "open" if game.number in life.open_games else "ended",
        "executor_lost": game.executor_lost,
    }


def _convicted(life: BatchLife) -> schemas.BatchConvicted | None:
    if (conviction := life.conviction) is None:
        return None
    return {
        "breach": conviction.breach.name.lower(),
        "winner": conviction.winner,
        "block": conviction.block,
        "slashed": conviction.slashed_at,
    }


def _event(one: Happening) -> schemas.BatchEvent:
    return {
        "event": type(one).__name__,
        "block": one.place.block,
        "transaction": "0x" + one.place.transaction.hex(),
        "arguments": one.arguments(),
    }
