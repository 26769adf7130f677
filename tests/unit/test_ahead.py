"""What is deployed here is compiled before anybody asks for it, its weights are written meanwhile, and who gave a
deployment up does not wait."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from eigentensor.errors import ExecutionError, StoreFull
from eigentensor.graph import GraphBuilder
from eigentensor.numerics.dtypes import DType
from eigentensor.program import Program
from eigentensor.runtime import CompiledGraph, devices
from eigentensor.store import LocalStore
from eigentensor_serve import ahead as ahead_module
from eigentensor_serve.ahead import Ahead
from eigentensor_serve.apps.deployment import Parts, deploy_local
from eigentensor_serve.apps.registry import Apps


def sum_of(rows: int) -> Program:
    graph = GraphBuilder()
    return graph.compile((graph.input("x", (rows, 3)) * 2).sum(axis=0)).program


def test_the_service_finds_all_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    programs = [sum_of(5), sum_of(6)]
    with Ahead(LocalStore(tmp_path / "store")) as ahead:
        for program in programs:
            ahead.program(program)
    for program in programs:
        compiled = CompiledGraph(program, device="CPU")
        assert compiled.compiled == 0
        rows = program.buffers[0].shape[0]
        (total,) = compiled.run({"x": np.ones((rows, 3), np.float32)}).outputs.values()
        assert total.tolist() == [2 * rows] * 3
    assert CompiledGraph(sum_of(7), device="CPU").compiled


def test_what_cannot_be_compiled_does_not_stop_a_deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def compiled(program: Program, *_: object) -> None:
        tried.append(program)
        raise ExecutionError("clang is not installed")

    monkeypatch.setattr(devices, "compiled", compiled)
    programs = [sum_of(5), sum_of(6)]
    with Ahead(LocalStore(tmp_path / "store")) as ahead:
        for program in programs:
            ahead.program(program)
    assert tried == programs


def test_an_error_waits_for_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = Event()
    monkeypatch.setattr(devices, "compiled", lambda *_: go_on.wait())
    with pytest.raises(KeyboardInterrupt), Ahead(LocalStore(tmp_path)) as ahead:
        ahead.program(sum_of(5))
        raise KeyboardInterrupt
    go_on.set()


DTYPES = {"w": DType.BFLOAT16, "v": DType.FLOAT32}
WEIGHTS: dict[str, NDArray[Any]] = {
    "w": np.arange(6, dtype=np.uint16).reshape(2, 3),
    "v": np.arange(3, dtype=np.float32),
}


def weighted() -> Parts:
    graph = GraphBuilder()
    w, v = graph.weight("w", WEIGHTS["w"], DType.BFLOAT16), graph.weight("v", WEIGHTS["v"])
    program = graph.compile(graph.input("x", (2, 3)) * w.astype(DType.FLOAT32) + v).program
    return Parts(program, WEIGHTS, {}, None)


def blobs(store: LocalStore) -> set[str]:
    return {names.blob for names in store}


def test_weights_written_meanwhile_are_those_that_are_written_at_the_end(tmp_path: Path) -> None:
    apps, others = Apps(tmp_path / "early"), Apps(tmp_path / "late")
    with Ahead(apps.store) as ahead:
        ahead.weights(WEIGHTS, DTYPES)
        parts = ahead.kept(weighted())
    assert isinstance(parts.weights, bytes) and parts.weights in apps.store
    early, late = deploy_local(apps, "x", parts), deploy_local(others, "x", weighted())
    assert (early.weights, early.program) == (late.weights, late.program)
    assert blobs(apps.store) == blobs(others.store)


@pytest.mark.parametrize(
    ("tensors", "dtypes"),
    [
        ({**WEIGHTS, "u": WEIGHTS["v"]}, {**DTYPES, "u": DType.FLOAT32}),
        (WEIGHTS, {**DTYPES, "w": DType.UINT16}),
        ({**WEIGHTS, "v": WEIGHTS["v"] + 1}, DTYPES),
    ],
)
def test_weights_that_are_not_the_programs_are_not_taken(
    tmp_path: Path, tensors: Mapping[str, Any], dtypes: Mapping[str, DType]
) -> None:
    with Ahead(LocalStore(tmp_path)) as ahead:
        ahead.weights(tensors, dtypes)
        parts = weighted()
        assert ahead.kept(parts) is parts


def test_weights_that_could_not_be_written_are_for_who_writes_them_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> str:
        raise StoreFull("no space left")

    monkeypatch.setattr(LocalStore, "put", full)
    with Ahead(LocalStore(tmp_path)) as ahead:
        ahead.weights(WEIGHTS, DTYPES)
        parts = weighted()
        assert ahead.kept(parts) is parts


def test_who_gives_up_leaves_no_half_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, begun = LocalStore(tmp_path), Event()

    def endlessly(*_: object) -> Iterator[bytes]:
        for _number in range(100_000):
            yield bytes(64)
            begun.set()
            time.sleep(0.001)

    monkeypatch.setattr(ahead_module, "parts_of", endlessly)
    with pytest.raises(KeyboardInterrupt), Ahead(store) as ahead:
        ahead.weights(WEIGHTS, DTYPES)
        begun.wait()
        raise KeyboardInterrupt
    assert not [*(tmp_path / "partial").iterdir()]
    assert not blobs(store)
