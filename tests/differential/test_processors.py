"""The same bits with and without the instructions of newer processors, and for every pattern of the half types."""

import platform
from dataclasses import replace
from pathlib import Path

import pytest

from eigentensor import reference
from eigentensor.cache import Cache
from eigentensor.numerics.dtypes import DType
from eigentensor.program.binding import Results
from eigentensor.program.model import Program
from eigentensor.runtime import CompiledGraph, selftest
from eigentensor.runtime.cpu import toolchain
from eigentensor.runtime.cpu.schedule import Target
from eigentensor.runtime.cpu.toolchain import Toolchain
from support.programs.halves import F16, F32, halves

X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="names processors of the x86 family")
#: The oldest processor of the family has neither FMA nor conversions of halves; it never fails to run here.
OLDEST = ("x86-64", Target(4, 16))


def for_processor(name: str, target: Target) -> Toolchain:
    here = toolchain.local()
    command = tuple(f"-march={name}" if word == "-march=native" else word for word in here.command)
    return replace(here, identity=name, target=target, command=command)


def passes(kind: Toolchain, folder: Path, dtypes: list[DType]) -> None:
    def run(program: Program, tensors: selftest.Tensors) -> Results:
        return CompiledGraph(program, cache=Cache(folder), toolchain=kind).run(tensors)

    selftest.check(run, dtypes)


@X86
def test_the_oldest_processor_of_the_family_gives_the_same_bits(tmp_path: Path) -> None:
    passes(for_processor(*OLDEST), tmp_path, [F32, F16])


@X86
@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_the_oldest_processor_passes_the_whole_selftest_with_any_number_of_lanes(lanes: int, tmp_path: Path) -> None:
    passes(for_processor("x86-64", Target(lanes, 16)), tmp_path, sorted(set(DType) - {DType.INDEX}))


@pytest.mark.parametrize("lanes", [1, 4, 8, 16])
def test_every_pattern_of_the_half_types_is_read_rounded_and_written_exactly(lanes: int, tmp_path: Path) -> None:
    program, tensors = halves()
    here = toolchain.local()
    kind = Toolchain(here.identity, Target(lanes, 16), here.command)
    expected = reference.execute(program, tensors).outputs
    outputs = CompiledGraph(program, cache=Cache(tmp_path), toolchain=kind).run(tensors).outputs
    assert [name for name in expected if expected[name].tobytes() != outputs[name].tobytes()] == []
