"""The memory that a program is said to need is what it takes."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from eigentensor.cache import Cache
from eigentensor.errors import LimitError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.codec import encode
from eigentensor.program.expression import Array, Axis, binary, counter, load, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op
from eigentensor.runtime import CompiledGraph, estimate_memory_requirements
from eigentensor.runtime.sandbox import Limits, run_sandboxed

F32, SIZE = DType.FLOAT32, 1 << 18  #: elements of each tensor: 1 MiB
NUMPY = 389047  #: the domain in which NumPy tells tracemalloc of its arrays
BESIDES = 20_000  #: bytes of tables, and what Python needs


def program(max_repeat: int = 1) -> Program:
    """output = (s + w) + x, and the new state is s + w: three tensors given, two results."""
    axis = Axis(0, SIZE)
    s, w, x, both = (load(Array(name, F32, SIZE), counter(axis)) for name in ("s", "w", "x", "both"))
    calls = [("both", to_body(binary(Op.ADD, s, w), (axis,))), ("output", to_body(binary(Op.ADD, both, x), (axis,)))]
    roles = {"s": Role.STATE, "w": Role.WEIGHT, "x": Role.INPUT}
    buffers = {name: Buffer(role, F32, (SIZE,), name) for name, role in roles.items()}
    results = {(Kind.OUTPUT, "output"): ("output", (SIZE,)), (Kind.STATE, "s"): ("both", (SIZE,))}
    return assemble(calls, buffers, results, max_repeat=max_repeat)


@pytest.mark.parametrize("repeat", [1, 3])
def test_a_run_takes_the_memory_that_is_estimated(repeat: int, tmp_path: Path) -> None:
    of, ones = program(max_repeat=3), np.ones(SIZE, np.float32)
    tensors = {name: ones * n for n, name in enumerate("swx")}
    CompiledGraph(of, cache=Cache(tmp_path))  # compiled before anything is counted
    tracemalloc.start()
    try:
        compiled = CompiledGraph(of, {"w": tensors.pop("w")}, cache=Cache(tmp_path))
        results = compiled.run(tensors, repeat=repeat)
        counted = tracemalloc.take_snapshot().filter_traces([tracemalloc.DomainFilter(True, NUMPY)])
    finally:
        tracemalloc.stop()
    arrays = sum(trace.size for trace in counted.traces)
    taken = 3 * ones.nbytes + compiled.loaded.memory.nbytes + arrays  # given, of all calls, made on the way
    estimated = estimate_memory_requirements(of, repeat=repeat)
    assert estimated.keys() == {"CPU"}
    assert estimated["CPU"] <= taken <= estimated["CPU"] + BESIDES
    assert results.outputs["output"][0] == 2 + repeat


def test_states_that_are_fed_back_are_counted_twice_and_the_estimate_assumes_the_most() -> None:
    once, often = (estimate_memory_requirements(program(9), repeat=n)["CPU"] for n in (1, 2))
    assert often - once == 4 * SIZE
    assert estimate_memory_requirements(program(9))["CPU"] == often
    assert estimate_memory_requirements(program(1))["CPU"] == once


def test_a_device_with_its_own_memory_needs_it_beside_the_hosts() -> None:
    on_host, apart = estimate_memory_requirements(program()), estimate_memory_requirements(program(), "CUDA")
    assert set(apart) == {"CUDA", "CPU"}
    assert apart["CUDA"] <= on_host["CPU"] < sum(apart.values())


def test_a_program_that_does_not_fit_is_refused_with_what_it_needs_what_there_is_and_what_to_do(tmp_path: Path) -> None:
    needed, limits = estimate_memory_requirements(program())["CPU"], Limits(memory=1 << 20)
    said = rf"needs {needed:,} bytes of memory on CPU, there are 1,048,576"
    with pytest.raises(LimitError, match=said) as refusal:
        CompiledGraph(program(), memory_limit=1 << 20, cache=Cache(tmp_path))
    assert "smaller batch" in refusal.value.fix
    with pytest.raises(LimitError, match=said):
        run_sandboxed(encode(program()), {}, limits=limits, cache=Cache(tmp_path), unsafe=True)
    assert list(tmp_path.iterdir()) == []
