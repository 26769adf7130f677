"""What running work shows: in a terminal each phase leaves its line, in a pipe it has one, and no work is silent."""

import io
import re
import time
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from eigentensor import talk
from eigentensor.capture import capture
from eigentensor_client import phases
from eigentensor_client.phases import Drawn, Written
from eigentensor_client.screen import Screen

LONG = "accepted: waits for the executor's commit until block 118 (about {} s), or the refund of the escrow after it"


def console(width: int) -> Console:
    return Console(file=io.StringIO(), width=width, height=24, force_terminal=True, color_system=None)


@pytest.fixture
def terminal() -> Console:
    return console(80)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue()).replace("\r", "\n")


def test_a_phase_that_is_over_leaves_its_line_with_its_seconds(terminal: Console) -> None:
    with Drawn(terminal) as bar:
        bar("uploading weights", 1, 2)
        bar("uploading weights", 2, 2)
        for seconds in (40, 20):
            bar(LONG.format(seconds))
    lines = [re.sub(r"\(\d\.\d s\)", "(s)", line.rstrip()) for line in text_of(terminal).splitlines()]
    assert [line for line in lines if re.match("uploading weights", line)] == ["uploading weights (s)"]
    end = ["accepted: waits for the executor's commit until block 118, or the refund of the", "escrow after it (s)"]
    assert [line for line in lines if line in end] == end  # once, however often its time changed


@pytest.mark.parametrize("width", [80, 120])
def test_a_bar_is_not_cut_and_drawn_only_where_it_is_known_how_far_it_is(width: int) -> None:
    terminal = console(width)
    with Drawn(terminal) as bar:
        bar("uploading", 1, 2)
        bar(LONG.format(40))
        terminal.file = io.StringIO()
        bar._progress.refresh()
        drawn = text_of(terminal)
    assert "━" not in drawn and "…" not in drawn
    assert LONG.format(40) in " ".join(drawn.replace("0:00:00", "").split())
    assert max(map(len, drawn.splitlines())) <= width


def test_a_pipe_has_a_line_for_each_phase(capsys: pytest.CaptureFixture[str]) -> None:
    with Screen().work() as bar:
        for seconds in (40, 20):
            bar(LONG.format(seconds))
        bar("final")
    assert capsys.readouterr().err.splitlines() == [LONG.format(40), "final"]


def test_work_that_is_too_busy_to_speak_is_shown_to_go_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Written, "each", 0.05)
    with Screen().work() as bar:
        bar("capturing")
        talk.doing("lowering kernels", 1, 4)
        lines: list[str] = []
        for _ in range(600):
            lines += capsys.readouterr().err.splitlines()
            if len(lines) > 2:
                break
            time.sleep(0.05)
    assert lines[0] == "capturing" and len(lines) > 2
    assert all(re.fullmatch(r"capturing: lowering kernels 25% \(\d+ s\)", line) for line in lines[1:])


def test_waiting_is_not_repeated(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of its own: half of the time after which it would be goes by between two looks."""
    now = 0.0
    monkeypatch.setattr(phases, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(Written, "each", 0.1)
    with Screen().work() as bar:
        for _ in range(40):
            bar("open: waits for an acceptance")
            now += 0.05
            time.sleep(0.01)
    assert capsys.readouterr().err.splitlines() == ["open: waits for an acceptance"]


def test_capture_says_what_it_does() -> None:
    words: list[str] = []
    shown = talk.DOING.set(lambda text, done, total: words.append(text))
    try:
        capture(lambda x: (x * 2).sum(0), [np.zeros((3, 4), np.float32)])
    finally:
        talk.DOING.reset(shown)
    assert list(dict.fromkeys(words)) == [
        "running the function", "scheduling what it computes", "reading kernels", "lowering kernels",
        "checking the program",
    ]  # fmt: skip
