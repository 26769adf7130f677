"""OpenCL and CUDA give the reference's bits: operations, tiles, generated programs, graphs, states and repeats."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from differential.test_compiled import matrix, product
from eigentensor import reference
from eigentensor.cache import Cache
from eigentensor.errors import ExecutionError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, binary, counter, load, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op
from eigentensor.program.signatures import STORED
from eigentensor.runtime import CompiledGraph, devices, execute, selftest
from eigentensor.runtime.gpu.gridded import Gridded, Launches
from support.campaigns.device_cases import AheadGrid, AnyGrid, WidestGrid, on_devices, other, usable
from support.generated.programs import generate
from support.oracles.agreement import disagreements
from support.programs.captured import NAMES, graphs
from support.programs.halves import halves
from support.programs.tensor_methods import EXAMPLES
from support.programs.tiles import CASES, tensors
from support.vectors.ops import captured, function_of, quick


def test_both_devices_of_a_processor_and_opencl_are_usable_on_every_machine() -> None:
    """Without them the tests of these devices would be tests of nothing."""
    assert {name: reason for name, reason in devices.devices().items() if reason and name != "CUDA"} == {}


def test_a_device_that_cannot_be_used_says_why() -> None:
    reasons = devices.devices()
    if reasons["CUDA"]:
        with pytest.raises(ExecutionError, match="CUDA"):
            execute(product(1, 1, 1), {}, device="CUDA")
        assert "NVIDIA" in reasons["CUDA"]


@pytest.mark.parametrize(("device", "dtype"), on_devices(sorted(STORED), [DType.FLOAT32]))
def test_a_device_passes_the_selftest(device: str, dtype: DType) -> None:
    selftest.check(partial(execute, device=usable(device)), [dtype])


@pytest.mark.parametrize(("device", "case"), on_devices(CASES, ["convolution", "widened_6_37_192", "dots_6_37_192"]))
def test_tiles_give_the_bits_of_the_reference(device: str, case: str, tmp_path: Path) -> None:
    here, of = devices.of(usable(device)), CASES[case]()
    assert isinstance(here, Gridded)
    for kind in (here, other(WidestGrid, here), other(AheadGrid, here)):
        assert disagreements(of, tensors(of), device=device, toolchain=kind, cache=Cache(tmp_path)) == []


@pytest.mark.parametrize(("device", "seed"), on_devices(range(120), [5]))
def test_generated_programs_give_the_bits_of_the_reference(device: str, seed: int) -> None:
    example = generate(seed)
    arguments = example.tensors, example.variables, example.repeat
    assert disagreements(example.program, *arguments, device=usable(device)) == []


@pytest.mark.parametrize(("device", "seed"), on_devices(range(200, 320), [314]))
def test_every_grid_gives_the_same_bits(device: str, seed: int, tmp_path: Path) -> None:
    example, here = generate(seed), devices.of(usable(device))
    assert isinstance(here, Gridded)
    kind = other(AnyGrid, here, seed)
    arguments = example.tensors, example.variables, example.repeat
    assert disagreements(example.program, *arguments, device=device, toolchain=kind, cache=Cache(tmp_path)) == []


@pytest.mark.parametrize(("device", "name"), on_devices(NAMES, ["embedding"]))
def test_captured_graphs(device: str, name: str) -> None:
    graph = graphs()[name]
    program = graph.captured()
    for low, high, *_ in graph.variables.values() or [(0, 0)]:
        for position in {low, high}:
            values = dict.fromkeys(graph.variables, position)
            assert disagreements(program.program, graph.bound(program), values, device=usable(device)) == []


@pytest.mark.parametrize(("device", "method"), on_devices(quick()))
def test_every_method_of_tensor(device: str, method: str) -> None:
    graph, inputs = captured(EXAMPLES[method]), function_of(EXAMPLES[method])[1]
    arrays = {**graph.weights, **graph.states, **inputs}
    assert disagreements(graph.program, arrays, device=usable(device)) == []


@pytest.mark.parametrize(("device", "_"), on_devices([0]))
def test_every_pattern_of_the_half_types_is_read_rounded_and_written_exactly(device: str, _: int) -> None:
    program, arrays = halves()
    expected, outputs = (
        reference.execute(program, arrays).outputs,
        execute(program, arrays, device=usable(device)).outputs,
    )
    assert [name for name in expected if expected[name].tobytes() != outputs[name].tobytes()] == []


@pytest.mark.parametrize(("device", "_"), on_devices([0], [0]))
def test_weights_stay_on_the_device_and_inputs_change(device: str, _: int, tmp_path: Path) -> None:
    program, w, cache = product(6, 20, 8), matrix(8, 20, seed=1), Cache(tmp_path)
    compiled = CompiledGraph(program, {"w": w}, device=usable(device), cache=cache)
    assert (compiled.compiled, CompiledGraph(program, device=device, cache=cache).compiled) == (2, 0)
    original = w.copy()
    w[:] = 0  # the device has a copy
    for seed in range(3):
        x = matrix(6, 8, seed=seed)
        expected = reference.execute(program, {"x": x, "w": original}).outputs["output"]
        assert compiled.run({"x": x}).outputs["output"].tobytes() == expected.tobytes()


@pytest.mark.parametrize(("device", "size"), on_devices([5, 0], [5, 0]))
def test_states_are_fed_back_on_the_device(device: str, size: int) -> None:
    axis = Axis(0, size)
    s = load(Array("s", DType.FLOAT32, size), counter(axis))
    states = {"s": Buffer(Role.STATE, DType.FLOAT32, (size,), "s")}
    doubled = [("new", to_body(binary(Op.ADD, s, s), (axis,)))]
    program: Program = assemble(doubled, states, {(Kind.STATE, "s"): ("new", (size,))}, max_repeat=9)
    start = matrix(size)
    compiled = CompiledGraph(program, {"s": start}, device=usable(device))
    for repeat in (3, 1, 3):
        assert compiled.run({}, repeat=repeat).states["s"].tobytes() == (start * np.float32(2**repeat)).tobytes()
    assert start.tobytes() == matrix(size).tobytes()


@pytest.mark.parametrize(("device", "seed"), on_devices(range(10), [2]))
def test_nothing_of_what_lay_in_the_devices_memory_shows(device: str, seed: int) -> None:
    example = generate(seed)
    arguments = example.tensors, example.variables, example.repeat
    expected, compiled = (
        reference.execute(example.program, *arguments),
        CompiledGraph(example.program, device=usable(device)),
    )
    loaded = compiled.loaded
    assert isinstance(loaded, Launches)
    for canary in (0xA5, 0xFF):
        loaded.queue.write(loaded.arena, np.full(loaded.plan.size, canary, np.uint8))
        results = compiled.run(*arguments)
        assert {n: a.tobytes() for n, a in results.outputs.items()} == {
            n: a.tobytes() for n, a in expected.outputs.items()
        }
        assert {n: a.tobytes() for n, a in results.states.items()} == {
            n: a.tobytes() for n, a in expected.states.items()
        }
