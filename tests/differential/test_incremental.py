"""Runs that compute only what changed: the bits of a full run, whatever changes, and no more work than there is."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eigentensor import reference
from eigentensor.errors import BindingError, ExecutionError, LimitError
from eigentensor.numerics.dtypes import DType
from eigentensor.program import Buffer, Program, Role
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, binary, const, counter, load, node, reduction, to_body
from eigentensor.program.model import Kind
from eigentensor.program.ops import Op
from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.incremental import Incremental, Rerun, memory_of, recomputation, runs
from support.generated.programs import generate
from support.generated.trials import trial
from support.programs import models, reruns
from support.programs.captured import NAMES, graphs
from support.programs.reruns import rerun, same

F32, INDEX = DType.FLOAT32, DType.INDEX


@pytest.fixture
def by_reference() -> Iterator[None]:
    with reruns.by_reference():
        yield


@pytest.fixture
def small_boxes() -> Iterator[None]:
    with reruns.small_boxes():
        yield


@pytest.mark.usefixtures("by_reference", "small_boxes")
@pytest.mark.parametrize("spread", [recomputation.SPREAD, 9])
def test_generated_programs_have_the_results_of_a_full_run_after_any_changes(
    spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recomputation, "SPREAD", spread)
    less = 0
    for seed in range(25):
        example = generate(seed)
        repetitions = rerun(Random(seed), example.program, example.tensors, 4)
        less += sum(r.computed.evaluations < r.of.evaluations for r in repetitions)
    assert less > 12


@pytest.mark.usefixtures("by_reference")
def test_generated_programs_have_the_results_of_a_full_run_where_all_calls_are_computed_whole() -> None:
    for seed in range(25):
        example = generate(seed)
        rerun(Random(seed), example.program, example.tensors, 4)


@pytest.mark.usefixtures("small_boxes")
def test_kernels_of_boxes_give_the_bits_of_the_reference() -> None:
    repetitions = rerun(Random(0), trial(0, 1).program, trial(0, 1).groups[0].sets[0], 3)
    assert any(r.computed.evaluations < r.of.evaluations for r in repetitions)


@pytest.mark.slow
@pytest.mark.usefixtures("small_boxes")
@pytest.mark.parametrize("first", range(10, 40, 10))
def test_kernels_of_boxes_of_many_programs_give_the_bits_of_the_reference(first: int) -> None:
    for seed in range(first, first + 10):
        rerun(Random(seed), trial(seed, 1).program, trial(seed, 1).groups[0].sets[0], 6)


@pytest.mark.slow
@pytest.mark.usefixtures("small_boxes")
@pytest.mark.parametrize("name", sorted(NAMES))
def test_captured_functions_give_the_bits_of_the_reference_after_any_changes(name: str) -> None:
    graph = graphs()[name].captured()
    tensors = {n: np.asarray(array) for n, array in graphs()[name].bound(graph).items()}
    rerun(Random(name), graph.program, tensors, 6)


def masked_product(size: int, width: int) -> Program:
    """output = where(k ≤ i, x, 0) @ v."""
    i, j, k = Axis(0, size), Axis(1, width), Axis(2, size, True)
    x, v = Array("x", F32, size * size), Array("v", F32, size * width)
    element = binary(Op.ADD, binary(Op.MUL, counter(i), const(INDEX, size)), counter(k))
    before = binary(Op.CMPLT, counter(k), binary(Op.ADD, counter(i), const(INDEX, 1)))
    factor = node(Op.WHERE, F32, before, load(x, element), const(F32, 0))
    value = load(v, binary(Op.ADD, binary(Op.MUL, counter(k), const(INDEX, width)), counter(j)))
    lowered = to_body(reduction(Op.REDUCE_MULACC, (k,), factor, value), (i, j))
    buffers = {"x": Buffer(Role.INPUT, F32, (size, size), "x"), "v": Buffer(Role.INPUT, F32, (size, width), "v")}
    return assemble([("output", lowered)], buffers, {(Kind.OUTPUT, "output"): ("output", (size, width))})


@pytest.mark.usefixtures("by_reference", "small_boxes")
def test_what_a_zero_is_multiplied_with_is_not_computed_again() -> None:
    program, random = masked_product(16, 8), np.random.default_rng(0)
    tensors = {"x": random.standard_normal((16, 16), np.float32), "v": random.standard_normal((16, 8), np.float32)}
    runs = Incremental(program)
    runs.run(tensors)
    tensors["v"][13] += 1
    again = runs.run(tensors)
    assert same(again, reference.execute(program, tensors))
    assert again.computed.evaluations < again.of.evaluations / 3  # 4 rows of 16, and a look at the zeros


@pytest.mark.usefixtures("by_reference", "small_boxes")
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, -0.0, 1e-45, -1e-45, 3e38])
def test_zeros_do_not_hide_infinities_nor_signs_of_zeros(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recomputation, "SPREAD", 9)
    program, kinds = masked_product(8, 16), np.array([0.0, -0.0, 1e-45, -1e-45, value], np.float32)
    for seed in range(12):
        random = np.random.default_rng(seed)
        tensors = {name: random.standard_normal(b.shape, np.float32) for name, b in program.named(Role.INPUT).items()}
        if seed % 2:  # sums are zeros of both signs
            tensors["x"][:], tensors["v"][:] = seed % 4 / 4, -1e-45
            tensors["x"][random.integers(8)], tensors["v"][random.integers(8)] = 1e-45, 0
        runs = Incremental(program)
        runs.run(tensors)
        for _ in range(3):
            tensors["v"][random.integers(8), random.integers(16)] = random.choice(kinds)
            assert same(runs.run(tensors), reference.execute(program, tensors))


def changed_at(of: models.Model, name: str, *place: int) -> dict[str, NDArray[Any]]:
    """The model's inputs with another number at one place."""
    inputs = {n: array.copy() for n, array in of.inputs.items()}
    inputs[name][place] += 1
    return inputs


def after_a_change(of: models.Model, inputs: Mapping[str, NDArray[Any]]) -> Rerun:
    """The second of two runs, which has the bits of a first one."""
    graph = of.captured()
    runs = Incremental(graph.program, graph.weights)
    runs.run(of.inputs)
    again = runs.run(inputs)
    assert same(again, Incremental(graph.program, graph.weights).run(inputs))
    return again


@pytest.mark.usefixtures("by_reference", "small_boxes")
def test_a_token_at_the_end_changes_a_row_of_a_causal_decoder() -> None:
    of = models.causal(1, 32, 2, 32, 50)
    again = after_a_change(of, changed_at(of, "tokens", 0, 31))
    assert again.computed.evaluations < again.of.evaluations / 20
    assert again.computed.calls == again.of.calls


@pytest.mark.slow
@pytest.mark.usefixtures("small_boxes")
def test_a_token_changes_the_rows_after_it_in_every_layer() -> None:
    of = models.causal(3, 64, 4, 64, 300)
    graph = of.captured()
    runs, full = Incremental(graph.program, graph.weights), CompiledGraph(graph.program, graph.weights)
    runs.run(of.inputs)
    shares = []
    for place in (63, 62, 56, 0, 63):
        inputs = changed_at(of, "tokens", 0, place)
        of.inputs["tokens"][:] = inputs["tokens"]
        again = runs.run(inputs)
        assert same(again, full.run(inputs))
        shares.append(again.computed.evaluations / again.of.evaluations)
    assert shares[0] < shares[1] < shares[2] < 0.9 < shares[3] and shares[4] == shares[0]


@pytest.mark.usefixtures("by_reference", "small_boxes")
def test_a_patch_of_one_image_changes_that_image() -> None:
    of = models.digits(24)
    inputs = changed_at(of, "images", 3, 0, 2, 2)
    again = after_a_change(of, inputs)
    assert again.computed.evaluations < again.of.evaluations / 20


@pytest.mark.slow
def test_a_patch_changes_windows_around_it_in_the_first_layers_of_a_deep_convolution_net() -> None:
    of = models.resnet18(112)
    inputs = {"images": of.inputs["images"].copy()}
    inputs["images"][:, :, 40:48, 60:68] = 0
    again = after_a_change(of, inputs)
    assert again.computed.calls == again.of.calls and again.computed.evaluations < again.of.evaluations * 0.8


def small() -> tuple[Incremental, dict[str, NDArray[Any]]]:
    tensors = {"x": np.ones((8, 8), np.float32), "v": np.ones((8, 4), np.float32)}
    return Incremental(masked_product(8, 4)), tensors


@pytest.mark.usefixtures("by_reference")
def test_nothing_is_computed_where_nothing_changed() -> None:
    runs, tensors = small()
    assert runs.run(tensors).computed == runs.outline.work == (1, runs.outline.work.evaluations)
    assert runs.run(tensors).computed == (0, 0)


@pytest.mark.usefixtures("by_reference")
def test_what_comes_out_and_what_went_in_is_the_callers() -> None:
    runs, tensors = small()
    first = runs.run(tensors).outputs["output"]
    before = first.copy()
    tensors["v"][7] = 5
    second = runs.run(tensors)
    assert second.computed.calls == 1 and (first == before).all()
    second.outputs["output"][:] = 0
    assert runs.run(tensors).outputs["output"].any()


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_after_an_interrupted_run_the_next_is_full(stop: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    runs, tensors = small()
    runs.run(tensors)
    tensors["v"][2] = 3

    def interrupted(*_: object) -> None:
        raise stop

    with monkeypatch.context() as patch:
        patch.setattr(runs.processor, "calls", interrupted)
        with pytest.raises(stop):
            runs.run(tensors)
    again = runs.run(tensors)
    assert again.computed == again.of and same(again, reference.execute(runs.program, tensors))


@pytest.mark.usefixtures("by_reference")
def test_a_run_that_is_refused_forgets_nothing() -> None:
    runs, tensors = small()
    runs.run(tensors)
    with pytest.raises(BindingError, match="missing v"):
        runs.run({"x": tensors["x"]})
    assert runs.run(tensors).computed == (0, 0)


@pytest.mark.usefixtures("by_reference")
def test_threads_get_the_results_of_what_they_gave() -> None:
    runs, tensors = small()

    def run(number: int) -> bool:
        own = {"x": tensors["x"], "v": np.full((8, 4), number % 3, np.float32)}
        return same(runs.run(own), reference.execute(runs.program, own))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(24)))


def test_too_much_memory_is_refused_before_anything_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(runs, "Processor")
    program = masked_product(8, 4)
    with pytest.raises(LimitError, match="incremental runs of the program need"):
        Incremental(program, memory_limit=memory_of(program) - 1)


def test_a_device_with_memory_of_its_own_is_refused() -> None:
    with pytest.raises(ExecutionError, match="CUDA has memory of its own"):
        Incremental(masked_product(8, 4), device="CUDA")
