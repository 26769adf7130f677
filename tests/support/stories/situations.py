"""Situations for tests of the economics: the ordinary one, and many that chance made."""

from collections.abc import Iterator

import numpy as np

from eigentensor.economics.situation import LOCAL, Situation

ORDINARY = Situation(parameters=LOCAL)


def random_situations(count: int, seed: int) -> Iterator[Situation]:
    """Nothing in them is so rare that a few ten thousand tasks would not show it."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield Situation(
            parameters=LOCAL,
            price=rng.uniform(0.1, 3),
            rate=rng.uniform(0.2, 0.9),
            verifiers=int(rng.integers(1, 5)),
            value_at_risk=rng.uniform(0, 3),
            gain=rng.uniform(0, 5),
            cost=rng.uniform(0.05, 1),
            shortcut=rng.uniform(0, 0.3),
            share=rng.uniform(0.1, 0.7),
            diligence=rng.uniform(0.1, 1),
            watch=rng.uniform(0.1, 0.6),
            outside=rng.uniform(0.2, 3),
            gas_price=rng.uniform(0, 1e-7),
        )
