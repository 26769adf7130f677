"""A tenant's programs in one sandboxed process: right bits, program after program, whatever becomes of one."""

import os
import signal
from pathlib import Path

import numpy as np
import psutil
import pytest

from eigentensor import merkle, reference
from eigentensor.errors import BindingError, EigenTensorError, ExecutionError, LimitError
from eigentensor.program.codec import encode
from eigentensor.program.model import Program
from eigentensor.runtime.sandbox import tenant
from eigentensor.runtime.sandbox.confine import Limits
from eigentensor.runtime.sandbox.tenant import Tenant
from support.clusters import added, square
from support.programs.long_program import endless
from support.programs.worked_examples import layer, session

LIMITS = Limits(memory=2 << 30, threads=1)


def ran(of: Tenant, program: Program, seconds: float = 60.0, **tensors: np.ndarray) -> np.ndarray:
    return of.run(merkle.program_root(encode(program)), program, tensors, seconds=seconds).outputs["output"]


def children() -> set[int]:
    every = psutil.Process().children(recursive=True)
    return {one.pid for one in every if "eigentensor.runtime.sandbox.tenant_child" in one.cmdline()}


def test_program_after_program_is_executed_by_one_process_and_the_oldest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tenant, "PROGRAMS", 2)
    with_variables = session()
    of = Tenant(LIMITS)
    try:
        for rows in (2, 3, 4, 2, 4):
            assert np.array_equal(ran(of, added(rows), x=square(rows), y=square(rows, 2)), square(rows, 3))
            seen = children()
        results = of.run(b"session", with_variables.program, with_variables.tensors, {"pos": 1})
        expected = reference.execute(with_variables.program, with_variables.tensors, {"pos": 1})
        assert results.outputs["output"].tobytes() == expected.outputs["output"].tobytes()
        assert results.states["cache"].tobytes() == expected.states["cache"].tobytes()
        assert children() == seen and of._child is not None
    finally:
        of.close()
    assert not children()


def test_what_does_not_fit_or_takes_too_long_is_refused_and_the_next_run_does_well() -> None:
    of = Tenant(LIMITS)
    try:
        with pytest.raises(BindingError, match="missing y"):
            ran(of, added(2), x=square(2))
        with pytest.raises(BindingError, match="have no weights"):
            of.run(b"", layer().program, layer().tensors)
        with pytest.raises(LimitError, match="took too long"):
            of.run(b"endless", endless(), {}, seconds=0.5)
        assert np.array_equal(ran(of, added(2), x=square(2), y=square(2)), square(2, 2))
        for child in children():
            os.kill(child, signal.SIGKILL)
        with pytest.raises(ExecutionError):
            ran(of, added(2), x=square(2), y=square(2))
        assert np.array_equal(ran(of, added(2), x=square(2), y=square(2)), square(2, 2))
    finally:
        of.close()


def test_a_device_that_cannot_be_confined_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EigenTensorError, match="cannot be confined on CUDA"):
        Tenant(LIMITS, device="CUDA")
