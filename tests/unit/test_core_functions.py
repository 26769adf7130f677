"""Which core a market stands on is configuration: nothing calls what EigenLayer does not have, or names its address."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from eth_utils.abi import abi_to_signature, function_abi_to_4byte_selector

from eigentensor.chain.contracts import abi
from eigentensor.economics import Parameters
from eigentensor.economics.situation import LOCAL, mainnet

ROOT = Path(__file__).parents[2]
CORE: dict[str, Any] = json.loads((ROOT / "tests/vectors/eigenlayer/selectors.json").read_text())
NETWORKS = sorted((ROOT / "contracts/networks").glob("*.json"))
#: What the contracts, and the script that deploys them, may call: interface, file, contract of the core.
INTERFACES = [
    ("IAllocationManager", "IEigenLayer", "AllocationManager"),
    ("IPausable", "IEigenLayer", "AllocationManager"),
    ("IDelegationManager", "IEigenLayer", "DelegationManager"),
    ("IStrategyManager", "IEigenLayer", "StrategyManager"),
    ("IStrategy", "IEigenLayer", "Strategy"),
    ("IAllocationManagerViews", "Core", "AllocationManager"),
    ("IDelegationManagerViews", "Core", "DelegationManager"),
    ("IStrategyManagerViews", "Core", "StrategyManager"),
    ("IStrategyFactory", "Core", "StrategyFactory"),
]
ATTRIBUTES = {
    "allocation_manager": "AllocationManager",
    "delegation_manager": "DelegationManager",
    "strategy_manager": "StrategyManager",
    "strategy": "Strategy",
}


def test_the_contracts_call_only_what_the_core_has() -> None:
    subprocess.run(
        ["node_modules/.bin/forge", "build", "src", "script/Core.sol"], cwd=ROOT / "contracts", check=True,
        capture_output=True,
    )  # fmt: skip
    for interface, file, contract in INTERFACES:
        artifact = json.loads((ROOT / f"contracts/out/{file}.sol/{interface}.json").read_text())
        called = {name: "0x" + selector for name, selector in artifact["methodIdentifiers"].items()}
        assert called and called.items() <= CORE[contract]["functions"].items(), interface


def test_the_contracts_call_the_core_by_these_interfaces_alone() -> None:
    for path in (ROOT / "contracts/src").rglob("*.sol"):
        text = path.read_text()
        assert "test/" not in "".join(re.findall(r"import .*?;", text, re.S)), path
        low_level = re.findall(r"(\w+)\.(?:call|delegatecall|staticcall)\(", text)
        assert set(low_level) <= {"HISTORY", "referee"}, path


def test_python_calls_only_what_the_core_has() -> None:
    called: set[tuple[str, str]] = set()
    for folder in ("sdk", "operator", "aggregator", "client"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            called |= {(ATTRIBUTES[a], f) for a, f in re.findall(r"self\.(\w+), \"(\w+)[\"(]", text) if a in ATTRIBUTES}
            called |= {(c, f) for c, f in re.findall(r"Call\(\"(\w+)\", \"(\w+)\"", text) if c in CORE}
    assert ("AllocationManager", "modifyAllocations") in called and ("StrategyManager", "depositIntoStrategy") in called
    for contract, function in called:
        entries: list[Any] = [e for e in abi(contract) if e["type"] == "function" and e["name"] == function]
        encoded = {(abi_to_signature(e), "0x" + function_abi_to_4byte_selector(e).hex()) for e in entries}
        assert encoded and encoded <= CORE[contract]["functions"].items(), (contract, function)


@pytest.mark.parametrize("folder", ["contracts/src", "sdk", "operator", "aggregator", "client"])
def test_no_core_is_named_by_its_address(folder: str) -> None:
    known = {a.lower() for path in NETWORKS for a in re.findall(r"0x[0-9a-fA-F]{40}", path.read_text())}
    assert len(known) == 17
    for path in (ROOT / folder).rglob("*"):
        if path.suffix in (".py", ".sol", ".json", ".toml"):
            assert not known & {a.lower() for a in re.findall(r"0x[0-9a-fA-F]{40}", path.read_text())}, path


def test_the_network_files_have_the_parameters_that_economics_reckons_with() -> None:
    local, main = (json.loads((ROOT / f"contracts/networks/{n}.json").read_text()) for n in ("local", "mainnet"))
    assert Parameters.from_json(local["parameters"]) == LOCAL
    in_gas = {name: gas * 10**9 for name, gas in main["gas"].items()}
    assert Parameters.from_json(main["parameters"] | in_gas) == mainnet(10**9)
