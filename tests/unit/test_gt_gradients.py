"""Every operation's gradient is PyTorch's, whose values are in tests/vectors/eager_gradients.json."""

from collections.abc import Iterator

import numpy as np
import pytest

import eigentensor.gt as gt
from eigentensor.cluster.local import LocalSession
from eigentensor.cluster.tiers import Tiers
from eigentensor.gt import connection, nn
from eigentensor.stream.gradients import RULES, Leaf, Step
from support.programs.eager_gradients import CASES, GIVEN, INPUTS, taken, weights
from support.vectors.eager_gradients import expected

EXPECTED = expected()
REFERENCE = Tiers(most=1 << 60, sight=1 << 60)


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    """Everything by the reference: shapes are small, and each is seen once."""
    connection.close()
    connection.open_session(LocalSession(tiers=REFERENCE))
    yield
    connection.close()


def result_of(name: str) -> tuple[gt.Tensor, dict[str, gt.Tensor]]:
    case = CASES[name]
    tensors = {letter: gt.from_numpy(INPUTS[letter], requires_grad=True) for letter in taken(case)}
    given = {word: gt.from_numpy(values) for word, values in GIVEN.items()}
    result: gt.Tensor = eval(case.ours, {"new": gt, "nn": nn}, tensors | given)
    return result, tensors


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_pytorch(name: str) -> None:
    result, tensors = result_of(name)
    (result * gt.from_numpy(weights(result.shape))).sum().backward()
    gradients = [tensor.grad for tensor in tensors.values()]
    assert all(g is not None and g.shape == t.shape for g, t in zip(gradients, tensors.values(), strict=True))
    flat = np.concatenate([g.data.numpy().ravel() for g in gradients if g is not None])
    np.testing.assert_allclose(result.data.numpy().ravel(), EXPECTED[name].value, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(flat, EXPECTED[name].gradients, rtol=1e-4, atol=5e-6)


@pytest.mark.slow
def test_bits_are_the_same_compiled() -> None:
    def bits() -> dict[str, list[bytes]]:
        found = {}
        for name in CASES:
            result, tensors = result_of(name)
            (result * gt.from_numpy(weights(result.shape))).sum().backward()
            gradients = [tensor.grad for tensor in tensors.values()]
            found[name] = [t.data.numpy().tobytes() for t in (result, *gradients) if t is not None]
        return found

    interpreted = bits()
    connection.close()
    connection.open_session(LocalSession(tiers=Tiers(most=-1)))
    compiled = bits()
    connection.close()
    connection.open_session(LocalSession(tiers=REFERENCE))
    assert compiled == interpreted


def test_every_rule_has_a_case() -> None:
    used: set[str] = set()
    for name in CASES:
        stack = [result_of(name)[0]._origin]
        while stack:
            origin = stack.pop()
            if isinstance(origin, Step):
                used.add(origin.op)
                stack.extend(origin.below)
            else:
                assert origin is None or isinstance(origin, Leaf)
    assert used == set(RULES)
