"""What a task costs and what it puts at stake.

`terms` is what contracts compute, to the wei, and what their windows leave to operators; it is offered here. `pricing`
is what operators ask, computed by them and by clients alike.
What that makes of everybody's wish to cheat is in `situation`, `agents`, `expected`, `tuning` and `curves`.
"""

from eigentensor.economics.terms import (
    GAMES,
    LEAST_EXEC,
    LEAST_RESERVE,
    RESERVE,
    WAD,
    Parameters,
    bond,
    bond_share,
    challenge_window,
    check_fee_bound,
    check_window,
    clock,
    collateral,
    detection,
    escrow,
    is_drawn,
    lifetime,
    outage,
    penalty,
    price,
    reserve,
    reveal_window,
    reward,
    seat_deposit,
    seat_of,
    seed_block,
    stake,
)

__all__ = [
    "GAMES", "LEAST_EXEC", "LEAST_RESERVE", "RESERVE", "WAD", "Parameters", "bond", "bond_share", "challenge_window",
    "check_fee_bound", "check_window", "clock", "collateral", "detection", "escrow", "is_drawn", "lifetime",
    "outage", "penalty", "price", "reserve", "reveal_window", "reward", "seat_deposit", "seat_of", "seed_block",
    "stake",
]  # fmt: skip
