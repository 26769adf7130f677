"""What the deploy script once sent, sent again to a new chain, is a deployment like its own."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from eigentensor.chain import Network, Reader
from eigentensor.errors import ChainError, ConfigError, Unreachable
from eigentensor_local import contracts
from eigentensor_local.anvil import Anvil, start_anvil
from eigentensor_local.contracts import Recording, deploy, replay
from eigentensor_local.foundry import CONTRACTS, forge


@pytest.fixture
def chain() -> Iterator[Anvil]:
    with start_anvil() as anvil:
        yield anvil


def test_the_deploy_script_finds_everything_as_it_should_be(chain: Anvil, tmp_path: Path) -> None:
    chain.mine(7)
    deployment = deploy(chain.rpc_url)
    assert deployment.block == 2_007
    Reader(Network("local", chain.rpc_url, "http://127.0.0.1:9", deployment)).node.check()
    (described := tmp_path / "deployment.json").write_text(json.dumps(deployment.to_json()))
    script = [str(forge()), "script", "script/Deploy.s.sol:Deploy", "--sig", "verify(string)", str(described)]
    done = subprocess.run(
        [*script, "--rpc-url", chain.rpc_url], cwd=CONTRACTS, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and "everything is as it should be" in done.stdout, done.stderr


def test_a_chain_that_is_not_new_is_refused(chain: Anvil) -> None:
    deploy(chain.rpc_url)
    with pytest.raises(ChainError, match="on this one their deployer has sent something"):
        deploy(chain.rpc_url)


@pytest.mark.parametrize(
    "change", [pytest.param({"gas": 100_000}, marks=pytest.mark.slow), {"made": (f"0x{'11' * 20}",)}]
)
def test_what_comes_out_otherwise_than_recorded_is_refused(chain: Anvil, change: dict[str, object]) -> None:
    recording = Recording.load()
    first, *others = recording.sent
    with pytest.raises(ChainError, match=r"could not be deployed|did not do what was recorded"):
        replay(chain.rpc_url, replace(recording, sent=(replace(first, **change), *others)))  # type: ignore[arg-type]


def test_nobody_listens(chain: Anvil) -> None:
    chain.stop()
    with pytest.raises(Unreachable, match="no answer from the node"):
        deploy(chain.rpc_url)


def test_in_a_clone_whose_contracts_have_changed_the_old_ones_are_not_deployed(
    chain: Anvil, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contracts, "SOURCES", ("src/TaskMarket.sol",))
    with pytest.raises(ConfigError, match="other contracts") as raised:
        deploy(chain.rpc_url)
    assert "scripts/abi" in raised.value.fix
