"""The campaign of generated programs: what it remembers, and what it keeps of a failure."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor import reference
from eigentensor.program.binding import Results
from eigentensor.program.codec import decode
from eigentensor.program.model import Program
from support.campaigns import fuzz
from support.generated.programs import Example, generate
from support.oracles.agreement import Run, differences


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(fuzz, "RECORD", tmp_path / "fuzz.json")
    monkeypatch.setattr(fuzz, "backends", list)
    return tmp_path / "fuzz.json"


def passed(*seeds: int) -> list[dict[str, Any]]:
    return [{"seed": seed, "kernels": 9, "sets": 20} for seed in seeds]


def test_a_campaign_goes_on_behind_what_has_passed(record: Path) -> None:
    fuzz.Record().add(range(3), passed(0, 1, 2))
    again = fuzz.Record()
    assert (again.next, again.total, again.failing) == (3, 3, [])
    again.add(range(3, 5), passed(3, 4))
    content = json.loads(record.read_text())
    assert content["total"] == {"programs": 5, "kernels": 45, "sets": 100}
    assert [(run["from"], run["to"]) for run in content["runs"]] == [(0, 5)]


def test_what_fails_is_not_counted_until_it_passes(record: Path) -> None:
    failed = {"failed": 1, "backend": "CPU", "report": "call 0: differs"}
    fuzz.Record().add(range(3), [*passed(0, 1, 2), failed])
    assert (fuzz.Record().next, fuzz.Record().total, fuzz.Record().failing) == (3, 2, [1])
    fuzz.Record().add(range(1, 2), passed(1))
    assert (fuzz.Record().next, fuzz.Record().total, fuzz.Record().failing) == (3, 3, [])


def test_another_runtime_has_an_entry_of_its_own(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fuzz.Record().add(range(2), passed(0, 1))
    monkeypatch.setattr(fuzz, "generator", lambda: "another")
    fuzz.Record().add(range(2, 4), passed(2, 3))
    assert [(run["from"], run["to"]) for run in json.loads(record.read_text())["runs"]] == [(0, 2), (2, 4)]


DIES_AT_2 = """
import json, os, sys
first, count = map(int, sys.argv[2:])
for seed in range(first, first + count):
    print(json.dumps({"begins": seed, "backend": "CL"}), flush=True)
    if seed == 2:
        os.abort()
    print(json.dumps({"seed": seed, "kernels": 9, "sets": 20}), flush=True)
"""


def test_a_program_that_ends_the_process_has_failed_and_the_others_are_tried(
    record: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dies.py").write_text(DIES_AT_2)
    monkeypatch.setattr(fuzz, "__file__", str(tmp_path / "dies.py"))
    monkeypatch.setattr(fuzz, "FAILURES", tmp_path)
    assert fuzz.campaign(programs=4, minutes=1, processes=1) == 1
    content = json.loads(record.read_text())
    assert (content["total"]["programs"], content["failing"]) == (3, [2])


def test_a_failure_is_kept_small_with_all_that_shows_it_again(tmp_path: Path) -> None:
    def way(program: Program) -> Run:
        def run(tensors: Mapping[str, Any], variables: Mapping[str, int], repeat: int) -> Results:
            def disturbed(number: int, values: np.ndarray) -> None:
                if values.dtype == np.float32 and values.size:
                    values[:1].view(np.uint32)[0] ^= 1

            return reference.execute(program, tensors, variables, repeat, observe=disturbed)

        return run

    failing = next(example for example in map(generate, range(50)) if differences(example, way))
    report = fuzz.kept(failing, way, tmp_path / "kept")
    assert "1 of 1 elements differ" in report and "CONST" in report and str(tmp_path / "kept") in report
    program = decode((tmp_path / "kept" / "program.bin").read_bytes())
    order = json.loads((tmp_path / "kept" / "order.json").read_text())
    example = Example(program, dict(np.load(tmp_path / "kept" / "tensors.npz")), **order)
    assert len(differences(example, way)) == 1
    assert decode((tmp_path / "kept" / "whole-program.bin").read_bytes()) == failing.program


def test_a_kept_failure_is_tried_again_on_every_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fuzz.kept(generate(3), lambda program: lambda *arguments: reference.execute(program, *arguments), tmp_path)
    assert fuzz.again(tmp_path) == 0
    assert "CPU: agrees" in capsys.readouterr().out
