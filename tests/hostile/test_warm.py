"""A program that stays in its sandbox: the bits of a single execution, call after call, whatever its process does."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from eigentensor.errors import BindingError, EigenTensorError, ExecutionError, LimitError, SandboxError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.assemble import assemble
from eigentensor.program.codec import encode
from eigentensor.program.expression import Array, Axis, Node, binary, counter, load, to_body
from eigentensor.program.model import Buffer, Kind, Program, Role
from eigentensor.program.ops import Op
from eigentensor.runtime.sandbox import warm
from eigentensor.runtime.sandbox.execution import Limits, compile_sandboxed, run_sandboxed
from eigentensor.runtime.sandbox.ready import Given
from eigentensor.runtime.sandbox.together import WIDTHS
from eigentensor.runtime.sandbox.warm import WarmProgram
from eigentensor.store import save_safetensors
from support.programs.long_program import endless

F32 = DType.FLOAT32
LIMITS = Limits(memory=2 << 30, threads=2)
ELEMENTS = 5


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def counting(elements: int = ELEMENTS) -> Program:
    """total ← total + w · x; the output is the new total, too."""
    axis = Axis(0, elements)

    def of(name: str) -> Node:
        return load(Array(name, F32, elements), counter(axis))

    body = to_body(binary(Op.ADD, of("total"), binary(Op.MUL, of("w"), of("x"))), (axis,))
    roles = {"x": Role.INPUT, "w": Role.WEIGHT, "total": Role.STATE}
    buffers = {name: Buffer(role, F32, (elements,), name) for name, role in roles.items()}
    results = {(Kind.OUTPUT, "y"): ("sum", (elements,)), (Kind.STATE, "total"): ("sum", (elements,))}
    return assemble([("sum", body)], buffers, results, max_repeat=4)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "w"
    save_safetensors(path, {"w": np.full(ELEMENTS, 3, np.float32)})
    return path


@pytest.fixture(scope="module")
def counted(weights: Path) -> Iterator[WarmProgram]:
    with WarmProgram(counting(), [weights], LIMITS) as program:
        yield program


def tensors(x: int, total: int) -> dict[str, Any]:
    return {"x": np.full(ELEMENTS, x, np.float32), "total": np.full(ELEMENTS, total, np.float32)}


def processes() -> set[psutil.Process]:
    """Those of warm children that this process began."""
    children = psutil.Process().children(recursive=True)
    return {child for child in children if child.cmdline()[1:3] == ["-m", "eigentensor.runtime.sandbox.warm_child"]}


def started(program: WarmProgram) -> psutil.Process:
    """The process of a program that has none yet."""
    before = processes()
    program.warm()
    (process,) = processes() - before
    return process


def wait_for_end(*some: psutil.Process) -> None:
    end = time.monotonic() + 60
    while any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in some):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_calls_have_the_bits_of_single_executions(counted: WarmProgram, weights: Path) -> None:
    random = np.random.default_rng(1)
    before = None
    for repeat in (1, 4, 2):
        x, total = random.standard_normal((2, ELEMENTS)).astype(np.float32)
        observed = counted.run({"x": x, "total": total}, {}, repeat, keep=(repeat - 1,))
        w = np.full(ELEMENTS, 3, np.float32)
        once = run_sandboxed(encode(counted.program), {"x": x, "total": total, "w": w}, {}, repeat)
        for results in (observed.results, once):
            assert results.outputs["y"].tobytes() == once.outputs["y"].tobytes()
            assert results.states["total"].tobytes() == once.states["total"].tobytes()
        assert observed.kept[repeat - 1].tobytes() == once.outputs["y"].tobytes()
        assert before in (None, processes())
        before = processes()


def test_calls_together_have_the_bits_of_single_ones_and_widened_ones_too(weights: Path) -> None:
    random, others = np.random.default_rng(2), processes()
    with WarmProgram(counting(), [weights], LIMITS) as program:
        first = started(program)
        for is_wide in (False, True):
            if is_wide:
                program.widen()
                assert program.widths == WIDTHS and not program.may_widen
                wait_for_end(first)
                assert len(processes() - others) == 1
            for _ in range(8):
                calls = [
                    dict(zip(("x", "total"), pair, strict=True))
                    for pair in random.standard_normal((7, 2, ELEMENTS)).astype(np.float32)
                ]
                keep = [(1,) if number % 3 == 1 else () for number in range(7)]
                outcomes = program.run_all([Given(call) for call in calls], 2, keep=keep)
                for call, some, observed in zip(calls, keep, outcomes, strict=True):
                    once = program.run(call, {}, 2, keep=some)
                    assert not isinstance(observed, EigenTensorError) and observed.kept.keys() == set(some)
                    assert observed.results.outputs["y"].tobytes() == once.results.outputs["y"].tobytes()
                    assert observed.results.states["total"].tobytes() == once.results.states["total"].tobytes()
                    assert all(observed.kept[n].tobytes() == once.kept[n].tobytes() for n in some)


def test_calls_go_on_from_any_states_alone_or_together(weights: Path) -> None:
    """From more than a process holds, some of which it has lost with its predecessor."""
    random = np.random.default_rng(3)
    left = [np.zeros(ELEMENTS, np.float32)]
    with WarmProgram(counting(), [weights], LIMITS) as program:
        for step in range(60):
            if step == 40:
                program.close()
            starts = [left[-1 - int(random.integers(min(len(left), 12)))] for _ in range(1 + step % 3)]
            xs = random.standard_normal((len(starts), ELEMENTS)).astype(np.float32)
            calls = [{"x": x, "total": total} for x, total in zip(xs, starts, strict=True)]
            outcomes = program.run_all([Given(call) for call in calls], keep=[()] * len(calls))
            for x, total, observed in zip(xs, starts, outcomes, strict=True):
                assert not isinstance(observed, EigenTensorError)
                expected = total + np.float32(3) * x
                assert observed.results.states["total"].tobytes() == expected.tobytes()
                left.append(observed.results.states["total"])


def test_states_that_the_process_holds_are_not_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elements, sent = 1 << 16, [0]
    save_safetensors(tmp_path / "w", {"w": np.ones(elements, np.float32)})
    writev = os.writev

    def counted(pipe: int, parts: Any) -> int:
        written = writev(pipe, parts)
        sent[0] += written
        return written

    monkeypatch.setattr(os, "writev", counted)
    x = np.ones(elements, np.float32)
    with WarmProgram(counting(elements), [tmp_path / "w"], LIMITS) as program:
        states: Any = {"total": np.zeros(elements, np.float32)}
        for step in range(1, 4):
            sent[0] = 0
            states = program.run({"x": x, **states}).results.states
            assert states["total"].tolist() == [step] * elements
            assert sent[0] // x.nbytes == (2 if step == 1 else 1)
        sent[0] = 0
        program.run({"x": x, "total": states["total"].copy()})
        assert sent[0] // x.nbytes == 2


def test_a_program_that_is_closed_while_it_is_widened_has_no_process(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = processes()
    with WarmProgram(counting(), [weights], LIMITS) as program:
        started(program)

        def closing(*arguments: Any, **options: Any) -> None:
            compile_sandboxed(*arguments, **options)
            program.close()

        monkeypatch.setattr(warm, "compile_sandboxed", closing)
        program.widen()
        assert not program.is_warm and not program.widths
        wait_for_end(*processes() - others)


def test_a_process_that_dies_with_several_calls_is_not_widened_again(weights: Path) -> None:
    with WarmProgram(counting(), [weights], LIMITS) as program:
        program.warm()
        others = processes()
        program.widen()
        (process,) = processes() - others
        process.kill()
        wait_for_end(process)
        outcomes = program.run_all([Given(tensors(1, 1))] * 3, keep=[()] * 3)
        assert all(isinstance(one, ExecutionError) for one in outcomes) and not program.is_warm
        for _ in range(2):
            outcomes = program.run_all([Given(tensors(n, 1)) for n in range(3)], keep=[()] * 3)
            totals = [one.results.outputs["y"][0] for one in outcomes if not isinstance(one, EigenTensorError)]
            assert totals == [1, 4, 7] and not program.widths and not program.may_widen


def test_what_does_not_fit_is_refused_and_costs_no_child(counted: WarmProgram) -> None:
    counted.warm()
    before = processes()
    one = tensors(1, 1)
    some: list[dict[str, Any]] = [{}, {"x": one["x"]}, one | {"w": one["x"]}, {"x": 1, "total": 2}]
    for wrong in some:
        with pytest.raises(BindingError):
            counted.run(wrong)
    with pytest.raises(BindingError, match="repeat 5"):
        counted.run(tensors(1, 1), {}, 5)
    assert processes() == before and counted.run(tensors(1, 1)).results.outputs["y"].tolist() == [4] * ELEMENTS


def test_a_call_out_of_time_ends_its_process_and_the_next_has_another(weights: Path) -> None:
    with WarmProgram(endless(), (), LIMITS) as program:
        for _ in range(2):
            process = started(program)
            with pytest.raises(LimitError, match="took too long"):
                program.run({}, seconds=0.2)
            assert not program.is_warm
            wait_for_end(process)


def test_a_process_that_dies_is_an_error_and_the_next_call_has_another(weights: Path) -> None:
    with WarmProgram(counting(), [weights], LIMITS) as program:
        for _ in range(2):
            process = started(program)
            process.kill()
            wait_for_end(process)
            with pytest.raises(ExecutionError):
                program.run(tensors(1, 1))
            assert not program.is_warm
        assert program.run(tensors(2, 1)).results.outputs["y"].tolist() == [7] * ELEMENTS


def test_its_process_is_sealed_and_alone(counted: WarmProgram) -> None:
    counted.close()
    process = started(counted)
    status = dict(line.split(":\t") for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1" and int(status["CapEff"], 16) == 0
    for space in ("net", "pid", "ipc", "mnt"):
        assert os.readlink(f"/proc/{process.pid}/ns/{space}") != os.readlink(f"/proc/self/ns/{space}")


def test_threads_that_end_do_not_end_it_and_their_calls_do_not_mix(weights: Path) -> None:
    wrong = []
    with WarmProgram(counting(), [weights], LIMITS) as program:
        before = processes()
        thread = threading.Thread(target=program.warm)
        thread.start()
        thread.join()
        own = processes() - before

        def call(number: int) -> None:
            for total in range(30):
                y = program.run(tensors(number, total)).results.outputs["y"]
                if y.tolist() != [total + 3 * number] * ELEMENTS:
                    wrong.append((number, total, y))

        threads = [threading.Thread(target=call, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert processes() - before == own and not wrong


def test_it_ends_with_whoever_began_it() -> None:
    code = "import sys, time; sys.path[:0] = ['tests', 'tests/hostile']; from test_warm import *; "
    code += "program = WarmProgram(endless(), (), LIMITS); program.warm(); print('warm', flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "warm\n"
        begun = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    assert begun
    wait_for_end(*begun)


@pytest.mark.parametrize(
    ("response", "error"),
    [
        ("b'?'", SandboxError),
        ("bytes(1 << 20)", SandboxError),
        ("b'\\2' + b'\\xff' * 4", SandboxError),
        ("b'\\2' + (5).to_bytes(4, 'little') + b'nonse'", SandboxError),
        ("b'\\1' + bytes(7)", LimitError),
        ("b''", LimitError),
        ("exit(0)", ExecutionError),
        ("os.kill(os.getpid(), 11)", SandboxError),
        ("exit('no line of JSON')", ExecutionError),
    ],
)
def test_whatever_a_process_answers_is_an_error(
    monkeypatch: pytest.MonkeyPatch, response: str, error: type[EigenTensorError]
) -> None:
    """The process is one that anybody could have taken over."""
    code = f"""
        import os, sys, time
        os.write(int(sys.argv[2]), b"\\1")
        os.read(int(sys.argv[1]), 1)
        os.write(int(sys.argv[2]), {response})
        time.sleep(600)
    """
    hostile = [sys.executable, "-c", textwrap.dedent(code)]
    program = WarmProgram(counting(), (), LIMITS, unsafe=True)
    monkeypatch.setattr(warm, "command", lambda *_: ([], hostile))
    with program, pytest.raises(error):
        program.run(tensors(1, 1), seconds=2)
    assert not program.is_warm


@pytest.mark.parametrize(
    ("response", "errors"),
    [
        ("right + right", [None, None]),
        ("right + failed + right", [None, LimitError, None]),
        ("right", [None, LimitError, LimitError]),
        ("right + b'?'", [None, SandboxError, SandboxError]),
        ("right * 3 + right", [None, None, None]),
        ("failed * 3", [LimitError] * 3),
    ],
)
def test_whatever_a_process_answers_to_several_calls_those_that_it_answered_have_their_results(
    monkeypatch: pytest.MonkeyPatch, response: str, errors: list[type[EigenTensorError] | None]
) -> None:
    code = f"""
        import json, os, sys, time
        right = b"\\1" + bytes({2 * 4 * ELEMENTS})
        line = json.dumps(dict(error="LimitError", what="too large", fix="")).encode()
        failed = b"\\2" + len(line).to_bytes(4, "little") + line
        os.write(int(sys.argv[2]), b"\\1")
        os.read(int(sys.argv[1]), 1)
        os.write(int(sys.argv[2]), {response})
        time.sleep(600)
    """
    hostile = [sys.executable, "-c", textwrap.dedent(code)]
    program = WarmProgram(counting(), (), LIMITS, unsafe=True)
    monkeypatch.setattr(warm, "command", lambda *_: ([], hostile))
    with program:
        outcomes = program.run_all([Given(tensors(1, 1))] * len(errors), keep=[()] * len(errors), seconds=1)
        assert [type(one) if isinstance(one, EigenTensorError) else None for one in outcomes] == errors
        is_lost = response in ("right", "right + b'?'", "right * 3 + right")
        assert program.is_warm != is_lost
