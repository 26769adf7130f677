"""CPU:LLVM: what clang read, another LLVM compiles, without contracting, approximating or calling anything."""

import ctypes
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from differential import test_generated, test_tiles
from eigentensor.cache import Cache
from eigentensor.errors import ExecutionError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.binding import Results
from eigentensor.program.model import Program
from eigentensor.runtime import CompiledGraph, devices, selftest
from eigentensor.runtime.cpu import llvm, toolchain
from eigentensor.runtime.cpu.device import Code
from support.generated.programs import generate
from support.oracles.agreement import disagreements
from support.programs.captured import NAMES, graphs
from support.programs.tiles import CASES

#: What would let LLVM change the bits of an operation on floats.
LICENCES = r"\bf(add|sub|mul|div|neg|cmp|rem)\s+(fast|nnan|ninf|nsz|arcp|contract|afn|reassoc)\b"
TYPES = sorted(set(DType) - {DType.INDEX})


def made(what: str, text: str) -> str:
    command = llvm.command(what, *toolchain.local().command)
    return subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout.decode()


def passes(folder: Path, dtypes: list[DType]) -> None:
    def run(program: Program, tensors: selftest.Tensors) -> Results:
        return CompiledGraph(program, cache=Cache(folder), device="CPU:LLVM").run(tensors)

    selftest.check(run, dtypes)


def test_the_identity_names_library_processor_and_passes() -> None:
    """So another library, or another machine, never takes object code for its own."""
    added = llvm.toolchain().identity.removeprefix(toolchain.local().identity).strip().splitlines()
    assert re.fullmatch(r"LLVM \d+\.\d+\.\d+", added[0])
    assert added[1] and re.search(r"[+-]\w", added[2]) and added[3:] == ["default<O2>", "-vectorize-slp=false"]


@pytest.mark.parametrize("what", ["read", "optimised"])
def test_no_operation_may_be_contracted_or_approximated(what: str) -> None:
    program, _ = selftest.conformance([DType.FLOAT32])
    products = next(b for b in program.bodies if "MULACC" not in repr(b) and "REDUCE_ADD" not in repr(b))
    text = toolchain.local().source(products)
    if what == "read":
        flags = ("-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes")
        ir = replace(toolchain.local(), command=(*toolchain.local().command, *flags)).compile(text).decode()
    else:
        ir = made(what, text)
    assert re.search(r"\bf(add|mul) ", ir)
    assert not re.search(LICENCES, ir)
    assert "llvm.fmuladd" not in ir
    assert not re.search(r'"(unsafe-fp-math|no-nans-fp-math|no-infs-fp-math|approx-func-fp-math)"="true"', ir)


def test_what_is_licensed_would_be_seen() -> None:
    text = "float kernel(float a, float b, float c) { return a * b + c; }"
    assert not re.search(LICENCES, made("optimised", text))
    fast = llvm.command("optimised", *toolchain.local().command, "-ffast-math")
    ir = subprocess.run(fast, input=text.encode(), capture_output=True, check=True).stdout.decode()
    assert re.search(LICENCES, ir)


def test_code_that_cannot_be_read_is_an_error_that_shows_what_was_said() -> None:
    with pytest.raises(ExecutionError, match="broken here"):
        llvm.toolchain().compile("#error broken here\n")
    with pytest.raises(ExecutionError, match="LLVM"):
        replace(llvm.toolchain(), command=llvm.command("object")).compile("no code of LLVM")


def test_without_the_library_the_fix_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm, "NAMES", ("LLVM-0",))
    with pytest.raises(ExecutionError) as refused:
        llvm.library.__wrapped__()
    assert "libllvm19" in refused.value.fix


def test_the_selftest_passes_and_nothing_is_called(tmp_path: Path) -> None:
    """Object code that calls a library is not loaded, so running is proof."""
    passes(tmp_path, [DType.FLOAT32])
    assert all(Code(path.read_bytes()[32:]) for path in tmp_path.glob("*/*.o"))


@pytest.mark.parametrize("device", ["CPU", "CPU:LLVM"])
def test_integers_side_by_side_keep_their_signs(device: str) -> None:
    """LLVM 19 puts these into one vector, of numbers that have lost the upper half of their bits."""
    text = """void kernel(const int *p, float *restrict q) {
      unsigned long z = (unsigned long)p[4], a = (unsigned long)p[0], b = (unsigned long)p[1];
      unsigned long c = (unsigned long)p[2], d = (unsigned long)p[3];
      a = z < a ? a : z; b = z < b ? b : z; c = z < c ? c : z; d = z < d ? d : z;
      q[0] = (float)a; q[1] = (float)b; q[2] = (float)c; q[3] = (float)d;
    }"""
    numbers, result = np.array([-1, -7, 5, -(1 << 31), 3], np.int32), np.zeros(4, np.float32)
    code = Code(devices.of(device).compile(text))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address)(numbers.ctypes.data, result.ctypes.data)
    wide = numbers.astype(np.int64).astype(np.uint64)
    assert result.tolist() == np.maximum(wide[:4], wide[4]).astype(np.float32).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES)
def test_the_selftest_passes_for_every_type(dtype: DType, tmp_path: Path) -> None:
    passes(tmp_path, [dtype])


@pytest.mark.parametrize("seed", range(3))
def test_generated_programs_give_the_bits_of_the_reference(seed: int, tmp_path: Path) -> None:
    example = generate(seed)
    arguments = example.tensors, example.variables, example.repeat
    assert disagreements(example.program, *arguments, cache=Cache(tmp_path), device="CPU:LLVM") == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2000, 2200))
def test_many_more_programs(seed: int, tmp_path: Path) -> None:
    test_generated_programs_give_the_bits_of_the_reference(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2000, 2050))
def test_every_schedule_gives_the_same_bits(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "local", llvm.toolchain)
    test_generated.test_every_schedule_gives_the_same_bits(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_widest_schedules_give_the_same_bits(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "local", llvm.toolchain)
    test_tiles.test_the_widest_schedules_give_the_bits_of_the_reference(case, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_captured_graphs(name: str, tmp_path: Path) -> None:
    graph = graphs()[name]
    captured = graph.captured()
    variables = {variable: bounds[0] for variable, bounds in graph.variables.items()}
    tensors = graph.bound(captured)
    assert disagreements(captured.program, tensors, variables, cache=Cache(tmp_path), device="CPU:LLVM") == []
