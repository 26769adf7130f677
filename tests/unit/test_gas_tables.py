"""The gas that contracts/README.md states is that of the snapshots, to which every run of forge holds the contracts."""

import json
import re

import pytest

from eigentensor_operator.calls.interface import Load
from support.bench.gas import CONTRACTS, Figures, tables


def test_the_readme_states_the_snapshots_figures() -> None:
    stated = " ".join((CONTRACTS / "README.md").read_text().split())  # prose is broken into lines there
    for table in tables():
        missing = [line for line in table.splitlines() if " ".join(line.split()) not in stated]
        assert not missing, "`scripts/bench gas --known` prints it"


@pytest.mark.parametrize(("name", "title"), [("instruction", "Gas of an instruction"), ("scalar", "Scalar operations")])
def test_the_tables_of_the_referee_have_no_other_figures(name: str, title: str) -> None:
    section = (CONTRACTS / "README.md").read_text().partition(f"### {title}\n")[2].partition("\n#")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    stated = set(re.findall(r"(?<![\w,])\d{1,3}(?:,\d{3})*(?![\w,]\d)", "".join(rows)))
    assert len(stated) > 8 and stated <= set(Figures(name).values()) | GOALS


GOALS = {"600", "800"}


def test_an_operator_reckons_with_at_least_what_lines_and_tails_take() -> None:
    gas = json.loads((CONTRACTS / "snapshots/calls.json").read_text())
    assert int(gas["a line"]) <= Load(lines=1).gas < int(gas["a line"]) + 500
    assert int(gas["a tail of 8, on top of its line"]) <= Load(tails=8).gas
