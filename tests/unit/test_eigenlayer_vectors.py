"""The vectors that bind the stand-in core to EigenLayer's: complete, all run, and under the core's own selectors."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eth_utils.crypto import keccak

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests/vectors/eigenlayer"
TOPICS = sorted(path.stem for path in VECTORS.glob("*.json") if path.stem not in ("index", "selectors", "signatures"))
# Errors of libraries, which the core does not have, and of what is absent here.
FOREIGN = {
    "ApproversAreAbsent()",
    "BN254KeysAreAbsent()",
    "CheckpointUnorderedInsertion()",
    "CloneArgumentsTooLong()",
    "EnumerableMapNonexistentKey(bytes32)",
    "FailedDeployment()",
    "InsufficientBalance(uint256,uint256)",
    "SafeCastOverflowedIntToUint(int256)",
    "SafeCastOverflowedUintDowncast(uint8,uint256)",
    "SafeERC20FailedOperation(address)",
}
EIP_5267 = {"eip712Domain()", "EIP712DomainChanged()"}


def _read(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_text())


def _steps(topic: str) -> Iterator[dict[str, Any]]:
    vectors = _read(topic)
    yield from vectors["before"]
    for scenario in vectors["scenarios"]:
        yield from scenario["steps"]


def _expects(step: dict[str, Any]) -> bool:
    """A step that must only succeed is a call that names no error."""
    return "call" in step or "sum" in step


def test_each_case_of_the_index_has_a_vector_and_each_vector_a_case() -> None:
    index = _read("index")
    assert len(set(index)) == len(index) == 155
    shown = {line for topic in TOPICS for step in _steps(topic) for line in step.get("lines", []) if _expects(step)}
    assert shown == set(index)


def test_forge_runs_each_topic() -> None:
    source = (ROOT / "contracts/test/conformance/Conformance.t.sol").read_text()
    run = set(re.findall(r'_run\("(\w+)"\)', source)) | set(re.findall(r'FOLDER, "(\w+)\.json"\)', source))
    assert run - {"signatures"} == set(TOPICS)


@pytest.mark.parametrize("contract", sorted(_read("selectors")))
def test_the_stand_in_has_the_cores_functions_events_and_errors_and_no_others(contract: str) -> None:
    core, ours = _read("selectors")[contract], _read("signatures")[contract]
    functions = {each["signature"]: each["selector"] for each in ours["functions"].values()}
    assert {name: selector for name, selector in functions.items() if name not in EIP_5267} == core["functions"]
    events = {name: "0x" + keccak(text=name).hex() for name in ours["events"] if name not in EIP_5267}
    assert events == core["events"]
    errors = {name: "0x" + keccak(text=name)[:4].hex() for name in ours["errors"] if name not in FOREIGN}
    assert errors == core["errors"]


def test_the_committed_signatures_are_those_of_the_contracts() -> None:
    done = subprocess.run([ROOT / "scripts/signatures", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
