"""tinygrad's code generation behind the guard: an independent second way from bodies to the reference's bits."""

import re
from pathlib import Path
from typing import Any

import pytest
from tinygrad.uop.symbolic import sym, symbolic_simple

from eigentensor.cache import Cache
from eigentensor.errors import ExecutionError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.binding import Results
from eigentensor.program.expression import Array, Axis, binary, counter, load, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op
from eigentensor.runtime import CompiledGraph, selftest
from support.generated.programs import generate
from support.oracles.agreement import disagreements
from support.oracles.guarded import Guarded, clang, llvm, pipeline
from support.programs.captured import NAMES, graphs, normal

WAYS = {"clang": clang, "llvm": llvm}
TYPES = sorted(set(DType) - {DType.INDEX})


def agrees(seed: int, kind: Guarded, folder: Path) -> None:
    example = generate(seed)
    options = {"cache": Cache(folder), "toolchain": kind}
    assert disagreements(example.program, example.tensors, example.variables, example.repeat, **options) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", [12, 74])
def test_generated_programs_give_the_bits_of_the_reference(seed: int, way: str, tmp_path: Path) -> None:
    agrees(seed, WAYS[way](seed), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(3000, 3300))
def test_many_more_programs(seed: int, way: str, tmp_path: Path) -> None:
    """Every other one with output loops taken apart at random."""
    agrees(seed, WAYS[way](seed if seed % 2 else None), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", TYPES)
def test_every_operation_on_every_type(dtype: DType, way: str, tmp_path: Path) -> None:
    passes([dtype], WAYS[way](), tmp_path)


def test_a_captured_graph(tmp_path: Path) -> None:
    captured_graph("softmax", clang(), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_captured_graphs(name: str, way: str, tmp_path: Path) -> None:
    for seed in (None, 5):
        captured_graph(name, WAYS[way](seed), tmp_path / str(seed))


def test_text_for_llvm_licenses_nothing() -> None:
    text = "".join(llvm().source(body) for body in generate(3).program.bodies)
    assert re.search(r"\bf(add|mul|sub|div) float", text)
    assert not re.search(r"\b(nsw|nuw|fast|nnan|ninf|nsz|arcp|contract|afn|reassoc|exact)\b", text)


def test_without_the_guard_bits_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """(y + x) + x would become y + 2·x."""
    axis, size = Axis(0, 1000), 1000
    x, y = (load(Array(name, DType.FLOAT32, size), counter(axis)) for name in "xy")
    value = binary(Op.ADD, binary(Op.ADD, y, x), x)
    buffers = {name: Buffer(Role.INPUT, DType.FLOAT32, (size,), name) for name in "xy"}
    program = assemble([("sum", to_body(value, (axis,)))], buffers, {(Kind.OUTPUT, "sum"): ("sum", (size,))})
    tensors = {name: normal(size) for name in "xy"}
    assert disagreements(program, tensors, cache=Cache(tmp_path / "guarded"), toolchain=clang()) == []
    monkeypatch.setattr(pipeline, "_sym", sym)
    monkeypatch.setattr(pipeline, "_simple", symbolic_simple)
    assert disagreements(program, tensors, cache=Cache(tmp_path / "not guarded"), toolchain=clang()) != []


def test_the_selftest_sees_a_renderer_that_licenses_contraction(tmp_path: Path) -> None:
    kind = clang()
    fast = Guarded("fast", kind.target, (*kind.command, "-ffp-contract=fast"))
    with pytest.raises(ExecutionError, match="product_and_sum"):
        passes([DType.FLOAT32], fast, tmp_path)


def passes(dtypes: list[DType], kind: Guarded, folder: Path) -> None:
    def run(program: Program, tensors: selftest.Tensors) -> Results:
        return CompiledGraph(program, cache=Cache(folder), toolchain=kind).run(tensors)

    selftest.check(run, dtypes)


def captured_graph(name: str, kind: Guarded, folder: Path) -> None:
    graph: Any = graphs()[name]
    captured = graph.captured()
    variables = {variable: bounds[0] for variable, bounds in graph.variables.items()}
    tensors = graph.bound(captured)
    assert disagreements(captured.program, tensors, variables, cache=Cache(folder), toolchain=kind) == []
