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
from eigentensor.program.cost import costs
from eigentensor.program.expression import Array, Axis, binary, const, counter, load, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op
from eigentensor.runtime import CompiledGraph, estimate_memory_requirements
from eigentensor.runtime.cpu.table import Table
from eigentensor.runtime.sandbox.execution import Limits, run_sandboxed

F32, SIZE = DType.FLOAT32, 1 << 18  #: elements of each tensor: 1 MiB
NUMPY = 389047  #: the domain in which NumPy tells tracemalloc of its arrays
BESIDES = 20_000  #: bytes of tables, and what Python needs


def program(max_repeat: int = 1, *, turned: bool = False) -> Program:
    """output = (s + w) + x, and the new state is s + w: three tensors given, two results. Or s is taken backwards."""
    axis = Axis(0, SIZE)
    here = counter(axis)
    s, w, x, both = (load(Array(name, F32, SIZE), here) for name in ("s", "w", "x", "both"))
    if turned:
        s = load(Array("s", F32, SIZE), binary(Op.SUB, const(DType.INDEX, SIZE - 1), here))
    calls = [("both", to_body(binary(Op.ADD, s, w), (axis,))), ("output", to_body(binary(Op.ADD, both, x), (axis,)))]
    roles = {"s": Role.STATE, "w": Role.WEIGHT, "x": Role.INPUT}
    buffers = {name: Buffer(role, F32, (SIZE,), name) for name, role in roles.items()}
    results = {(Kind.OUTPUT, "output"): ("output", (SIZE,)), (Kind.STATE, "s"): ("both", (SIZE,))}
    return assemble(calls, buffers, results, max_repeat=max_repeat)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("repeat", [1, 2, 3])
def test_a_run_takes_the_memory_that_is_estimated(repeat: int, turned: bool, tmp_path: Path) -> None:
    of, ones = program(max_repeat=3, turned=turned), np.ones(SIZE, np.float32)
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
    assert isinstance(compiled.loaded, Table)
    taken = 3 * ones.nbytes + compiled.loaded.memory.nbytes + arrays  # given, of all calls, made on the way
    estimated = estimate_memory_requirements(of, repeat=repeat)
    assert estimated.keys() == {"CPU"}
    assert estimated["CPU"] <= taken <= estimated["CPU"] + BESIDES
    assert results.outputs["output"][0] == 2 + repeat


def test_states_that_cannot_be_written_over_are_counted_twice_and_the_estimate_assumes_the_most() -> None:
    for turned in (False, True):
        of = program(9, turned=turned)
        once, often = (estimate_memory_requirements(of, repeat=n)["CPU"] for n in (1, 2))
        assert often - once == (4 * SIZE if turned else 0)
        assert estimate_memory_requirements(of)["CPU"] == often
    assert estimate_memory_requirements(program(1, turned=True))["CPU"] == once


def test_fifty_sums_need_the_memory_of_one() -> None:
    """Of 256² elements, each stored: what is estimated, over what all tensors would take."""
    axes, calls, before = (Axis(0, 256), Axis(1, 256)), [], "x"
    at = binary(Op.ADD, binary(Op.MUL, counter(axes[0]), const(DType.INDEX, 256)), counter(axes[1]))
    for number in range(50):
        one, other = (load(Array(name, F32, 1 << 16), at) for name in (before, "x"))
        before = f"y{number}"
        calls.append((before, to_body(binary(Op.ADD, one, other), axes)))
    buffers = {"x": Buffer(Role.INPUT, F32, (256, 256), "x")}
    of = assemble(calls, buffers, {(Kind.OUTPUT, "y"): (before, (256, 256))})
    assert len(of.calls) == 50
    assert costs(of).all_bytes == 51 << 18
    assert estimate_memory_requirements(of)["CPU"] == 2 << 18


def test_a_device_with_its_own_memory_needs_it_beside_the_hosts() -> None:
    on_host, apart = estimate_memory_requirements(program()), estimate_memory_requirements(program(), "CUDA")
    assert set(apart) == {"CUDA", "CPU"}
    assert apart["CUDA"] <= on_host["CPU"] < sum(apart.values())


def test_a_program_that_does_not_fit_is_refused_with_what_it_needs_what_there_is_and_what_to_do(tmp_path: Path) -> None:
    needed, limits = estimate_memory_requirements(program())["CPU"], Limits(memory=1 << 20)
    message = rf"needs {needed:,} bytes of memory on CPU, there are 1,048,576"
    with pytest.raises(LimitError, match=message) as refusal:
        CompiledGraph(program(), memory_limit=1 << 20, cache=Cache(tmp_path))
    assert "smaller batch" in refusal.value.fix
    with pytest.raises(LimitError, match=message):
        run_sandboxed(encode(program()), {}, limits=limits, cache=Cache(tmp_path), unsafe=True)
    assert list(tmp_path.iterdir()) == []
