"""Shards: which reductions are cut, that no shard's part needs another's rows, and that every bit follows."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tinygrad import Context, Tensor, nn

from eigentensor import reference
from eigentensor.capture import TensorContext, capture
from eigentensor.errors import CaptureError
from eigentensor.graph.builder import GraphBuilder
from eigentensor.lowering.graph_program import GraphProgram
from eigentensor.program.model import Program, Role
from eigentensor.regions.boxes import Box, merged, slices
from eigentensor.regions.dependence import shape_of, touched
from eigentensor.runtime import CompiledGraph
from support.programs.changes import buffers_of

ROWS = 16
#: Of a buffer, for each shard the boxes that need rows of it; None where it needs all of them.
Layout = list[tuple[Box, ...]] | None


def normal(*shape: int, seed: int = 1) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


class Training:
    """A step of training two layers, with their new values."""

    def __init__(self) -> None:
        self.first, self.second = Tensor(normal(12, 20)), Tensor(normal(20, 5, seed=2))
        self.optimizer = nn.optim.SGD([self.first, self.second], lr=0.1)

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        with Context(TRAINING=1):
            self.optimizer.zero_grad()
            scores = x.matmul(self.first).relu().matmul(self.second)
            loss = scores.sparse_categorical_crossentropy(y).backward()
            self.optimizer.step()
        return loss


def training_step(shards: Any) -> GraphProgram:
    step = Training()
    inputs = {"x": np.zeros((ROWS, 12), np.float32), "y": np.zeros(ROWS, np.int32)}
    return capture(step, inputs, step, shards=shards)


def layouts(program: Program, count: int, cut: Mapping[str, int]) -> dict[int, Layout]:
    """For each buffer which part needs which shard's rows, given what of the named inputs' axes does; held on the way:
    shards meet only where partial results, one for each shard, are combined."""
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
def test_a_training_step_in_shards_has_a_root_and_each_shard_needs_its_rows_alone(count: int) -> None:
    graph, again = training_step(count), training_step(count)
    assert graph.uuid == again.uuid
    assert combined(graph.program, count, {"x": 0, "y": 0}) >= 3  # two gradients and the loss
    tensors = {"x": normal(ROWS, 12), "y": np.arange(ROWS, dtype=np.int32) % 5, **graph.weights, **graph.states}
    whole = training_step(1).program
    results, plain = reference.execute(graph.program, tensors), reference.execute(whole, tensors)
    for name, state in results.states.items():
        assert np.allclose(state, plain.states[name], rtol=1e-5, atol=1e-6)


def test_another_number_of_shards_is_another_program_and_one_is_none() -> None:
    roots = [training_step(count).uuid for count in (1, 2, 4, 8)]
    assert len(set(roots)) == 4
    assert training_step({"x": (0, 4), "y": (0, 4)}).uuid == roots[2]
    assert training_step({"x": (0, 1)}).uuid == roots[0]


def test_what_a_worker_has_not_may_be_anything() -> None:
    """A shard's part of each call's result has the same bits where the other shards' rows are random bits."""
    count, graph, random = 4, training_step(4), np.random.default_rng(5)
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
    graph = training_step(4)
    tensors = {"x": normal(ROWS, 12), "y": np.arange(ROWS, dtype=np.int32) % 5, **graph.weights, **graph.states}
    ours, exact = CompiledGraph(graph.program).run(tensors), reference.execute(graph.program, tensors)
    for name, state in exact.states.items():
        assert ours.states[name].tobytes() == state.tobytes()
    assert ours.outputs["output"].tobytes() == exact.outputs["output"].tobytes()


CASES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], int, int]] = {
    "products of rows": (lambda x: x.transpose() @ x, (8, 6), 0, 1),
    "of another axis": (lambda x: (x * 2).sum(1), (3, 8, 5), 1, 1),
    "merged axes": (lambda x: x.reshape(8 * 6).sum(), (8, 6), 0, 1),
    "maxima": (lambda x: x.max(0), (8, 6), 0, 1),
    "a mean taken off": (lambda x: ((x - x.mean(0)) ** 2).sum(0), (8, 6), 0, 2),
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
