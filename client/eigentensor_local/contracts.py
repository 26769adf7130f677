"""The contracts on a local chain: what the project's forge script sends to one is recorded here, and is sent again.

`scripts/abi` writes the record, contracts.json. What other network files describe the script itself deploys.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from eigentensor.chain import Deployment
from eigentensor.chain.answers import Refusal
from eigentensor.chain.keys import ANVIL_ADDRESSES, ANVIL_KEYS
from eigentensor.chain.refusals import talking_to
from eigentensor.chain.rpc import Rpc
from eigentensor.errors import ChainError, ConfigError
from eigentensor.schemas import network
from eigentensor.wire import Address, Data, Object, Root, Size, read, unhex
from eigentensor_local.foundry import CONTRACTS, forge, in_clone

#: The anvil account that deploys.
DEPLOYER = 0
#: What decides what the script sends, in the folder of the contracts.
SOURCES = (
    "src/**/*.sol", "script/*.sol", "test/core/*.sol", "networks/local.json", "foundry.toml", "package-lock.json",
)  # fmt: skip
_SILENCE = 60.0  # seconds that the chain may be silent: it waits 30 for a transaction


@dataclass(frozen=True, slots=True)
class Sent(Object):
    """A transaction of the deployer."""

    to: Address | None
    """Whom it calls; null where it makes a contract."""
    gas: Size
    """How much it may use."""
    data: Data
    """The call, or the new contract's code."""
    made: tuple[Address, ...]
    """The contracts that are there once it is mined."""


@dataclass(frozen=True, slots=True)
class Recording(Object):
    """How the contracts came onto a chain that was new."""

    sources: Root
    """A hash of all that decides it."""
    deployment: network.Deployment
    """What the script wrote about it."""
    sent: tuple[Sent, ...]
    """The deployer's transactions, from its first on."""

    @classmethod
    def load(cls) -> Self:
        """The one that comes with this package, of the network `local`."""
        text = (files("eigentensor_local") / "contracts.json").read_text()
        return cls(**read(cls, json.loads(text)))


def deploy(rpc_url: str, file: Path | None = None) -> Deployment:
    """Deploys everything on a local chain that is new. `file` describes the network, as those of contracts/networks do;
    it takes a clone of the project. Without one it is the local one of these.

    Raises ChainError if that fails, ConfigError in a clone whose contracts are not those of the record.
    """
    if file is not None:
        return Deployment.from_json(broadcast(rpc_url, str(file)).deployment)
    recording = Recording.load()
    if in_clone() and sources() != recording.sources:
        raise ConfigError(f"{CONTRACTS} has other contracts than those that were recorded", fix="Run scripts/abi.")
    return replay(rpc_url, recording)


def replay(rpc_url: str, recording: Recording) -> Deployment:
    """Sends what was recorded on a chain whose deployer has sent nothing yet. Raises ChainError if something else comes
    of it."""
    rpc, deployer = Rpc(rpc_url, _SILENCE), ANVIL_ADDRESSES[DEPLOYER]
    with talking_to(rpc_url):
        if rpc.ask("eth_getTransactionCount", deployer, "latest"):
            raise ChainError("the contracts come onto a new chain only: on this one their deployer has sent something")
        block = rpc.ask("eth_blockNumber")
        for nonce, sent in enumerate(recording.sent):
            # One after the other: anvil loses some of those that come while it makes a block.
            status = _mined(rpc, {"from": deployer, "nonce": nonce, **_parameters(sent)})["status"]
            if int(status, 16) != 1 or not all(rpc.ask("eth_getCode", one, "latest") for one in sent.made):
                raise ChainError(f"transaction {nonce} of the deployment did not do what was recorded")
    return Deployment.from_json({**recording.deployment, "block": block})


def _mined(rpc: Rpc, transaction: Mapping[str, Any]) -> Mapping[str, Any]:
    """The receipt of a transaction that anvil signs, when it is in the chain. Raises ChainError if it never is."""
    try:
        receipt: Mapping[str, Any] = rpc.ask("eth_sendTransactionSync", transaction)
    except Refusal as refusal:
        raise ChainError(f"the contracts could not be deployed: {refusal.words}") from None
    return receipt


def _parameters(sent: Sent) -> dict[str, Any]:
    parameters = {"gas": sent.gas, "data": sent.data}
    return parameters if sent.to is None else {**parameters, "to": sent.to}


def broadcast(rpc_url: str, name: str) -> Recording:
    """Deploys on a local chain with the forge script, in a clone: the network of a name in contracts/networks, or of a
    file's path. Raises ChainError if that fails."""
    # Sent at once they may overtake each other, and anvil may leave one lying that came too early.
    script = [str(forge()), "script", "script/Deploy.s.sol:Deploy", "--broadcast", "--slow"]
    with TemporaryDirectory() as folder:
        written = Path(folder, "deployment.json")
        environment = {"DEPLOYMENT": str(written), "FOUNDRY_BROADCAST": folder, "NETWORK": name}
        done = subprocess.run(
            [*script, "--rpc-url", rpc_url, "--private-key", ANVIL_KEYS[DEPLOYER]],
            cwd=CONTRACTS,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        if done.returncode != 0:
            raise ChainError(f"the contracts could not be deployed: {(done.stderr or done.stdout).strip()[-2000:]}")
        (run,) = Path(folder).glob("Deploy.s.sol/*/run-latest.json")
        transactions = json.loads(run.read_text())["transactions"]
        return Recording(sources(), json.loads(written.read_text()), tuple(map(_sent, transactions)))


def _sent(entry: dict[str, Any]) -> Sent:
    """A transaction as forge writes it down."""
    transaction, made = entry["transaction"], [one["address"] for one in entry["additionalContracts"]]
    if entry["transactionType"] != "CALL":
        made.append(entry["contractAddress"])
    return Sent(transaction["to"], int(transaction["gas"], 16), unhex(transaction["input"]), tuple(made))


def sources() -> bytes:
    """A hash of what decides, in a clone, what the script sends to a local chain."""
    digest = sha256()
    for path in sorted(path for pattern in SOURCES for path in CONTRACTS.glob(pattern)):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(CONTRACTS).as_posix()} {len(content)}\n".encode() + content)
    return digest.digest()
