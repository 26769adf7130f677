"""`eigentensor economics`: tables and objects that say what the library says, pictures, and refusals."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigentensor.economics.agents import AGENTS, BRIBING, LAZY
from eigentensor.economics.expected import expected
from eigentensor.economics.situation import LOCAL, Situation
from eigentensor_client.cli import main
from eigentensor_economics.simulation import estimate


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    try:
        main(["economics", *words])
    except SystemExit as ended:
        return (ended.code if isinstance(ended.code, int) else 0, *capsys.readouterr())
    raise AssertionError("main exits")


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    code, out, _ = run(capsys, *words, "--json")
    assert code == 0
    value: dict[str, Any] = json.loads(out)
    return value


def test_simulate_says_what_the_simulation_shows(capsys: pytest.CaptureFixture[str]) -> None:
    report = answer(capsys, "simulate", "--tasks", "2000", "--seed", "7", "--share", "0.25", "--gas-price", "0")
    assert report["schema"] == "eigentensor.economics-simulation/1"
    assert [each["agent"] for each in report["agents"]] == list(AGENTS)
    lazy = next(each for each in report["agents"] if each["agent"] == "lazy")
    x = Situation(parameters=LOCAL, share=0.25, gas_price=0.0)
    shown = estimate(x, LAZY, tasks=2_000, seed=7)
    assert (lazy["payoff"], lazy["low"], lazy["high"]) == (shown.payoff.value, shown.payoff.low, shown.payoff.high)
    assert lazy["expected"] == expected(x, LAZY) and lazy["verdict"] == "does not pay"
    assert report["situation"]["stake"] == x.amounts.s


def test_simulate_draws_one_line_for_each_agent_that_was_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "simulate", "-a", "lazy", "-a", "many seats", "--tasks", "20000")
    lines = out.splitlines()
    assert code == 0 and len(lines) == 5
    assert "does not pay" in lines[2] and " pays " in lines[3]
    assert "20,000 tasks each, seed 0" in lines[4]


def test_mixtures_are_named_with_a_plus_and_have_no_closed_form(capsys: pytest.CaptureFixture[str]) -> None:
    report = answer(capsys, "simulate", "-a", "bribing+bought challenger", "--tasks", "2000")
    (each,) = report["agents"]
    mixed = replace(BRIBING, name="bribing+bought challenger", buys=True, does=each["does"])
    assert each["payoff"] == estimate(Situation(parameters=LOCAL, share=0.333), mixed, tasks=2_000).payoff.value
    assert each["expected"] is None and each["verdict"] == "does not pay"


def test_payoffs_are_those_of_the_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    report = answer(capsys, "payoffs", "--collusion", "1%")
    assert report["schema"] == "eigentensor.economics-payoffs/1"
    assert [row["payoff"] for row in report["rows"]] == pytest.approx([0.4, 0.4, -10, 0.994, 0.994, -10])
    assert report["minimum_stake"] == pytest.approx(5.32, rel=2e-3)
    assert report["maximum_stake"] == pytest.approx(399.6, rel=1e-3)
    code, out, _ = run(capsys, "payoffs", "--collusion", "50%", "--caught", "40%")
    assert code == 0 and "minimum stake         none" in out


def test_tune_prints_terms_parties_and_windows(capsys: pytest.CaptureFixture[str]) -> None:
    report = answer(capsys, "tune", "--gain", "10", "--security", "5")
    assert report["schema"] == "eigentensor.economics-tuning/1" and report["security"] == 5
    assert all(each["loses"] >= 4.9999 for each in report["choices"])
    assert set(report["parties"]) == {"client", "executor", "verifier", "challenger", "liar"}
    assert report["windows"]["lifetime"] <= report["windows"]["delay"]
    code, out, _ = run(capsys, "tune", "--gain", "10", "--security", "5")
    assert code == 0 and "earns" in out and "risks" in out and "END − accept" in out


@pytest.mark.parametrize(
    ("words", "code", "fix"),
    [
        (["tune", "--share", "1"], 11, "smaller --share"),
        (["tune", "--censored", "90000"], 11, "At most --censored 8191 fits"),
        (["tune", "--exec", "90000"], 11, "shorter --exec"),
        (["simulate", "--agent", "nobody"], 2, "Name one"),
        (["simulate", "--agent", "lazy+griefing"], 2, "one party"),
        (["simulate", "--check", "often"], 2, "20%"),
        (["simulate", "--check", "0%"], 11, "higher check rate"),
        (["simulate", "--price", "-1"], 2, "0.05"),
        (["simulate", "--price", "0"], 2, "above zero"),
        (["simulate", "--market", "nowhere"], 3, "devnet"),
        (["plot", "--output", "/dev/null/pictures"], 3, "--output"),
    ],
)
def test_a_refusal_says_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], code: int,
    fix: str,
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    exit_code, out, err = run(capsys, *words)
    assert (exit_code, out) == (code, "")
    assert fix in err and "Traceback" not in err


def test_plot_writes_four_pictures(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = answer(capsys, "plot", "-o", str(tmp_path / "new"))
    assert set(report["files"]) == {"payoffs", "frontier", "operator", "verifier"}
    for path in report["files"].values():
        picture = Path(path).read_bytes()
        assert picture.startswith(b"\x89PNG") and len(picture) > 20_000
    assert len(list((tmp_path / "new").iterdir())) == 4


def test_a_picture_shows_the_closed_form() -> None:
    from eigentensor_economics import plots

    x = Situation(parameters=LOCAL, gain=1.0, value_at_risk=1.0)
    left = plots.payoffs(x).axes[0]
    lazy = next(line for line in left.lines if line.get_label() == "lazy")
    rates, values = map(np.asarray, lazy.get_data())
    assert values[7] == expected(Situation(parameters=LOCAL, gain=1.0, value_at_risk=1.0, rate=rates[7]), LAZY)


def test_only_plot_needs_matplotlib() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from eigentensor_client.cli import main\n"
        "main(sys.argv[1:])"
    )  # fmt: skip

    def without(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", code, "economics", *words], capture_output=True, text=True)

    assert without("simulate", "--tasks", "10", "-a", "lazy").returncode == 0
    done = without("plot")
    assert done.returncode == 3 and "eigentensor[plots]" in done.stderr and "Traceback" not in done.stderr
