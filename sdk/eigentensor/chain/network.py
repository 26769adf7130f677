"""Which chain, which contracts, which gateway."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import platformdirs

from eigentensor.addresses import is_address, to_checksum_address
from eigentensor.economics import Parameters
from eigentensor.errors import ConfigError
from eigentensor.task.order import Domain

DEFAULT = "local"
_FIX = "Name another network."


@dataclass(frozen=True, slots=True)
class Deployment:
    """The contracts of one market for tasks and one for paid calls, as the deploy script wrote them. `block` is where
    to begin reading events."""

    chain_id: int
    block: int
    task_market: str
    dispute_game: str
    channels: str
    channels_game: str
    referee: str
    bounty: str
    service_manager: str
    allocation_manager: str
    delegation_manager: str
    strategy_manager: str
    strategy: str
    token: str
    token_symbol: str
    token_decimals: int
    burn: str
    parameters: Parameters
    json: str

    @property
    def domain(self) -> Domain:
        """What orders for this market are signed under (EIP-712)."""
        return Domain(self.chain_id, self.task_market)

    @property
    def channels_domain(self) -> Domain:
        """What is signed about channels, and orders of their calls, are signed under."""
        return Domain(self.chain_id, self.channels)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Raises ConfigError if something is missing or is not what it should be."""
        try:
            core, token = values["core"], values["token"]
            return cls(
                chain_id=int(values["chainId"]),
                block=int(values["block"]),
                task_market=_address(values["taskMarket"]),
                dispute_game=_address(values["disputeGame"]),
                channels=_address(values["channels"]),
                channels_game=_address(values["channelsGame"]),
                referee=_address(values["referee"]),
                bounty=_address(values["bounty"]),
                service_manager=_address(values["serviceManager"]),
                allocation_manager=_address(core["allocationManager"]),
                delegation_manager=_address(core["delegationManager"]),
                strategy_manager=_address(core["strategyManager"]),
                strategy=_address(core["strategy"]),
                token=_address(token["address"]),
                token_symbol=str(token["symbol"]),
                token_decimals=int(token["decimals"]),
                burn=_address(values["burn"]),
                parameters=Parameters.from_json(values["parameters"]),
                json=json.dumps(values, sort_keys=True),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"this is not a deployment: {error!r}") from None

    def to_json(self) -> dict[str, Any]:
        """The deployment's JSON, as it was read."""
        value: dict[str, Any] = json.loads(self.json)
        return value


@dataclass(frozen=True, slots=True)
class Network:
    """A deployment and the endpoints to reach it by; `rpc_url` names several nodes with commas, the best first."""

    name: str
    rpc_url: str
    gateway_url: str
    deployment: Deployment

    @classmethod
    def load(cls, name_or_path: str | Path | None = None) -> Self:
        """A network by its name or from a file; by default $EIGENTENSOR_NETWORK, then `local`. Raises ConfigError."""
        chosen = name_or_path or os.environ.get("EIGENTENSOR_NETWORK") or DEFAULT
        path = Path(chosen) if Path(chosen).suffix == ".json" else network_path(str(chosen))
        try:
            values = json.loads(path.read_text())
            return cls(path.stem, str(values["rpc_url"]), str(values["gateway_url"]), _deployment(values))
        except FileNotFoundError:
            raise ConfigError(
                f"there is no network {str(chosen)!r}: {path} does not exist",
                fix="Start a local one, or set EIGENTENSOR_NETWORK.",
                topic="network",
            ) from None
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}", fix=_FIX, topic="network") from None
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{path} does not describe a network: {error!r}", fix=_FIX, topic="network") from None

    def save(self, path: Path | None = None) -> Path:
        """Writes the file that `load` reads, atomically; by default where the name finds it."""
        path = path or network_path(self.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        values = {"rpc_url": self.rpc_url, "gateway_url": self.gateway_url, "deployment": self.deployment.to_json()}
        temporary.write_text(json.dumps(values, indent=2) + "\n")
        temporary.replace(path)
        return path

    @property
    def is_local(self) -> bool:
        """Whether the chain is one on which keys that everybody knows may be used."""
        return self.deployment.chain_id in LOCAL_CHAINS

    @property
    def funding(self) -> str:
        """The topic of errors about too little money: on a local chain there is more to be had."""
        topic = "funds"
        return topic if self.is_local else ""


#: Chains on which keys that everybody knows may be used.
LOCAL_CHAINS = frozenset({31337, 1337})


def network_path(name: str) -> Path:
    """Where this user's network of that name lies."""
    return state_folder() / "networks" / f"{name}.json"


def state_folder() -> Path:
    """Networks, journals and logs of this user."""
    return platformdirs.user_state_path("eigentensor")


def _deployment(values: Mapping[str, Any]) -> Deployment:
    return Deployment.from_json(values["deployment"])


def _address(value: Any) -> str:
    if not is_address(value):
        raise ValueError(f"{value!r} is not an address")
    return to_checksum_address(value)
