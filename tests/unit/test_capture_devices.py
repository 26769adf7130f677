"""What a program has of tensors does not depend on the device that they lie on, and never is made up."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tinygrad import Context, Tensor, dtypes, nn

from eigentensor import reference
from eigentensor.capture import GraphProgram, TensorContext, capture, capture_graph
from eigentensor.errors import CaptureError
from eigentensor.graph.lower import lower

X = np.arange(12, dtype=np.float32).reshape(3, 4) / 7
W = X[::-1] + 1
Make = Callable[[Path], Tensor]


def of_context(tensor: Tensor) -> GraphProgram:
    context = TensorContext()
    return context.compile_to_graph(context.add_graph_input("x", (3, 4)) * tensor.to(None))


def of_function(tensor: Tensor) -> GraphProgram:
    return capture(partial(multiplied, tensor), [X])  # which is no name of anything


def of_graph(tensor: Tensor) -> GraphProgram:
    return lower(capture_graph(partial(multiplied, tensor), [X]))


def multiplied(w: Tensor, x: Tensor) -> Tensor:
    return x * w.to(x.device)


def loaded(_: Path) -> Tensor:
    layer = nn.Linear(4, 3, bias=False)
    nn.state.load_state_dict(layer, {"weight": Tensor(W)}, verbose=False)
    return layer.weight


def in_a_file(path: Path) -> Tensor:
    nn.state.safe_save({"before": Tensor(X[0]), "w": Tensor(W)}, str(path / "w.safetensors"))
    return nn.state.safe_load(path / "w.safetensors")["w"]


def assigned(_: Path) -> Tensor:
    w = Tensor(np.zeros((3, 4), np.float32)).realize()
    w[1:].assign(Tensor(W[1:]).realize())
    w[:1].assign(Tensor(W[:1]).realize())
    return w


MADE: dict[str, Make] = {
    "numbers": lambda _: Tensor(W.tolist()),
    "an array": lambda _: Tensor(W),
    "realized": lambda _: Tensor(W).realize(),
    "a part": lambda _: Tensor(np.vstack([X, W])).realize()[3:],
    "a part, stored": lambda _: Tensor(np.vstack([X, W])).realize()[3:].contiguous().realize(),
    "transposed": lambda _: Tensor(np.ascontiguousarray(W.T)).realize().T,
    "bits": lambda _: Tensor(W.view(np.int32)).realize().bitcast(dtypes.float32),
    "loaded": loaded,
    "in a file": in_a_file,
    "assigned": assigned,
    "of Python": lambda _: Tensor(W.tolist(), device="PYTHON").realize(),
    "of another device": lambda _: Tensor(W, device="CPU:1").realize(),
    "on two devices": lambda _: Tensor(W, device="CPU").shard(("CPU", "CPU:1"), axis=1).realize(),
    "twice": lambda _: Tensor(W, device="CPU").shard(("CPU", "CPU:1")).realize(),
}


@pytest.fixture(params=["CL", "CPU", "PYTHON"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    with Context(DEV=request.param):
        yield request.param


@pytest.mark.parametrize("way", [of_context, of_function, of_graph])
@pytest.mark.parametrize("made", MADE)
def test_a_tensor_has_its_elements_wherever_it_lies(
    made: str, way: Callable[[Tensor], GraphProgram], device: str, tmp_path: Path
) -> None:
    graph = way(MADE[made](tmp_path))
    assert np.array_equal(reference.execute(graph.program, {"x": X, **graph.weights}).outputs["output"], X * W)


@pytest.mark.parametrize(
    "made", [made for made in MADE if made != "a part, stored"]
)  # OpenCL copies it, a CPU does not
def test_a_program_is_the_same_on_every_device(made: str, tmp_path: Path) -> None:
    uuids = set()
    for device in ("CL", "CPU", "PYTHON"):
        with Context(DEV=device):
            uuids.add(of_context(MADE[made](tmp_path)).uuid)
    assert len(uuids) == 1


def test_a_function_may_name_devices(device: str) -> None:
    there = Tensor(W, device="CPU:1").realize()

    def function(x: Tensor) -> Tensor:
        return (x.to("CPU:1") * there).to("CL") + Tensor([1.0, 2.0, 3.0, 4.0], device="CL")

    graph = capture(function, [X])
    results = reference.execute(graph.program, {"x": X, **graph.weights}).outputs
    assert np.allclose(results["output"], X * W + [1, 2, 3, 4])


def test_a_state_is_assigned_from_tensors_of_the_device(device: str) -> None:
    context = TensorContext()
    x, w = context.add_graph_input("x", (3, 4)), Tensor(W).realize()
    total = context.add_state("total", (3, 4), initial=w)
    total.assign(total + x * w)
    graph = context.compile_to_graph(total.sum())
    results = reference.execute(graph.program, {"x": X, **graph.weights, **graph.states})
    assert np.allclose(results.states["total"], W + X * W)


def test_what_tensor_empty_made_is_zeros(device: str) -> None:
    context = TensorContext()
    x = context.add_graph_input("x", (3, 4))
    graph = context.compile_to_graph(x + Tensor.empty(3, 4))
    assert np.array_equal(reference.execute(graph.program, {"x": X}).outputs["output"], X)


def foreign(of: str) -> Tensor:
    other = TensorContext()
    place = other.add_graph_input("its", (3, 4)) if of == "input" else other.add_state("its", (3, 4))
    return place


DEPENDENT: dict[str, Callable[[Tensor], Tensor]] = {
    "itself": lambda y: y,
    "a part": lambda y: y[1:2],
    "a sum": lambda y: (y + 1).sum(),
    "moved": lambda y: y.T.contiguous().T,
    "bits": lambda y: y.bitcast(dtypes.int32),
    "copied": lambda y: y.to("CPU:1").to(None),
    "assigned": lambda y: Tensor.zeros(3, 4).contiguous().assign(y),
    "a gradient": lambda y: ((w := Tensor.ones(3, 4).contiguous()) * y).sum().gradient(w)[0],
}


@pytest.mark.parametrize("of", ["input", "state"])
@pytest.mark.parametrize("dependent", DEPENDENT)
def test_a_placeholder_of_another_context_is_refused_by_name(dependent: str, of: str, device: str) -> None:
    theirs = DEPENDENT[dependent](foreign(of))
    context = TensorContext()
    x = context.add_graph_input("x", (3, 4))
    with pytest.raises(CaptureError, match=f"the {of} 'its' of a TensorContext") as refused:
        context.compile_to_graph(x + theirs.sum())
    assert refused.value.fix and __file__ in refused.value.line
    with pytest.raises(CaptureError, match=f"the {of} 'its' of a TensorContext"):
        capture(lambda x: x + theirs.sum(), [X])
    with pytest.raises(CaptureError, match=f"the {of} 'its' of a TensorContext"):
        capture_graph(lambda x: x + theirs.sum(), [X])


def test_a_variable_of_another_context_is_refused_by_name() -> None:
    theirs = TensorContext().variable("row", 0, 2)
    context = TensorContext()
    x = context.add_graph_input("x", (3, 4))
    with pytest.raises(CaptureError, match="the variable 'row' from 0 to 2 is none of this graph"):
        context.compile_to_graph(x[theirs : theirs + 1])
    with pytest.raises(CaptureError, match="the variable 'row' from 0 to 2 is none of this graph"):
        capture_graph(lambda x: x[theirs : theirs + 1], [X])


def test_the_value_of_a_placeholder_is_not_what_memory_has_there(device: str) -> None:
    with pytest.raises(CaptureError, match="the input 'its' of a TensorContext"):
        foreign("input").numpy()
    with pytest.raises(CaptureError, match="the input 'its' of a TensorContext"):
        (foreign("input") + 1).realize()


def test_a_tensor_that_cannot_be_computed_is_refused_each_time(tmp_path: Path) -> None:
    (path := tmp_path / "elements").write_bytes(bytes(48))
    there = Tensor(path).bitcast(dtypes.float32).reshape(3, 4) + 0  # nothing computes in a file
    for _ in range(2):
        with pytest.raises(CaptureError, match="cannot compute a tensor of float"):
            capture(lambda x: x + there.to(x.device), [X])
