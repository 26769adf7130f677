"""Each call is observed with the reference's bits, and its result is nowhere kept for that."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from differential.test_in_place import chain
from eigentensor import reference
from eigentensor.cache import Cache
from eigentensor.errors import LimitError
from eigentensor.program import encode
from eigentensor.program.binding import Results
from eigentensor.program.cost import costs
from eigentensor.program.model import Kind, Program, Result
from eigentensor.reexecution import confined
from eigentensor.reexecution.inputs import BoundProgram
from eigentensor.runtime import CompiledGraph, execute
from eigentensor.runtime.cpu.table import Table
from eigentensor.runtime.sandbox.execution import Limits, observe_sandboxed
from eigentensor.store import save_safetensors
from eigentensor.tracing import Execute, Retrace, retrace
from support.campaigns.device_cases import on_devices, usable
from support.generated.programs import Example, generate
from support.oracles.agreement import Observable
from support.oracles.backends import SECOND, backend
from support.programs import long_program
from support.programs.captured import NAMES, graphs
from support.programs.long_program import WIDTH
from support.programs.worked_examples import session

LIMITS = confined.limits(1 << 30, 60)


def by(way: Callable[[Program], Observable]) -> Execute:
    """A way of executing programs, observed."""

    def execute(
        program: Program,
        tensors: Mapping[str, Any],
        variables: Mapping[str, int] | None = None,
        repeat: int = 1,
        *,
        observe: Callable[[int, np.ndarray], None] | None = None,
    ) -> Results:
        return way(program)(tensors, variables, repeat, observe=observe)

    return execute


def arguments_of(example: Example) -> tuple[dict[str, np.ndarray], dict[str, int], int]:
    return example.tensors, example.variables, example.repeat


def recorder(results: dict[int, bytes]) -> Callable[[int, np.ndarray], None]:
    def observe(number: int, result: np.ndarray) -> None:
        results[number] = result.tobytes()

    return observe


def agree(example: Example, other: Retrace) -> None:
    """All results of calls and the account of them are the reference's."""
    program, arguments = example.program, arguments_of(example)
    keep = range(len(program.calls) * example.repeat)
    right, account = retrace(program, *arguments, keep=keep), other(program, *arguments, keep=keep)
    assert (account.calls, account.outputs) == (right.calls, right.outputs)
    assert account.kept.keys() == right.kept.keys()
    for number, array in right.kept.items():
        assert (account.kept[number].dtype, account.kept[number].shape) == (array.dtype, array.shape)
        assert account.kept[number].tobytes() == array.tobytes()


def several(device: str, seeds: range) -> None:
    examples = [generate(seed) for seed in seeds]
    way = backend(device).way([example.program for example in examples])
    for example in examples:
        agree(example, partial(retrace, execute=by(way)))


@pytest.mark.parametrize("device", ["CPU", "CPU:LLVM"])
def test_calls_of_generated_programs(device: str) -> None:
    several(device, range(12))


@pytest.mark.slow
@pytest.mark.parametrize("device", ["CPU", "CPU:LLVM", SECOND])
def test_calls_of_many_more_generated_programs(device: str) -> None:
    several(device, range(2000, 2200))


@pytest.mark.parametrize(("device", "seeds"), on_devices([range(3000, 3002), range(3002, 3200)], [range(3000, 3002)]))
def test_calls_on_devices_with_work_items(device: str, seeds: range) -> None:
    several(usable(device), seeds)


FEW = ("decoder step", "softmax", "embedding")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in FEW else pytest.mark.slow) for n in NAMES])
def test_calls_of_captured_graphs(name: str) -> None:
    graph = graphs()[name]
    made = graph.captured()
    variables = {variable: bounds[0] for variable, bounds in graph.variables.items()}
    agree(Example(made.program, graph.bound(made), variables, 1), partial(retrace, execute=execute))


def test_calls_that_write_over_what_they_read_are_observed_before_it_is_gone(tmp_path: Path) -> None:
    example = Example(chain(9), {"x": np.random.default_rng(1).standard_normal((6, 32), dtype=np.float32)}, {}, 1)
    compiled = CompiledGraph(example.program, cache=Cache(tmp_path))
    assert isinstance(compiled.loaded, Table) and compiled.loaded.plan.own == (9,) * 9
    agree(example, partial(retrace, execute=by(lambda _: compiled.run)))


@pytest.mark.parametrize(("device", "seed"), [("CPU", seed) for seed in range(3)] + [("CL", 0)])
def test_some_calls_can_be_observed_and_the_results_are_the_same(device: str, seed: int) -> None:
    example = next(e for e in map(generate, range(1000 * seed, 1000 * seed + 1000)) if e.repeat > 1)
    program, arguments = example.program, arguments_of(example)
    numbers = range(len(program.calls) * example.repeat)
    expected: dict[int, bytes] = {}
    right = reference.execute(program, *arguments, observe=recorder(expected))
    compiled = CompiledGraph(program, device=usable(device) if device == "CL" else device)
    for only in (numbers[::2], numbers[-1:], (), numbers):
        seen: dict[int, bytes] = {}
        results = compiled.run(*arguments, observe=recorder(seen), only=set(only))
        assert list(seen) == list(only)
        assert seen == {number: expected[number] for number in only}
        assert raw(results) == raw(right) == raw(compiled.run(*arguments))


def test_what_is_written_into_a_result_is_what_later_calls_read() -> None:
    program, x = chain(4), np.ones((6, 32), np.float32)

    def disturb(number: int, result: np.ndarray) -> None:
        if number == 1:
            result[5] = 3

    outputs = (ex(program, {"x": x}, observe=disturb).outputs["output"] for ex in (execute, reference.execute))
    assert [array.reshape(-1)[4:7].tolist() for array in outputs] == [[16, 12, 16]] * 2


@pytest.mark.parametrize("seed", [0, 5])
def test_a_child_in_the_sandbox_gives_the_account_of_the_reference(seed: int) -> None:
    example = generate(seed)
    assert example.repeat > 1
    agree(example, confined.retracing(LIMITS))


@pytest.mark.slow
@pytest.mark.parametrize("device", ["CPU:LLVM", "CL"])
def test_so_it_does_on_other_devices_for_the_processor(device: str) -> None:
    agree(session(), confined.retracing(LIMITS, device=device))


def test_a_child_without_the_helper_gives_the_same_roots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eigentensor.runtime.sandbox.execution._hashing", lambda cache: b"")
    agree(session(), confined.retracing(LIMITS))


def test_only_what_is_kept_comes_back() -> None:
    example = session()
    program, arguments = example.program, arguments_of(example)
    observed = observe_sandboxed(encode(program), *arguments, keep={3, 1}, unsafe=True)
    assert (list(observed.kept), observed.roots) == ([1, 3], ())


@pytest.mark.slow
def test_a_thousand_calls_over_a_gigabyte_are_retraced_in_little_memory() -> None:
    example = long_program.example()
    program, arguments = example.program, arguments_of(example)
    assert len(program.calls) == 1000 and costs(program).all_bytes > 10**9
    little = Limits(memory=64 << 20)  # of addresses, beyond the interpreter's
    account = confined.retracing(little)(program, *arguments, keep={998, 999})
    right = retrace(program, *arguments, keep={998, 999}, execute=execute)
    assert account.calls == right.calls
    assert all(account.kept[number].tobytes() == right.kept[number].tobytes() for number in (998, 999))
    with pytest.raises(LimitError):  # all results of calls at once are too many
        confined.retracing(little)(outputs_of_all(program), *arguments)


def outputs_of_all(program: Program) -> Program:
    results = tuple(Result(Kind.OUTPUT, f"{n:04}", len(program.buffers) + n, (WIDTH, WIDTH)) for n in range(1000))
    return replace(program, results=results)


def test_results_of_an_execution_in_the_sandbox_are_rechecked_without_changing_them(tmp_path: Path) -> None:
    example = session()
    program, arguments = example.program, arguments_of(example)
    save_safetensors(tmp_path / "tensors", example.tensors)
    bound = BoundProgram(program, (tmp_path / "tensors",), *arguments)
    assert raw(confined.execute(bound, LIMITS, b"seed")) == raw(reference.execute(program, *arguments))


def raw(results: Results) -> list[dict[str, bytes]]:
    return [{name: a.tobytes() for name, a in arrays.items()} for arrays in (results.outputs, results.states)]
