"""What is deployed here is compiled before anybody asks for it, and who gave a deployment up does not wait."""

from pathlib import Path
from threading import Event

import numpy as np
import pytest

from eigentensor.errors import ExecutionError
from eigentensor.graph import GraphBuilder
from eigentensor.program import Program
from eigentensor.runtime import CompiledGraph, devices
from eigentensor_serve.ahead import Ahead


def sum_of(rows: int) -> Program:
    graph = GraphBuilder()
    return graph.compile((graph.input("x", (rows, 3)) * 2).sum(axis=0)).program


def test_the_service_finds_all_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    programs = [sum_of(5), sum_of(6)]
    with Ahead() as ahead:
        for program in programs:
            ahead(program)
    for program in programs:
        compiled = CompiledGraph(program, device="CPU")
        assert compiled.compiled == 0
        rows = program.buffers[0].shape[0]
        (total,) = compiled.run({"x": np.ones((rows, 3), np.float32)}).outputs.values()
        assert total.tolist() == [2 * rows] * 3
    assert CompiledGraph(sum_of(7), device="CPU").compiled


def test_what_cannot_be_compiled_does_not_stop_a_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def compiled(program: Program, *_: object) -> None:
        tried.append(program)
        raise ExecutionError("clang is not installed")

    monkeypatch.setattr(devices, "compiled", compiled)
    programs = [sum_of(5), sum_of(6)]
    with Ahead() as ahead:
        for program in programs:
            ahead(program)
    assert tried == programs


def test_an_error_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = Event()
    monkeypatch.setattr(devices, "compiled", lambda *_: go_on.wait())
    with pytest.raises(KeyboardInterrupt), Ahead() as ahead:
        ahead(sum_of(5))
        raise KeyboardInterrupt
    go_on.set()
