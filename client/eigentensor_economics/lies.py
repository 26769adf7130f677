"""What wrong calls in a batch bring their operator, more than right ones would: in many batches, and in closed form.

The operator and its seats are one party, the coalition. X is gained at once and is never lost; prices are, since a
conviction gives the amounts of all lines back. Gas is left out, which a coalition that convicts itself pays as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from eigentensor.economics.expected import root
from eigentensor.economics.situation import BURNED
from eigentensor_economics.batches import BatchSituation, profiles
from eigentensor_economics.draws import Draws, chances, simulate
from eigentensor_economics.simulation import Mean, mean_of

#: The largest share of the seats that is looked at.
MOST_SHARE = 0.999


@dataclass(frozen=True, slots=True)
class Way:
    """How a coalition goes about wrong calls; all of them use its seats, which agree."""

    name: str
    does: str
    launders: bool = False  # convicts itself once a stranger has answered: the winner's and the verifiers' part are its
    fills: bool = False  # all other calls are of its own clients, and cost nothing
    bribes: bool = False  # pays strangers that have a wrong call what they lose by agreeing, where that is cheaper


LYING = Way("lying", "hopes that its own seats are drawn for the wrong calls")
LAUNDERING = Way("laundering", "the same; where it is seen, its own evidence convicts it first", launders=True)
FILLING = Way("filling", "launders; all right calls of the batch are its own", launders=True, fills=True)
BRIBING = Way("bribing", "launders, or pays drawn strangers to agree, who keep to it", launders=True, bribes=True)
WAYS = (LYING, LAUNDERING, FILLING, BRIBING)
#: Those that need no promise that strangers keep: the stake is sized for them.
UNBRIBED = (LYING, LAUNDERING, FILLING)


def brings(
    x: BatchSituation, way: Way, wrong: int, draws: Draws, watched: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """What each of these draws brings more than the same batch with right results would, in tokens; `watched`: where
    somebody without a drawn seat executes a wrong call, too. Where right results would bring less than nothing, a lie
    is held to no batch at all; so is whoever fills: calls of its own are nothing that honesty would serve."""
    m, own = x.amounts, draws.own
    served = wrong if way.fills else x.calls
    final = served * x.price - (m.count - own) * m.v
    right = final - x.calls * x.cost
    if way.fills or (right * draws.weight).sum() < 0:
        right = np.zeros(len(own))
    lost = m.K + m.s - ((m.W + (1 - BURNED) * m.s) if way.launders else 0.0)
    price = draws.hit * (m.W + (1 - BURNED) * m.s)
    bribed = (draws.hit > 0) & way.bribes & (price < (1 - x.watch) * (final + lost))
    convicted = ((draws.hit > 0) & ~bribed) | (watched & (wrong > 0))
    spent = (served - wrong) * x.cost + wrong * x.shortcut * x.cost + price * bribed
    gained = min(wrong, x.channels) * x.gain
    return np.asarray(gained + np.where(convicted, -lost, final) - spent - right)


@dataclass(frozen=True, slots=True)
class Lie:
    """`wrong` calls in one way: how often a drawn stranger saw one, what it brought, and what is expected of both; from
    which share of the seats on it pays (0: always; None: never)."""

    way: Way
    wrong: int
    seen: Mean
    brings: Mean
    expected_seen: float
    expected: float
    pays_from: float | None


class Expectation:
    """What ways bring on average, for the draws of one situation, whatever its stake is."""

    def __init__(self, x: BatchSituation) -> None:
        self.x = x
        self._chances: dict[int, Draws] = {}

    def chances(self, wrong: int) -> Draws:
        """The closed form of the draws with so many wrong calls."""
        if wrong not in self._chances:
            self._chances[wrong] = chances(self.x, wrong)
        return self._chances[wrong]

    def of(self, way: Way, wrong: int, stake: float | None = None) -> float:
        """Tokens a batch; with another stake than that of the situation if one is named."""
        x = self.x if stake is None else replace(self.x, stake=stake)
        draws, watch = self.chances(wrong), x.watch
        none = np.zeros(len(draws.weight), np.bool_)
        values = (1 - watch) * brings(x, way, wrong, draws, none) + watch * brings(x, way, wrong, draws, ~none)
        return float((values * draws.weight).sum())

    def best(self, ways: Sequence[Way], stake: float | None = None) -> tuple[Way, int, float]:
        """The lie that brings most, and what it brings."""
        lies = [(way, wrong, self.of(way, wrong, stake)) for way in ways for wrong in profiles(self.x.calls)]
        return max(lies, key=lambda lie: lie[2])


def pays_from(x: BatchSituation, way: Way, wrong: int) -> float | None:
    """The share of the seats from which on so many wrong calls pay; 0: they do with none; None: never."""

    def at(share: float) -> float:
        return Expectation(replace(x, share=share)).of(way, wrong)

    if at(0.0) > 0:
        return 0.0
    return root(at, 0.0, MOST_SHARE)


def estimate(x: BatchSituation, ways: Sequence[Way], *, batches: int, seed: int = 0) -> list[Lie]:
    """Every profile in every way, all in the same batches. The same numbers for the same arguments, everywhere."""
    wrongs, e = profiles(x.calls), Expectation(x)
    drawn = simulate(x, wrongs, batches=batches, seed=seed)
    watched = np.random.default_rng([seed, 1]).random(batches) < x.watch
    return [
        Lie(
            way=way,
            wrong=wrong,
            seen=mean_of((drawn[wrong].hit > 0).astype(np.float64)),
            brings=mean_of(brings(x, way, wrong, drawn[wrong], watched)),
            expected_seen=e.chances(wrong).seen,
            expected=e.of(way, wrong),
            pays_from=pays_from(x, way, wrong),
        )
        for wrong in wrongs
        for way in ways
    ]
