"""A graph is compiled once and run often; what it keeps and what it gives away never mix."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor import reference, runtime
from eigentensor.cache import Cache
from eigentensor.errors import BindingError, ExecutionError, LimitError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.expression import Array, Axis, Node, binary, const, counter, load, reduction, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op
from eigentensor.runtime import CompiledGraph
from eigentensor.runtime.build.kernels import prepare
from eigentensor.runtime.cpu import toolchain
from eigentensor.runtime.cpu.device import Code, Driver
from eigentensor.runtime.cpu.linking import linked
from eigentensor.runtime.cpu.schedule import Target

F32, INDEX = DType.FLOAT32, DType.INDEX


def index(*terms: tuple[Axis, int]) -> Node:
    parts = [binary(Op.MUL, counter(axis), const(INDEX, stride)) for axis, stride in terms]
    total = parts[0]
    for part in parts[1:]:
        total = binary(Op.ADD, total, part)
    return total


def product(rows: int, columns: int, inner: int) -> Program:
    """output = x @ w, then output + output: two calls."""
    i, j, k, flat = Axis(0, rows), Axis(1, columns), Axis(2, inner, True), Axis(3, rows * columns)
    x, w = Array("x", F32, rows * inner), Array("w", F32, inner * columns)
    value = reduction(Op.REDUCE_MULACC, (k,), load(x, index((i, inner), (k, 1))), load(w, index((k, columns), (j, 1))))
    p = load(Array("p", F32, rows * columns), counter(flat))
    buffers = {
        "x": Buffer(Role.INPUT, F32, (rows, inner), "x"), "w": Buffer(Role.WEIGHT, F32, (inner, columns), "w"),
    }  # fmt: skip
    calls = [("p", to_body(value, (i, j))), ("output", to_body(binary(Op.ADD, p, p), (flat,)))]
    return assemble(calls, buffers, {(Kind.OUTPUT, "output"): ("output", (rows, columns))})


def matrix(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def test_a_second_executable_compiles_nothing(tmp_path: Path) -> None:
    first = CompiledGraph(product(5, 7, 9), cache=Cache(tmp_path))
    second = CompiledGraph(product(5, 7, 9), cache=Cache(tmp_path))
    assert (first.compiled, second.compiled) == (3, 0)  # two bodies and the driver


def test_without_a_compiler_kernels_come_from_the_cache_or_not_at_all(tmp_path: Path) -> None:
    without = replace(toolchain.local(), command=())
    with pytest.raises(ExecutionError, match="3 kernels are not in the cache"):
        CompiledGraph(product(5, 7, 9), cache=Cache(tmp_path), toolchain=without)
    CompiledGraph(product(5, 7, 9), cache=Cache(tmp_path))
    assert CompiledGraph(product(5, 7, 9), cache=Cache(tmp_path), toolchain=without).compiled == 0


def test_a_damaged_file_of_the_cache_is_compiled_again(tmp_path: Path) -> None:
    CompiledGraph(product(5, 7, 9), cache=Cache(tmp_path))
    path = next(tmp_path.glob("*/*.o"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert CompiledGraph(product(5, 7, 9), cache=Cache(tmp_path)).compiled == 1


def test_a_full_cache_drops_what_was_not_read_for_longest(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for number in range(8):
        cache.put(f"{number:064x}", bytes(1000))
        os.utime(cache.path(f"{number:064x}"), ns=(number, number))
    assert cache.get(f"{0:064x}") is not None  # now the one that was read last
    cache.prune(9000)
    assert len(list(tmp_path.glob("*/*.o"))) == 8
    cache.prune(4200)
    left = {number for number in range(8) if cache.path(f"{number:064x}").exists()}
    assert left == {0, 6, 7}


def test_another_compiler_has_other_kernels(tmp_path: Path) -> None:
    here = toolchain.local()
    other = toolchain.Toolchain(here.identity + " patched", here.target, here.command)
    body = product(5, 7, 9).bodies[0]
    assert here.key(body) != other.key(body)


def test_the_same_compiler_has_the_same_kernels_wherever_a_process_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = toolchain.local()
    monkeypatch.chdir(tmp_path)
    toolchain.local.cache_clear()
    assert toolchain.local() == here


def test_a_compiler_that_fails_is_an_error_that_shows_what_it_said(tmp_path: Path) -> None:
    def broken(text: str) -> bytes:
        return toolchain.local().compile(text + "\n#error broken here\n")

    with pytest.raises(ExecutionError, match="broken here"):
        prepare(product(5, 7, 9).bodies, Cache(tmp_path), toolchain.local(), broken)
    assert not list(tmp_path.glob("*/*.o"))


def test_what_is_compiled_together_is_the_code_of_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    here = toolchain.local()
    texts = [here.source(product(m, 7, 9).bodies[0]) for m in (5, 6, 8, 10)]
    texts.insert(1, "int kernel(void) { return 3; }\n")  # begins in another way
    assert Counter(map(toolchain.beginning, texts)) == {"": 1, toolchain.beginning(texts[0]): 4}
    alone, commands, run = [linked(here.compile(text)) for text in texts], list[Sequence[str]](), toolchain._run

    def noted(command: Sequence[str], *args: Any, **options: Any) -> Any:
        commands.append(command)
        return run(command, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(toolchain.Toolchain, "compile", None)
        patch.setattr(toolchain, "_run", noted)
        assert [linked(code) for code in here.compile_all(texts)] == alone
    assert [("-emit-pch" in command, "-include-pch" in command) for command in commands[-3:]] == [
        (True, False), (False, True), (False, False),
    ]  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(toolchain, "_of_files", lambda _: ("false",))
        assert [linked(code) for code in here.compile_all(texts)] == alone
    with pytest.raises(ExecutionError, match="broken here"):
        here.compile_all([*texts, "#error broken here\n"])


def test_code_that_calls_a_library_is_not_loaded() -> None:
    code = toolchain.local().compile("int system(const char *); int kernel(void) { return system(0); }")
    with pytest.raises(ExecutionError, match="system"):
        Code(code)


def test_weights_stay_bound_and_inputs_change() -> None:
    program, w = product(6, 20, 8), matrix(8, 20, seed=1)
    compiled = CompiledGraph(program, {"w": w})
    for seed in range(3):
        x = matrix(6, 8, seed=seed)
        expected = reference.execute(program, {"x": x, "w": w}).outputs["output"]
        assert compiled.run({"x": x}).outputs["output"].tobytes() == expected.tobytes()


def test_a_state_that_is_given_once_is_where_every_run_starts() -> None:
    axis, size = Axis(0, 5), 5
    s = load(Array("s", F32, size), counter(axis))
    doubled = to_body(binary(Op.ADD, s, s), (axis,))
    states = {"s": Buffer(Role.STATE, F32, (size,), "s")}
    program = assemble([("new", doubled)], states, {(Kind.STATE, "s"): ("new", (size,))}, max_repeat=9)
    start = matrix(size)
    compiled = CompiledGraph(program, {"s": start})
    for repeat in (3, 1, 3):
        assert compiled.run({}, repeat=repeat).states["s"].tobytes() == (start * np.float32(2**repeat)).tobytes()
    assert compiled.run({"s": start * 4}).states["s"].tobytes() == (start * 8).tobytes()
    assert start.tobytes() == matrix(size).tobytes()


def test_results_stay_when_the_executable_runs_again() -> None:
    compiled = CompiledGraph(product(6, 20, 8), {"w": matrix(8, 20)})
    first = compiled.run({"x": matrix(6, 8, seed=1)}).outputs["output"]
    kept = first.copy()
    compiled.run({"x": matrix(6, 8, seed=2)})
    assert first.tobytes() == kept.tobytes()


@pytest.mark.parametrize("of", [np.asarray, lambda array: array[1:], memoryview, lambda array: array.reshape(8, 8).T])
def test_memory_of_results_is_written_again_once_nobody_holds_any_of_it(of: Callable[[np.ndarray], Any]) -> None:
    compiled = CompiledGraph(_scaled(), device="CPU")

    def run(value: int) -> np.ndarray:
        outputs: np.ndarray = compiled.run({"x": np.full(64, value, np.float32)}).outputs["y"]
        assert (outputs == 2 * value).all()
        return outputs

    places = {run(value).ctypes.data for value in range(3)}
    assert len(places) == 1
    held = of(run(3))
    assert run(4).ctypes.data not in places
    assert (np.asarray(held) == 6).all()
    del held
    assert len({run(value).ctypes.data for value in range(3)}) == 1


def _scaled() -> Program:
    axis, x = Axis(0, 64), Array("x", DType.FLOAT32, 64)
    value = load(x, counter(axis))
    made = to_body(binary(Op.ADD, value, value), (axis,))
    return assemble(
        [("y", made)], {"x": Buffer(Role.INPUT, DType.FLOAT32, (64,), "x")}, {(Kind.OUTPUT, "y"): ("y", (64,))}
    )


def test_inputs_that_are_not_aligned_or_not_contiguous_give_the_same_bits() -> None:
    program, x, w = product(6, 20, 8), matrix(6, 8), matrix(8, 20)
    raw = np.zeros(x.nbytes + 1, np.uint8)
    shifted = raw[1:].view(np.float32).reshape(x.shape)
    shifted[:] = x
    expected = runtime.execute(program, {"x": x, "w": w}).outputs["output"]
    result = runtime.execute(program, {"x": shifted, "w": np.asfortranarray(w)}).outputs["output"]
    assert result.tobytes() == expected.tobytes()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads_gives_the_same_bits(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eigentensor.runtime.cpu.table.SHARED_CALL", 0)
    monkeypatch.setattr("eigentensor.runtime.cpu.table.SHARED_RUN", 0)
    program, tensors = product(70, 50, 8), {"x": matrix(70, 8), "w": matrix(8, 50)}
    expected = reference.execute(program, tensors).outputs["output"]
    compiled = CompiledGraph(program, threads=threads)
    for _ in range(20):
        assert compiled.run(tensors).outputs["output"].tobytes() == expected.tobytes()


def test_a_run_is_shared_only_for_calls_that_threads_can_share(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, run = list[int](), Driver.run

    def noted(self: Driver, table: np.ndarray, of: int) -> None:
        threads.append(of)
        run(self, table, of)

    monkeypatch.setattr(Driver, "run", noted)
    monkeypatch.setattr("eigentensor.runtime.cpu.table.SHARED_RUN", 0)
    program, tensors = product(70, 50, 8), {"x": matrix(70, 8), "w": matrix(8, 50)}
    CompiledGraph(program, threads=2).run(tensors)
    monkeypatch.setattr("eigentensor.runtime.cpu.table.SHARED_CALL", 0)
    CompiledGraph(program, threads=2).run(tensors)
    assert threads == [1, 2]


def test_callers_in_several_threads_get_their_own_results() -> None:
    program, w = product(6, 20, 8), matrix(8, 20)
    compiled = CompiledGraph(program, {"w": w})
    inputs = [matrix(6, 8, seed=seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda x: compiled.run({"x": x}).outputs["output"], inputs))
    for x, result in zip(inputs, results, strict=True):
        assert result.tobytes() == reference.execute(program, {"x": x, "w": w}).outputs["output"].tobytes()


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"x": matrix(6, 8)}, "missing w"),
        ({"x": matrix(6, 8), "w": matrix(8, 20), "z": matrix(1)}, "unknown z"),
        ({"x": matrix(6, 9), "w": matrix(8, 20)}, "expected float32 of shape"),
    ],
)
def test_tensors_that_do_not_fit_are_told(tensors: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(BindingError, match=message):
        runtime.execute(product(6, 20, 8), tensors)


def test_a_program_over_the_memory_limit_is_refused_before_it_is_compiled(tmp_path: Path) -> None:
    with pytest.raises(LimitError, match="bytes of memory"):
        CompiledGraph(product(6, 20, 8), memory_limit=100, cache=Cache(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_other_devices_are_refused_by_name() -> None:
    with pytest.raises(ExecutionError, match="'METAL'"):
        runtime.execute(product(1, 1, 1), {}, device="METAL")


def test_another_release_of_tinygrad_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.15.0")
    with pytest.raises(ExecutionError, match=r"0\.14\.0 is expected"):
        toolchain.local.__wrapped__()


@pytest.mark.parametrize("dtype", [F32, DType.UINT8, DType.INT64])
@pytest.mark.parametrize("lanes", [1, 16])
def test_filling_and_copying_call_no_library(dtype: DType, lanes: int, tmp_path: Path) -> None:
    here, axis, size = toolchain.local(), Axis(0, 1000), 1000
    kind = toolchain.Toolchain(here.identity, Target(lanes, 16), here.command)
    copied = to_body(load(Array("x", dtype, size), counter(axis)), (axis,))
    filled = to_body(const(dtype, 0), (axis,))
    results = {(Kind.OUTPUT, key): (key, (size,)) for key in ("copied", "filled")}
    inputs = {"x": Buffer(Role.INPUT, dtype, (size,), "x")}
    program = assemble([("copied", copied), ("filled", filled)], inputs, results)
    x = np.arange(size).astype(dtype.name.lower())
    outputs = CompiledGraph(program, cache=Cache(tmp_path), toolchain=kind).run({"x": x}).outputs
    assert outputs["copied"].tobytes() == x.tobytes()
    assert not outputs["filled"].any()
