"""The session of this process: what fails, what is compiled when, and that nobody sees which of the two it was."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from eigentensor.cluster import local
from eigentensor.cluster.local import LocalSession
from eigentensor.cluster.session import Session
from eigentensor.cluster.tiers import Tier, Tiers, evaluations
from eigentensor.errors import BindingError, EigenTensorError, ExecutionError
from eigentensor.graph import GraphBuilder
from eigentensor.program.cost import costs
from eigentensor.program.model import Program
from eigentensor.program.ops import DType
from eigentensor.stream.recorder import Recorder

REFERENCE, COMPILED = Tiers(most=1 << 60, sight=1 << 60), Tiers(most=-1)


def program(scale: float = 0.5) -> Program:
    builder = GraphBuilder()
    x, y = builder.input("x", (4, 6)), builder.input("y", (6, 3))
    total = (x @ y).tanh() * scale
    return builder.compile({"a": total, "b": total.sum(axis=0)}, fingerprint=False).program


def filled(session: Session, seed: int = 0) -> None:
    numbers = np.random.default_rng(seed)
    session.put(1, numbers.standard_normal((4, 6)).astype(np.float32), DType.FLOAT32)
    session.put(2, numbers.standard_normal((6, 3)).astype(np.float32), DType.FLOAT32)


def run(session: Session, root: bytes, first: int = 3) -> list[bytes]:
    session.run(root, {"x": 1, "y": 2}, {"a": first, "b": first + 1})
    return [session.get(handle).tobytes() for handle in (first, first + 1)]


def test_bits_are_the_same_in_every_tier() -> None:
    results = []
    for tiers in (REFERENCE, COMPILED, Tiers()):
        session = LocalSession(tiers=tiers)
        filled(session)
        root = session.define(program())
        results += [run(session, root, first) for first in range(10, 60, 10)]
        session.close()
    assert all(result == results[0] for result in results)


def test_a_tier_follows_from_heavy_bodies_and_sight() -> None:
    tiers, each = Tiers(most=100, sight=3), evaluations(program())
    assert [tiers.of(2, 1, sight, at_once=False) for sight in (1, 2, 3, 4)] == [
        Tier.SOONEST, Tier.SOONEST, Tier.BOTH, Tier.BOTH,
    ]  # fmt: skip
    assert tiers.of(2, 2, 1, at_once=False) is tiers.of(2, 0, 1, at_once=True) is Tier.COMPILED
    assert tiers.of(0, 0, 1, at_once=False) is Tier.SOONEST
    assert sum(each.values()) == costs(program()).evaluations and Tiers(most=max(each.values())).heavy(each) == set()
    assert Tiers(most=min(each.values())).heavy(each) == {body for body in each if each[body] > min(each.values())}


def test_of_a_new_program_heavy_bodies_are_compiled_and_the_reference_computes_the_others() -> None:
    largest = max(evaluations(program()).values())
    mixed, plain = LocalSession(tiers=Tiers(most=largest - 1)), LocalSession(tiers=REFERENCE)
    results = []
    for session in (mixed, plain):
        filled(session)
        root = session.define(program())
        results.append(run(session, root))
        assert session._programs[root].execute is None
    assert 0 < len(mixed._programs[root].heavy) < len(program().bodies) and results[0] == results[1]


def test_a_small_program_is_compiled_at_its_third_sight_and_a_large_one_at_its_first() -> None:
    small, large = LocalSession(tiers=Tiers(sight=3)), LocalSession(tiers=Tiers(most=0))
    for session in (small, large):
        filled(session)
    root = large.define(program())
    run(large, root)
    assert large._programs[root].execute is not None
    root = small.define(program())
    run(small, root, 10)
    run(small, root, 20)
    assert small._programs[root].execute is None and small._programs[root].compiler is None
    run(small, root, 30)
    until(lambda: small._programs[root].execute is not None)
    run(small, root, 40)


def test_a_program_can_be_compiled_before_its_first_run() -> None:
    session = LocalSession(tiers=REFERENCE)
    filled(session)
    root = session.define(program())
    expected = run(session, root)
    session.prepare(root)
    assert session._programs[root].execute is not None and run(session, root, 10) == expected
    with pytest.raises(BindingError, match="is defined in this session"):
        session.prepare(bytes(32))


def test_of_many_compiled_programs_those_used_last_are_held_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "READY", 4)
    session = LocalSession(device="PYTHON")
    filled(session)
    roots = [session.define(program(scale)) for scale in (1.5, 2.5, 3.5, 4.5, 5.5, 6.5)]
    first = [run(session, root, 10) for root in roots]
    ready = [session._programs[root].execute is not None for root in roots]
    assert 3 <= sum(ready) <= 4 and ready[-1] and not ready[0]
    assert [run(session, root, 10) for root in roots] == first


def test_a_session_forgets_what_was_run_longest_ago_and_is_told_of_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "PROGRAMS", 3)
    session = LocalSession(tiers=REFERENCE)
    filled(session)
    roots = [session.define(program(scale)) for scale in (1.5, 2.5, 3.5)]
    first = run(session, roots[0])
    session.define(program(4.5))
    assert [session.has(root) for root in roots] == [True, False, True] and session.stats().programs == 3
    session.run(roots[1], {"x": 1, "y": 2}, {"a": 20})
    with pytest.raises(BindingError, match="is defined in this session"):
        session.get(20)
    assert run(session, roots[0], 30) == first


def test_a_recorder_defines_again_what_its_session_has_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "PROGRAMS", 2)
    recorder = Recorder(LocalSession(tiers=REFERENCE))
    x = recorder.put(np.ones((2, 2), np.float32), DType.FLOAT32)
    for _ in range(2):
        for op, expected in (("add", 2.0), ("sub", 0.0), ("mul", 1.0), ("div", 1.0)):
            assert recorder.read(recorder.emit(op, None, x, x)).ravel().tolist() == [expected] * 4
    assert recorder.session.stats().programs == 2 and len(recorder._segments) == 4


def test_what_cannot_be_compiled_is_said_though_the_reference_could_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "eigentensor").write_text("where a folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    session = LocalSession(tiers=Tiers(most=1 << 60, sight=2))
    filled(session)
    root = session.define(program())
    run(session, root, 10)
    run(session, root, 20)
    until(lambda: session._programs[root].failed is not None)
    with pytest.raises(ExecutionError, match=r"this machine cannot execute: .*eigentensor"):
        run(session, root, 30)


#: Compiles beside what it does, and says when a compiler is at work; then it is interrupted, or ends.
BESIDE = """
import sys, time
from threading import Event
import numpy as np
from eigentensor.cluster.local import LocalSession
from eigentensor.cluster.tiers import Tiers
from eigentensor.graph import GraphBuilder
from eigentensor.program.ops import DType
from eigentensor.stream.recorder import Recorder
from eigentensor.runtime.cpu.toolchain import Toolchain

compiling, compile = Event(), Toolchain.compile
Toolchain.compile = lambda *of: (compiling.set(), compile(*of))[1]
session, builder = LocalSession(tiers=Tiers(sight=1)), GraphBuilder()
x = builder.input("x", (40, 40))
root = session.define(builder.compile({"y": (x @ x).tanh().sin() @ x}, fingerprint=False).program)
session.put(1, np.ones((40, 40), np.float32), DType.FLOAT32)
session.run(root, {"x": 1}, {"y": 2})
compiling.wait()
try:
    print("compiling", flush=True)
    for _ in range(600 * len(sys.argv[1:])):  # a signal just before a sleep would wait for its end
        time.sleep(0.1)
except KeyboardInterrupt:
    session._programs[root].compiler.join()
    session.run(root, {"x": 1}, {"y": 3})
    print((session.get(2) == session.get(3)).all(), session._programs[root].execute is not None)
"""


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_what_compiles_beside_survives_an_interrupt_and_ends_with_its_process(
    is_interrupted: bool, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BESIDE, *["interrupted"] * is_interrupted],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "compiling\n"
        if is_interrupted:
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
        said, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "") and said == "True True\n" * is_interrupted


def until(holds: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_fails_poisons_what_reads_it_and_nothing_else() -> None:
    session = LocalSession(tiers=REFERENCE)
    filled(session)
    root = session.define(program())
    session.run(root, {"x": 1, "y": 9}, {"a": 3, "b": 4})
    session.run(root, {"x": 3, "y": 2}, {"a": 5})
    for handle in (3, 4, 5):
        with pytest.raises(BindingError, match="input 'y': expected float32 of shape \\(6, 3\\), given nothing"):
            session.get(handle)
    session.run(root, {"x": 2, "y": 2}, {"a": 6})
    with pytest.raises(BindingError, match=r"input 'x': .* given float32 of shape \(6, 3\)"):
        session.get(6)
    session.run(bytes(32), {}, {"a": 7})
    with pytest.raises(BindingError, match="is defined in this session"):
        session.get(7)
    assert run(session, root, 8)


def test_what_is_freed_is_no_longer_there_and_may_be_read_by_the_run_that_frees_it() -> None:
    session = LocalSession(tiers=REFERENCE)
    filled(session)
    root = session.define(program())
    session.run(root, {"x": 1, "y": 2}, {"a": 3}, freed=[1, 2])
    assert session.get(3).shape == (4, 3) and session.stats().handles == 1 and session.stats().held == 48
    with pytest.raises(BindingError, match="there is no tensor 1"):
        session.get(1)
    session.free([3, 99])
    assert session.stats().handles == 0 and session.stats().runs == session.stats().workers[0].runs == 1


def test_programs_with_weights_are_refused_and_arrays_of_another_type() -> None:
    builder = GraphBuilder()
    weighted = builder.compile(builder.weight("w", np.ones(600, np.float32)) * 2, fingerprint=False).program
    session = LocalSession()
    with pytest.raises(BindingError, match="this one has weights or states: w"):
        session.define(weighted)
    with pytest.raises(BindingError, match="given as float64"):
        session.put(1, np.ones(2), DType.FLOAT32)


def test_variables_reach_the_program() -> None:
    builder = GraphBuilder()
    n = builder.variable("n", 0, 9)
    added = builder.compile(builder.input("x", 2, "int32") + n, fingerprint=False).program
    session = LocalSession(tiers=REFERENCE)
    session.put(1, np.array([1, 2], np.int32), DType.INT32)
    session.run(session.define(added), {"x": 1}, {"output": 2}, {"n": 7})
    assert session.get(2).tolist() == [8, 9]
    session.run(session.define(added), {"x": 1}, {"output": 3})
    with pytest.raises(EigenTensorError, match="n"):
        session.get(3)


def test_a_closed_session_does_nothing() -> None:
    session = LocalSession()
    session.close()
    for ask in (lambda: session.get(1), lambda: session.define(program()), lambda: session.stats()):
        with pytest.raises(ExecutionError, match="is closed"):
            ask()
