"""Which shares of a batch are whose, and which of them have a wrong call: by the very draw of the contracts, over and
over, and as probabilities in closed form."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt

from eigentensor.economics import shares, terms
from eigentensor.economics.situation import CANDIDATES, wei
from eigentensor_economics.batches import BatchSituation, spread

#: Seats among which candidates are drawn: a share of them, to four digits, is the coalition's.
SEATS = 10_000


@dataclass(frozen=True, slots=True)
class Draws:
    """What draws came to, an element each: shares that the coalition itself answers, and shares with a wrong call that
    a stranger answers. `weight` is how probable each is."""

    own: npt.NDArray[np.int64]
    hit: npt.NDArray[np.int64]
    weight: npt.NDArray[np.float64]

    @property
    def seen(self) -> float:
        """How probably a drawn stranger sees a wrong call."""
        return float(self.weight[self.hit > 0].sum() / self.weight.sum())


def share_of(mix: bytes, batch: bytes, leaves: int, k: int, count: int, number: int) -> int | None:
    """The share that checks a call, by its number in the batch, where k calls are checked in `count` shares; None: it
    is not checked. What `shares.numbers` says of all shares, for one call."""
    shift = shares.call_of(mix, batch, leaves, leaves, 0)  # were all calls drawn, the first would be this one
    draw = (((number - shift) % leaves + 1) * k - 1) // leaves
    if shares.call_of(mix, batch, leaves, k, draw) != number:
        return None
    turn = shares.draw_of(mix, batch, count, 0, draw // count)
    return (draw - turn) % count


def simulate(x: BatchSituation, wrong: Sequence[int], *, batches: int, seed: int = 0) -> dict[int, Draws]:
    """Draws seats and calls of so many batches, for each number of wrong calls; the same for the same arguments."""
    rng = np.random.default_rng(seed)
    own = np.zeros(batches, np.int64)
    hit = {number: np.zeros(batches, np.int64) for number in wrong}
    for n in range(batches):
        mix, batch = rng.bytes(32), rng.bytes(32)
        strangers, own[n] = _answering(x, mix, batch)
        for number in wrong:
            hit[number][n] = len(_hit(x, mix, batch, number, strangers))
    return {number: Draws(own, those, np.ones(batches)) for number, those in hit.items()}


def _answering(x: BatchSituation, mix: bytes, batch: bytes) -> tuple[frozenset[int], int]:
    """The shares that strangers answer, and how many the coalition does. Who is silent is replaced by the next of the
    drawn seats, as long as there are any."""
    coalition = round(x.share * SEATS)
    awake = coalition + round((1 - x.share) * x.diligence * SEATS)
    strangers, own = set(), 0
    for share in range(shares.shares(x.calls, x.verifiers)):
        drawn = (terms.seat_of(mix, batch, CANDIDATES * share + c, SEATS) for c in range(CANDIDATES))
        seat = next((seat for seat in drawn if seat < awake), None)
        if seat is None:
            continue
        if seat < coalition:
            own += 1
        else:
            strangers.add(share)
    return frozenset(strangers), own


def _hit(x: BatchSituation, mix: bytes, batch: bytes, wrong: int, strangers: frozenset[int]) -> set[int]:
    """Those of the strangers' shares that have a wrong call."""
    hit: set[int] = set()
    for share in _shares(x, mix, batch, wrong):
        if len(hit) == len(strangers):
            break
        hit |= strangers & {share}
    return hit


def _shares(x: BatchSituation, mix: bytes, batch: bytes, wrong: int) -> Iterator[int | None]:
    """The shares of the wrong calls, looked for among these or among the drawn calls, whichever are fewer."""
    k = shares.checked(x.calls, wei(x.rate), x.verifiers)
    count = shares.shares(x.calls, x.verifiers)
    numbers = spread(x.calls, wrong)
    if wrong <= k:
        yield from (share_of(mix, batch, x.calls, k, count, number) for number in numbers)
        return
    among = frozenset(numbers)
    for row in range(-(-k // count)):
        for share in range(count):
            draw = shares.draw_of(mix, batch, count, share, row)
            if draw < k and shares.call_of(mix, batch, x.calls, k, draw) in among:
                yield share


def chances(x: BatchSituation, wrong: int) -> Draws:
    """The same in closed form: a finite sum, no chance.

    Seats are independent. One wrong call is checked with probability k/N, in each of s shares alike. Calls that stand
    far apart are checked independently, so that none of m is in j shares with (1 − j/s·k/N)^m; of more than k calls
    each draw takes a wrong one with m/N, and it is (1 − m/N)^(k·j/s). Where draws of several wrong calls share a row of
    the draw they are seen a little more often than that.
    """
    rate = wei(x.rate)
    k, count = shares.checked(x.calls, rate, x.verifiers), shares.shares(x.calls, x.verifiers)

    def unseen(j: int) -> float:
        if wrong <= k:
            return float((1 - j / count * k / x.calls) ** wrong)
        return float((1 - wrong / x.calls) ** (k * j / count))

    awake = x.share + (1 - x.share) * x.diligence
    answered = 1 - (1 - awake) ** CANDIDATES
    mine = answered * x.share / awake if awake else 0.0
    strange, nobody = answered - mine, 1 - answered
    cases = []
    for own in range(count + 1):
        for h in range(count + 1 - own):
            seats = comb(count, own) * comb(count - own, h) * mine**own * strange**h * nobody ** (count - own - h)
            for d in range(h + 1):
                hits = comb(h, d) * sum((-1) ** i * comb(d, i) * unseen(h - d + i) for i in range(d + 1))
                cases.append((own, d, seats * max(0.0, hits)))
    owns, hits_, weights = zip(*cases, strict=True)
    return Draws(np.array(owns, np.int64), np.array(hits_, np.int64), np.array(weights))
