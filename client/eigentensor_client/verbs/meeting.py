"""Where a verb meets a network: the first line is said, and whatever was opened is closed at the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from eigentensor.errors import ChainError
from eigentensor_client.screen import Screen

if TYPE_CHECKING:
    from eigentensor.chain import Network
    from eigentensor.pace import Pace
    from eigentensor.store import GatewayClient
    from eigentensor_client.client import Client
    from eigentensor_client.verbs.show import Show


@contextmanager
def paying(network: str | None, *, json: bool) -> Iterator[tuple[Screen, "Client", "Show"]]:
    """As the account that pays. Raises ConfigError and ChainError."""
    from eigentensor_client.client import Client
    from eigentensor_client.verbs.show import Show

    screen = Screen(as_json=json)
    with screen.names_waits(), Client(network) as client:
        screen.head(client.network.name, client.address)
        yield screen, client, Show(client.network, lambda: client.pace)


@contextmanager
def looking(network: str | None, *, json: bool) -> Iterator[tuple[Screen, "Network", "GatewayClient"]]:
    """As somebody without a key, who asks the gateway. Raises ConfigError."""
    from eigentensor.chain import Network
    from eigentensor.store import GatewayClient

    screen, chosen = Screen(as_json=json), Network.load(network)
    screen.head(chosen.name, None)
    with screen.names_waits(), GatewayClient(chosen.gateway_url) as gateway:
        yield screen, chosen, gateway


def pace_of(network: "Network") -> "Pace":
    """How long blocks take on a network; unknown where no node answers."""
    from eigentensor.chain import Reader
    from eigentensor.pace import UNKNOWN

    try:
        return Reader(network).node.pace()
    except ChainError:
        return UNKNOWN
