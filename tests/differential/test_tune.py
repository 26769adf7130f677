"""Tuning a program: measured, kept, used by the next run and by the sandboxed child; always the same bits."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from tinygrad import Tensor

from eigentensor import reference
from eigentensor.cache import Cache
from eigentensor.capture import capture
from eigentensor.errors import WrongBits
from eigentensor.program.codec import encode
from eigentensor.program.model import Body, Program
from eigentensor.runtime import CompiledGraph, devices
from eigentensor.runtime.build.database import Database, Time, default_path
from eigentensor.runtime.cpu import toolchain
from eigentensor.runtime.cpu.choice import choose
from eigentensor.runtime.cpu.schedule import Schedule, Target
from eigentensor.runtime.cpu.toolchain import Toolchain
from eigentensor.runtime.sandbox.execution import run_sandboxed
from eigentensor.runtime.tuning.measure import Arena, alone
from eigentensor.runtime.tuning.tuner import Tuner
from eigentensor_client.cli import main
from support.campaigns.device_cases import on_devices, usable

X = np.random.default_rng(0).standard_normal((37, 45), dtype=np.float32)


def scaled(x: Tensor) -> Tensor:
    return x * 3 + 1


def summed(x: Tensor) -> Tensor:
    return (x * x).sum(axis=1)


def program(function: Callable[[Tensor], Tensor] = scaled) -> Program:
    return capture(function, {"x": X}, fingerprint=False).program


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cache]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield Cache(tmp_path / "kernels")


def test_what_was_measured_is_kept_and_tuning_goes_on_where_it_ended(cache: Cache) -> None:
    here = toolchain.local()
    with Database(default_path()) as database:
        tuner = Tuner(program(), here, cache, database)
        tuner.run(0)
        (line,) = tuner.lines()
        assert (line.calls, line.shape, line.tried) == (1, "37×45", 1)
        assert line.heuristic_seconds == line.best_seconds > 0
        first = database.times(here.platform, program().bodies[0])
        tuner.run(60)
        (line,) = tuner.lines()
        assert line.tried == line.possible == len(here.candidates(program().bodies[0])) > 1
        assert line.ratio >= 1
        assert first[0] in database.times(here.platform, program().bodies[0])
        before, messages = database.count(), []
        tuner.run(60, lambda text, *_: messages.append(text))
        assert database.count() == before
        assert not any("schedules" in text for text in messages)


def test_a_better_schedule_is_used_by_the_next_run_and_by_the_sandboxed_child_with_the_same_bits(cache: Cache) -> None:
    here, of = toolchain.local(), program(summed)
    (body,) = of.bodies
    usual, *others = here.candidates(body)
    times = [Time(str(usual), 2e-6, 9, True), Time(str(others[-1]), 1e-6, 9, False)]
    with Database(default_path()) as database:
        database.record(here.platform, body, times)
    assert here.schedule(body) == others[-1] != usual
    expected = reference.execute(of, {"x": X}).outputs["output"].tobytes()
    assert CompiledGraph(of, cache=cache).run({"x": X}).outputs["output"].tobytes() == expected
    assert cache.path(here.key(body)).exists()
    result = run_sandboxed(encode(of), {"x": X}, cache=cache, unsafe=True).outputs["output"]
    assert result.tobytes() == expected


def test_a_body_is_planned_once_however_often_it_is_called_and_a_warm_run_plans_nothing(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[Body] = []

    def counted(body: Body, target: Target) -> Schedule:
        planned.append(body)
        return choose(body, target)

    monkeypatch.setattr(toolchain, "choose", counted)
    often = alone(program().bodies[0], calls=50)
    CompiledGraph(often, cache=cache)
    assert planned == [often.bodies[0]]
    CompiledGraph(often, cache=cache)
    assert len(planned) == 1


@dataclass(frozen=True)
class Wrong(Toolchain):
    """Compiles another body wherever it is told a schedule."""

    def source(self, body: Body) -> str:
        return super().source(program(lambda x: x * 3 + 2).bodies[0] if self.schedules else body)


def test_a_schedule_that_gives_other_bits_is_an_error_that_names_it(cache: Cache) -> None:
    here, (body,) = toolchain.local(), program().bodies
    arena = Arena(body, Wrong(here.identity, here.target, here.command, schedules={}), cache)
    with pytest.raises(WrongBits, match=r"body [0-9a-f]{64} gives other bits with the schedule \w+="):
        arena.contend(here.candidates(body)[1:2])


@pytest.mark.parametrize(("device", "name"), on_devices(["scaled", "summed"], ["scaled"]))
def test_devices_with_work_items_are_tuned_alike(device: str, name: str, cache: Cache) -> None:
    here, of = devices.of(usable(device)), program({"scaled": scaled, "summed": summed}[name])
    with Database(default_path()) as database:
        tuner = Tuner(of, here, cache, database)
        tuner.run(60)
        assert [line.tried for line in tuner.lines()] == [len(here.candidates(body)) for body in of.bodies]
        assert database.platforms().keys() == {here.platform}
    expected = reference.execute(of, {"x": X}).outputs["output"].tobytes()
    result = CompiledGraph(of, device=device, cache=cache).run({"x": X}).outputs["output"]
    assert result.tobytes() == expected


def test_the_command_shows_a_table_and_the_times_are_in_the_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scaled.program"
    file.write_bytes(encode(program()))
    main_ends(0, "tune", str(file), "--seconds", "1", "--json")
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "eigentensor.tuning/1"
    assert (report["device"], report["bodies"][0]["shape"]) == ("CPU", "37×45")
    assert report["measurements"] >= 1
    assert report["heuristic_seconds"] >= report["best_seconds"] > 0
    main_ends(0, "tune", str(file), "--seconds", "0")
    shown = capsys.readouterr().out
    assert "heuristic" in shown and "37×45" in shown and "measurements in" in shown


def test_ctrl_c_keeps_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Tuner, "_tune", interrupted)
    file = tmp_path / "scaled.program"
    file.write_bytes(encode(program()))
    main_ends(130, "tune", str(file))
    shown = capsys.readouterr()
    assert "what was measured is kept" in shown.err
    assert "1 measurements in" in shown.out


def main_ends(code: int, *words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert (ended.value.code or 0) == code
