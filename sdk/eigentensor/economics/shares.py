"""Which calls of a batch are checked by whom, and what stands behind a batch; contracts/src/libraries/Shares.sol by the
same names.

Amounts are wei of the market's token, times are blocks, rates are WAD. Everything is an exact integer. `leaves` are the
calls of a batch, `verifiers` those that its offer names, `mix` is the randomness of its seed block.
"""

from typing import Protocol

from eigentensor.economics import terms
from eigentensor.economics.terms import WAD, Parameters
from eigentensor.keccak import keccak

#: The most calls of a share.
SIZE = 256
#: Calls that are justified at once: a part of a share is a subtree of its tree.
PART = 64
#: The most calls of a voucher that are not acknowledged.
TAIL = 8


class Terms(Protocol):
    """What stakes are sized by of an offer."""

    @property
    def max_price(self) -> int:
        """P: the most that one call costs."""

    @property
    def most(self) -> int:
        """M: the most that the calls of a batch cost."""

    @property
    def risk_each(self) -> int:
        """The most that a deal puts at risk beyond the prices."""

    @property
    def risk_all(self) -> int:
        """The most that all open channels put at risk."""

    @property
    def check_rate(self) -> int:
        """α: the probability of a call's check."""

    @property
    def verifiers(self) -> int:
        """n: into how many shares the checked calls of a batch are divided."""


def capacity(rate: int, verifiers: int) -> int:
    """How many calls a batch may have: all that are checked fit the shares."""
    return verifiers * SIZE * WAD // rate


def shares(leaves: int, verifiers: int) -> int:
    """How many shares there are: one for each verifier, as far as there are calls."""
    return min(leaves, verifiers)


def checked(leaves: int, rate: int, verifiers: int) -> int:
    """k: how many calls are checked: α of them, and one for each share at least."""
    return min(leaves, max(verifiers, -(-leaves * rate // WAD)))


def draw_of(mix: bytes, batch: bytes, count: int, share: int, row: int) -> int:
    """The number of the draw at a row of a share, from zero, where there are `count`; k or more: there is none."""
    turn = _hash(mix, batch, row, _TURN) % count
    return row * count + (share + turn) % count


def calls_of(mix: bytes, batch: bytes, leaves: int, rate: int, verifiers: int, share: int) -> int:
    """How many calls a share has."""
    k, count = checked(leaves, rate, verifiers), shares(leaves, verifiers)
    rows = -(-k // count)
    return rows if draw_of(mix, batch, count, share, rows - 1) < k else rows - 1


def call_of(mix: bytes, batch: bytes, leaves: int, k: int, draw: int) -> int:
    """The number of the call in its batch that draw `draw` of k takes: each call with probability k / leaves."""
    low = draw * leaves // k
    width = (draw + 1) * leaves // k - low
    leaf = _hash(mix, batch, draw, _LEAF) % width
    shift = _hash(mix, batch, 0, _SHIFT) % leaves
    return (low + leaf + shift) % leaves


def numbers(mix: bytes, batch: bytes, leaves: int, rate: int, verifiers: int, share: int) -> tuple[int, ...]:
    """The calls of a share by their numbers in the batch, in the order in which they are drawn."""
    k, count = checked(leaves, rate, verifiers), shares(leaves, verifiers)
    rows = range(calls_of(mix, batch, leaves, rate, verifiers, share))
    return tuple(call_of(mix, batch, leaves, k, draw_of(mix, batch, count, share, row)) for row in rows)


def fee(p: Parameters, check_price: int, k: int, count: int) -> int:
    """v: what the verifier of each of `count` shares is paid, of k calls that are checked."""
    return p.g_chk + p.phi * check_price * (k // count) // WAD


def least_amount(p: Parameters, check_price: int, k: int) -> int:
    """What the calls of a batch must cost at least, so that they and the collateral pay all verifiers."""
    return p.phi * check_price * k // WAD


def collateral(p: Parameters, max_price: int, verifiers: int) -> int:
    """K: what the operator holds for one batch: W, and the fixed part of the verifiers' fees."""
    return terms.reward(p, max_price) + verifiers * p.g_chk


def stake(p: Parameters, offer: Terms) -> int:
    """s: the stake that is locked for one batch, so that wrong results of any number of its calls lose on average."""
    a = terms.detection(offer.check_rate, 1, p.sybils)
    seen = terms.detection(WAD, offer.verifiers, p.sybils)
    one = -(-offer.max_price * (WAD - a) // a)
    every = -(-offer.most * (WAD - seen) // seen)
    gain = -(-offer.risk_each * WAD // a) - (-offer.risk_all * WAD // seen) + max(one, every)
    return max(p.min_stake, -(-2 * p.stake_margin * gain // WAD))


def window(p: Parameters, exec_: int) -> int:
    """WINDOW: blocks from the commit to the last block of a dispute."""
    return p.lag + p.grid + terms.reveal_window(p, exec_) + p.reveal + terms.challenge_window(p, exec_)


def lifetime(p: Parameters, exec_: int, epoch: int) -> int:
    """Blocks from the begin of a batch to the end of everything that can happen to it: its stake is locked for them."""
    return epoch + window(p, exec_) + 3 * terms.clock(p, exec_) + p.reveal + p.margin


def _text(text: bytes) -> bytes:
    """A short text as the fourth of some words: where it begins, its length, itself."""
    return (128).to_bytes(32, "big") + len(text).to_bytes(32, "big") + text.ljust(32, b"\0")


_TURN, _LEAF, _SHIFT = _text(b"turn"), _text(b"leaf"), _text(b"shift")


def _hash(mix: bytes, batch: bytes, number: int, text: bytes) -> int:
    return int.from_bytes(keccak(mix + batch + number.to_bytes(32, "big") + text), "big")
