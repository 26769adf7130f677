"""What the watcher makes of a result that it cannot re-execute: whose fault it is decides whether it tries again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor import merkle, reference
from eigentensor.errors import NoSandbox, StoreError, WrongBits
from eigentensor.program import Role, encode
from eigentensor.runtime.cpu import toolchain
from eigentensor.store import GatewayClient, LocalStore, save_safetensors
from eigentensor.task import Life
from eigentensor_aggregator.watch.hands import Bounds, Hands
from eigentensor_aggregator.watch.machine import Look, Verdict
from support.hostile.gateway import ANSWERS, FILES, hostile
from support.programs.worked_examples import layer
from support.stories.aggregator import accepted, committed, life_of, posted, revealed

EXAMPLE = layer()
BOUNDS = Bounds(operations=10**6, memory=1 << 20, block_seconds=60)
TRUE = merkle.results_root(EXAMPLE.program, reference.execute(EXAMPLE.program, EXAMPLE.tensors))
Results = Callable[..., Life]


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "blobs")


@pytest.fixture
def hands(store: LocalStore) -> Hands:
    """Those of a watcher whose gateway nobody answers: all that it needs is in its store."""
    return Hands(GatewayClient("http://127.0.0.1:9", store, attempts=1), BOUNDS, None)


@pytest.fixture
def result(store: LocalStore, tmp_path: Path) -> Results:
    """Puts what an order names into the store; the order's result, as its executor claims it."""

    def make(**terms: Any) -> Life:
        program = encode(EXAMPLE.program)
        store.put(program)
        roots: dict[str, bytes] = {}
        for role, word in ((Role.INPUT, "inputs"), (Role.WEIGHT, "weights")):
            tensors = {name: EXAMPLE.tensors[name] for name in EXAMPLE.program.named(role)}
            save_safetensors(tmp_path / word, tensors)
            roots[word] = bytes.fromhex(store.names(store.put(tmp_path / word)).computed or "")
        order = posted(program=merkle.program_root(program), inputs=roots["inputs"], weights=roots["weights"], **terms)
        return life_of(order, accepted(), committed(), revealed(root=TRUE))

    return make


def test_a_right_result_agrees(hands: Hands, result: Results) -> None:
    assert hands.look(result(), 10) == Look(Verdict.AGREES, TRUE.hex())


def test_what_the_order_got_wrong_is_never_looked_at_again(hands: Hands, result: Results) -> None:
    look = hands.look(result(repeat=1 + EXAMPLE.program.max_repeat), 10)
    assert look.verdict is Verdict.UNABLE and "iterations" in look.words


@pytest.mark.parametrize("answer", [*ANSWERS, *FILES])
def test_nothing_that_a_gateway_says_is_a_verdict(store: LocalStore, result: Results, answer: str) -> None:
    life = result()
    store.discard(life.order.inputs)
    with hostile() as gateway, GatewayClient(gateway.url, store, attempts=1) as client:
        gateway.raw, gateway.file = ANSWERS.get(answer, b""), FILES.get(answer)
        with pytest.raises(StoreError):
            Hands(client, BOUNDS, None).look(life, 10)


def test_a_machine_that_cannot_confine_looks_again_later(
    hands: Hands, result: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolchain.local()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NoSandbox, match="bubblewrap is not installed"):
        hands.look(result(), 10)


def test_a_device_that_computes_wrong_bits_looks_again_later(
    hands: Hands, result: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = reference.elements
    monkeypatch.setattr(reference, "elements", lambda *arguments: np.nextafter(truth(*arguments), np.float32(9)))
    with pytest.raises(WrongBits):
        hands.look(result(), 10)
