"""What a task costs and how long it lives; contracts/src/libraries/Terms.sol by the same names. Beside them, what
a market's windows leave its operators: blocks for transactions, and how long one may be away.

Amounts are wei of the market's token, times are blocks, rates are WAD. Everything is an exact integer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

from eigentensor.abi import encode
from eigentensor.keccak import keccak

WAD = 10**18
#: Games about one result that its executor must be able to answer at the same time, each within its clock.
GAMES = 8
#: Gas of one party's messages (tables in contracts/README.md): an executor's accept; its commit and reveal; a
#: verifier's answer, reveal and settle; the longest game with 2^14 calls, as its challenger and as its executor.
GAS_ACCEPT, GAS_COMMIT, GAS_ANSWER, GAS_CHALLENGE, GAS_DEFEND = 146_222, 106_757, 321_273, 800_508, 798_016
#: Blocks of `exec` without which nobody can execute in time: one to see the acceptance, one for the commit.
LEAST_RESERVE = 2
#: Blocks of `exec` that operators keep for their transactions where the market has as many to spare.
RESERVE = 3
#: The shortest `exec` in which an operator can do anything: a block to execute, and those for transactions.
LEAST_EXEC = LEAST_RESERVE + 1


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
    check_floor: int
    phi: int
    sybils: int
    stake_margin: int
    min_stake: int
    g_chk: int
    g_chunk: int
    other_seats: int
    confirmations: int

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


def escrow(max_price: int, verifiers: int, check_fee: int) -> int:
    """What a client pays in with its order, and pays at most."""
    return max_price + verifiers * check_fee


def check_fee_bound(p: Parameters, max_price: int) -> int:
    """The lowest fee of a verifier that an order with this highest price may offer."""
    return max_price * p.phi // WAD + p.g_chk


def detection(rate: int, verifiers: int, sybils: int) -> int:
    """a: the probability (WAD) of a check that is not the executor's own, of which `sybils` is its share of seats."""
    own = WAD
    for _ in range(verifiers):
        own = -(-own * sybils // WAD)
    return rate * (WAD - own) // WAD


def stake(p: Parameters, price_: int, value_at_risk: int, rate: int, verifiers: int) -> int:
    """s: what a conviction takes of the executor's stake; it is locked as long as the task can be disputed."""
    a = detection(rate, verifiers, p.sybils)
    gain = p.stake_margin * (price_ + value_at_risk) * (WAD - a)
    return max(p.min_stake, -(-2 * gain // (WAD * a)))


def reward(p: Parameters, price_: int) -> int:
    """W: what a conviction pays to whoever brought it about."""
    return p.g_def + 2 * price_


def collateral(p: Parameters, price_: int, verifiers: int, check_fee: int) -> int:
    """K: what the executor holds in the market for one task."""
    return 2 * reward(p, price_) + verifiers * check_fee


def bond(p: Parameters, price_: int) -> int:
    """B: what a challenger deposits, and a verifier with each answer."""
    return -(-11 * bond_share(p, price_) // 10)


def seat_deposit(p: Parameters) -> int:
    """What each living seat holds of its operator's balance, for whoever prunes it."""
    return p.g_chk


def bond_share(p: Parameters, price_: int) -> int:
    """What the executor gets of a lost bond; the rest is burned."""
    return p.g_def + 2 * price_


def penalty(p: Parameters, price_: int) -> int:
    """h: what the executor loses if it does not commit, or commits and does not reveal."""
    return min(reward(p, price_), price_ * p.eta // WAD + p.g_miss)


def seed_block(committed_at: int, lag: int, grid: int) -> int:
    """S: the block whose randomness decides about a commit of block `committed_at`."""
    return -(-(committed_at + lag) // grid) * grid


def is_drawn(mix: bytes, task: bytes, rate: int) -> bool:
    """Whether a task is checked: `mix` is the seed block's, `rate` the order's."""
    return _draw(["bytes32", "bytes32", "string"], mix, task, "draw") % WAD < rate


def seat_of(mix: bytes, task: bytes, index: int, seats: int) -> int:
    """The place in the list of seats, of which there were `seats` at the commit, that may send answer `index`."""
    return _draw(["bytes32", "bytes32", "uint256"], mix, task, index) % seats


def _draw(types: list[str], *values: bytes | int | str) -> int:
    return int.from_bytes(keccak(encode(types, values)), "big")


def check_window(p: Parameters, exec_: int) -> int:
    """Blocks from the seed block to the last block of an answer."""
    return exec_ + p.check


def reveal_window(p: Parameters, exec_: int) -> int:
    """Blocks from the seed block to the last block of the executor's reveal."""
    return max(check_window(p, exec_), p.record) + p.reveal


def challenge_window(p: Parameters, exec_: int) -> int:
    """Blocks from the reveal to the last block of a challenge."""
    return exec_ + p.challenge


def clock(p: Parameters, exec_: int) -> int:
    """Blocks of one player's clock in a dispute, and of a demand."""
    return exec_ + p.clock


def lifetime(p: Parameters, exec_: int) -> int:
    """END − accept: blocks from the acceptance to the end of everything that can happen to the task."""
    until_revealed = exec_ + p.lag + p.grid + reveal_window(p, exec_)
    return until_revealed + challenge_window(p, exec_) + 2 * clock(p, exec_) + p.margin


def reserve(p: Parameters) -> int:
    """What operators keep of `exec` for transactions unless they say otherwise: one block is left to execute, if any
    can be."""
    return max(LEAST_RESERVE, min(RESERVE, p.max_exec - 1))


def outage(p: Parameters) -> int:
    """The shortest time, in blocks, in which an operator that is away may be convicted: it cannot reveal a drawn task,
    or a game's or a demand's clock runs out that had not run before. Being away for less convicts nobody."""
    to_reveal = reveal_window(p, p.max_exec) - check_window(p, p.max_exec)
    return min(to_reveal, clock(p, 1))
