"""The deploy script on a core that is there already, as on a public chain: by a network file, dry, then for real."""

import json
import os
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from eigentensor.chain import Deployment, Network, Reader
from eigentensor.chain.keys import ANVIL_KEYS
from eigentensor_local.contracts import DEPLOYER
from eigentensor_local.foundry import CONTRACTS

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def file(network: Network, tmp_path: Path) -> Path:
    """A network whose core is the one that stands on the chain."""
    values = json.loads((CONTRACTS / "networks/local.json").read_text())
    made = network.deployment.to_json()
    core = {"core": made["core"], "strategy": made["core"]["strategy"], "token": made["token"]["address"]}
    path = tmp_path / f"{uuid.uuid4().hex}.json"
    path.write_text(json.dumps(values | core))
    return path


@pytest.fixture
def run(network: Network, file: Path) -> Run:
    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [str(CONTRACTS.parent / "scripts/deploy"), str(file), network.rpc_url, *words]
        key = ("--private-key", ANVIL_KEYS[DEPLOYER])
        environment = os.environ | {"FOUNDRY_BROADCAST": str(file.parent / "broadcast")}
        return subprocess.run([*command, *key], capture_output=True, text=True, env=environment, timeout=300)

    return run


@pytest.mark.slow
def test_a_second_market_is_deployed_on_the_same_core_and_checked(network: Network, file: Path, run: Run) -> None:
    described, reader = CONTRACTS / "deployments" / file.name, Reader(network)
    before = reader.node.block_number()
    dry = run()
    assert dry.returncode == 0 and "nothing is sent" in dry.stdout
    assert not described.exists() and reader.node.block_number() == before
    try:
        done = run("--broadcast")
        assert done.returncode == 0, done.stderr
        assert "everything is as it should be" in done.stdout
        made = Deployment.from_json(json.loads(described.read_text()))
        assert made.allocation_manager == network.deployment.allocation_manager
        assert made.task_market != network.deployment.task_market
        Reader(Network("second", network.rpc_url, network.gateway_url, made)).node.check()
        assert run("--broadcast").returncode == 3
    finally:
        described.unlink(missing_ok=True)


@pytest.mark.slow
def test_a_file_whose_windows_are_too_long_is_refused_with_advice(file: Path, run: Run) -> None:
    values = json.loads(file.read_text())
    values["parameters"]["margin"] = 600
    file.write_text(json.dumps(values))
    refused = run("--broadcast")
    assert refused.returncode == 1
    assert "WindowsOutliveStake(1073" in refused.stderr and "or margin from 600 to 527" in refused.stderr
    assert not (CONTRACTS / "deployments" / file.name).exists()
