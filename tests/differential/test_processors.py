"""The same bits with and without the instructions of newer processors, and for every pattern of the half types."""

import platform
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eigentensor import reference
from eigentensor.cache import Cache
from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.binding import Results
from eigentensor.program.expression import Array, Axis, Node, binary, counter, load, node, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op
from eigentensor.runtime import CompiledGraph, selftest
from eigentensor.runtime.cpu import toolchain
from eigentensor.runtime.cpu.schedule import Target
from eigentensor.runtime.cpu.toolchain import Toolchain

F16, BF16, F32 = DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32
X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="names processors of the x86 family")
PATTERNS = 1 << 16
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


def halves() -> tuple[Program, dict[str, np.ndarray]]:
    """All patterns of both types, and float32 values around each and around each middle between two."""
    pattern = np.arange(PATTERNS, dtype=np.uint32)
    singles = [(pattern << 16) + d for d in (0x7FFF, 0x8000, 0x8001)]
    singles += [(pattern << 13) + base + d for base in (0x32000000, 0x47000000) for d in (0xFFF, 0x1000, 0x1001)]
    tensors: dict[str, np.ndarray] = {
        "f16": pattern.astype(np.uint16).view(np.float16), "bf16": pattern.astype(np.uint16),
        "f32": np.concatenate(singles).view(np.float32),
    }  # fmt: skip
    types = {"f16": F16, "bf16": BF16, "f32": F32}
    buffers = {name: Buffer(Role.INPUT, types[name], array.shape, name) for name, array in tensors.items()}
    values: dict[str, tuple[Node, Axis]] = {}
    for name, dtype in types.items():
        axis = Axis(len(values), tensors[name].size)
        x = load(Array(name, dtype, axis.extent), counter(axis))
        for target in types.values():
            values[f"{name}_to_{target.name}"] = node(Op.CAST, target, x), axis
        values[f"{name}_squared"] = binary(Op.MUL, x, x), axis
        values[f"{name}_largest"] = binary(Op.MAX, x, x), axis
    calls = [(key, to_body(value, (axis,))) for key, (value, axis) in values.items()]
    results = {(Kind.OUTPUT, key): (key, (axis.extent,)) for key, (_, axis) in values.items()}
    return assemble(calls, buffers, results), tensors
