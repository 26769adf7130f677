"""What a task costs and how long it lives; contracts/src/libraries/Terms.sol by the same names.

Amounts are wei of the market's token, times are blocks, rates are WAD. Everything is an exact integer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

WAD = 10**18


@dataclass(frozen=True, slots=True)
class Parameters:
    """A market's parameters, fixed at its deployment; see `Parameters` in ITaskMarket.sol."""

    max_exec: int
    lag: int
    grid: int
    record: int
    check: int
    reveal: int
    challenge: int
    clock: int
    margin: int
    eta: int
    g_def: int
    g_miss: int

    @classmethod
    def from_json(cls, values: Mapping[str, int | str]) -> Self:
        """From names as Solidity spells them (`maxExec`, `gDef`); others are ignored. KeyError where one is missing."""
        return cls(**{f.name: int(values[_camel(f.name)]) for f in fields(cls)})


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def price(min_price: int, max_price: int, ramp_start: int, ramp_length: int, block: int) -> int:
    """What an acceptance in `block` fixes: `min_price` before the ramp, rising to `max_price` at its end."""
    if block < ramp_start:
        return min_price
    elapsed = block - ramp_start
    if elapsed >= ramp_length:
        return max_price
    return min_price + (max_price - min_price) * elapsed // ramp_length


def block_of_price(min_price: int, max_price: int, ramp_start: int, ramp_length: int, wanted: int) -> int | None:
    """The first block in which `price` is at least `wanted`; None if it never is."""
    if wanted <= min_price:
        return 0
    if wanted > max_price:
        return None
    rise = max_price - min_price
    return ramp_start + -(-(wanted - min_price) * ramp_length // rise)


def reward(p: Parameters, price_: int) -> int:
    """W: what a conviction pays to whoever brought it about."""
    return p.g_def + 2 * price_


def collateral(p: Parameters, price_: int) -> int:
    """K: what the executor holds in the market for one task."""
    return 2 * reward(p, price_)


def penalty(p: Parameters, price_: int) -> int:
    """h: what the executor loses if it does not commit, or commits and does not reveal."""
    return min(reward(p, price_), price_ * p.eta // WAD + p.g_miss)


def reveal_window(p: Parameters, exec_: int) -> int:
    """Blocks from the seed block to the last block of the executor's reveal."""
    return max(exec_ + p.check, p.record) + p.reveal


def challenge_window(p: Parameters, exec_: int) -> int:
    """Blocks from the reveal to the last block of a challenge."""
    return exec_ + p.challenge


def lifetime(p: Parameters, exec_: int) -> int:
    """END − accept: blocks from the acceptance to the end of everything that can happen to the task."""
    until_revealed = exec_ + p.lag + p.grid + reveal_window(p, exec_)
    return until_revealed + challenge_window(p, exec_) + 2 * (exec_ + p.clock) + p.margin
