"""The gas that contracts/README.md states is that of the snapshots, to which every run of forge holds the contracts."""

from bench_gas import CONTRACTS, tables


def test_the_readme_states_the_snapshots_figures() -> None:
    stated = (CONTRACTS / "README.md").read_text().splitlines()
    for table in tables():
        missing = [line for line in table.splitlines() if line not in stated]
        assert not missing, "`scripts/bench gas --known` prints it"
