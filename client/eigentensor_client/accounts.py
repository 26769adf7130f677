"""The network that a client meets, and whose money it spends there."""

import os
from contextlib import suppress
from pathlib import Path

from eigentensor.chain import Network, Reader, anvil_account, load_account
from eigentensor.chain.elsewhere import is_elsewhere, shown
from eigentensor.chain.keys import ANVIL_ADDRESSES, address_of, keystore_path
from eigentensor.errors import ChainError, ConfigError
from eigentensor.task.signatures import Signer

#: The development account that a local network gives to whoever names no keystore.
CLIENT = 1


def choose_account(network: Network) -> Signer:
    """The keystore that the environment names; without one the published development key, on a local chain only."""
    if os.environ.get("EIGENTENSOR_KEYSTORE"):
        return load_account()
    if network.is_local:
        return anvil_account(CLIENT)
    raise ConfigError(
        f"no account to pay with on network {network.name}",
        fix="Set EIGENTENSOR_KEYSTORE to a V3 keystore and EIGENTENSOR_PASSWORD_FILE to its password.",
        topic="keystore",
    )


def known_address(network: Network) -> str:
    """The address of that account. Where its keystore says it, no key is opened, and no password asked for."""
    keystore = named_keystore()
    if keystore is None and network.is_local:
        return ANVIL_ADDRESSES[CLIENT]
    with suppress(OSError, ValueError):
        if keystore is not None and (address := address_of(keystore)):
            return address
    return str(choose_account(network).address)


def named_keystore() -> str | None:
    """The keystore that the environment names, its file or the URL of a key elsewhere; None if it names none."""
    named = os.environ.get("EIGENTENSOR_KEYSTORE")
    return named if not named or is_elsewhere(named) else str(keystore_path(Path(named)))


def origin(network: Network) -> str:
    """Where the key of `choose_account` comes from."""
    keystore = os.environ.get("EIGENTENSOR_KEYSTORE")
    if keystore:
        return f"{shown(keystore)} ($EIGENTENSOR_KEYSTORE)"
    return f"anvil's published key {CLIENT}: worth nothing" if network.is_local else "none"


def reason(network: Network | None) -> str:
    """Whose key pays, and why; without a network no development key does."""
    if named_keystore():
        return f"{shown(os.environ['EIGENTENSOR_KEYSTORE'])}, which $EIGENTENSOR_KEYSTORE names"
    if network is not None and network.is_local:
        return f"{origin(network)}; network {network.name} is a local chain, and $EIGENTENSOR_KEYSTORE is not set"
    return "none: $EIGENTENSOR_KEYSTORE is not set"


def running(path: Path) -> Network | None:
    """The network of a file whose chain answers; None if there is no such file, or nobody behind it."""
    try:
        network = Network.load(path)
        Reader(network).node.check()
    except (ConfigError, ChainError):
        return None
    return network
