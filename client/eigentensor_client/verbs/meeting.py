"""Where a verb meets a network: the first line is said, and whatever was opened is closed at the end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from eigentensor.errors import ChainError
from eigentensor_client.screen import Screen

if TYPE_CHECKING:
    from eigentensor.chain import Network
    from eigentensor.pace import Pace
    from eigentensor.store import GatewayClient
    from eigentensor_client.client import Client
    from eigentensor_client.plans import Plans
    from eigentensor_client.tasks import Tasks
    from eigentensor_client.verbs.show import Show

Account = TypeVar("Account", bound="Tasks")


@contextmanager
def paying(network: str | None, *, json: bool) -> Iterator[tuple[Screen, "Client", "Show"]]:
    """As the account that pays. Raises ConfigError and ChainError."""
    from eigentensor import traces
    from eigentensor_client.client import Client

    traces.begin("client")
    with _met(lambda: Client(network), json=json) as (screen, client):
        yield screen, client, _show(client)


@contextmanager
def knowing(network: str | None, *, json: bool) -> Iterator[tuple[Screen, "Tasks"]]:
    """As somebody who knows the address of that account: without its key. Raises ConfigError and ChainError."""
    from eigentensor.chain import Network
    from eigentensor_client.accounts import known_address
    from eigentensor_client.tasks import tasks_of

    chosen = Network.load(network)
    with _met(lambda: tasks_of(chosen, known_address(chosen)), json=json) as met:
        yield met


@contextmanager
def reading(network: str | None, *, json: bool) -> Iterator[tuple[Screen, "Tasks", "Show"]]:
    """As `knowing`, of who looks at tasks."""
    with knowing(network, json=json) as (screen, client):
        yield screen, client, _show(client)


@contextmanager
def planning(network: str | None, *, json: bool) -> Iterator[tuple[Screen, "Plans"]]:
    """As `knowing`, of who may want tasks."""
    from eigentensor.chain import Network
    from eigentensor_client.accounts import known_address
    from eigentensor_client.plans import plans_of

    chosen = Network.load(network)
    with _met(lambda: plans_of(chosen, known_address(chosen)), json=json) as met:
        yield met


@contextmanager
def _met(opened: "Callable[[], Account]", *, json: bool) -> "Iterator[tuple[Screen, Account]]":
    screen = Screen(as_json=json)
    with screen.names_waits(), opened() as account:
        screen.head(account.network.name, account.address)
        yield screen, account


def _show(account: "Tasks") -> "Show":
    from eigentensor_client.verbs.show import Show

    return Show(account.network, lambda: account.pace)


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
