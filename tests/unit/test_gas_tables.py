"""The gas that contracts/README.md states is that of the snapshots, to which every run of forge holds the contracts."""

import re

import pytest

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
