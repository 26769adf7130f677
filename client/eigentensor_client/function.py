"""`eigentensor.function`: the decorator that lets a function of Tensors be computed by somebody else's device."""

import atexit
import os
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import ParamSpec, TypeVar

from eigentensor.chain import Network, to_wei
from eigentensor.errors import BindingError
from eigentensor_client.client import Client
from eigentensor_client.orders import Terms, check_stage, read_rate, terms_for
from eigentensor_client.remote import Function
from eigentensor_client.verbs.options import Offer
from eigentensor_client.verbs.work import read_terms

P = ParamSpec("P")
R = TypeVar("R")

_clients: dict[tuple[Network, str | None], Client] = {}
_lock = Lock()


@dataclass(frozen=True, kw_only=True)
class function(Offer):  # noqa: N801
    """A decorator: `@function(max_price="0.05", wait="checked")`. The options are those of `eigentensor run`.

    Amounts are decimal strings in the market's token; `max_price` is the most that the executor is paid, enforced on
    chain. `wait` is the stage after which a call returns: `checked` asks for a check with certainty. NotYet comes after
    `timeout` seconds. `network` is a name or a file, by default what the environment names; a keystore too is named
    there. `progress` shows bars in a terminal.

    Raises BindingError, ConfigError for values that no option has.
    """

    wait: str = "final"
    timeout: float | None = None
    network: str | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        for name in ("max_price", "min_price", "check_fee", "value_at_risk"):
            if not isinstance(value := getattr(self, name), str | None):
                raise BindingError(f"{name} is {value!r}, no text", fix=f'Write {name}="{value}".')
            to_wei(value or "0")
        check_stage(self.wait)
        read_rate(self.check)

    def __call__(self, wrapped: Callable[P, R]) -> Function[P, R]:
        return Function(wrapped, self)

    def terms(self, client: Client) -> Terms:
        """With which the stage can be waited for."""
        return terms_for(self.wait, read_terms(client.network, self))

    def client(self) -> Client:
        """This process's client of the network and the account. Raises ConfigError."""
        with _lock:
            key = Network.load(self.network), os.environ.get("EIGENTENSOR_KEYSTORE")
            if key not in _clients:
                _clients[key] = Client(key[0])
                atexit.register(_clients[key].close)
            return _clients[key]
