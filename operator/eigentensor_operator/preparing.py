"""Programs before anything is promised: what compiling one is expected to take, and whose turn it is. Pure.

Compiling is done for nothing if somebody else accepts first, or if nobody was meant to. So it is bounded, asked for in
the price, and done where no acceptance, no download and no execution waits for it: small programs beside large ones,
those of clients that were given the least first, and of these the cheapest.
"""

import math
from collections.abc import Mapping
from enum import Enum

from eigentensor.task import State
from eigentensor_operator.case import Case, Step
from eigentensor_operator.policy import Policy
from eigentensor_operator.state import Operator

#: Seconds up to which a program is small.
SMALL = 10.0
#: How much longer than that a small one may take: then it waits among the large ones.
GRACE = 3
#: What looking at an order at all counts, in seconds.
LOOK = 0.5


class Place(Enum):
    """Where a program is prepared: each kind has threads of its own."""

    SMALL = "small"
    LARGE = "large"
    CHECK = "check"


PLACES = {Place.SMALL: 2, Place.LARGE: 1, Place.CHECK: 1}


def limit(policy: Policy, seconds: float) -> float:
    """Seconds by the clock after which compiling what was expected to take so long is given up."""
    return min(GRACE * SMALL, policy.max_compile) if seconds <= SMALL else policy.max_compile


def outlived(seconds: float) -> float:
    """What is expected of a program that was given up: a small one is a large one then, a large one too large."""
    return math.nextafter(GRACE * SMALL, math.inf) if seconds <= SMALL else math.inf


def place_of(case: Case) -> Place:
    """Where the program of a task waits."""
    if case.state is not State.OPEN:
        return Place.CHECK
    return Place.SMALL if case.compile_seconds <= SMALL else Place.LARGE


def may_prepare(operator: Operator, case: Case) -> bool:
    """Whether there is a place for the program, and no promise becomes late by it."""
    place, slack = place_of(case), operator.slack
    preparing = operator.cases.values() if operator.doing(Step.PREPARE) else ()
    taken = sum(place_of(c) is place for c in preparing if c.doing is Step.PREPARE)
    return taken < PLACES[place] and (slack is None or operator.policy.in_blocks(case.compile_seconds) <= slack)


def spent(operator: Operator) -> Mapping[str, float]:
    """Seconds that were spent on the orders of each client that this operator has no part in."""
    total: dict[str, float] = {}
    for case in operator.cases.values():
        if case.needs is not None and not operator.role_in(case):
            used = case.compile_seconds if case.prepared or case.doing is Step.PREPARE else 0.0
            total[case.order.client] = total.get(case.order.client, 0.0) + LOOK + min(used, operator.policy.max_compile)
    return total
