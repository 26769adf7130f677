"""What a GPU is held to is what the reference gives, and a run of all of it finds, counts and shrinks what differs."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

from eigentensor.errors import ExecutionError
from eigentensor.numerics.dtypes import DType
from eigentensor.program.binding import Results
from eigentensor.program.model import Program
from eigentensor.program.signatures import STORED
from eigentensor.runtime import devices
from eigentensor.runtime.gpu import opencl
from eigentensor.runtime.gpu.gridded import Gridded
from support.conformance import pack
from support.conformance import run as conformance
from support.conformance.answers import by_reference, committed, wrong
from support.conformance.carried import carried, compiled
from support.conformance.cases import GENERATED, cases
from support.conformance.confined import Steps
from support.conformance.refusals import lines, watched
from support.conformance.run import Run, Worker
from support.conformance.start import SOURCES
from support.conformance.tried import _failing
from support.generated.trials import trial
from support.oracles.agreement import Observable, differences
from support.oracles.backends import backend

ROOT = Path(__file__).parents[2]
#: Of each kind a few, quick ones.
FRESH = ["selftest float16", "tile convolution", "method softmax", "generated 0", "generated 499"]


def test_every_case_has_an_answer() -> None:
    assert list(committed()) == list(cases())
    assert {f"selftest {dtype.name.lower()}" for dtype in STORED} <= cases().keys()
    assert [f"generated {number}" for number in range(500)] == [n for n in cases() if n.startswith("generated ")]
    assert GENERATED == 500


@pytest.mark.parametrize("name", FRESH)
def test_answers_are_fresh(name: str) -> None:
    assert by_reference(cases()[name]()) == committed()[name]


@pytest.mark.slow
@pytest.mark.timeout(6000)
@pytest.mark.parametrize("kind", ["model", "selftest", "zeros", "halves", "tile", "graph", "method", "generated"])
def test_all_answers_are_fresh(kind: str) -> None:
    names = [name for name in cases() if name.startswith(kind)]
    assert [name for name in names if by_reference(cases()[name]()) != committed()[name]] == []


@pytest.mark.parametrize("name", ["tile turned", "method where"])
def test_the_processor_gives_the_answers(name: str) -> None:
    made = cases()[name]()
    assert wrong(made, committed()[name], backend("CPU").way([made.program])) is None


# Something that computes wrongly


def careless(call: int) -> Callable[[Program], Observable]:
    """The processor, but that the last bit of an element of a call's result is another, where it is given out."""
    way = backend("CPU").way()

    def made(program: Program) -> Observable:
        run = way(program)

        def changed(*arguments: Any, **more: Any) -> Results:
            results = run(*arguments, **more)
            for name, array in results.outputs.items():
                if name == str(call) or (name.startswith("call") and array.size):
                    array.reshape(-1).view(np.uint8)[0] ^= 1
            return results

        return changed

    return made


def test_the_call_that_differs_is_named_and_shown_alone() -> None:
    made = cases()["method softmax"]()
    differs = wrong(made, committed()["method softmax"], careless(1))
    assert differs is not None
    assert differs.call == 1
    failing = _failing(made, differs.call, careless(1))
    assert failing is not None
    assert len(failing.program.calls) == 1
    assert "1 of " in str(differences(failing, careless(1))[0])


def test_other_tensors_are_no_difference_of_the_device() -> None:
    differs = wrong(trial(1), committed()["generated 0"], backend("CPU").way())
    assert differs is not None
    assert "nothing was compared" in differs.what


# A run


def ran(*arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "support.conformance.run", "--device", "CL", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(), timeout=5900)
    return done.returncode, done.stdout + done.stderr


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT / "client/examples")])}


def test_a_run_on_opencl_goes_on_where_it_ended_and_tells_all_in_one_file(tmp_path: Path) -> None:
    few = ["--out", str(tmp_path), "--no-bench", "--processes", "1", "--only", "tile turned", "method where"]
    code, said = ran(*few, "--most", "1")
    assert code == 0, said
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["cases"], report["agree"], report["differ"], report["failed"]) == (2, 2, [], {})
    assert "2 of 2 cases agree" in said
    code, said = ran(*few)
    assert code == 0, said
    assert "2 cases, 0 to be tried" in said


#: A process that tries cases, as `support.conformance.tried`, on the careless device.
CARELESS = """
import sys
from types import SimpleNamespace
from differential.test_conformance import careless
from support.conformance import tried
tried.chosen = lambda device, kernels: SimpleNamespace(way=lambda programs=(): careless(0))
sys.exit(tried.main())
"""


def test_the_first_that_differ_are_made_small_and_what_there_was_no_time_for_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Run, "_command", lambda self, *more: [sys.executable, "-c", CARELESS, "CPU", *more])
    monkeypatch.setattr(conformance, "MOST", 1)
    names = ["tile turned", "method where"]
    run = Run("CPU", tmp_path, 120, processes=1, patience=60)
    run.try_cases(names)
    run.make_small()
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["agree"], report["differ"]) == (0, names)
    (small,) = report["differences"]
    assert (small["case"], small["small"]) == (names[0], True)
    assert "1 of " in small["report"]
    assert (tmp_path / "differences/tile-turned/program.bin").exists()
    late = Run("CPU", tmp_path, 0, processes=1, patience=60)
    late.try_cases([*names, "halves"])
    assert "2 differ, 0 failed, 1 were not tried" in late.summary()


@pytest.mark.slow
@pytest.mark.timeout(6000)
def test_the_whole_run_on_opencl(tmp_path: Path) -> None:
    code, said = ran("--out", str(tmp_path), "--minutes", "90", "--patience", "1800")
    assert code == 0, said
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["agree"] == len(cases())
    assert all("here" in row for row in report["bench"]["rows"])


def test_a_device_that_cannot_be_used_says_why_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "support.conformance.run", "--device", "CUDA", "--out", str(tmp_path)]
    if shutil.which("nvidia-smi"):
        pytest.skip("there is a GPU")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(), timeout=250)
    assert done.returncode == 3
    assert "It needs a GPU of NVIDIA" in done.stdout
    assert "CUDA" in json.loads((tmp_path / "report.json").read_text())["error"]


def test_a_process_that_dies_is_a_case_that_failed(tmp_path: Path) -> None:
    code = "import os; input(); os.abort()"
    worker = Worker([sys.executable, "-c", code], tmp_path / "errors")
    assert "ended with -6" in worker.tries("halves", 60)["failed"]
    worker.end()
    worker = Worker([sys.executable, "-c", "import time; time.sleep(100)"], tmp_path / "errors")
    assert worker.tries("halves", 0.1)["failed"] == "ended after 0 s"
    worker.end()


# What is carried


def test_carried_kernels_are_all_that_a_case_needs(tmp_path: Path) -> None:
    made, file = cases()["tile turned"](), tmp_path / "kernels.zip"
    with ZipFile(file, "w") as archive:
        for name, ptx in compiled(made).items():
            archive.writestr(name, ptx)
    carried(file).way([made.program])
    with pytest.raises(ExecutionError, match="not carried"):
        carried(file).way([trial(2).program])


def test_what_a_pack_starts_needs_nothing_but_python(tmp_path: Path) -> None:
    pack.put_sources(tmp_path / "source")
    shutil.copy(pack.START, tmp_path / "run")
    code = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names))"
    script = f"import runpy; runpy.run_path({str(tmp_path / 'run')!r}); {code}"
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"__main__"}
    # without `site`, which would find this clone
    paths = os.pathsep.join([*(str(tmp_path / "source" / path) for path in SOURCES), sysconfig.get_path("purelib")])
    done = subprocess.run(
        [sys.executable, "-S", "-m", "support.conformance.run", "--help"],
        capture_output=True, text=True, check=True, cwd=tmp_path, env=os.environ | {"PYTHONPATH": paths},
    )  # fmt: skip
    assert "scripts/gpu run" in done.stdout
    done = subprocess.run(
        [sys.executable, tmp_path / "run", "confined", "--help"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert "scripts/gpu confined" in done.stdout
    assert DType.FLOAT32.name.lower() in (tmp_path / "source/tests/vectors/conformance.json").read_text()


# The sandbox


@pytest.mark.slow
def test_the_sandbox_is_gone_through_step_by_step(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "support.conformance.confined", "--device", "CL", "--programs", "1"]
    some = [
        "device",
        "bubblewrap",
        "inside",
        "driver",
        "compiler",
        "run",
        "programs",
        "warm",
        "tenant",
        "attacks",
        "hang",
    ]
    done = subprocess.run(
        [*command, "--only", *some, "--out", tmp_path / "found.json"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "tests")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert [line["step"] for line in json.loads((tmp_path / "found.json").read_text())] == some


@pytest.mark.slow
def test_what_a_sandbox_refuses_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reach = replace(opencl.PROCESSOR, files=opencl.PROCESSOR.files[1:])  # nothing names a driver
    here = devices.of("CL")
    assert isinstance(here, Gridded)
    made = replace(here, reach=reach)
    monkeypatch.setattr(devices, "of", lambda device: made)
    steps = Steps("CL", 0, 1)
    with pytest.raises(ExecutionError):
        steps.run()
    with watched(tmp_path), suppress(ExecutionError):
        steps.run()
    assert "before: openat /etc/OpenCL/vendors: not there" in lines(tmp_path)
