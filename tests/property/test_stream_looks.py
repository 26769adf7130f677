"""Looking at a value changes no later bit, and neither does what executes: wherever a stream's segments end, and in
whatever tier each of them is executed each time, all its values are the same."""

from collections.abc import Callable, Mapping
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eigentensor.cluster.local import LocalSession
from eigentensor.cluster.tiers import Tier, Tiers
from eigentensor.numerics.dtypes import DType
from eigentensor.program.model import Body
from eigentensor.stream.operations import encoded
from eigentensor.stream.recorder import Recorder, Value

RANDOM = st.randoms(use_true_random=False)
PLAIN = settings(derandomize=True, suppress_health_check=list(HealthCheck))
REFERENCE = Tiers(most=1 << 60, sight=1 << 60)
COMPILED = Tiers(most=-1)
STEPS = 14

Step = Callable[[Recorder, list[Value]], Value]


def chosen(random: Random) -> Step:
    """One instruction on what there is; all values are float32 matrices of 4 × 4."""
    op = random.choice(
        (
            "mul",
            "mul",
            "mul",
            "number",
            "add",
            "div",
            "sum",
            "sum",
            "mean",
            "matmul",
            "exp",
            "where",
            "moved",
            "power",
            "long",
        )
    )
    first, second = random.random(), random.random()
    axis, number = random.randrange(2), random.choice((0.3, -1.0, 1.0, 0.0, -0.0))

    def step(own: Recorder, values: list[Value]) -> Value:
        a, b = (values[int(part * len(values))] for part in (first, second))
        if op == "number":
            return own.emit("mul", (axis, encoded(number)), a)
        if op in ("sum", "mean"):
            return own.emit("expand", (4, 4), own.emit(op, (axis, True), a))
        if op == "long":  # enough terms for a cut into spans
            wide = own.emit("expand", (90, 4, 4), own.emit("mul", None, a, b))
            return own.emit("expand", (4, 4), own.emit("sum", ((0, 1 + axis), False), own.emit("mul", None, wide, a)))
        if op == "exp":
            return own.emit("tanh", None, own.emit("exp", None, a))
        if op == "where":
            return own.emit("where", (2, encoded(0.0)), own.emit("lt", None, a, b), own.emit("mul", None, a, b))
        if op == "moved":
            turned = own.emit("permute", (1, 0), own.emit("mul", None, a, b))
            return own.emit("reshape", (4, 4), own.emit("flip", (axis,), turned))
        if op == "power":
            return own.emit("pow", (1, encoded(2)), a)
        return own.emit(op, None, a, b)

    return step


def values_of(steps: list[Step], seed: int, looks: set[int], longest: int, tiers: Tiers) -> list[bytes]:
    """All values that the steps make, as bytes, where somebody looks at one after each step of `looks`."""
    own = Recorder(LocalSession(tiers=tiers))
    own.longest = longest
    numbers = np.random.default_rng(seed).standard_normal((2, 4, 4)).astype(np.float32)
    values = [own.put(array, DType.FLOAT32) for array in numbers]
    for number, step in enumerate(steps):
        values.append(step(own, values))
        if number in looks:
            own.read(values[-1])
    results = [own.read(value).tobytes() for value in values]
    own.session.close()
    return results


def check(random: Random, tiers: Tiers) -> None:
    steps, seed = [chosen(random) for _ in range(STEPS)], random.randrange(1 << 30)
    expected = values_of(steps, seed, set(), 1 << 20, tiers)
    looks = {number for number in range(STEPS) if random.random() < 0.4}
    assert values_of(steps, seed, looks, 1 << 20, tiers) == expected
    assert values_of(steps, seed, set(range(STEPS)), random.randint(1, 5), tiers) == expected


@settings(PLAIN, max_examples=25)
@given(RANDOM)
def test_whatever_was_looked_at_all_values_have_the_same_bits(random: Random) -> None:
    check(random, REFERENCE)


@pytest.mark.slow
def test_so_they_have_in_hundreds_of_streams_and_compiled() -> None:
    for seed in range(200):
        check(Random(seed), REFERENCE)
    for seed in range(6):
        check(Random(seed), COMPILED)


class Drawn(Tiers):
    """At each sight any tier, and any of the bodies are heavy."""

    random = Random(0)

    def of(self, bodies: int, heavy: int, sight: int, *, at_once: bool) -> Tier:
        return self.random.choice(list(Tier))

    def heavy(self, evaluations: Mapping[Body, int]) -> frozenset[Body]:
        return frozenset(body for body in evaluations if self.random.random() < 0.5)


def turns_of(steps: list[Step], looks: set[int], tiers: Tiers) -> list[bytes]:
    """What is seen of the steps at these looks, in four turns: segments come again and again."""
    own, seen = Recorder(LocalSession(tiers=tiers)), []
    numbers = np.random.default_rng(1).standard_normal((4, 2, 4, 4)).astype(np.float32)
    for arrays in numbers:
        values = [own.put(array, DType.FLOAT32) for array in arrays]
        for number, step in enumerate(steps):
            values.append(step(own, values))
            if number in looks:
                seen.append(own.read(values[-1]).tobytes())
        seen += [own.read(value).tobytes() for value in values]
    own.session.close()
    return seen


def check_tiers(random: Random, looks: int) -> None:
    steps, Drawn.random = [chosen(random) for _ in range(STEPS)], random
    places = set(random.sample(range(STEPS), looks))
    assert turns_of(steps, places, Drawn()) == turns_of(steps, places, REFERENCE)


@pytest.mark.parametrize("seed", [100, 101, 102])
def test_whatever_tier_is_drawn_at_each_sight_all_values_have_the_same_bits(seed: int) -> None:
    check_tiers(Random(seed), 1)


@pytest.mark.slow
def test_so_they_have_in_many_streams_whose_tiers_are_drawn() -> None:
    for seed in range(40):
        check_tiers(Random(seed), 3)
