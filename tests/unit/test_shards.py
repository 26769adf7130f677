"""Shards: which reductions are cut, that no shard's part needs another's rows, and that every bit follows."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tinygrad import Context, Tensor, nn

from eigentensor import reference
from eigentensor.capture import TensorContext, capture, import_onnx
from eigentensor.errors import CaptureError
from eigentensor.graph.builder import GraphBuilder
from eigentensor.graph.lower import lower
from eigentensor.lowering.graph_program import GraphProgram
from eigentensor.program.model import Program, Role
from eigentensor.regions.boxes import Box, merged, slices
from eigentensor.regions.dependence import shape_of, touched
from eigentensor.runtime import CompiledGraph
from support.programs import random_graphs
from support.programs.changes import buffers_of

ROWS = 16
#: Of a buffer, for each shard the boxes that need rows of it; None where it needs all of them.
Layout = list[tuple[Box, ...]] | None


def normal(*shape: int, seed: int = 1) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


class Layers:
    """Two products with a function between them."""

    def __init__(self) -> None:
        self.first, self.second = Tensor(normal(12, 20)), Tensor(normal(20, 5, seed=2))

    def __call__(self, x: Tensor) -> Tensor:
        return x.matmul(self.first).relu().matmul(self.second)


class Images:
    """Convolutions and what normalises a batch."""

    def __init__(self) -> None:
        self.first, self.norm, self.second = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm(4), nn.Conv2d(4, 5, 3)

    def __call__(self, x: Tensor) -> Tensor:
        return self.second(self.norm(self.first(x)).relu()).mean((2, 3))


class Words:
    """A layer of a transformer, whose table of words is its last product, too."""

    def __init__(self) -> None:
        self.table, self.query, self.norm = nn.Embedding(30, 8), nn.Linear(8, 24), nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def __call__(self, words: Tensor) -> Tensor:
        x = self.table(words)
        parts = self.query(self.norm(x)).chunk(3, -1)
        query, key, value = (part.reshape(*x.shape[:2], 2, 4).transpose(1, 2) for part in parts)
        x = x + query.scaled_dot_product_attention(key, value, is_causal=True).transpose(1, 2).reshape(*x.shape)
        x = x + self.down(self.up(self.norm(x)).gelu())
        return x @ self.table.weight.T


class Training:
    """A step of training a network, with its new values."""

    def __init__(self, network: Any) -> None:
        self.network = network
        self.optimizer = nn.optim.SGD(nn.state.get_parameters(network), lr=0.1)

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        with Context(TRAINING=1):
            self.optimizer.zero_grad()
            loss = self.network(x).sparse_categorical_crossentropy(y).backward()
            self.optimizer.step()
        return loss


def captured(network: Any, x: NDArray[Any], y: NDArray[Any], shards: Any) -> GraphProgram:
    step = Training(network)
    return capture(step, {"x": x, "y": y}, step, shards=shards)


def training_step(shards: Any) -> GraphProgram:
    return captured(Layers(), np.zeros((ROWS, 12), np.float32), np.zeros(ROWS, np.int32), shards)


@cache
def step_in(count: int) -> GraphProgram:
    """The step in so many shards, captured once."""
    return training_step(count)


def layouts(program: Program, count: int, cut: Mapping[str, int]) -> dict[int, Layout]:
    """For each buffer which part needs which shard's rows, where the named inputs are cut along these axes; held on the
    way: shards meet only where partial results, one for each shard, are combined."""
    known: dict[int, Layout] = {}
    for number, buffer in enumerate(program.buffers):
        if buffer.name in cut:
            known[number] = [_rows(buffer.shape, cut[buffer.name], shard, count) for shard in range(count)]
    for call in range(len(program.calls)):
        number = len(program.buffers) + call
        arguments = {n: boxes for n in program.calls[call].arguments if (boxes := known.get(n)) is not None}
        own = [
            merged(touch.outputs for touch in touched(program, call, {n: arguments[n][shard] for n in arguments}))
            for shard in range(count)
        ]
        if not arguments:
            continue
        if all(not _meet(own[a], own[b]) for a in range(count) for b in range(a)):
            known[number] = own
            continue
        known[number] = None
        for n, boxes in arguments.items():
            assert shape_of(program, n)[0] == count, f"the call {call} needs rows of several shards"
            assert all(box[0] == (shard, shard) for shard in range(count) for box in boxes[shard])
    return known


def _rows(shape: tuple[int, ...], axis: int, shard: int, count: int) -> tuple[Box, ...]:
    rows = shape[axis] // count
    whole = [(0, extent - 1) for extent in shape]
    whole[axis] = (shard * rows, (shard + 1) * rows - 1)
    return (tuple(whole),)


def _meet(a: tuple[Box, ...], b: tuple[Box, ...]) -> bool:
    """Whether some element lies in boxes of both."""
    return any(
        all(max(low, least) <= min(high, most) for (low, high), (least, most) in zip(one, other, strict=True))
        for one in a
        for other in b
    )


def combined(program: Program, count: int, cut: Mapping[str, int]) -> int:
    """How many calls combine the shards' results."""
    return sum(layout is None for layout in layouts(program, count, cut).values())


@pytest.mark.parametrize("count", [2, 4, 8])
def test_each_shard_of_a_training_step_needs_its_rows_alone(count: int) -> None:
    graph = step_in(count)
    assert combined(graph.program, count, {"x": 0, "y": 0}) == 3  # two gradients and the loss
    tensors = {"x": normal(ROWS, 12), "y": np.arange(ROWS, dtype=np.int32) % 5, **graph.weights, **graph.states}
    results, plain = reference.execute(graph.program, tensors), reference.execute(step_in(1).program, tensors)
    for name, state in results.states.items():
        assert np.allclose(state, plain.states[name], rtol=1e-5, atol=1e-6)


def test_another_number_of_shards_is_another_program_and_one_is_none() -> None:
    roots = [step_in(count).uuid for count in (1, 2, 4, 8)]
    assert len(set(roots)) == 4
    assert training_step({"x": (0, 4), "y": (0, 4)}).uuid == roots[2]
    assert training_step({"x": (0, 1)}).uuid == roots[0]


@pytest.mark.slow
def test_what_normalises_a_batch_meets_once_for_each_sum() -> None:
    network = Images()
    graph = captured(network, np.zeros((8, 1, 6, 6), np.float32), np.zeros(8, np.int32), 4)
    sums = combined(graph.program, 4, {"x": 0, "y": 0})
    assert sums >= len(nn.state.get_parameters(network)) + 3  # with the loss, and mean and variance of the batch


@pytest.mark.slow
def test_a_transformer_is_cut_by_texts() -> None:
    network = Words()
    graph = captured(network, np.zeros((8, 6), np.int32), np.zeros((8, 6), np.int32), 4)
    assert combined(graph.program, 4, {"x": 0, "y": 0}) >= len(nn.state.get_parameters(network))


@pytest.mark.slow
def test_kernels_of_a_training_step_have_the_bits_of_the_reference() -> None:
    graph = step_in(4)
    tensors = {"x": normal(ROWS, 12), "y": np.arange(ROWS, dtype=np.int32) % 5, **graph.weights, **graph.states}
    ours, exact = CompiledGraph(graph.program).run(tensors), reference.execute(graph.program, tensors)
    for name, state in exact.states.items():
        assert ours.states[name].tobytes() == state.tobytes()
    assert ours.outputs["output"].tobytes() == exact.outputs["output"].tobytes()


def test_what_a_worker_has_not_may_be_anything() -> None:
    """A shard's part of each call's result has the same bits where the other shards' rows are random bits."""
    count, graph, random = 4, step_in(4), np.random.default_rng(5)
    tensors = {"x": normal(ROWS, 12), "y": np.arange(ROWS, dtype=np.int32) % 5, **graph.weights, **graph.states}
    program, known = graph.program, layouts(graph.program, count, {"x": 0, "y": 0})
    buffers = buffers_of(program, tensors, {})
    for shard in range(count):
        held = [_only(buffer, known.get(n), shard, random).ravel() for n, buffer in enumerate(buffers)]
        for number, layout in known.items():
            if layout is not None and number >= len(program.buffers):
                call, whole = number - len(program.buffers), buffers[number]
                own = reference.elements(program, held, call, np.arange(whole.size)).reshape(whole.shape)
                assert all(own[slices(box)].tobytes() == whole[slices(box)].tobytes() for box in layout[shard])


def _only(buffer: NDArray[Any], layout: Layout, shard: int, random: np.random.Generator) -> NDArray[Any]:
    """A shard's part of a buffer between random bits; all of a buffer that has no shards."""
    if layout is None:
        return buffer
    held = np.frombuffer(random.bytes(buffer.nbytes), buffer.dtype).reshape(buffer.shape).copy()
    for box in layout[shard]:
        held[slices(box)] = buffer[slices(box)]
    return held


def test_kernels_have_the_bits_of_the_reference() -> None:
    builder = GraphBuilder()
    x, y = builder.input("x", (8, 300, 6)), builder.input("y", (8, 300))
    outputs = {"products": (x * y[:, :, None]).sum((0, 1)), "maxima": x.max((0, 1)), "sum": (y + 1).sum()}
    program = builder.compile(outputs, fingerprint=False, shards=4).program
    tensors = {"x": normal(8, 300, 6), "y": normal(8, 300, seed=2)}
    ours, exact = CompiledGraph(program).run(tensors), reference.execute(program, tensors)
    for name in outputs:
        assert ours.outputs[name].tobytes() == exact.outputs[name].tobytes()


CASES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], int, int]] = {
    "products of rows": (lambda x: x.transpose() @ x, (8, 6), 0, 1),
    "of another axis": (lambda x: (x * 2).sum(1), (3, 8, 5), 1, 1),
    "merged axes": (lambda x: x.reshape(8 * 6).sum(), (8, 6), 0, 1),
    "maxima": (lambda x: x.max(0), (8, 6), 0, 1),
    "a mean taken off": (lambda x: ((x - x.mean(0)) ** 2).sum(0), (8, 6), 0, 2),
    "a sum that each row uses": (lambda x: x * x.sum(0) + x.max(), (8, 6), 0, 2),
    "axes that cross": (lambda x: x.reshape(8, 2, 3).transpose((2, 0, 1)).reshape(24, 2).sum(0), (8, 6), 0, 1),
    "rows in chunks": (lambda x: x.reshape(4, 2, 6).sum((0, 1)), (8, 6), 0, 1),
    "rows alone": (lambda x: x.softmax(), (8, 6), 0, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_reductions_over_the_named_axis_are_cut_and_no_other(name: str) -> None:
    function, shape, axis, cuts = CASES[name]
    builder = GraphBuilder()
    result = function(builder.input("x", shape))
    graph = builder.compile(result, fingerprint=False, shards={"x": (axis, 4)})
    assert combined(graph.program, 4, {"x": axis}) == cuts
    x = normal(*shape)
    plain = builder.compile(result, fingerprint=False).program
    shards = reference.execute(graph.program, {"x": x}).outputs["output"]
    assert np.allclose(shards, reference.execute(plain, {"x": x}).outputs["output"], rtol=1e-4, atol=1e-5)


def test_random_graphs_in_shards_are_valid_and_compute_the_same() -> None:
    """Whatever the indices look like: shards change the order of sums alone, and nothing of integers."""
    cuts = 0
    for seed in range(300):
        graph, inputs = random_graphs.graph(Random(seed))
        plain = lower(graph, fingerprint=False).program
        tensors = {name: inputs[name] for name in plain.named(Role.INPUT)}
        even = {name: (axis, 2) for name, t in tensors.items() for axis, n in enumerate(t.shape) if n and n % 2 == 0}
        program = lower(graph, fingerprint=False, shards=even or 1).program
        cuts += program != plain
        results = [execute.outputs for execute in (reference.execute(of, tensors) for of in (plain, program))]
        for name, before in results[0].items():
            assert np.allclose(before, results[1][name], rtol=1e-5, atol=1e-5, equal_nan=True)
            assert before.dtype.kind == "f" or before.tobytes() == results[1][name].tobytes()
    assert cuts > 15


def test_long_shards_are_cut_as_any_other_sum() -> None:
    """By shard first, each into spans of 16 lanes: only one partial result a shard and element is combined."""
    builder = GraphBuilder()
    graph = builder.compile(builder.input("x", (4, 6000)).sum(), fingerprint=False, shards=4)
    extents = [graph.program.bodies[call.body].output_ranges for call in graph.program.calls]
    assert extents == [(8, 4, 16), (8, 4), (4,), ()]
    assert combined(graph.program, 4, {"x": 0}) == 1


def test_a_convolution_over_padded_images_is_cut_by_images() -> None:
    builder = GraphBuilder()
    x, w = builder.input("x", (4, 2, 6, 6)), builder.weight("w", normal(3, 2, 3, 3))
    padded = x.pad(((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = padded.windows(3, axis=2).windows(3, axis=3)
    y = (windows[:, None] * w[None, :, :, None, None]).sum((2, 5, 6))
    gradient = (windows[:, None] * y[:, :, None, :, :, None, None]).sum((0, 3, 4))
    graph = builder.compile(gradient, fingerprint=False, shards=4)
    assert combined(graph.program, 4, {"x": 0}) == 1


def test_the_fingerprint_of_shards_needs_their_rows_alone() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (8, 100))
    graph = builder.compile(((x * x).contiguous() + 1).sum(1), shards=4)
    assert "fingerprint" in graph.program.outputs
    assert combined(graph.program, 4, {"x": 0}) == 1


def test_rows_of_a_state_can_be_cut_by_name() -> None:
    builder = GraphBuilder()
    x, state = builder.input("x", (5,)), builder.state("cache", np.zeros((8, 5), np.float32))
    builder.assign("cache", state + x)
    graph = builder.compile(state.sum(0), fingerprint=False, shards={"cache": (0, 2)})
    assert combined(graph.program, 2, {"cache": 0}) == 1


def test_a_context_cuts_too() -> None:
    context = TensorContext()
    x = context.add_graph_input("x", (8, 6))
    graph = context.compile_to_graph(x.sum(0), fingerprint=False, shards=2)
    assert [b.name for b in graph.program.buffers if b.role is Role.INPUT] == ["x"]
    assert combined(graph.program, 2, {"x": 0}) == 1


def test_an_onnx_models_inputs_are_named_as_the_model_has_them(tmp_path: Path) -> None:
    x, y = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in (("in/x", (6, 8)), ("y", (6, 6)))
    )
    nodes = [
        helper.make_node("Transpose", ["in/x"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["in/x", "t"], ["y"]),
    ]
    path = tmp_path / "model.onnx"
    made = helper.make_graph(nodes, "rows", [x], [y])
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), str(path))
    graph = import_onnx(path, fingerprint=False, shards={"in/x": (1, 4)})
    assert combined(graph.program, 4, {"in.x": 1}) == 1
    with pytest.raises(CaptureError, match="has 6 rows"):
        import_onnx(path, shards=4)


@pytest.mark.parametrize(
    ("shards", "reason"),
    [
        (3, "3 shards"),
        (0, "0 shards"),
        (True, "True shards"),
        ("4", "'4' shards"),
        (16, "has 8 rows"),
        ({"x": 4}, "are 4"),
        ({"x": (2, 4)}, "no axis 2"),
        ({"x": (-1, 4)}, "no axis -1"),
        ({"x": (True, 4)}, "no axis True"),
        ({"w": (0, 4)}, "no input"),
        ({"x": (0, 4), "y": (0, 2)}, r"\[2, 4\] shards"),
        ({}, "no shards"),
    ],
)
def test_shards_that_cannot_be_are_refused(shards: Any, reason: str) -> None:
    builder = GraphBuilder()
    x, y, w = builder.input("x", (8, 6)), builder.input("y", (8,)), builder.weight("w", np.ones(6, np.float32))
    with pytest.raises(CaptureError, match=reason) as refused:
        builder.compile({"x": (x * w).sum(0), "y": y.sum()}, shards=shards)
    assert refused.value.fix


def test_a_number_needs_no_shards() -> None:
    builder = GraphBuilder()
    x, scale = builder.input("x", (8, 6)), builder.input("scale", ())
    assert combined(builder.compile((x * scale).sum(0), shards=2).program, 2, {"x": 0}) == 1
    with pytest.raises(CaptureError, match="no input has an axis"):
        builder.compile(scale + 1, shards=2)
