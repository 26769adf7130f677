"""What a function stores into a tensor that it keeps is a state, however it is stored."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tinygrad import Context, Tensor, TinyJit, UOp, function

from eigentensor import reference
from eigentensor.capture import GraphProgram, TensorContext, capture, capture_graph
from eigentensor.errors import CaptureError
from eigentensor.graph.lower import lower

STEPS = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
Way = Callable[..., GraphProgram]


def of_graph(*args: Any, **options: Any) -> GraphProgram:
    return lower(capture_graph(*args, **options))


class Cache:
    """As tinygrad's own language model keeps its keys and values."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.kept = Tensor(np.zeros((4, 3), np.float32)).realize()

    def __call__(self, x: Tensor, at: UOp) -> Tensor:
        return getattr(self, self.kind)(x, at)

    def stored(self, x: Tensor, at: UOp) -> Tensor:
        store = self.kept[at : at + 1].uop.store(x.reshape(1, 3).uop)
        return Tensor(self.kept.uop.after(store)).sum(0) * 2

    def twice(self, x: Tensor, at: UOp) -> Tensor:
        once = self.kept.uop.after(self.kept[at : at + 1].uop.store(x.reshape(1, 3).uop))
        whole = Tensor(once).sum(0) * 2
        again = once.after(once[0:1].store((x * 0 + 7).reshape(1, 3).uop))
        return whole + 0 * Tensor(again).sum(0)

    def whole(self, x: Tensor, at: UOp) -> Tensor:
        store = self.kept.uop.store((self.kept + x).uop)
        return Tensor(self.kept.uop.after(store)).sum(0) * 2

    def assigned(self, x: Tensor, at: UOp) -> Tensor:
        self.kept[at : at + 1].assign(x.reshape(1, 3))
        return self.kept.sum(0) * 2

    def realized(self, x: Tensor, at: UOp) -> Tensor:
        self.kept[at : at + 1].assign(x.reshape(1, 3)).realize()
        return self.kept.sum(0) * 2


def expected(kind: str) -> list[NDArray[np.float32]]:
    kept, outputs = np.zeros((4, 3), np.float32), []
    for at, x in enumerate(STEPS):
        kept = kept + x if kind == "whole" else np.vstack([kept[:at], x[None], kept[at + 1 :]])
        outputs.append(kept.sum(0) * 2)
        if kind == "twice":
            kept[0] = 7
    return outputs


def followed(graph: GraphProgram) -> list[Any]:
    states, outputs = dict(graph.states), []
    for at, x in enumerate(STEPS):
        bound = {variable.name: at for variable in graph.program.variables}
        results = reference.execute(graph.program, {"x": x, **graph.weights, **states}, bound)
        states = dict(results.states)
        outputs.append(results.outputs["output"])
    return outputs


@pytest.mark.parametrize("way", [capture, of_graph])
@pytest.mark.parametrize("kind", ["stored", "twice", "whole", "assigned", "realized"])
def test_what_is_stored_is_a_state_and_every_step_follows_it(kind: str, way: Way) -> None:
    cache = Cache(kind)
    before = cache.kept.uop
    graph = way(cache, [STEPS[0]], cache, variables={"at": (0, 3)})
    assert list(graph.states) == ["kept"] and not graph.weights
    np.testing.assert_allclose(followed(graph), expected(kind))
    assert cache.kept.uop is before


@pytest.mark.parametrize("device", ["CL", "CPU"])
@pytest.mark.parametrize("precompile", [False, True])
def test_a_store_within_a_function_of_tinygrad_is_one_to_a_state(precompile: bool, device: str) -> None:
    with Context(DEV=device):
        cache = Cache("stored")

        @TinyJit  # type: ignore[untyped-decorator]
        def step(x: Tensor, at: UOp) -> Tensor:
            @function(precompile=precompile, allow_implicit=True)  # type: ignore[untyped-decorator]
            def run(x: Tensor, at: UOp) -> Tensor:
                return cache(x, at).contiguous()

            return run(x, at)

        graph = capture(step, [STEPS[0]], cache, variables={"at": (0, 3)})
    assert list(graph.states) == ["kept"]
    np.testing.assert_allclose(followed(graph), expected("stored"))


def test_a_store_that_no_result_waits_for_changes_nothing() -> None:
    """As in tinygrad: nothing would ever run it."""
    cache = Cache("stored")

    def function(x: Tensor) -> Tensor:
        cache.kept.uop.store((cache.kept + x).uop)
        return cache.kept.sum(0) + x

    for way in (capture, of_graph):
        assert list(way(function, [STEPS[0]], cache).weights) == ["kept"]


def test_stores_in_no_order_are_refused() -> None:
    cache = Cache("stored")

    def function(x: Tensor) -> Tensor:
        first, second = (cache.kept.uop.after(cache.kept[n : n + 1].uop.store(x.reshape(1, 3).uop)) for n in (0, 1))
        return Tensor(first).sum(0) + Tensor(second).sum(0)

    with pytest.raises(CaptureError, match="'kept' is stored to twice, in no order"):
        capture_graph(function, [STEPS[0]], cache)


@pytest.mark.parametrize("device", ["CL", "CPU"])
def test_a_state_of_a_context_may_be_stored_to(device: str) -> None:
    with Context(DEV=device):
        context = TensorContext()
        x, at = context.add_graph_input("x", (3,)), context.variable("at", 0, 3)
        kept = context.add_state("kept", (4, 3))
        store = kept[at : at + 1].uop.store(x.reshape(1, 3).uop)
        graph = context.compile_to_graph(Tensor(kept.uop.after(store)).sum(0) * 2)
    np.testing.assert_allclose(followed(graph), expected("stored"))


@pytest.mark.parametrize("device", ["CL", "CPU"])
def test_a_state_of_a_context_that_nothing_stores_to_is_refused(device: str) -> None:
    with Context(DEV=device):
        context = TensorContext()
        kept = context.add_state("kept", (4, 3))
        with pytest.raises(CaptureError, match="the state 'kept' is never assigned"):
            context.compile_to_graph(kept.sum())


@pytest.mark.parametrize("device", ["CL", "CPU"])
@pytest.mark.parametrize("assign", [False, True])
def test_a_weight_of_a_context_is_not_assigned(assign: bool, device: str) -> None:
    with Context(DEV=device):
        context = TensorContext()
        x, w = context.add_graph_input("x", (3,)), context.add_weight("w", Tensor([1.0, 2.0, 3.0]))
        new = w.assign(w + x) if assign else Tensor(w.uop.after(w.uop.store((w + x).uop)))
        with pytest.raises(CaptureError, match="the weight 'w' is assigned"):
            context.compile_to_graph(new * 2)


class Lazy(Cache):
    """What it keeps is made on the first call, beside what came in last and a table that is computed once."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, x: Tensor, at: UOp) -> Tensor:
        if not hasattr(self, "kept"):
            self.kept = Tensor.zeros(4, 3)
            self.twos = (Tensor.arange(3) * 0 + 2).clone().realize()
        self.last = x * 2
        return super().__call__(x, at) * self.twos / 2


@pytest.mark.parametrize("device", ["CL", "CPU"])
@pytest.mark.parametrize("way", [capture, of_graph])
@pytest.mark.parametrize("kind", ["stored", "assigned"])
def test_a_state_that_is_made_on_the_first_call_is_one(kind: str, way: Way, device: str) -> None:
    with Context(DEV=device):
        model = Lazy(kind)
        graph = way(model, [STEPS[0]], model, variables={"at": (0, 3)})
        assert list(graph.states) == ["kept"] and list(graph.weights) == ["twos"]
        np.testing.assert_allclose(followed(graph), expected(kind))
        again = way(model, [STEPS[0]], model, variables={"at": (0, 3)})
        assert again.uuid == graph.uuid


def test_what_a_captured_function_keeps_has_its_value_afterwards() -> None:
    with Context(DEV="CPU"):
        held: list[Tensor] = []
        w = Tensor([1.0, 2.0, 3.0]).realize()

        def function(x: Tensor) -> Tensor:
            held[:] = [(w + 1).realize(), w * 2, (w * 3).contiguous(), x + 1]
            return x * held[0] + held[1] + held[2]

        for way in (capture, of_graph):
            way(function, [STEPS[0]])
            assert [tensor.tolist() for tensor in held[:3]] == [[2, 3, 4], [2, 4, 6], [3, 6, 9]]
            with pytest.raises(CaptureError, match="'x' of a captured function is read where it has no value"):
                held[3].numpy()
