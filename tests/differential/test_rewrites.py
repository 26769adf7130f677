"""What tinygrad would change: each rewrite does change bits, and programs keep theirs however they are executed."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eigentensor import reference
from eigentensor.cache import Cache
from eigentensor.capture import capture
from eigentensor.capture.convert import DTYPES, Conversion, Source
from eigentensor.numerics.floats import canonical
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, Lowered, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.cpu import toolchain
from support.oracles import guarded
from support.programs import stock_kernels
from support.programs.rewrite_rows import rows
from support.programs.rewrites import AGREES, CASES, CRASHES, DIFFERS, NAN, TYPES, bits
from support.vectors.programs import README
from support.vectors.rewrites import document

ROWS = {row.name: row for row in rows()}
RULES = [name for name, row in ROWS.items() if row.is_rule]
WIDE = pytest.mark.skipif(toolchain.local().target.lanes < 16, reason="the table is about vectors of 512 bits")
STOCK = [name for name, row in ROWS.items() if row.stock != CRASHES]


@pytest.mark.parametrize("name", RULES)
def test_the_rule_changes_bits(name: str) -> None:
    assert ROWS[name].rewritten is not ROWS[name].before
    assert ROWS[name].share > 0


@pytest.mark.parametrize("name", ROWS)
def test_a_captured_program_means_what_it_says(name: str) -> None:
    """The scheduler's own rewrites are part of what it says; those that come later never happen."""
    row = ROWS[name]
    inputs = dict(zip("xyz", row.arrays, strict=False))
    program = capture(row.function, inputs, fingerprint=False).program
    result = reference.execute(program, inputs).outputs["output"]
    assert same(row.mean(row.rewritten if row.cut else row.captured, fused=True), result)


def test_nothing_rewrites_a_program_that_says_it(tmp_path: Path) -> None:
    """The kernels as they would be if the scheduler changed nothing: also what it does is not done again."""
    assert_unrewritten(cache=Cache(tmp_path))


@pytest.mark.slow
def test_nothing_rewrites_it_for_llvm(tmp_path: Path) -> None:
    assert_unrewritten(cache=Cache(tmp_path), device="CPU:LLVM")


@pytest.mark.slow
@pytest.mark.parametrize("way", ["clang", "llvm"])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_nothing_rewrites_it_in_guarded_code_generation(way: str, seed: int | None, tmp_path: Path) -> None:
    assert_unrewritten(cache=Cache(tmp_path), toolchain=getattr(guarded, way)(seed))


@WIDE
@pytest.mark.slow
@pytest.mark.parametrize("name", STOCK)
def test_tinygrad_itself_gives_what_the_table_says(name: str) -> None:
    row = ROWS[name]
    expected, computed = row.mean(row.before), stock_kernels.stock(row)
    plain = canonical(DTYPES[row.before.dtype], computed)
    outcome = DIFFERS if not same(expected, plain) else AGREES if same(expected, computed) else NAN
    assert outcome == row.stock or (outcome == NAN and row.stock == AGREES)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ROWS if name not in STOCK])
def test_tinygrad_itself_ends_the_process(name: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-m", "support.programs.stock_kernels", name], env=environment, check=False)
    assert done.returncode == -signal.SIGFPE


def test_the_table_is_fresh() -> None:
    assert README.read_text() == document(), "run scripts/vectors"


def assert_unrewritten(**options: Any) -> None:
    program, tensors = all_kernels()
    outputs = CompiledGraph(program, **options).run(tensors).outputs
    assert [row.name for n, row in enumerate(ROWS.values()) if not same(row.mean(row.captured), outputs[str(n)])] == []


def all_kernels() -> tuple[Program, dict[str, NDArray[Any]]]:
    """One program with a call for each row, converted without the scheduler and without capture's passes."""
    buffers: dict[Any, Buffer] = {}
    tensors: dict[str, NDArray[Any]] = {}
    calls: list[tuple[str, Lowered]] = []
    for row in ROWS.values():
        sources: dict[int, Source] = {}
        for number, (kind, array) in enumerate(row.inputs, 1):
            key = f"{len(calls)} {number}"
            buffers[key] = Buffer(Role.INPUT, TYPES[kind], (array.size,), key)
            tensors[key] = array.reshape(-1)
            sources[number] = Source(Array(key, TYPES[kind], array.size), 0, TYPES[kind])
        value = Conversion(sources)(row.before)
        calls.append((str(len(calls)), to_body(value, (Axis(0, CASES),))))
    used = {array.key for _, lowered in calls for array in lowered.arrays}
    results = {(Kind.OUTPUT, key): (key, (CASES,)) for key, _ in calls}
    program = assemble(calls, {k: b for k, b in buffers.items() if k in used}, results)
    return program, {key: tensor for key, tensor in tensors.items() if key in used}


def same(expected: NDArray[Any], computed: NDArray[Any]) -> bool:
    return bool(np.array_equal(bits(expected), bits(np.ascontiguousarray(computed).reshape(-1))))
